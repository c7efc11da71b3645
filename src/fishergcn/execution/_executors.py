"""Executors on this machine: in this process, or in several worker processes."""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from fishergcn._base.mps import SharedGPU
from fishergcn._base.npz import read_arrays
from fishergcn._base.process import ProcessError, start_python
from fishergcn._base.temporary import new_folder, remove_folder
from fishergcn._base.tensors import one_thread
from fishergcn._kernels.threads import many_rows
from fishergcn.errors import FisherGCNError, reason
from fishergcn.execution._devices import chunk_size
from fishergcn.execution._jobs import Job, measure_name, run_to_dict, save_problem
from fishergcn.training import Problem, Progress, RunRecord, make_record, problem_key

_ATTEMPTS = 3
# Jobs that wait for each worker that is busy, so that none is idle while results are consumed; on a GPU more, since a
# large graph takes longer to make ready than a small one to train on.
_WAITING, _WAITING_FOR_GPU = 1, 2
# Records of a job as they come; None or an error when it has ended.
_Answers = queue.SimpleQueue[tuple[Job, list[RunRecord] | BaseException | None]]


class LocalExecutor:
    """Runs jobs one after the other in this process; on the CPU with one thread, unless the graph is large.

    On matrices of a usual size two threads are often slower than one; several processes are the way to use several
    cores. Rows of a large graph are dealt to as many threads as torch has. With ``keep_going`` a job that fails gives
    records that say so, instead of an error.
    """

    def __init__(
        self, device: torch.device, on_epoch: Callable[[Progress], None] | None = None, *, keep_going: bool = False
    ) -> None:
        self.device = device
        self.gpu = device.type == "cuda"
        self.shares_gpu = False
        self.on_epoch = on_epoch
        self.keep_going = keep_going

    def chunk_size(self, problem: Problem) -> int:
        """Return how many runs of a problem make a job: as many as fit on the device side by side."""
        return chunk_size(problem, self.device)

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[RunRecord]]]:
        """Yield jobs with their records, in order."""
        for job in jobs:
            parts = job.measure(job, self.device, self.on_epoch)
            alone = self.device.type == "cpu" and not many_rows(job.problem.graph.num_nodes)
            records: list[RunRecord] | None = []
            while records is not None:
                try:
                    with one_thread(alone):
                        records = next(parts, None)
                except Exception as error:
                    if not self.keep_going or isinstance(error, StopWork):
                        raise
                    records = failed_records(job, error)  # the generator has ended with it
                if records is not None:
                    yield job, records

    def close(self) -> None:
        """Nothing to stop."""


class StopWork(Exception):
    """Raised inside a job, e.g. by a signal handler, to end the work and not just the job."""


def failed_records(job: Job, error: BaseException) -> list[RunRecord]:
    """Return records that say why a job has no results: status ``"failed: …"``, scores NaN."""
    why = f"failed: {reason(error)}"
    if not isinstance(error, FisherGCNError):
        why = f"failed: {type(error).__name__}: {reason(error)}"
    return [make_record(job.problem, run, {}, status=why) for run in job.runs]


