"""The runner: does what is missing of a plan, and writes down each run as it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from datetime import datetime, timezone
from pathlib import Path

from fishergcn import datasets, splits
from fishergcn._base.files import make_folder
from fishergcn._base.types import CSRArray
from fishergcn.errors import DataFileError, reason
from fishergcn.execution import Executor, Job, Listener, choose_executor
from fishergcn.spectrum import Spectrum
from fishergcn.studies._folders import check_free
from fishergcn.studies._lock import folder_lock
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._signals import Signals
from fishergcn.studies._store import RunStore
from fishergcn.studies._tensorboard import CurveWriter
from fishergcn.training import Problem, Run, RunRecord, check_runs, parse_method, prepare

__all__ = ["run"]


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
    listener = Listener() if listener is None else listener
    curves = None if tensorboard is None else CurveWriter(tensorboard)
    executor = choose_executor(device, workers, cluster, on_epoch=listener.epoch, keep_going=True)
    # Signals after the executor: a library that it starts may bring handlers of its own.
    with Signals() as signals, contextlib.closing(executor), _opened(folder) as store:
        store.begin(plan, command=command, created=datetime.now(timezone.utc).isoformat(timespec="seconds"))
        planned = {(cell.dataset, cell.name): len(plan.splits) * len(plan.seeds) for cell in plan.cells}
        listener.begin(plan.preset, planned, (((record.dataset, name), record) for name, record in store.entries()))
        jobs = _Jobs(plan, store, executor, listener)
        with contextlib.closing(_run(executor, jobs)) as results:
            for job, records in results:
                cell = jobs.taken.pop(id(job))
                with signals.held():
                    store.add(cell, records)
                listener.finished((cell.dataset, cell.name), records)
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


class _Jobs:
    """The jobs that are missing, made one by one as they are asked for; ``taken`` holds those in work."""

    def __init__(self, plan: Plan, store: RunStore, executor: Executor, listener: Listener) -> None:
        self.plan, self.store, self.executor, self.listener = plan, store, executor, listener
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
        size = self.executor.chunk_size(problem)
        if self.executor.gpu:
            # The same number when the work is taken up again: rounding depends on it.
            size = int(self.store.remember(f"runs side by side on cuda, {cell.name} on {cell.dataset}", size))
        runs = [Run(shared.splits[split], seed) for split, seed in self.plan.runs()]
        # Chunks are cut before finished runs are left out: they are the same however often we start again.
        for start in range(0, len(runs), size):
            part = [run for run in runs[start : start + size] if (run.split.name, run.seed) not in finished]
            if part:
                job = Job(problem, tuple(part))
                self.taken[id(job)] = cell
                self.listener.started((cell.dataset, cell.name), len(part))
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
