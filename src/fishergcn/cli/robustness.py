"""``fishergcn robustness``: how trained networks do when the graph changes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fishergcn._base.terminal import console, note, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, this_command, told_when_stopped, warnings_as_notes
from fishergcn.errors import MissingExtraError

if TYPE_CHECKING:
    from fishergcn.studies._robustness_summary import Cell

__all__ = ["robustness"]


def robustness(
    out: shared.StudyOut,
    preset: Annotated[Literal["full", "quick"], typer.Option(help="How much is measured.")] = "full",
    dataset: shared.Dataset = None,
    splits: shared.Splits = None,
    method: shared.Methods = None,
    attack: shared.Attacks = None,
    seeds: shared.PresetSeeds = None,
    epochs: shared.PresetEpochs = None,
    samples: shared.Samples = None,
    device: shared.Device = "auto",
) -> None:
    """Measure trained methods beside their controls when the graph they are tested on, or trained on, changes.

    Every point is kept at once in DIR/DATASET/points.jsonl (DIR/DATASET-t for high-order methods): the same command
    goes on where it was stopped. At the end DIR holds points.csv, study.json, summary.csv, robustness-tables.md and,
    where matplotlib is installed, figures/robustness-*.svg, which `fishergcn report DIR` shows on a page, with the runs
    of an experiment if DIR holds some. Several processes may share DIR, each with other data sets, or one with -t
    methods and one without.
    """
    from fishergcn.cli._settings import make_config
    from fishergcn.execution import find_device
    from fishergcn.studies import Signals, check_study, load_settings, run_study

    settings = load_settings(
        preset,
        datasets=_distinct(dataset),
        methods=_distinct(method),
        splits=",".join(splits) if splits else None,
        seeds=seeds,
        config=make_config({"max_epochs": epochs, "samples": samples}, None),
    )
    settings = settings.only(tuple(attack)) if attack else settings
    place = find_device(device)
    graphs = {name: load_graph(name) for name in settings.datasets}
    if place.type == "cpu":
        import torch

        torch.set_num_threads(1)
    for graph in graphs.values():  # all of them before the first is trained on
        check_study(settings, graph)
    with told_when_stopped(f"measured points are kept, go on with: {this_command()}"), Signals(), warnings_as_notes():
        for graph in graphs.values():
            named = dataclasses.replace(settings, datasets=(graph.name or graph.digest,))
            for family in named.families():
                run_study(family, graph, out / family.folder, place, note)
    _write(out)


def _distinct(names: list[str] | None) -> tuple[str, ...] | None:
    return tuple(dict.fromkeys(names)) if names else None


def _write(out: Path) -> None:
    """Write and print what all points in the folder say together."""
    from fishergcn._base.files import write_text
    from fishergcn.drawing import write_pictures
    from fishergcn.studies import points_csv, read_points, read_study
    from fishergcn.studies._robustness_summary import markdown, summarize, summary_csv

    paths = sorted(out.glob("*/points.jsonl"))
    points = [point for path in paths for point in read_points(path)]
    cells = summarize(points)
    write_text(out / "points.csv", points_csv(points))
    studies = {path.parent.name: read_study(path.parent) for path in paths}
    write_text(out / "study.json", json.dumps(studies, indent=1, sort_keys=True) + "\n")
    write_text(out / "summary.csv", summary_csv(cells))
    write_text(out / "robustness-tables.md", markdown(cells))
    _print(cells)
    try:
        write_pictures(cells, out / "figures")
    except MissingExtraError as error:
        note(str(error))
    console().print(f"{len(points)} points; curves and tables in {out}", soft_wrap=True)


def _print(cells: list[Cell]) -> None:
    """Show the ends of the curves: plain and hardest, and the difference from the control there."""
    from fishergcn.studies._robustness_summary import ends

    rows = []
    for first, cell in ends(cells):
        gap = cell.difference
        apart = "" if gap is None else f"{100 * gap.mean:+.2f}"
        if gap is not None and gap.low <= gap.high:  # a single split has no interval
            apart += f" [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}]"
        plain = f"{first.accuracy.mean:.2%}" if first.level == 0 else ""
        found = f"{cell.accuracy.mean:.2%}"
        rows.append(
            [cell.dataset, cell.attack, cell.method, plain, f"{cell.level:.0%}", found, cell.control or "", apart]
        )
    heads = ["data", "attack", "method", "plain", "level", "accuracy", "control", "difference, 95 % interval"]
    console().print(table("Robustness: accuracy at the highest level", heads, rows))