class ProcessExecutor:
    """Runs jobs in worker processes with one thread each.

    A worker that dies is replaced and its job is tried again, three times in all. Jobs are taken from their source only
    as workers need them, and workers stay for the jobs of the next run. A GPU is shared by all workers, at the same
    time where :class:`SharedGPU` can have it.
    """

    def __init__(self, workers: int, *, keep_going: bool = False, device: torch.device | None = None) -> None:
        self.workers = workers
        self.keep_going = keep_going
        self.device = torch.device("cpu") if device is None else device
        self.gpu = self.device.type == "cuda"
        self.shares_gpu = self.gpu and workers > 1
        self._sharing = SharedGPU(self.device.index or 0) if self.shares_gpu else None
        self._folder = new_folder()
        self._problems: dict[str, int] = {}  # how many jobs use the folder of this name
        self._lock = threading.Lock()
        self._alive: set[subprocess.Popen[str]] = set()
        self._idle: list[subprocess.Popen[str]] = []  # those of them that wait for the next run

    def chunk_size(self, problem: Problem) -> int:
        """Return how many runs of a problem make a job: one or, on a GPU, as many as fit in a worker's share of it."""
        return chunk_size(problem, self.device, self.workers)

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[RunRecord]]]:
        """Yield jobs with records as they come."""
        waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        finished: _Answers = queue.SimpleQueue()
        stop = threading.Event()
        threads, taken, whole = list[threading.Thread](), 0, False
        source = iter(jobs)
        most = (1 + (_WAITING_FOR_GPU if self.gpu else _WAITING)) * self.workers

        def start_thread() -> None:
            threads.append(threading.Thread(target=self._serve, args=(waiting, finished, stop), daemon=True))
            threads[-1].start()

        try:
            while self.gpu and len(threads) < self.workers:  # they start while the first job is made ready
                start_thread()
            while True:
                while taken < most and (job := next(source, None)) is not None:
                    waiting.put(job)
                    taken += 1
                    if len(threads) < self.workers:
                        start_thread()
                if taken == 0:
                    whole = True
                    break
                job, result = finished.get()
                if not isinstance(result, list):
                    taken -= 1
                if result is None:
                    continue
                if isinstance(result, BaseException):
                    if not self.keep_going or not isinstance(result, Exception) or isinstance(result, ProcessError):
                        raise result
                    result = failed_records(job, result)
                yield job, result
        finally:
            if not whole:
                stop.set()
            for _ in threads:
                waiting.put(None)
            if whole:
                for each in threads:
                    each.join()
            else:
                self._kill_workers()

    def close(self) -> None:
        """End the workers and remove the shared files."""
        self._kill_workers()
        if self._sharing is not None:
            self._sharing.close()
        remove_folder(self._folder)

    def _kill_workers(self) -> None:
        with self._lock:
            for worker in self._alive:
                worker.kill()
            for worker in self._alive:
                worker.wait()
            self._alive.clear()
            self._idle.clear()

    def _serve(self, waiting: queue.SimpleQueue[Job | None], finished: _Answers, stop: threading.Event) -> None:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if self.gpu and worker is None:
            with contextlib.suppress(FisherGCNError):  # the first job tries again, and says what is wrong
                worker = self._start(stop)
        while (job := waiting.get()) is not None and not stop.is_set():
            passed_on = 0  # lists of records of this job, which yields them again when it is repeated
            try:
                for _ in range(_ATTEMPTS):
                    if worker is None or worker.poll() is not None:
                        worker = self._start(stop)
                    records: list[RunRecord] | None = []
                    for number, records in enumerate(self._ask(worker, job)):
                        if records is None or number >= passed_on:
                            passed_on += 1
                            finished.put((job, records))
                    if records is None or stop.is_set():
                        break
                    worker.wait()
                else:
                    raise FisherGCNError(_how_it_died(None if worker is None else worker.poll()))
            except BaseException as error:  # handed to the caller, who raises it
                finished.put((job, error))
        with self._lock:
            if worker is not None and not stop.is_set():
                self._idle.append(worker)

    def _start(self, stop: threading.Event) -> subprocess.Popen[str]:
        threads = dict.fromkeys((f"{name}_NUM_THREADS" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")), "1")
        with self._lock:
            if stop.is_set():
                raise FisherGCNError("the work was stopped.")
            worker = start_python(
                "fishergcn.execution._worker",
                str(self._folder),
                str(self.device),
                environment=threads if self._sharing is None else threads | self._sharing.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C reaches this process alone, which then ends its workers
            )
            self._alive.add(worker)
        return worker

    def _ask(self, worker: subprocess.Popen[str], job: Job) -> Iterator[list[RunRecord] | None]:
        """Send a job and yield its records as they come, None at the end; nothing more if the worker died."""
        if worker.stdin is None or worker.stdout is None:
            raise AssertionError("workers are started with pipes")
        weights = Path(tempfile.mkdtemp(dir=self._folder)) if job.keep_weights else None
        with self._problem_folder(job) as folder:
            message = {
                "problem": str(folder),
                "runs": [run_to_dict(run) for run in job.runs],
                "weights": None if weights is None else str(weights),
                "measure": measure_name(job.measure),
                "task": dict(job.task),
            }
            with contextlib.suppress(OSError):
                worker.stdin.write(json.dumps(message) + "\n")
                worker.stdin.flush()
                while (line := worker.stdout.readline()).endswith("\n"):
                    answer: dict[str, Any] = json.loads(line)
                    if "error" in answer:
                        raise FisherGCNError(answer["error"])
                    if "records" not in answer:
                        yield None
                        return
                    records = [RunRecord.from_dict(values) for values in answer["records"]]
                    if weights is not None:
                        records = [
                            each.with_arrays(read_arrays(weights / f"{place}.npz"))
                            for place, each in enumerate(records)
                        ]
                    yield records

    @contextlib.contextmanager
    def _problem_folder(self, job: Job) -> Iterator[Path]:
        """Yield the folder of a job's problem, written if it is not there; folders out of use are removed."""
        key = problem_key(job.problem)
        with self._lock:
            if key not in self._problems:
                for old in [name for name, users in self._problems.items() if users == 0]:
                    del self._problems[old]
                    shutil.rmtree(self._folder / old, ignore_errors=True)
                shutil.rmtree(self._folder / key, ignore_errors=True)  # left by a disk that was full
                save_problem(job.problem, self._folder / key)
                self._problems[key] = 0
            self._problems[key] += 1
        try:
            yield self._folder / key
        finally:
            with self._lock:
                self._problems[key] -= 1


def _how_it_died(status: int | None) -> str:
    if status == -signal.SIGKILL:  # which is what Linux does to a process when there is no memory left
        return (
            f"a worker process was killed {_ATTEMPTS} times on the same job, probably for lack of memory; fewer "
            "workers need less, and --dry-run says how much one needs."
        )
    return f"a worker process died {_ATTEMPTS} times on the same job."
