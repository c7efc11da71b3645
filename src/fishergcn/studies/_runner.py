"""The runner: does what is missing of a plan, and writes down each run as it ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

import torch

from fishergcn import datasets, splits
from fishergcn._base.checks import check_integer
from fishergcn._base.files import make_folder
from fishergcn._base.types import CSRArray
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.execution import Executor, Job, LocalExecutor, ProcessExecutor, chunk_size, find_device
from fishergcn.spectrum import Spectrum
from fishergcn.studies._folders import check_free
from fishergcn.studies._lock import folder_lock
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._signals import Signals
from fishergcn.studies._store import RunStore
from fishergcn.studies._tensorboard import CurveWriter
from fishergcn.training import Problem, Progress, Run, RunRecord, check_runs, parse_method, prepare

__all__ = ["Listener", "choose_executor", "run"]

_CLUSTER_CHUNK = 32  # runs side by side on a GPU that this process cannot see; halved there if they do not fit


class Listener(Protocol):
    """Is told what happens, to show it."""

    def begin(self, plan: Plan, store: RunStore) -> None:
        """The database is open; some runs may be there already."""

    def started(self, cell: Cell, runs: int) -> None:
        """A job was handed out."""

    def epoch(self, progress: Progress) -> None:
        """An epoch of a job in this process ended."""

    def finished(self, cell: Cell, records: list[RunRecord]) -> None:
        """The runs of a job are written down."""


class _Silence:
    def begin(self, plan: Plan, store: RunStore) -> None:
        pass

    def started(self, cell: Cell, runs: int) -> None:
        pass

    def epoch(self, progress: Progress) -> None:
        pass

    def finished(self, cell: Cell, records: list[RunRecord]) -> None:
        pass


def run(
    plan: Plan,
    folder: str | Path,
    *,
    device: str = "auto",
    workers: int | None = None,
    cluster: str | None = None,
    tensorboard: str | Path | None = None,
    listener: Listener | None = None,
    command: str = "",
) -> dict[str, int]:
    """Run what is missing of a plan and keep it in ``folder/runs.sqlite``.

    Parameters
    ----------
    plan
        See :func:`fishergcn.studies._plan.make_plan`.
    folder
        Where the database is or will be. One that holds runs of another plan, a model or a search is refused.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    workers
        Processes on the CPU of this machine; as many as it has cores by default.
    cluster
        The address of a Ray cluster, or ``"auto"`` for the one this machine belongs to.
    tensorboard
        A folder to write learning curves to.
    listener
        Is told what happens.
    command
        The command line, to be kept with the plan.

    Returns
    -------
    dict
        How many runs are there with which status: ``ok``, ``diverged``, ``failed``.

    Raises
    ------
    Stopped
        On SIGINT or SIGTERM, after what had ended was written down.
    """
    folder = Path(folder)
    listener = _Silence() if listener is None else listener
    curves = None if tensorboard is None else CurveWriter(tensorboard)
    executor, chunk = choose_executor(device, workers, cluster, listener.epoch)
    # Signals after the executor: a library that it starts may bring handlers of its own.
    with Signals() as signals, contextlib.closing(executor), _opened(folder) as store:
        store.begin(plan, command=command, created=datetime.now(timezone.utc).isoformat(timespec="seconds"))
        listener.begin(plan, store)
        jobs = _Jobs(plan, store, chunk, listener)
        with contextlib.closing(_run(executor, jobs)) as results:
            for job, records in results:
                cell = jobs.taken.pop(id(job))
                with signals.held():
                    store.add(cell, records)
                listener.finished(cell, records)
                if curves is not None:
                    curves.write(cell, records)
        return store.counts()


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[RunStore]:
    """Make the folder if needed, and be the only one who writes there."""
    check_free(folder)
    make_folder(folder)
    with folder_lock(folder), RunStore(folder, writable=True) as store:
        yield store


def _run(executor: Executor, jobs: _Jobs) -> Generator[tuple[Job, list[RunRecord]], None, None]:
    try:
        yield from executor.run(jobs)
    except OSError as error:
        raise DataFileError(
            f"the work cannot go on: {reason(error)}; all finished runs are safe: run the same command again."
        ) from error


Chunk = Callable[[Problem, Cell, RunStore], int]


def choose_executor(
    device: str, workers: int | None, cluster: str | None, on_epoch: Callable[[Progress], None] | None = None
) -> tuple[Executor, Chunk]:
    """Return where jobs run, and how many runs make a job there."""
    if workers is not None:
        check_integer("workers", workers, minimum=1)
    if cluster is not None:
        from fishergcn.execution import RayExecutor

        if workers is not None:
            raise InputError("workers is for this machine; a cluster uses all that it has.")
        on_gpu = device.startswith("cuda")
        return RayExecutor(cluster, gpu=on_gpu, keep_going=True), lambda *_: _CLUSTER_CHUNK if on_gpu else 1
    place = find_device(device)
    if place.type == "cuda":
        return LocalExecutor(place, on_epoch, keep_going=True), lambda *given: _gpu_chunk(place, *given)
    count = _cores() if workers is None else workers
    if count == 1:
        return LocalExecutor(place, on_epoch, keep_going=True), lambda *_: 1
    return ProcessExecutor(count, keep_going=True), lambda *_: 1


def _gpu_chunk(place: torch.device, problem: Problem, cell: Cell, store: RunStore) -> int:
    """As many runs as fit, and the same number when the work is taken up again: rounding depends on it."""
    name = f"runs side by side on {place.type}, {cell.name} on {cell.dataset}"
    return int(store.remember(name, chunk_size(problem, place)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Jobs:
    """The jobs that are missing, made one by one as they are asked for; ``taken`` holds those in work."""

    def __init__(self, plan: Plan, store: RunStore, chunk: Chunk, listener: Listener) -> None:
        self.plan, self.store, self.chunk, self.listener = plan, store, chunk, listener
        self.taken: dict[int, Cell] = {}

    def __iter__(self) -> Iterator[Job]:
        for dataset in self.plan.datasets:
            shared = _Shared(dataset, self.plan.splits)
            for cell in self.plan.cells:
                if cell.dataset == dataset:
                    yield from self._of_cell(cell, shared)

    def _of_cell(self, cell: Cell, shared: _Shared) -> Iterator[Job]:
        finished = self.store.finished(cell)
        if len(finished) == len(self.plan.splits) * len(self.plan.seeds):
            return
        problem = shared.problem(cell)
        size = self.chunk(problem, cell, self.store)
        runs = [Run(shared.splits[split], seed) for split, seed in self.plan.runs()]
        # Chunks are cut before finished runs are left out: they are the same however often we start again.
        for start in range(0, len(runs), size):
            part = [run for run in runs[start : start + size] if (run.split.name, run.seed) not in finished]
            if part:
                job = Job(problem, tuple(part))
                self.taken[id(job)] = cell
                self.listener.started(cell, len(part))
                yield job


class _Shared:
    """What cells on one data set share: the graph, its splits, propagation matrices and spectra."""

    def __init__(self, dataset: str, names: tuple[str, ...]) -> None:
        self.graph = datasets.load(dataset)
        self.splits = {name: splits.parse(self.graph, name) for name in names}
        self._matrices: dict[object, CSRArray] = {}
        self._spectra: dict[object, Spectrum] = {}
        self._checked = False

    def problem(self, cell: Cell) -> Problem:
        """Return the problem of a cell, computing only what no cell before it had."""
        method, config = parse_method(cell.method), cell.config
        matrix = (config.order, config.threshold) if method.high_order else "renormalized"
        spectrum = (matrix, config.rank, config.directions)
        problem = prepare(
            self.graph,
            method,
            config,
            propagation=self._matrices.get(matrix),
            spectrum=self._spectra.get(spectrum),
        )
        self._matrices[matrix] = problem.propagation
        if problem.neighborhood is not None:
            self._spectra[spectrum] = problem.neighborhood.spectrum
        if not self._checked:
            check_runs(problem, [Run(split, 0) for split in self.splits.values()])
            self._checked = True
        return problem
