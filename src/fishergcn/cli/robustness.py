"""``fishergcn robustness``: how trained networks do when the graph changes."""

from __future__ import annotations

from typing import Annotated

import typer

from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, warnings_as_notes
from fishergcn.cli.reproduce import run_plan


def robustness(
    out: shared.StudyOut,
    preset: Annotated[
        str, typer.Option(help="What to measure: robustness, robustness-quick, or a .toml file.")
    ] = "robustness",
    dataset: shared.Dataset = None,
    splits: shared.Splits = None,
    method: shared.Methods = None,
    attack: shared.Attacks = None,
    seeds: shared.PresetSeeds = None,
    epochs: shared.PresetEpochs = None,
    samples: shared.Samples = None,
    device: shared.Device = "auto",
    workers: shared.Workers = None,
    cluster: shared.Cluster = None,
    dry_run: shared.DryRun = False,
    quiet: shared.Quiet = False,
    json: shared.Json = False,
) -> None:
    """Measure how accuracy changes when links or features of the graph are changed.

    Each method is measured next to its control, on graphs changed after training or, with training-links, before it.
    Attacks that a graph does not allow are refused before training starts.

    Each run is saved to DIR/runs.sqlite as soon as it finishes. You can stop at any time, even with kill -9; the same
    command continues where it stopped. The plain GCN and each method's control are always included.
    """
    from fishergcn import studies

    with warnings_as_notes():
        plan = studies.make_plan(
            preset,
            datasets=None if dataset is None else [load_graph(name) for name in dict.fromkeys(dataset)],
            methods=method,
            attacks=attack,
            splits=splits,
            seeds=seeds,
            epochs=epochs,
            samples=samples,
        )
    run_plan(plan, out, device=device, workers=workers, cluster=cluster, dry_run=dry_run, quiet=quiet, as_json=json)
