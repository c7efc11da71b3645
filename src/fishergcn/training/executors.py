"""Executors on this machine: in this process, or in several worker processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

import fishergcn
from fishergcn._npz import read_arrays
from fishergcn.errors import FisherGCNError
from fishergcn.training.engine import Progress, train_chunk
from fishergcn.training.jobs import Job, problem_key, run_to_dict, save_problem
from fishergcn.training.records import RunRecord

__all__ = ["LocalExecutor", "ProcessExecutor"]

_ATTEMPTS = 3


class LocalExecutor:
    """Runs jobs one after the other in this process; on the CPU with one thread.

    On matrices of this size two threads are often slower than one; several processes are the way to use several cores.
    """

    def __init__(self, device: torch.device, on_epoch: Callable[[Progress], None] | None = None) -> None:
        self.device = device
        self.on_epoch = on_epoch

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[RunRecord]]]:
        """Yield each job with its records, in order."""
        for job in jobs:
            with _one_thread(self.device):
                records = train_chunk(
                    job.problem, job.runs, self.device, keep_weights=job.keep_weights, on_epoch=self.on_epoch
                )
            yield job, records

    def close(self) -> None:
        """Nothing to stop."""


@contextlib.contextmanager
def _one_thread(device: torch.device) -> Iterator[None]:
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class ProcessExecutor:
    """Runs jobs on the CPU in worker processes with one thread each.

    A worker that dies is replaced and its job is tried again, three times in all.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._folder = Path(tempfile.mkdtemp(prefix="fishergcn-"))
        self._problems: dict[str, Path] = {}
        self._lock = threading.Lock()
        self._alive: set[subprocess.Popen[str]] = set()

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[RunRecord]]]:
        """Yield each job with its records as it finishes."""
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        finished: queue.SimpleQueue[tuple[Job, list[RunRecord] | BaseException]] = queue.SimpleQueue()
        count = 0
        for job in jobs:
            waiting.put(job)
            count += 1
        stop = threading.Event()
        threads = [
            threading.Thread(target=self._serve, args=(waiting, finished, stop), daemon=True)
            for _ in range(min(self.workers, count))
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in range(count):
                job, result = finished.get()
                if isinstance(result, BaseException):
                    raise result
                yield job, result
        finally:
            stop.set()
            self._kill_workers()

    def close(self) -> None:
        """End the workers and remove the shared files."""
        self._kill_workers()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill_workers(self) -> None:
        with self._lock:
            for worker in self._alive:
                worker.kill()
            for worker in self._alive:
                worker.wait()
            self._alive.clear()

    def _serve(
        self,
        waiting: queue.SimpleQueue[Job],
        finished: queue.SimpleQueue[tuple[Job, list[RunRecord] | BaseException]],
        stop: threading.Event,
    ) -> None:
        worker: subprocess.Popen[str] | None = None
        while not stop.is_set():
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                for attempt in range(1, _ATTEMPTS + 1):
                    if worker is None or worker.poll() is not None:
                        worker = self._start(stop)
                    answer = self._ask(worker, job)
                    if answer is not None or stop.is_set():
                        break
                    worker.wait()
                    if attempt == _ATTEMPTS:
                        raise FisherGCNError(f"a worker process died {_ATTEMPTS} times on the same job.")
                if answer is None:
                    break
                finished.put((job, answer))
            except BaseException as error:  # handed to the caller, who raises it
                finished.put((job, error))
        if worker is not None and worker.stdin is not None:
            with contextlib.suppress(OSError):
                worker.stdin.close()

    def _start(self, stop: threading.Event) -> subprocess.Popen[str]:
        source = str(Path(fishergcn.__file__).resolve().parents[1])
        paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
        threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")}
        with self._lock:
            if stop.is_set():
                raise FisherGCNError("the work was stopped.")
            worker = subprocess.Popen(
                [sys.executable, "-m", "fishergcn.training._worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,  # Ctrl-C reaches this process alone, which then ends its workers
            )
            self._alive.add(worker)
        return worker

    def _ask(self, worker: subprocess.Popen[str], job: Job) -> list[RunRecord] | None:
        """Send a job and wait for its records; None if the worker died."""
        if worker.stdin is None or worker.stdout is None:
            raise AssertionError("workers are started with pipes")
        weights = Path(tempfile.mkdtemp(dir=self._folder)) if job.keep_weights else None
        message = {
            "problem": str(self._problem_folder(job)),
            "runs": [run_to_dict(run) for run in job.runs],
            "weights": None if weights is None else str(weights),
        }
        try:
            worker.stdin.write(json.dumps(message) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except OSError:
            return None
        if not line.endswith("\n"):
            return None
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise FisherGCNError(answer["error"])
        records = [RunRecord.from_dict(values) for values in answer["records"]]
        if weights is None:
            return records
        return [_with_weights(record, weights / f"{index}.npz") for index, record in enumerate(records)]

    def _problem_folder(self, job: Job) -> Path:
        key = problem_key(job.problem)
        with self._lock:
            if key not in self._problems:
                folder = self._folder / key
                save_problem(job.problem, folder)
                self._problems[key] = folder
        return self._problems[key]


def _with_weights(record: RunRecord, path: Path) -> RunRecord:
    arrays = read_arrays(path)
    return dataclasses.replace(record, weights=tuple(arrays[f"arr_{layer}"] for layer in range(len(arrays))))
