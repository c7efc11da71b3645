"""The runner: does what is missing of a plan, and writes down each run as it ends."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

from fishergcn._base.checks import check_choice
from fishergcn._base.files import folder_inside, make_folder, without_links
from fishergcn._base.imports import require
from fishergcn._base.locks import folder_lock
from fishergcn._base.npz import read_arrays, write_arrays
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, reason
from fishergcn.execution import Executor, Listener, Measure, StopWork, choose_executor, train_job
from fishergcn.studies._attack import measure_attacks
from fishergcn.studies._folders import check_free
from fishergcn.studies._jobs import Form, Jobs
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._runs import Runs
from fishergcn.studies._store import RunStore, open_runs
from fishergcn.training import RunRecord

# What makes the records, and of what.
_MEASURES: dict[str, tuple[Measure, Form]] = {"training": (train_job, "chunk"), "attack": (measure_attacks, "method")}


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
    measure: Measure | None = None,
    keep_weights: Iterable[str] = (),
    keep_outputs: bool = False,
    executor: Executor | None = None,
) -> Runs:
    """Run what is missing of a plan and keep it in ``folder/runs.sqlite``.

    Parameters
    ----------
    plan, folder
        See :func:`make_plan`; and that of the database. One that holds runs of another plan, a model or a search is
        refused.
    device, workers
        ``"auto"``, ``"cpu"`` or ``"cuda"``; and how many processes on the CPU, by default as many as it has cores.
    cluster
        The address of a Ray cluster, or ``"auto"`` for the one this machine belongs to.
    tensorboard
        A folder to write learning curves to.
    listener, command
        What receives progress events; and the command line, to be kept with the plan.
    measure
        What makes the records, where ``plan.measure`` is a name of your own: a function on the top level of a module,
        whose jobs have one run each and the options of their cell in ``job.task``.
    keep_weights, keep_outputs
        The splits whose runs' weights are written to ``folder/weights``, where :func:`kept_weights` finds them; and
        whether the logits of validation and test nodes of all runs are.
    executor
        Where to run, instead of ``device``, ``workers`` and ``cluster``; it stays open.

    Returns
    -------
    Runs
        All runs, open for reading; with ``counts()`` of those that are ok, diverged or failed. On SIGINT or SIGTERM it
        raises :class:`StopWork`, after what had ended was written down.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import studies
    >>> plan = studies.make_plan("quick", methods=["gcn-x5"], splits=2, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder, run(plan, folder, device="cpu", workers=1) as runs:
    ...     print(runs.counts())
    {'ok': 4}
    """
    folder = Path(folder)
    listener = Listener() if listener is None else listener
    form: Form = "run"
    if measure is None:
        measure, form = _MEASURES[check_choice("plan.measure", plan.measure, tuple(_MEASURES))]
    kept = frozenset(keep_weights)
    curves = None if tensorboard is None else _CurveWriter(tensorboard)
    place = contextlib.ExitStack()
    if executor is None:
        executor = choose_executor(device, workers, cluster, on_epoch=listener.epoch, keep_going=True, shared=True)
        place.enter_context(contextlib.closing(executor))
    # Signals after the executor: a library that it starts may bring handlers of its own.
    with Signals() as signals, place, _opened(folder) as store:
        store.begin(plan, command=command, created=datetime.now(timezone.utc).isoformat(timespec="seconds"))
        planned = {(cell.dataset, cell.name): len(plan.runs(cell)) for cell in plan.cells}
        listener.begin(plan.preset, planned, (((record.dataset, name), record) for name, record in store.entries()))
        jobs = Jobs(plan, store, measure, executor, listener, form, bool(kept) or keep_outputs)
        with contextlib.closing(_run(executor, jobs)) as results:
            for cell, records in results:
                with signals.held():
                    _write_weights(folder, plan, cell, records, kept, outputs=keep_outputs)
                    store.add(cell, records)  # after the weights, which no finished run lacks
                listener.finished((cell.dataset, cell.name), records)
                if curves is not None:
                    curves.write(cell, records)
    return open_runs(folder)


def kept_weights(folder: Path, plan: Plan, cell: Cell, split: str, seed: int) -> dict[str, AnyArray]:
    """Read the weights that :func:`run` kept of a run."""
    return read_arrays(without_links(_weights_file(folder, plan, cell, split, seed), folder))


def _write_weights(
    folder: Path, plan: Plan, cell: Cell, records: Iterable[RunRecord], kept: frozenset[str], *, outputs: bool
) -> None:
    for record in records:
        arrays = {
            name: each
            for name, each in record.arrays().items()
            if (outputs if name.startswith("outputs.") else record.split in kept)
        }
        if record.status == "ok" and arrays:
            path = _weights_file(folder, plan, cell, record.split, record.seed)
            make_folder(path.parent, inside=folder)
            write_arrays(path, arrays, inside=folder)


def _weights_file(folder: Path, plan: Plan, cell: Cell, split: str, seed: int) -> Path:
    return folder / "weights" / f"{plan.cells.index(cell)}-{plan.runs(cell).index((split, seed))}.npz"


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[RunStore]:
    """Make the folder if needed, and be the only one who writes there."""
    check_free(folder)
    make_folder(folder)
    with folder_lock(folder), RunStore(folder, writable=True) as store:
        yield store


def _run(executor: Executor, jobs: Jobs) -> Generator[tuple[Cell, list[RunRecord]], None, None]:
    try:
        for job, records in executor.run(jobs):
            yield from jobs.sort(job, records)
    except OSError as error:
        raise DataFileError(
            f"cannot continue: {reason(error)}. Finished runs are saved; run the same command again."
        ) from error


class _CurveWriter:
    """Writes the curves of finished runs to ``folder/DATASET/CELL/SPLIT-SEED``."""

    def __init__(self, folder: str | Path) -> None:
        require("tensorboard", extra="report", purpose="Writing curves for TensorBoard")
        self.folder = Path(folder)

    def write(self, cell: Cell, records: Iterable[RunRecord]) -> None:
        """Write all curves of some runs, then their test scores."""
        from torch.utils.tensorboard import SummaryWriter

        for record in records:
            names = cell.dataset, cell.name, f"{record.split.replace(':', '-')}-{record.seed}"
            place = folder_inside(self.folder, *names)
            with SummaryWriter(str(place)) as writer:
                for name, values in record.curves.items():
                    for epoch, value in enumerate(values, start=1):
                        writer.add_scalar(name, value, epoch)
                if record.status == "ok":
                    for name, value in record.scores.items():
                        if name.startswith("test_"):
                            writer.add_scalar(name, value, record.epochs)


class Stopped(StopWork):
    """The work was ended from outside, by the signal ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Signals:
    """While entered, SIGINT and SIGTERM raise :class:`Stopped`, once; :meth:`held` blocks are ended first."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._held = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._received is None:  # cleaning up takes a moment; a second Ctrl-C must not break it
            self._received = number
            if not self._held:
                raise Stopped(number)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Put off a signal until the end of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self.check()

    def check(self) -> None:
        """Raise if a signal came, e.g. where code of others swallowed the exception."""
        if self._received is not None:
            raise Stopped(self._received)
