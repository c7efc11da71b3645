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
        str, typer.Option(help="How much is measured: robustness, robustness-quick, or a .toml file.")
    ] = "robustness",
    dataset: shared.Dataset = None,
    splits: shared.Splits = None,
    method: shared.Methods = None,
    attack: shared.Attacks = None,
    seeds: shared.PresetSeeds = None,
    epochs: shared.PresetEpochs = None,
    samples: shared.Samples = None,
    device: shared.Device = "auto",
    workers: shared.AllWorkers = None,
    cluster: shared.Cluster = None,
    quiet: shared.Quiet = False,
) -> None:
    """Measure trained methods beside their controls when the graph they are tested on, or trained on, changes.

    Every run is kept in DIR/runs.sqlite as soon as it is measured. Stop it whenever you like, also with kill -9: the
    same command takes it up again. What a graph does not admit is refused before anything is trained. The plain GCN and
    the control of each method are added to those of --method.
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
    run_plan(plan, out, device=device, workers=workers, cluster=cluster, quiet=quiet)
