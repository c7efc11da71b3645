"""Executors: same records everywhere, lazily taken jobs, dead workers, failing jobs."""

from __future__ import annotations

import dataclasses
import math
import os
import signal

import pytest
import torch

import fishergcn
from fishergcn.errors import FisherGCNError
from fishergcn.execution import _training
from fishergcn.execution._executors import LocalExecutor, ProcessExecutor, StopWork, failed_records
from fishergcn.execution._jobs import Job
from fishergcn.splits import Split
from fishergcn.training import Run, TrainConfig
from fishergcn.training._methods import parse_method
from fishergcn.training._problem import prepare


@pytest.fixture(scope="module")
def problem():
    edges = [(node, (node + step) % 30) for node in range(30) for step in (1, 7)]
    ring = fishergcn.Graph.from_edges(
        edges, features=torch.eye(30).numpy(), labels=[node % 3 for node in range(30)], name="ring"
    )
    return prepare(ring, parse_method("fishergcn"), TrainConfig(max_epochs=3, rank=4))


@pytest.fixture(scope="module")
def split():
    return Split("mine", list(range(9)), list(range(9, 18)), list(range(18, 30)))


def jobs_of(problem, split, count):
    return [Job(problem, (Run(split, seed),)) for seed in range(count)]


def bare(records):
    return [dataclasses.replace(record, seconds=0.0) for record in records]


def here(jobs):
    return {job.runs[0].seed: bare(records) for job, records in LocalExecutor(torch.device("cpu")).run(jobs)}


def test_jobs_are_taken_as_they_are_needed_and_a_dead_worker_is_replaced(problem, split):
    jobs = jobs_of(problem, split, 12)
    taken = []

    def source():
        for job in jobs:
            taken.append(job)
            yield job

    executor = ProcessExecutor(1)
    try:
        results = executor.run(source())
        found = {}
        job, records = next(results)
        found[job.runs[0].seed] = bare(records)
        assert len(taken) == 2  # one in work, one waiting
        [worker] = executor._alive
        os.kill(worker.pid, signal.SIGKILL)
        for job, records in results:
            found[job.runs[0].seed] = bare(records)
        assert len(executor._alive) == 0
        assert found == here(jobs)
    finally:
        executor.close()
    assert not executor._folder.exists()


def test_folders_of_problems_out_of_use_are_removed(problem, split):
    executor = ProcessExecutor(1)
    try:
        for rank in (2, 3, 4):
            other = dataclasses.replace(problem, config=TrainConfig(max_epochs=3, rank=rank))
            with executor._problem_folder(Job(other, ())) as folder:
                assert (folder / "problem.json").is_file()
                assert [path.name for path in executor._folder.iterdir()] == [folder.name]
            with executor._problem_folder(Job(other, ())) as again:
                assert again == folder
    finally:
        executor.close()


class DyingWorker:
    """Stands for a process that dies with every job."""

    def __init__(self):
        self.stdin = self.stdout = None

    def poll(self):
        return 1

    def wait(self):
        return 1

    def kill(self):
        pass


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_job_that_kills_every_worker(problem, split, monkeypatch, keep_going):
    executor = ProcessExecutor(2, keep_going=keep_going)
    starts = []
    monkeypatch.setattr(executor, "_start", lambda stop: starts.append(1) or DyingWorker())
    monkeypatch.setattr(executor, "_ask", lambda worker, job: iter(()))
    jobs = jobs_of(problem, split, 3)
    try:
        if keep_going:
            found = [record for _, records in executor.run(jobs) for record in records]
            assert {record.seed for record in found} == {0, 1, 2}
            assert {record.status for record in found} == {"failed: a worker process died 3 times on the same job"}
            assert len(starts) == 9
        else:
            with pytest.raises(FisherGCNError, match="died 3 times"):
                list(executor.run(jobs))
    finally:
        executor.close()


def test_failed_records_say_what_and_why(problem, split):
    [record] = failed_records(jobs_of(problem, split, 1)[0], FisherGCNError("it broke."))
    assert (record.dataset, record.method, record.split, record.seed) == ("ring", "fishergcn", "mine", 0)
    assert record.status == "failed: it broke"
    assert math.isnan(record.test_accuracy)
    assert fishergcn.RunRecord.from_dict(record.to_dict()).status == record.status


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_failing_job_in_this_process(problem, split, monkeypatch, keep_going):
    def broken(*_, **__):
        raise RuntimeError("no")

    monkeypatch.setattr(_training, "train_chunk", broken)
    executor = LocalExecutor(torch.device("cpu"), keep_going=keep_going)
    if keep_going:
        [(_, [record])] = executor.run(jobs_of(problem, split, 1))
        assert record.status == "failed: RuntimeError: no"
    else:
        with pytest.raises(RuntimeError, match="no"):
            list(executor.run(jobs_of(problem, split, 1)))


def test_stopping_is_not_a_failure(problem, split, monkeypatch):
    def stopped(*_, **__):
        raise StopWork

    monkeypatch.setattr(_training, "train_chunk", stopped)
    with pytest.raises(StopWork):
        list(LocalExecutor(torch.device("cpu"), keep_going=True).run(jobs_of(problem, split, 1)))


def test_a_chunk_too_large_for_the_memory_is_halved(problem, split, monkeypatch):
    real, sizes = _training.train_chunk, []

    def limited(problem, runs, *rest, **options):
        sizes.append(len(runs))
        if len(runs) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(problem, runs, *rest, **options)

    job = Job(problem, tuple(Run(split, seed) for seed in range(5)))
    monkeypatch.setattr(_training, "train_chunk", limited)
    [(_, records)] = LocalExecutor(torch.device("cpu")).run([job])
    assert sizes == [5, 2, 3, 1, 2]
    assert [record.seed for record in records] == [0, 1, 2, 3, 4]
