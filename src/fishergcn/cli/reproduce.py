"""``fishergcn reproduce``: repeat an experiment of the paper, as far as it is not done yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fishergcn._base.terminal import console, note
from fishergcn.cli import _options as shared
from fishergcn.cli._common import (
    load_graph,
    print_json,
    tell_of_report,
    this_command,
    told_when_stopped,
    warnings_as_notes,
)
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.studies import Plan, Preset


def reproduce(
    preset: Annotated[
        str,
        typer.Argument(
            help="table1, table2, table3, three-layers, curves, ablation, consistency, perturbations, quick, "
            "robustness, robustness-quick, or a .toml file.",
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
    workers: shared.Workers = None,
    cluster: shared.Cluster = None,
    tensorboard: shared.TensorBoard = None,
    dry_run: shared.DryRun = False,
    quiet: shared.Quiet = False,
    json: shared.Json = False,
) -> None:
    """Repeat an experiment from the paper.

    Each run is saved to DIR/runs.sqlite as soon as it finishes. You can stop at any time, even with kill -9; the same
    command continues where it stopped. The plain GCN and each method's control are always included.
    """
    from fishergcn import studies

    chosen = studies.load_preset(preset)
    if chosen.kind == "data":
        _data_table(chosen, out, as_json=json)
        return
    graphs = None if dataset is None else [load_graph(name) for name in dict.fromkeys(dataset)]
    with warnings_as_notes():
        plan = studies.make_plan(chosen, datasets=graphs, methods=method, splits=splits, seeds=seeds, epochs=epochs)
    options = {"device": device, "workers": workers, "cluster": cluster, "tensorboard": tensorboard}
    run_plan(plan, out, dry_run=dry_run, quiet=quiet, as_json=json, **options)


def run_plan(plan: Plan, out: Path, *, dry_run: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Run what a plan still needs, showing progress, and print the results; or say what all of it would take."""
    from fishergcn import studies
    from fishergcn.cli._cost import show_cost
    from fishergcn.cli.runs import print_results, results_of
    from fishergcn.execution import Display, Listener

    if dry_run:
        if options.get("cluster") is not None:
            raise InputError("--dry-run measures the time on this machine, so it cannot be used with --cluster.")
        if plan.measure != "training":
            note("only the training is counted; what is measured of the trained networks comes on top.")
        with warnings_as_notes():
            cost = plan.cost(options["device"], options["workers"])
        show_cost(cost, as_json=as_json)
        return
    command = this_command()
    with (
        told_when_stopped(f"finished runs are kept; continue with: {command}"),
        warnings_as_notes(),
        Listener() if quiet else Display() as listener,
    ):
        runs = studies.run(plan, out, listener=listener, command=command, **options)
    with runs:
        if as_json:
            print_json(results_of(runs))
        else:
            print_results(runs)
        failed = [(cell, record) for cell, record in runs.entries() if record.status.startswith("failed")]
    for cell, record in failed[:5]:
        note(f"{cell} on {record.dataset}, split {record.split}, seed {record.seed}: {record.status}")
    if failed:
        note(f"{len(failed)} runs failed; run the same command to try them again.")
    if not as_json:
        tell_of_report(out)
    if failed:
        raise typer.Exit(1)


def _data_table(preset: Preset, out: Path, *, as_json: bool) -> None:
    """Write and print the statistics of the data sets, computed and published."""
    from fishergcn.studies import write_data_table

    shown = console()
    rows = write_data_table(preset, out)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        verdict = "equal" if row["equal"] else "DIFFERENT"
        values = f"{row['computed']:>14} {row['published']:>14}"
        shown.print(f"{row['dataset']:10} {row['quantity']:28} {values}  {verdict}")
    stem = out / preset.name
    shown.print(f"Columns: computed, published. Written to {stem}.csv and {stem}.md.", soft_wrap=True)
