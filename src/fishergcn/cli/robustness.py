"""``fishergcn robustness``: how trained networks do when the graph changes."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fishergcn.cli._common import console, load_graph, note, table, warnings_as_notes
from fishergcn.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from fishergcn.studies._robustness_summary import Cell

__all__ = ["robustness"]


def robustness(
    out: Annotated[Path, typer.Option(help="The folder for results; work begun there is taken up.", metavar="DIR")],
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="A data set or a graph file (.npz); may be repeated, or names with commas."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Instead of the preset's, e.g. fishergcn,gcn-t; controls are added.")
    ] = None,
    attacks: Annotated[
        str | None,
        typer.Option(help="Some of links-added,links-removed,bures-ball,prbcd,features,training-links."),
    ] = None,
    preset: Annotated[str, typer.Option(help="full or quick.")] = "full",
    quick: Annotated[bool, typer.Option("--quick", help="The same as --preset quick.")] = False,
    splits: Annotated[
        str | None, typer.Option(help="How many shuffled splits, or names as public,per-class:1 with commas.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Initializations of each split.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Training steps at most.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Measure trained methods beside their controls when the graph they are tested on, or trained on, changes.

    Every point is kept at once in DIR/DATASET/points.jsonl (DIR/DATASET-t for high-order methods): the same command
    goes on where it was stopped. At the end DIR holds points.csv, study.json, summary.csv, robustness-tables.md and,
    where matplotlib is installed, figures/robustness-*.svg, which `fishergcn report DIR` shows on a page, with the runs
    of an experiment if DIR holds some. Several processes may share DIR, each with other data sets, or one with -t
    methods and one without.
    """
    from fishergcn.execution import find_device
    from fishergcn.studies import Signals, Stopped, check_study, load_settings, run_study
    from fishergcn.training import TrainConfig

    settings = load_settings(
        "quick" if quick else preset,
        datasets=_words(dataset),
        methods=_words([methods] if methods else None),
        splits=splits,
        seeds=seeds,
        config=None if epochs is None else TrainConfig(max_epochs=epochs),
    )
    chosen = _words([attacks] if attacks else None)
    settings = settings if chosen is None else settings.only(chosen)
    place = find_device(device)
    graphs = {name: load_graph(name) for name in settings.datasets}
    if place.type == "cpu":
        import torch

        torch.set_num_threads(1)
    for graph in graphs.values():  # all of them before the first is trained on
        check_study(settings, graph)
    try:
        with Signals(), warnings_as_notes():
            for graph in graphs.values():
                named = dataclasses.replace(settings, datasets=(graph.name or graph.digest,))
                for family in named.families():
                    run_study(family, graph, out / family.folder, place, note)
    except Stopped as stopped:
        command = shlex.join(["fishergcn", *sys.argv[1:]])
        note(f"{stopped}; measured points are kept, go on with: {command}")
        raise typer.Exit(128 + stopped.number) from None
    _write(out)


def _words(texts: list[str] | None) -> tuple[str, ...] | None:
    if texts is None:
        return None
    words = tuple(word.strip() for text in texts for word in text.split(",") if word.strip())
    if not words:
        raise InputError("a list of names must hold at least one.")
    return tuple(dict.fromkeys(words))


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
