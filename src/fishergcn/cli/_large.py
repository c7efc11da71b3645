"""``fishergcn train --batch-size``: mini-batches, in this process or in those that torchrun started."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.splits import Split
    from fishergcn.training import BatchSettings, RunRecord, TrainConfig

__all__ = ["parse_batches", "train_in_batches"]


def parse_batches(batch_size: int | None, fanout: str | None, workers: int) -> BatchSettings | None:
    """Return the settings of mini-batches, or None for full batches.

    Examples
    --------
    >>> parse_batches(512, "10,-1", 1).fanout
    (10, -1)
    """
    from fishergcn.training import BatchSettings, process_count

    if batch_size is None:
        if fanout is not None:
            raise InputError("--fanout goes with --batch-size, which is missing.")
        if process_count() > 1:
            raise InputError("--batch-size must be given in several processes: they share batches between them.")
        return None
    if fanout is None:
        raise InputError("--fanout must be given with --batch-size, for instance --fanout 10,10 for two layers.")
    if workers != 1:
        raise InputError("--workers trains full batches side by side; start mini-batches with torchrun instead.")
    try:
        numbers = tuple(int(part) for part in fanout.split(","))
    except ValueError:
        raise InputError(f"--fanout must be whole numbers such as 10,10, got {fanout!r}.") from None
    return BatchSettings(batch_size, numbers)


def train_in_batches(
    graph: Graph,
    methods: Sequence[str],
    splits: Sequence[Split],
    seeds: Sequence[int],
    config: TrainConfig,
    settings: BatchSettings,
    device: str,
    quiet: bool,
    keep_weights: bool,
) -> dict[str, list[RunRecord]] | None:
    """Train all runs one after the other; return them by method, or None in processes other than the first."""
    import torch

    from fishergcn.execution import find_device, make_display
    from fishergcn.training import Run, check_fanout, parse_method, prepare_batches, process_group, train_prepared

    check_fanout(settings.fanout, len(config.hidden) + 1)
    results: dict[str, list[RunRecord]] = {method: [] for method in methods}
    with process_group(find_device(device)) as (group, place):
        if group.size > 1 and place.type == "cpu":
            torch.set_num_threads(1)  # the processes are the threads
        runs = [Run(split, seed) for split in splits for seed in seeds]
        for method, records in results.items():
            problem, basis = prepare_batches(graph, parse_method(method), config, group=group)
            with make_display(method, len(runs), shown=group.first and not quiet) as display:
                for run in runs:
                    record = train_prepared(
                        problem, basis, run, settings, place, group, keep_weights=keep_weights, on_epoch=display.epoch
                    )
                    records.append(record)
                    display.finished([record])
        sys.stderr.flush()
        return results if group.first else None
