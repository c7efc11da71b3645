"""Which executor does the work: this process, several, or a cluster."""

from __future__ import annotations

from collections.abc import Callable

from fishergcn._base.checks import check_integer
from fishergcn.errors import InputError
from fishergcn.execution._devices import count_cores, find_device
from fishergcn.execution._executors import LocalExecutor, ProcessExecutor
from fishergcn.execution._jobs import Executor
from fishergcn.execution._ray import RayExecutor
from fishergcn.training import Progress


def choose_executor(
    device: str = "auto",
    workers: int | None = None,
    cluster: str | None = None,
    *,
    most: int | None = None,
    on_epoch: Callable[[Progress], None] | None = None,
    keep_going: bool = False,
    shared: bool = False,
) -> Executor:
    """Return where jobs run.

    Parameters
    ----------
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    workers
        Processes on this machine; by default as many as it has cores, or this one alone on a GPU.
    cluster
        The address of a Ray cluster, or ``"auto"`` for the one this machine belongs to.
    most
        How many jobs there are: more workers would be idle.
    on_epoch
        Called after every epoch of a job in this process.
    keep_going
        Whether a job that fails gives records that say so, instead of an error.
    shared
        Whether ``workers`` processes may use a GPU while this one prepares what comes next.

    Examples
    --------
    >>> choose_executor("cpu", workers=1).gpu
    False
    """
    if workers is not None:
        check_integer("workers", workers, minimum=1)
    if cluster is not None:
        if workers is not None:
            raise InputError("workers applies to this machine only; a cluster uses all of its own.")
        return RayExecutor(cluster, gpu=device.startswith("cuda"), keep_going=keep_going)
    place = find_device(device)
    alone = place.type == "cuda" and not (shared and workers)
    count = 1 if alone else count_cores() if workers is None else workers
    count = count if most is None else min(count, most)
    if count == 1 and (alone or place.type == "cpu"):
        return LocalExecutor(place, on_epoch, keep_going=keep_going)
    return ProcessExecutor(count, keep_going=keep_going, device=place)
