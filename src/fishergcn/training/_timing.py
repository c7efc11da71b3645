"""How long an epoch takes: a few real ones, timed while they are trained."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from fishergcn._base.memory import return_freed_memory
from fishergcn.training._chunk import Progress, train_chunk
from fishergcn.training._minibatch import train_prepared

if TYPE_CHECKING:
    import torch

    from fishergcn._base.types import FloatArray
    from fishergcn.training._problem import Problem, Run
    from fishergcn.training._sampling import BatchSettings

_MOST = 20  # epochs that are timed


class _EnoughError(Exception):
    """Ends a training that was only timed."""


def time_epochs(
    problem: Problem,
    runs: Sequence[Run],
    device: torch.device,
    *,
    batches: BatchSettings | None = None,
    basis: FloatArray | None = None,
    limit: float = 1.0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, int]:
    """Train for a few epochs; return the median of their seconds, and how many were timed.

    The first epoch may have to compile or load kernels, and is not timed. Of a method without epochs the seconds of a
    run are returned, and 0.

    Parameters
    ----------
    problem, runs, device
        What is trained, as in :func:`train_chunk`.
    batches, basis
        Of mini-batches, as in :func:`train_prepared`; they train the first run alone.
    limit
        Ends after the epoch in which so many seconds are over; at most 20 are timed.
    clock
        Returns seconds.

    Examples
    --------
    >>> import torch
    >>> from fishergcn import TrainConfig, datasets, splits
    >>> from fishergcn.training import Run, parse_method, prepare
    >>> cora = datasets.load("cora")
    >>> problem = prepare(cora, parse_method("gcn"), TrainConfig())
    >>> seconds, epochs = time_epochs(problem, [Run(splits.public(cora), 2019)], torch.device("cpu"), limit=0.01)
    >>> seconds > 0, 1 <= epochs <= 20
    (True, True)
    """
    config = dataclasses.replace(problem.config, stopping="none", max_epochs=2 + _MOST)
    timed, ends = dataclasses.replace(problem, config=config), [clock()]

    def on_epoch(_: Progress) -> None:
        ends.append(clock())
        if len(ends) > 2 and (ends[-1] - ends[1] >= limit or len(ends) == 2 + _MOST):
            raise _EnoughError

    with contextlib.suppress(_EnoughError):
        if batches is None:
            train_chunk(timed, runs, device, on_epoch=on_epoch)
        else:
            train_prepared(timed, basis, runs[0], batches, device, on_epoch=on_epoch)
    return_freed_memory()
    if not problem.method.trained:
        return clock() - ends[0], 0
    seconds = [after - before for before, after in pairwise(ends)]
    later = seconds[1:] or seconds  # a run that diverges at once has no second epoch
    return median(later), len(later)
