"""``fishergcn reproduce``: repeat an experiment of the paper, as far as it is not done yet."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fishergcn.cli._common import console

if TYPE_CHECKING:
    from fishergcn.studies import Preset

__all__ = ["reproduce"]


def reproduce(
    preset: Annotated[
        str,
        typer.Argument(
            help="table1, table2, table3, three-layers, curves, ablation, quick, or a .toml file.",
            metavar="PRESET",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the results; work begun there is taken up.", metavar="DIR")],
    datasets: Annotated[str | None, typer.Option(help="Instead of the preset's, e.g. cora,pubmed.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Instead of the preset's, e.g. fishergcn,gcn-t; gcn and controls are added."),
    ] = None,
    splits: Annotated[int | None, typer.Option(help="How many splits.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many initializations of each split.")] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many steps a run.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    workers: Annotated[int | None, typer.Option(help="Processes on the CPU; one for each core by default.")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Run on a Ray cluster: auto, or its address.", metavar="auto|ADDRESS")
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Write learning curves for TensorBoard there.", metavar="DIR")
    ] = None,
) -> None:
    """Repeat an experiment of the paper.

    Every finished run is kept at once in DIR/runs.sqlite. Stop it as you like, also with kill -9: the same
    command goes on where it was.
    """
    from fishergcn import studies
    from fishergcn.cli._progress import Display
    from fishergcn.studies import Stopped, make_plan, run

    chosen = studies.load_preset(preset)
    if chosen.kind == "data":
        _data_table(chosen, out)
        return
    plan = make_plan(
        chosen, datasets=_words(datasets), methods=_words(methods), splits=splits, seeds=seeds, epochs=epochs
    )
    command = shlex.join(["fishergcn", *sys.argv[1:]])
    try:
        with Display() as display:
            run(
                plan,
                out,
                device=device,
                workers=workers,
                cluster=cluster,
                tensorboard=tensorboard,
                listener=display,
                command=command,
            )
    except Stopped as stopped:
        typer.echo(f"fishergcn: {stopped}; finished runs are kept, go on with: {command}", err=True)
        raise typer.Exit(128 + stopped.number) from None
    _print_end(out)


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _print_end(out: Path) -> None:
    from fishergcn.cli.runs import print_results
    from fishergcn.studies import open_runs

    with contextlib.closing(open_runs(out)) as runs:
        print_results(runs)
        failed = [(cell, record) for cell, record in runs.entries() if record.status.startswith("failed")]
    for cell, record in failed[:5]:
        name = f"{cell} on {record.dataset}, split {record.split}, seed {record.seed}"
        console(stderr=True).print(f"{name}: {record.status}", soft_wrap=True)
    if failed:
        console(stderr=True).print(f"{len(failed)} runs failed; the same command tries them again.", soft_wrap=True)
    console().print(f"A page to look at: fishergcn report {out}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _data_table(preset: Preset, out: Path) -> None:
    """Write and print the statistics of the data sets, computed and published."""
    from fishergcn.studies import data_table, write_data_table

    rows = data_table(preset)
    written = write_data_table(preset, rows, out)
    shown = console()
    for row in rows:
        verdict = "equal" if row["equal"] else "DIFFERENT"
        values = f"{row['computed']:>14} {row['published']:>14}"
        shown.print(f"{row['dataset']:10} {row['quantity']:28} {values}  {verdict}")
    shown.print(f"computed, published; written to {' and '.join(map(str, written))}", soft_wrap=True)
