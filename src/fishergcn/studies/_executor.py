"""Where the jobs of a study or a search run, and how many runs make a job there."""

from __future__ import annotations

import os
from collections.abc import Callable

from fishergcn._base.checks import check_integer
from fishergcn.errors import InputError
from fishergcn.execution import Executor, LocalExecutor, ProcessExecutor, RayExecutor, chunk_size, find_device
from fishergcn.training import Problem, Progress

__all__ = ["SideBySide", "choose_executor"]

SideBySide = Callable[[Problem], int]
_CLUSTER_CHUNK = 32  # runs side by side on a GPU that this process cannot see; halved there if they do not fit


def choose_executor(
    device: str,
    workers: int | None,
    cluster: str | None = None,
    on_epoch: Callable[[Progress], None] | None = None,
    *,
    keep_going: bool = True,
    shared: bool = False,
) -> tuple[Executor, SideBySide]:
    """Return where jobs run, and a function that says how many runs of a problem are trained side by side there.

    On the CPU ``workers`` processes work, as many as there are cores if it is None; on a GPU one, unless it is
    ``shared``, and then one if it is None.
    """
    if workers is not None:
        check_integer("workers", workers, minimum=1)
    if cluster is not None:
        if workers is not None:
            raise InputError("workers is for this machine; a cluster uses all that it has.")
        on_gpu = device.startswith("cuda")
        return RayExecutor(cluster, gpu=on_gpu, keep_going=keep_going), lambda _: _CLUSTER_CHUNK if on_gpu else 1
    place = find_device(device)
    count = workers or (_cores() if place.type == "cpu" else 1)
    if count > 1 and (place.type == "cpu" or shared):
        return ProcessExecutor(count, keep_going=keep_going, device=place), lambda _: 1
    return LocalExecutor(place, on_epoch, keep_going=keep_going), lambda problem: chunk_size(problem, place)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

