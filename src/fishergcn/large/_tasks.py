"""Where tasks run: in threads of this process, or on the machines of a Ray cluster.

A task makes one block of one stage. It reads files and writes files, and what is sent to it and from it is plain. A
task that fails is tried once more; a block that fails twice is named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fishergcn._base.imports import require
from fishergcn._base.types import AnyArray
from fishergcn.errors import FisherGCNError, InputError, reason
from fishergcn.execution import join_cluster
from fishergcn.large import _into_blocks, _networks, _parts, _spread
from fishergcn.large._plan import Context, read_context
from fishergcn.large._store import Facts

_TRIES = 2
_LOST = 5  # how often a task may lose its machine

TASKS: Mapping[str, Callable[..., tuple[dict[str, AnyArray], Facts]]] = {
    "spill": _into_blocks.spill,
    "links": _into_blocks.links,
    "squares": _into_blocks.squares,
    "rows": _into_blocks.rows,
    "spread": _spread.spread,
    "classes": _spread.classes,
    "errors": _spread.errors,
    "corrected": _spread.corrected,
    "judge": _spread.judge,
    "collect": _networks.collect,
    "train": _networks.train,
    "predict": _networks.predict,
    "parts": _parts.write_part,
}


def run_task(context: Context, stage: str, kind: str, settings: Mapping[str, Any], block: int) -> None:
    """Make a block of a stage."""
    arrays, facts = TASKS[kind](context, block, **settings)
    context.store.write(stage, block, arrays, facts)


class Runner(Protocol):
    """What starts tasks and tells which ended."""

    @property
    def slots(self) -> int:
        """How many tasks run at once."""

    def start(self, folder: Path, stage: str, kind: str, settings: Mapping[str, Any], block: int) -> Any:
        """Start a task and return what stands for it."""

    def ended(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Exception | None]]:
        """Wait for tasks, and yield those that have ended, with what went wrong."""

    def close(self) -> None:
        """End the work."""


def run_stage(
    runner: Runner, folder: Path, stage: str, kind: str, settings: Mapping[str, Any], blocks: Iterable[int]
) -> Iterator[int]:
    """Make blocks of a stage, in any order; yield each when it is there."""
    tries: dict[int, int] = {}
    waiting, running = list(blocks)[::-1], dict[Any, int]()
    while waiting or running:
        while waiting and len(running) < 2 * runner.slots:
            block = waiting.pop()
            tries[block] = tries.get(block, 0) + 1
            running[runner.start(folder, stage, kind, settings, block)] = block
        for task, error in runner.ended(list(running)):
            block = running.pop(task)
            if error is None:
                yield block
            elif isinstance(error, InputError):
                raise error
            elif tries[block] < _TRIES:
                waiting.append(block)
            else:
                raise FisherGCNError(
                    f"block {block} of stage {stage!r} failed twice ({reason(error)}); what is finished is kept, and "
                    "the same command continues."
                ) from error


class Threads:
    """Threads of this process: compiled code, torch and files let go of Python's lock."""

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._pool = ThreadPoolExecutor(workers)

    def start(self, folder: Path, stage: str, kind: str, settings: Mapping[str, Any], block: int) -> Any:
        """Start a task."""
        return self._pool.submit(partial(run_task, read_context(folder), stage, kind, settings, block))

    def ended(self, tasks: Iterable[Future[None]]) -> Iterator[tuple[Any, Exception | None]]:
        """Wait for tasks."""
        done, _ = wait(tasks, return_when=FIRST_COMPLETED)
        for each in done:
            error = each.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield each, error

    def close(self) -> None:
        """Forget what was not begun, and wait for the rest."""
        self._pool.shutdown(cancel_futures=True)
        _spread.forget()


class RayTasks:
    """Tasks of a Ray cluster, one core each; its machines share the folder of the work."""

    def __init__(self, address: str) -> None:
        self._ray = require("ray", extra="cluster", purpose="Working on a cluster")
        self._joined = join_cluster(self._ray, address)
        self._task = self._ray.remote(max_retries=_LOST, num_cpus=1)(_on_a_node)

    @property
    def slots(self) -> int:
        """How many tasks can run at once; machines come and go."""
        return max(int(self._ray.cluster_resources().get("CPU", 0)), 1)

    def start(self, folder: Path, stage: str, kind: str, settings: Mapping[str, Any], block: int) -> Any:
        """Start a task."""
        return self._task.remote(str(folder), stage, kind, json.dumps(dict(settings)), block)

    def ended(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Exception | None]]:
        """Wait for tasks."""
        done, _ = self._ray.wait(list(tasks), num_returns=1)
        for each in done:
            try:
                self._ray.get(each)
            except Exception as error:
                yield each, error
            else:
                yield each, None

    def close(self) -> None:
        """Leave the cluster, if it was joined here."""
        if self._joined:
            self._ray.shutdown()


def _on_a_node(folder: str, stage: str, kind: str, settings: str, block: int) -> int:
    run_task(read_context(Path(folder)), stage, kind, json.loads(settings), block)
    return os.getpid()
