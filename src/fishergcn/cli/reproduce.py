"""``fishergcn reproduce``: repeat an experiment of the paper, as far as it is not done yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fishergcn._base.terminal import console, note
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, this_command, told_when_stopped, warnings_as_notes

if TYPE_CHECKING:
    from fishergcn.studies import Plan, Preset


def reproduce(
    preset: Annotated[
        str,
        typer.Argument(
            help="table1, table2, table3, three-layers, curves, ablation, consistency, perturbations, quick, robustness, "
            "robustness-quick, or a .toml file.",
            metavar="PRESET",
        ),
    ],
    out: shared.StudyOut,
    dataset: shared.Dataset = None,
    splits: shared.Splits = None,
    method: shared.Methods = None,
    seeds: shared.PresetSeeds = None,
    epochs: shared.PresetEpochs = None,
    device: shared.Device = "auto",
    workers: shared.AllWorkers = None,
    cluster: shared.Cluster = None,
    tensorboard: shared.TensorBoard = None,
    quiet: shared.Quiet = False,
) -> None:
    """Repeat an experiment of the paper.

    Every finished run is kept at once in DIR/runs.sqlite. Stop it whenever you like, also with kill -9: the same
    command takes it up again. The plain GCN and the control of each method are added to those of --method.
    """
    from fishergcn import studies

    chosen = studies.load_preset(preset)
    if chosen.kind == "data":
        _data_table(chosen, out)
        return
    graphs = None if dataset is None else [load_graph(name) for name in dict.fromkeys(dataset)]
    plan = studies.make_plan(chosen, datasets=graphs, methods=method, splits=splits, seeds=seeds, epochs=epochs)
    options = {"device": device, "workers": workers, "cluster": cluster, "tensorboard": tensorboard}
    run_plan(plan, out, quiet=quiet, **options)


def run_plan(plan: Plan, out: Path, *, quiet: bool, **options: Any) -> None:
    """Run what is missing of a plan, show it, and end with the results."""
    from fishergcn import studies
    from fishergcn.cli.runs import print_results
    from fishergcn.execution import Display, Listener

    command = this_command()
    with (
        told_when_stopped(f"finished runs are kept, go on with: {command}"),
        warnings_as_notes(),
        Listener() if quiet else Display() as listener,
    ):
        runs = studies.run(plan, out, listener=listener, command=command, **options)
    with runs:
        print_results(runs)
        failed = [(cell, record) for cell, record in runs.entries() if record.status.startswith("failed")]
    for cell, record in failed[:5]:
        note(f"{cell} on {record.dataset}, split {record.split}, seed {record.seed}: {record.status}")
    if failed:
        note(f"{len(failed)} runs failed; the same command tries them again.")
    console().print(f"A page to look at: fishergcn report {out}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _data_table(preset: Preset, out: Path) -> None:
    """Write and print the statistics of the data sets, computed and published."""
    from fishergcn.studies import write_data_table

    shown = console()
    for row in write_data_table(preset, out):
        verdict = "equal" if row["equal"] else "DIFFERENT"
        values = f"{row['computed']:>14} {row['published']:>14}"
        shown.print(f"{row['dataset']:10} {row['quantity']:28} {values}  {verdict}")
    stem = out / preset.name
    shown.print(f"computed, published; written to {stem}.csv and {stem}.md", soft_wrap=True)
