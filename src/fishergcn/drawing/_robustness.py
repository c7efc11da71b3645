"""The curves of a study as pictures, two for each data set: accuracies, and paired differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fishergcn._base.files import write_text
from fishergcn.drawing._drawing import INK, Picture, new_axes, render
from fishergcn.drawing._palette import Look, looks
from fishergcn.errors import DataFileError
from fishergcn.studies import ATTACKS, Estimate, file_name, interval_source
from fishergcn.studies._robustness_summary import TITLES, UNITS, Cell, summary_csv

__all__ = ["draw_study", "write_pictures"]

_CAPTIONS = {
    "accuracy": (
        "Test accuracy of trained networks as the graph or the features change. Lines are means over runs, bands 95 % "
        "intervals from {source}. Random changes, the Bures ball and PRBCD hit networks that were trained on "
        "the plain graph; in the last panel training saw the changed graph too. The adversaries of the ball and of "
        "PRBCD know the test labels and the weights."
    ),
    "difference": (
        "Each perturbed method minus its control, which draws as many dropout samples and has no perturbation, on the "
        "same splits and seeds: lines are mean differences in percentage points, bands 95 % intervals from "
        "{source}. Above zero the perturbation helps; a band that holds zero means that the runs cannot tell."
    ),
}


def write_pictures(cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Write ``robustness-DATASET-KIND.svg`` into a folder, where ``fishergcn report`` finds them, with captions.

    Returns the paths of the pictures.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataFileError(f"Cannot write {folder}: {error.strerror}.") from error
    written = []
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        here = [cell for cell in cells if cell.dataset == dataset]
        for kind, caption in _CAPTIONS.items():
            picture = draw_study(here, kind)
            if picture is None:
                continue
            path = folder / f"{picture.name}.svg"
            write_text(path, picture.svg_file)
            source = interval_source(cell.accuracy for cell in here)
            words = {"title": picture.label, "caption": caption.format(source=source)}
            write_text(path.with_suffix(".json"), json.dumps(words, ensure_ascii=False) + "\n")
            written.append(path)
    return written


def draw_study(cells: Sequence[Cell], kind: str) -> Picture | None:
    """Draw the curves of one data set, a panel for each attack; None if there is nothing to draw."""
    shown = [cell for cell in cells if kind == "accuracy" or cell.difference is not None]
    attacks = [attack for attack in ATTACKS if any(cell.attack == attack for cell in shown)]
    if not attacks:
        return None
    dataset = shown[0].dataset
    chosen = looks(dict.fromkeys(cell.method for cell in cells))
    columns = min(3, len(attacks))
    rows = -(-len(attacks) // columns)
    with new_axes(3.3 * columns, 2.6 * rows + 0.4) as (figure, axes):
        axes.remove()
        figure.get_layout_engine().set(wspace=0.06, hspace=0.08)
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for attack, panel in zip(attacks, panels, strict=False):
            _draw_panel(panel, [cell for cell in shown if cell.attack == attack], kind, chosen)
        for panel in panels[len(attacks) :]:
            panel.set_visible(False)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
        name = f"robustness-{file_name(dataset)}-{kind}"
        title = {"accuracy": "Robustness", "difference": "Robustness against the control"}[kind]
        return render(figure, name, f"{title}, {dataset}", summary_csv(shown))


def _draw_panel(axes: Any, cells: Sequence[Cell], kind: str, chosen: dict[str, Look]) -> None:
    attack = cells[0].attack
    for method in dict.fromkeys(cell.method for cell in cells):
        curve = sorted((cell for cell in cells if cell.method == method), key=lambda cell: cell.level)
        found = [cell.accuracy if kind == "accuracy" else _present(cell.difference) for cell in curve]
        look, places = chosen[method], [cell.place for cell in curve]
        label = method if kind == "accuracy" else f"{method} − {curve[0].control}"
        style = {"dashes": look.dash} if look.dash else {}
        axes.plot(
            places, [100 * each.mean for each in found], color=look.color, marker=look.marker, markersize=3.5,
            linewidth=1.3, label=label, **style,
        )  # fmt: skip
        axes.fill_between(
            places, [100 * each.low for each in found], [100 * each.high for each in found], color=look.color,
            alpha=0.12, linewidth=0,
        )  # fmt: skip
    if kind == "difference":
        axes.axhline(0, color=INK, linewidth=0.8)
    ylabel = "test accuracy, %" if kind == "accuracy" else "difference, points"
    axes.set(title=TITLES[attack], xlabel=UNITS[attack], ylabel=ylabel)
    axes.title.set_fontsize(8.5)
    axes.grid(axis="y")


def _present(value: Estimate | None) -> Estimate:
    if value is None:
        raise AssertionError("cells without a difference are left out before")
    return value
