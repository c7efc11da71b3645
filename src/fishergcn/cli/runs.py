"""``fishergcn runs``: what a folder of runs holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fishergcn._base.json import plain
from fishergcn._base.terminal import console, narrow, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json
from fishergcn.cli._help import Command, Group

if TYPE_CHECKING:
    from rich.table import Table

    from fishergcn.studies import CellSummary, Comparison, Runs

app = typer.Typer(cls=Group, help="List, show and export the runs of a study.", no_args_is_help=True)


@app.command(name="list", cls=Command)
def list_(folder: shared.RunsFolder, json: shared.Json = False) -> None:
    """List every run with its status and scores."""
    from fishergcn.studies import open_runs
    from fishergcn.training import registered_scores

    shown = {f"test_{score.name}": score for score in registered_scores() if score.shown}
    scores = ("split", "seed", "status", "epochs", *shown, "seconds")
    found = []
    with open_runs(folder) as runs:
        for cell, record in runs.entries():
            values = record.to_dict()
            names = {"dataset": record.dataset, "cell": cell, "method": record.method}
            found.append(names | {name: values[name] for name in scores})
    if json:
        print_json(found)
        return
    rows = [
        [
            *(str(each[name]) for name in ("dataset", "cell", "split", "seed", "status", "epochs")),
            *("-" if each[name] is None else score.text(each[name]) for name, score in shown.items()),
            f"{each['seconds']:.1f}",
        ]
        for each in found
    ]
    short = {"balanced_accuracy": "balanced", "loss": "loss"}
    heads = [short.get(score.name, score.title) for score in shown.values()]
    columns = ["data set", "method", *scores[:4], *heads, "seconds"]
    console().print(table(f"{len(rows)} runs in {folder}", columns, rows))


@app.command(cls=Command)
def show(folder: shared.RunsFolder, json: shared.Json = False) -> None:
    """Show the results so far: means with intervals, published numbers, and paired differences.

    The last line says how large a difference between perturbed methods and their controls the runs can rule out.
    """
    from fishergcn.studies import open_runs

    with open_runs(folder) as runs:
        if json:
            print_json(results_of(runs))
        else:
            print_results(runs)


@app.command(cls=Command)
def export(
    folder: shared.RunsFolder,
    out: Annotated[Path, typer.Option(help="The file to write: .csv, .json or .parquet.")],
    json: shared.Json = False,
) -> None:
    """Write all runs to one file, with one column per field of RunRecord."""
    from fishergcn.studies import export as write
    from fishergcn.studies import open_runs

    with open_runs(folder) as runs:
        count = write(runs, out)
    if json:
        print_json({"out": str(out), "runs": count})
        return
    console().print(f"{out}: {count} runs", soft_wrap=True)


@dataclass(frozen=True)
class ArchiveOptions:
    """What is kept."""

    out: Path = shared.option("The folder to write.", default=shared.REQUIRED)
    curves: Literal["mean", "none", "all"] = shared.option(
        "Which learning curves to keep: mean and band of each method, none, or all.", default="mean"
    )
    epochs: int = shared.option("How many epochs of the curves to keep.", default=100)
    json: shared.Json = False


@app.command(cls=Command)
@shared.takes_options()
def archive(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="A folder made by fishergcn reproduce, compare or robustness, or several with different data sets.",
            metavar="DIR",
        ),
    ],
    options: ArchiveOptions,
) -> None:
    """Write a small text copy of the results that report and runs show can read.

    Parts of one study, run on different data sets in different folders or on different machines, become one archive.
    """
    from fishergcn.studies import join, open_runs, write_archive

    with join([open_runs(folder) for folder in folders]) as runs:
        write_archive(options.out, runs, curves=options.curves, epochs=options.epochs)
    out = options.out
    size = sum(path.stat().st_size for path in out.iterdir())
    if options.json:
        print_json({"out": str(out), "bytes": size})
        return
    console().print(f"{out}: {size / 1000:.0f} kB", soft_wrap=True)


def results_of(runs: Runs) -> Any:
    """Return the results of a study as plain values."""
    from dataclasses import asdict

    from fishergcn.studies import compare, control_equivalence, summarize
    from fishergcn.training import registered_scores

    pooled = control_equivalence(runs)
    compared = [asdict(each) for each in compare(runs)]
    cells = [asdict(each) for each in summarize(runs)]
    for each in cells:
        each |= {score.name: None for score in registered_scores()} | each.pop("scores")
    found = {"plan": runs.plan.to_dict(), "cells": cells, "comparisons": compared}
    return plain(found | {"equivalence": None if pooled is None else asdict(pooled)})


def print_results(runs: Runs) -> None:
    """Print the results of each data set, then the differences; of attacks, the ends of their curves."""
    from fishergcn.studies import SPLITS_TO_JUDGE, compare, control_equivalence, interval_source, summarize

    plan, out = runs.plan, console()
    cells, compared = summarize(runs), compare(runs)
    known = [each.accuracy for each in cells if each.accuracy is not None]
    unit = known[0].unit if known else "splits"
    note = "" if unit == "splits" else " (for this one split only)"
    intervals = f"Intervals: 95%, from {interval_source(known)}{note}."
    if plan.measure == "attack":
        out.print(
            table("Accuracy under the strongest setting of each attack", _ATTACK_COLUMNS, _attack_rows(cells, compared))
        )
        done = sum(each.ok for each in cells)
        out.print(f"{done} of {len(plan)} runs are done. {intervals}", soft_wrap=True)
        return
    for dataset in plan.datasets:
        shown = [each for each in cells if each.dataset == dataset]
        out.print(narrow(_result_table(f"{plan.title}: {dataset}", shown)))
        rows = [_difference_row(each) for each in compared if each.dataset == dataset]
        if rows:
            title = f"Paired differences in accuracy: {dataset}"
            out.print(narrow(table(title, _DIFFERENCE_COLUMNS, rows)))
    out.print(f"{intervals} p: Wilcoxon signed-rank over {unit}.", soft_wrap=True)
    pooled = control_equivalence(runs)
    if pooled is not None:
        out.print(pooled.sentence, soft_wrap=True)
    if any(each.balanced_accuracy for each in cells):
        out.print("bal.: balanced accuracy, F1: macro F1; both average over classes.", soft_wrap=True)
    if not plan.published:
        return
    gap = "Gap: (ours - published) / standard error of ours."
    if plan.changed:
        changed = ", ".join(plan.changed)
        gap = f"Published numbers are not directly comparable: settings differ from the preset's ({changed})."
    elif not any(each.accuracy_gap is not None for each in cells):
        gap = f"Fewer than {SPLITS_TO_JUDGE} splits are too few to compare with the published numbers."
    out.print(f"{gap} In brackets: published.", soft_wrap=True)


_ATTACK_COLUMNS = ["data set", "attack", "method", "plain", "level", "accuracy", "minus", "points [95% interval]"]
_RESULT_COLUMNS = ["method", "accuracy", "interval", "bal.", "F1", "published", "gap", "loss", "runs"]
_DIFFERENCE_COLUMNS = ["method", "minus", "points", "interval", "p", "won:tied:lost"]


def _result_table(title: str, cells: Sequence[CellSummary]) -> Table:
    """Return a table without columns that would be empty: old runs have no scores by class, own graphs no paper."""
    left_out = {
        *(("bal.", "F1") if not any(each.balanced_accuracy for each in cells) else ()),
        *(("published",) if not any(each.published for each in cells) else ()),
        *(("gap",) if not any(each.accuracy_gap is not None for each in cells) else ()),
    }
    from fishergcn.training import registered_scores

    known = ("accuracy", "balanced_accuracy", "macro_f1", "loss")
    own = [score for score in registered_scores() if score.shown and score.name not in known]
    kept = [place for place, column in enumerate(_RESULT_COLUMNS) if column not in left_out]
    rows = [
        [
            *(row[place] for place in kept),
            *(score.text(getattr(getattr(cell, score.name), "mean", math.nan)) for score in own),
        ]
        for cell, row in zip(cells, map(_result_row, cells), strict=True)
    ]
    return table(title, [*(_RESULT_COLUMNS[place] for place in kept), *(score.title for score in own)], rows)


def _attack_rows(cells: Sequence[CellSummary], compared: Sequence[Comparison]) -> list[list[str]]:
    """Return a row for each curve: accuracy on the plain graph, at the highest level, and minus the control there."""
    controls = {(each.dataset, each.cell): each for each in compared if each.role == "control"}
    curves: dict[tuple[str, str, str], list[CellSummary]] = {}
    for each in cells:
        if each.accuracy is not None:
            curves.setdefault((each.dataset, each.options["attack"], each.method), []).append(each)
    rows = []
    for name, points in curves.items():
        first, last = (f"{each.accuracy.mean:.2%}" if each.accuracy else "" for each in (points[0], points[-1]))
        plain, control = "" if points[0].options["level"] else first, controls.get((name[0], points[-1].cell))
        row = [*name, plain, f"{points[-1].options['level']:.0%}", last]
        if control is None:
            rows.append([*row, "", ""])
            continue
        gap, method = control.difference, control.reference.partition(" ")[0]
        interval = f" [{_interval(gap, '+.2f')}]" if gap.low <= gap.high else ""  # a single split has none
        rows.append([*row, method, f"{100 * gap.mean:+.2f}{interval}"])
    return rows


def _result_row(each: CellSummary) -> list[str]:
    count = f"{each.ok}/{each.planned}" + f", {each.diverged} diverged" * bool(each.diverged)
    count += f", {each.failed} failed" * bool(each.failed)
    if each.accuracy is None:
        return [each.cell, *["-"] * (len(_RESULT_COLUMNS) - 2), count]
    known = each.published
    by_class = (each.balanced_accuracy, each.macro_f1)
    loss = _or_dash(None if each.loss is None else each.loss.mean, 1, ".3f")
    return [
        each.cell,
        f"{100 * each.accuracy.mean:.2f}",
        _interval(each.accuracy, ".2f"),
        *(_or_dash(None if one is None else one.mean, 100, ".2f") for one in by_class),
        _or_dash(known.accuracy if known else None, 100, ".2f"),
        _or_dash(each.accuracy_gap, 1, "+.1f"),
        f"{loss} ({_or_dash(known.loss, 1, '.2f')})" if known else loss,
        count,
    ]


def _difference_row(each: Comparison) -> list[str]:
    found = each.difference
    return [
        each.cell,
        f"{each.reference} ({each.role})",
        f"{100 * found.mean:+.2f}",
        _interval(found, "+.2f"),
        "-" if math.isnan(each.p_value) else f"{each.p_value:.2g}",
        f"{each.won}:{each.tied}:{each.lost}",
    ]


def _interval(found: Any, form: str) -> str:
    """Return an interval in percent; a single run has none."""
    return f"{100 * found.low:{form}} … {100 * found.high:{form}}" if found.low <= found.high else "-"


def _or_dash(value: float | None, factor: float, form: str) -> str:
    return "-" if value is None else format(factor * value, form)
