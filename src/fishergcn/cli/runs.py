"""``fishergcn runs``: what a folder of runs holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fishergcn._base.json import plain
from fishergcn._base.terminal import console, narrow, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json
from fishergcn.cli._help import Command, Group
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from fishergcn.studies import CellSummary, Comparison, Estimate, Plan, Runs
    from fishergcn.training import Score

app = typer.Typer(cls=Group, help="List, show and export the runs of a study.", no_args_is_help=True)


@app.command(name="list", cls=Command)
def list_(folder: shared.RunsFolder, score: shared.Score = None, json: shared.Json = False) -> None:
    """List every run with its status and scores."""
    from fishergcn.studies import open_runs
    from fishergcn.training import find_score, scores_shown

    shown = {f"test_{each.name}": each for each in scores_shown(find_score(score or "accuracy"))}
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
            *(one.number(each[name]) for name, one in shown.items()),
            f"{each['seconds']:.1f}",
        ]
        for each in found
    ]
    first, *others = shown.values()
    columns = ["data set", "method", *scores[:4], first.head, *map(_head, others), "seconds"]
    console().print(table(f"{len(rows)} runs in {folder}", columns, rows))


@app.command(cls=Command)
def show(folder: shared.RunsFolder, score: shared.Score = None, json: shared.Json = False) -> None:
    """Show the results so far: means with intervals, published numbers, and paired differences.

    The last line says how large a difference between perturbed methods and their controls the runs can rule out.
    """
    from fishergcn.studies import open_runs
    from fishergcn.training import find_score

    chosen = find_score(score or "accuracy")
    with open_runs(folder) as runs:
        if json:
            print_json(results_of(runs, chosen))
        else:
            print_results(runs, chosen)


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


def results_of(runs: Runs, score: Score) -> Any:
    """Return the results of a study as plain values, compared by a score."""
    from dataclasses import asdict

    from fishergcn.studies import compare, control_equivalence, summarize
    from fishergcn.training import registered_scores

    pooled = control_equivalence(runs, f"test_{score.name}")
    compared = [asdict(each) for each in compare(runs, f"test_{score.name}")]
    cells = [asdict(each) for each in summarize(runs)]
    for each in cells:
        each |= {one.name: None for one in registered_scores()} | each.pop("scores")
    found = {"plan": runs.plan.to_dict(), "cells": cells, "comparisons": compared}
    return plain(found | {"equivalence": None if pooled is None else asdict(pooled)})


def print_results(runs: Runs, score: Score) -> None:
    """Print the results of each data set, then the differences; of attacks, the ends of their curves."""
    from fishergcn.studies import compare, control_equivalence, interval_source, summarize

    plan, out, change = runs.plan, console(), score.unit.strip() or "difference"
    cells, compared = summarize(runs), compare(runs, f"test_{score.name}")
    known = [each.scores[score.name] for each in cells if score.name in each.scores]
    if not known and any(each.scores for each in cells):
        raise InputError(f"score must be one that the runs have, got {score.name!r}, which none has.")
    unit = known[0].unit if known else "splits"
    note = "" if unit == "splits" else " (for this one split only)"
    intervals = f"{score.title[0].upper()}{score.title[1:]}: {score.direction}. "
    intervals += f"Intervals: 95%, from {interval_source(known)}{note}."
    if plan.measure == "attack":
        heads = ["data set", "attack", "method", "plain", "level", score.head, "minus", f"{change} [95% interval]"]
        title = f"Test {score.title} under the strongest setting of each attack"
        out.print(table(title, heads, _attack_rows(cells, compared, score)))
        done = sum(each.ok for each in cells)
        out.print(f"{done} of {len(plan)} runs are done. {intervals}", soft_wrap=True)
        return
    for dataset in plan.datasets:
        shown = [each for each in cells if each.dataset == dataset]
        out.print(narrow(_result_table(f"{plan.title}: {dataset}", shown, score)))
        rows = [_difference_row(each, score) for each in compared if each.dataset == dataset]
        if rows:
            columns = ["method", "minus", change, "interval", "p", "won:tied:lost"]
            out.print(narrow(table(f"Paired differences in test {score.title}: {dataset}", columns, rows)))
    out.print(f"{intervals} p: Wilcoxon signed-rank over {unit}.", soft_wrap=True)
    pooled = control_equivalence(runs, f"test_{score.name}")
    if pooled is not None:
        out.print(pooled.sentence, soft_wrap=True)
    if any(each.balanced_accuracy for each in cells):
        out.print("bal.: balanced accuracy, F1: macro F1; both average over classes.", soft_wrap=True)
    if plan.published and score.name == "accuracy":
        out.print(f"{_gap_words(plan, cells)} In brackets: published.", soft_wrap=True)


def _gap_words(plan: Plan, cells: Sequence[CellSummary]) -> str:
    """Say what the distance from the published numbers is, or why there is none."""
    from fishergcn.studies import SPLITS_TO_JUDGE

    if plan.changed:
        changed = ", ".join(plan.changed)
        return f"Published numbers are not directly comparable: settings differ from the preset's ({changed})."
    if not any(each.accuracy_gap is not None for each in cells):
        return f"Fewer than {SPLITS_TO_JUDGE} splits are too few to compare with the published numbers."
    return "Gap: (ours - published) / standard error of ours."


_SHORT = {"balanced_accuracy": "bal. %", "macro_f1": "F1 %", "loss": "loss"}


def _head(score: Score) -> str:
    return _SHORT.get(score.name, score.head)


def _result_table(title: str, cells: Sequence[CellSummary], score: Score) -> Table:
    """Return a table without columns that would be empty: old runs have no scores by class, own graphs no paper."""
    from fishergcn.training import scores_shown

    _, *others = scores_shown(score)
    columns = {"method": [each.cell for each in cells]}
    columns[score.head] = [score.number(_mean(each, score)) for each in cells]
    columns["interval"] = [_interval(each.scores.get(score.name), score.number) for each in cells]
    columns |= {_head(one): [one.number(_mean(each, one)) for each in cells] for one in others}
    if score.name == "accuracy":
        loss = columns.pop("loss")
        known = [each.published for each in cells]
        columns["published"] = [score.number(one.accuracy if one else None) for one in known]
        columns["gap"] = ["-" if each.accuracy_gap is None else f"{each.accuracy_gap:+.1f}" for each in cells]
        columns["loss"] = [
            f"{text} ({'-' if one.loss is None else f'{one.loss:.2f}'})" if one and text != "-" else text
            for text, one in zip(loss, known, strict=True)
        ]
    columns["runs"] = [_count(each) for each in cells]
    kept = {head: texts for head, texts in columns.items() if head in (score.head, "interval") or {*texts} != {"-"}}
    return table(title, [*kept], [list(row) for row in zip(*kept.values(), strict=True)])


def _mean(cell: CellSummary, score: Score) -> float | None:
    return cell.scores[score.name].mean if score.name in cell.scores else None


def _count(each: CellSummary) -> str:
    count = f"{each.ok}/{each.planned}" + f", {each.diverged} diverged" * bool(each.diverged)
    return count + f", {each.failed} failed" * bool(each.failed)


def _attack_rows(cells: Sequence[CellSummary], compared: Sequence[Comparison], score: Score) -> list[list[str]]:
    """Return a row for each curve: its score on the plain graph, at the highest level, and minus the control there."""
    controls = {(each.dataset, each.cell): each for each in compared if each.role == "control"}
    curves: dict[tuple[str, str, str], list[CellSummary]] = {}
    for each in cells:
        if score.name in each.scores:
            curves.setdefault((each.dataset, each.options["attack"], each.method), []).append(each)
    rows = []
    for name, points in curves.items():
        first, last = (score.number(_mean(each, score)) for each in (points[0], points[-1]))
        plain, control = "" if points[0].options["level"] else first, controls.get((name[0], points[-1].cell))
        row = [*name, plain, f"{points[-1].options['level']:.0%}", last]
        if control is None:
            rows.append([*row, "", ""])
            continue
        gap, method = control.difference, control.reference.partition(" ")[0]
        interval = _interval(gap, score.difference)
        rows.append([*row, method, score.difference(gap.mean) + (f" [{interval}]" if interval != "-" else "")])
    return rows


def _difference_row(each: Comparison, score: Score) -> list[str]:
    return [
        each.cell,
        f"{each.reference} ({each.role})",
        score.difference(each.difference.mean),
        _interval(each.difference, score.difference),
        "-" if math.isnan(each.p_value) else f"{each.p_value:.2g}",
        f"{each.won}:{each.tied}:{each.lost}",
    ]


def _interval(found: Estimate | None, text: Callable[[float], str]) -> str:
    """Return an interval; a single run has none."""
    return f"{text(found.low)} … {text(found.high)}" if found is not None and found.low <= found.high else "-"
