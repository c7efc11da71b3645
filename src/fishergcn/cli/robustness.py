"""``fishergcn robustness``: how trained networks do when the graph changes."""

from __future__ import annotations

from typing import Annotated

import typer

from fishergcn.cli import _options as shared
from fishergcn.cli.reproduce import PresetRuns, run_plan


@shared.takes_options(without=("tensorboard",))
def robustness(
    *,
    preset: Annotated[
        str, typer.Option(help="What to measure: robustness, robustness-quick, or a .toml file.")
    ] = "robustness",
    runs: PresetRuns,
    machine: shared.StudyMachine,
    printed: shared.StudyPrinted,
) -> None:
    """Measure how a score changes when links or features of the graph are changed.

    Each method is measured next to its control, on graphs changed after training or, with training-links, before it.
    Attacks that a graph does not allow are refused before training starts.

    Each run is saved to DIR/runs.sqlite as soon as it finishes. You can stop at any time, even with kill -9; the same
    command continues where it stopped. The plain GCN and each method's control are always included.
    """
    run_plan(runs.plan(preset), runs.out, machine, printed)
