"""``fishergcn runs``: what a folder of runs holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fishergcn.cli._common import console, print_json, table

__all__ = ["app", "print_results"]

app = typer.Typer(help="List, show and export the runs of an experiment.", no_args_is_help=True)

_FOLDER = Annotated[Path, typer.Argument(help="A folder made by fishergcn reproduce.", metavar="DIR")]
_JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command(name="list")
def list_(folder: _FOLDER, json: _JSON = False) -> None:
    """Show every run: what it is, how it ended, its scores."""
    from fishergcn.experiments.store import open_runs

    names = (
        "dataset",
        "method",
        "split",
        "seed",
        "status",
        "epochs",
        "test_accuracy",
        "test_loss",
        "seconds",
    )
    found = [
        {"cell": cell, **{name: values[name] for name in names}}
        for cell, record in open_runs(folder).entries()
        for values in [record.to_dict()]
    ]
    if json:
        print_json(found)
        return
    rows = [
        [
            *(str(each[name]) for name in ("dataset", "cell", "split", "seed", "status", "epochs")),
            "-" if each["test_accuracy"] is None else f"{each['test_accuracy']:.2%}",
            "-" if each["test_loss"] is None else f"{each['test_loss']:.4f}",
            f"{each['seconds']:.1f}",
        ]
        for each in found
    ]
    columns = [
        "data set",
        "method",
        "split",
        "seed",
        "status",
        "epochs",
        "test accuracy",
        "test loss",
        "seconds",
    ]
    console().print(table(f"{len(rows)} runs in {folder}", columns, rows))


@app.command()
def show(folder: _FOLDER, json: _JSON = False) -> None:
    """Show the results so far: means with intervals beside the published numbers, and paired differences."""
    from dataclasses import asdict

    from fishergcn.experiments import statistics
    from fishergcn.experiments.store import open_runs

    runs = open_runs(folder)
    if json:
        compared = [asdict(each) for each in statistics.compare(runs)]
        cells = [asdict(each) for each in statistics.summarize(runs)]
        print_json(_plain({"plan": runs.plan, "cells": cells, "comparisons": compared}))
        return
    print_results(runs)


@app.command()
def export(
    folder: _FOLDER,
    out: Annotated[Path, typer.Option(help="The file to write: .csv, .json or .parquet.")],
) -> None:
    """Write all runs to one file, with columns named as in RunRecord."""
    from fishergcn.experiments.export import export_runs
    from fishergcn.experiments.store import open_runs

    count = export_runs(open_runs(folder), out)
    console().print(f"{out}: {count} runs", soft_wrap=True)


@app.command()
def archive(
    folder: _FOLDER,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    curves: Annotated[str, typer.Option(help="Learning curves: mean (bands of each cell), none or all.")] = "mean",
    epochs: Annotated[int, typer.Option(help="How many epochs of the bands.")] = 100,
) -> None:
    """Write a small text copy of the results, from which tables and report can be made again."""
    from fishergcn.experiments.archive import write_archive
    from fishergcn.experiments.store import open_runs

    write_archive(out, open_runs(folder), curves=curves, epochs=epochs)
    size = sum(path.stat().st_size for path in out.iterdir())
    console().print(f"{out}: {size / 1000:.0f} kB", soft_wrap=True)


def print_results(runs: Any) -> None:
    """Print the table of results and that of differences."""
    from fishergcn.experiments import statistics

    plan, out = runs.plan, console()
    cells = statistics.summarize(runs)
    out.print(table(plan["title"], _RESULT_COLUMNS, [_result_row(each) for each in cells]))
    compared = statistics.compare(runs)
    if compared:
        out.print(
            table(
                "Differences on the same splits and seeds",
                _DIFFERENCE_COLUMNS,
                [_difference_row(each) for each in compared],
            )
        )
    unit = next((each.accuracy.unit for each in cells if each.accuracy is not None), "splits")
    note = "" if unit == "splits" else " (there is one split, so they hold for it alone)"
    out.print(f"Intervals: 95 %, from resampling {unit}{note}. gap: (ours - published) / our standard error.")


_RESULT_COLUMNS = [
    "data set",
    "method",
    "accuracy",
    "std",
    "interval",
    "published",
    "gap",
    "loss",
    "published",
    "runs",
]
_DIFFERENCE_COLUMNS = ["data set", "method", "minus", "", "points", "interval", "Wilcoxon p", "won:tied:lost"]


def _result_row(each: Any) -> list[str]:
    count = f"{each.ok}/{each.planned}" + f", {each.diverged} diverged" * bool(each.diverged)
    count += f", {each.failed} failed" * bool(each.failed)
    if each.accuracy is None:
        return [each.dataset, each.cell, "-", "-", "-", "-", "-", "-", "-", count]
    known = each.published or {}
    return [
        each.dataset,
        each.cell,
        f"{100 * each.accuracy.mean:.2f}",
        f"{100 * each.accuracy.std:.2f}",
        f"[{100 * each.accuracy.low:.2f}, {100 * each.accuracy.high:.2f}]",
        _or_dash(known.get("accuracy"), 100, ".2f"),
        _or_dash(each.accuracy_gap, 1, "+.1f"),
        f"{each.loss.mean:.3f}",
        _or_dash(known.get("loss"), 1, ".2f"),
        count,
    ]


def _difference_row(each: Any) -> list[str]:
    found = each.difference
    return [
        each.dataset,
        each.cell,
        each.reference,
        each.role,
        f"{100 * found.mean:+.2f}",
        f"[{100 * found.low:+.2f}, {100 * found.high:+.2f}]",
        f"{each.p_value:.2g}",
        f"{each.won}:{each.tied}:{each.lost}",
    ]


def _or_dash(value: float | None, factor: float, form: str) -> str:
    return "-" if value is None else format(factor * value, form)


def _plain(value: Any) -> Any:
    """Replace NaN, which JSON does not know, by None."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and value != value else value
