"""The runner: does what is missing of a plan, and writes down each run as it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from fishergcn._base.checks import check_choice
from fishergcn._base.files import make_folder
from fishergcn._base.npz import read_arrays, write_arrays
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, reason
from fishergcn.execution import Executor, Job, Listener, Measure, choose_executor, train_job
from fishergcn.studies._attack import measure_attacks
from fishergcn.studies._folders import check_free
from fishergcn.studies._jobs import Form, Jobs
from fishergcn.studies._lock import folder_lock
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._runs import Runs
from fishergcn.studies._signals import Signals
from fishergcn.studies._store import RunStore, open_runs
from fishergcn.studies._tensorboard import CurveWriter
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
) -> Runs:
    """Run what is missing of a plan and keep it in ``folder/runs.sqlite``.

    Parameters
    ----------
    plan
        See :func:`make_plan`.
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
    measure
        What makes the records, where ``plan.measure`` is a name of your own: a function on the top level of a module.
        Its jobs have one run each and the options of their cell in ``job.task``; ``workers`` may share a GPU.
    keep_weights
        The splits whose runs' weights are written to ``folder/weights``, where :func:`kept_weights` finds them.

    Returns
    -------
    Runs
        All runs, open for reading; with ``counts()`` of those that are ok, diverged or failed.

    Raises
    ------
    StopWork
        On SIGINT or SIGTERM, after what had ended was written down.

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
    curves = None if tensorboard is None else CurveWriter(tensorboard)
    executor = choose_executor(device, workers, cluster, on_epoch=listener.epoch, keep_going=True, shared=True)
    # Signals after the executor: a library that it starts may bring handlers of its own.
    with Signals() as signals, contextlib.closing(executor), _opened(folder) as store:
        store.begin(plan, command=command, created=datetime.now(timezone.utc).isoformat(timespec="seconds"))
        planned = {(cell.dataset, cell.name): len(plan.runs(cell)) for cell in plan.cells}
        listener.begin(plan.preset, planned, (((record.dataset, name), record) for name, record in store.entries()))
        jobs = Jobs(plan, store, measure, executor, listener, form, bool(kept))
        with contextlib.closing(_run(executor, jobs)) as results:
            for job, records in results:
                for cell, part in jobs.sort(job, records):
                    with signals.held():
                        for record in part:  # before the record, so that no finished run lacks them
                            if record.split in kept and record.status == "ok" and record.weights is not None:
                                path = _weights_file(folder, plan, cell, record.split, record.seed)
                                make_folder(path.parent)
                                write_arrays(path, record.weights)
                        store.add(cell, part)
                    listener.finished((cell.dataset, cell.name), part)
                    if curves is not None:
                        curves.write(cell, part)
    return open_runs(folder)


def kept_weights(folder: Path, plan: Plan, cell: Cell, split: str, seed: int) -> dict[str, AnyArray]:
    """Read the weights that :func:`run` kept of a run."""
    return read_arrays(_weights_file(folder, plan, cell, split, seed))


def _weights_file(folder: Path, plan: Plan, cell: Cell, split: str, seed: int) -> Path:
    return folder / "weights" / f"{plan.cells.index(cell)}-{plan.runs(cell).index((split, seed))}.npz"


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[RunStore]:
    """Make the folder if needed, and be the only one who writes there."""
    check_free(folder)
    make_folder(folder)
    with folder_lock(folder), RunStore(folder, writable=True) as store:
        yield store


def _run(executor: Executor, jobs: Jobs) -> Generator[tuple[Job, list[RunRecord]], None, None]:
    try:
        yield from executor.run(jobs)
    except OSError as error:
        raise DataFileError(
            f"cannot continue: {reason(error)}. Finished runs are saved; run the same command again."
        ) from error
