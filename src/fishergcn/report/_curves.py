"""Learning curves of many runs as one line and a band: for the page's script, and as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fishergcn._base.text import csv_text
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.drawing import Look, Picture, new_axes, render
from fishergcn.report._study import Study
from fishergcn.studies import Band

__all__ = ["PANELS", "curves_json", "draw_curves", "representative_epochs"]

# Name in the record, title, whether it is shown in percent.
PANELS = (
    ("train_loss", "Training loss", False),
    ("val_loss", "Validation loss", False),
    ("train_accuracy", "Training accuracy", True),
    ("val_accuracy", "Validation accuracy", True),
)
# A page shows no more epochs of a curve than this; a screen has no more pixels.
MOST_POINTS = 500
# Methods switched on when the page opens; more would hide each other.
FIRST_SHOWN = 8


def representative_epochs(band: Band) -> int:
    """Return up to which epoch at least half of the runs were still training.

    Runs stop at different epochs; the few that train longest no longer stand for all.

    Examples
    --------
    >>> import numpy as np
    >>> line = np.zeros(4)
    >>> representative_epochs(Band(line, line, line, np.array([4, 4, 2, 1])))
    3
    """
    enough = 2 * band.runs >= band.runs.max(initial=0)
    return int(enough.sum())


def curves_json(study: Study, looks: Mapping[str, Look]) -> dict[str, Any]:
    """Return what the script of the page draws, in plain numbers rounded to five digits."""
    datasets = []
    for dataset in study.datasets:
        bands = {name: study.bands[cell] for name, cell in study.cells(dataset).items() if study.bands.get(cell)}
        if bands:
            datasets.append(_dataset_json(dataset, bands))
    present = list(dict.fromkeys(name for entry in datasets for name in entry["series"]))
    methods = [
        {"name": name, "color": looks[name].color, "dash": list(looks[name].dash), "shown": at < FIRST_SHOWN}
        for at, name in enumerate(present)
    ]
    panels = [{"key": key, "title": title, "percent": percent} for key, title, percent in PANELS]
    return {"methods": methods, "panels": panels, "datasets": datasets}


def draw_curves(dataset: Mapping[str, Any], looks: Mapping[str, Look], name: str) -> list[Picture]:
    """Draw the curves of one data set of :func:`curves_json`, one picture for each panel."""
    return [_draw_panel(dataset, looks, f"{name}-{panel[0].replace('_', '-')}", *panel) for panel in PANELS]


def _draw_panel(
    dataset: Mapping[str, Any], looks: Mapping[str, Look], name: str, key: str, title: str, percent: bool
) -> Picture:
    epochs, factor = np.array(dataset["epochs"]), 100 if percent else 1
    rows: list[list[Any]] = []
    with new_axes() as (figure, axes):
        for method, curves in list(dataset["series"].items())[:FIRST_SHOWN]:
            mean, low, high = (_array(curves[key][part]) for part in ("mean", "low", "high"))
            look = looks[method]
            dash = (0, look.dash) if look.dash else "-"
            axes.plot(
                epochs,
                factor * mean,
                color=look.color,
                linestyle=dash,
                linewidth=1.4,
                label=method,
                zorder=3 if look.dash else 2,
            )
            axes.fill_between(epochs, factor * low, factor * high, color=look.color, alpha=0.13, linewidth=0)
        for method, curves in dataset["series"].items():
            points = zip(dataset["epochs"], *(curves[key][part] for part in ("mean", "low", "high")), strict=True)
            rows += [[method, *point] for point in points if point[1] is not None]
        axes.set(title=f"{dataset['name']}: {title.lower()}", xlabel="epoch", ylabel="%" if percent else "loss")
        axes.grid(axis="y")
        axes.legend(fontsize=7)
        data = csv_text(["method", "epoch", "mean", "low", "high"], rows)
        return render(figure, name, f"{title}, {dataset['name']}", data)


def _dataset_json(dataset: str, bands: Mapping[str, Mapping[str, Band]]) -> dict[str, Any]:
    longest = max(representative_epochs(band) for curves in bands.values() for band in curves.values())
    steps = np.unique(np.linspace(0, longest - 1, min(longest, MOST_POINTS)).round().astype(np.int64))
    series = {
        name: {key: _points(curves[key], steps) for key, _, _ in PANELS if key in curves}
        for name, curves in bands.items()
    }
    return {"name": dataset, "epochs": (steps + 1).tolist(), "series": series}


def _points(band: Band, steps: IntArray) -> dict[str, list[float | None]]:
    size = representative_epochs(band)
    return {
        part: [_rounded(float(values[step])) if step < size else None for step in steps]
        for part, values in (("mean", band.mean), ("low", band.low), ("high", band.high))
    }


def _rounded(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None


def _array(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values])
