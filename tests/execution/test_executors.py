"""Executors: same records everywhere, lazily taken jobs, dead workers, failing jobs."""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import signal
import time
from pathlib import Path

import pytest
import torch

import fishergcn
from fishergcn.errors import FisherGCNError, InputError
from fishergcn.execution import Job, LocalExecutor, ProcessExecutor, StopWork, cut, measure_name
from fishergcn.splits import Split
from fishergcn.training import Run, TrainConfig, parse_method, prepare, train_chunk

TRAIN_CHUNK = "fishergcn.execution._training.train_chunk"


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
        assert found == here(jobs)
    finally:
        executor.close()
    assert len(executor._alive) == 0
    assert not executor._folder.exists()


def test_workers_stay_for_the_next_run_unless_they_die_or_are_stopped(problem, split):
    executor, found = ProcessExecutor(1), []

    def run(count):
        found.append({job.runs[0].seed: bare(records) for job, records in executor.run(jobs_of(problem, split, count))})
        [worker] = executor._idle
        return worker

    try:
        first = run(2)
        assert run(3) is first
        os.kill(first.pid, signal.SIGKILL)
        other = run(2)
        assert other.poll() is None
        assert found == [here(jobs_of(problem, split, count)) for count in (2, 3, 2)]
        stopped = executor.run(jobs_of(problem, split, 4))
        next(stopped)
        stopped.close()
        assert other.poll() is not None
        assert run(2) is not other
    finally:
        executor.close()
    assert (executor._idle, len(executor._alive)) == ([], 0)


def test_workers_of_a_gpu_start_before_the_first_job(problem, split, monkeypatch):
    started = []
    start = ProcessExecutor._start
    monkeypatch.setattr(ProcessExecutor, "_start", lambda *given: started.append(start(*given)) or started[-1])
    executor = ProcessExecutor(2)
    executor.gpu = True  # as if

    def source():
        while len(started) < 2:
            time.sleep(0.01)
        yield from jobs_of(problem, split, 3)

    found = {job.runs[0].seed: bare(records) for job, records in executor.run(source())}
    assert found == here(jobs_of(problem, split, 3))
    assert len(started) == 2
    assert list(executor.run([])) == []
    executor.close()
    assert all(worker.poll() is not None for worker in started)


def test_folders_of_problems_out_of_use_are_removed(problem, split):
    executor = ProcessExecutor(1)
    try:
        for rank in (2, 3, 4):
            other = dataclasses.replace(problem, config=TrainConfig(max_epochs=3, rank=rank))
            with executor._problem_folder(Job(other, ())) as folder:
                assert (folder / "facts.npy").is_file()
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


def test_failed_records_say_what_and_why(problem, split, monkeypatch):
    def broken(*_, **__):
        raise FisherGCNError("it broke.")

    monkeypatch.setattr(TRAIN_CHUNK, broken)
    [(_, [record])] = LocalExecutor(torch.device("cpu"), keep_going=True).run(jobs_of(problem, split, 1))
    assert (record.dataset, record.method, record.split, record.seed) == ("ring", "fishergcn", "mine", 0)
    assert record.status == "failed: it broke"
    assert math.isnan(record.test_accuracy)
    assert fishergcn.RunRecord.from_dict(record.to_dict()).status == record.status


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_failing_job_in_this_process(problem, split, monkeypatch, keep_going):
    def broken(*_, **__):
        raise RuntimeError("no")

    monkeypatch.setattr(TRAIN_CHUNK, broken)
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

    monkeypatch.setattr(TRAIN_CHUNK, stopped)
    with pytest.raises(StopWork):
        list(LocalExecutor(torch.device("cpu"), keep_going=True).run(jobs_of(problem, split, 1)))


def test_a_chunk_too_large_for_the_memory_is_halved(problem, split, monkeypatch):
    sizes = []

    def limited(problem, runs, *rest, **options):
        sizes.append(len(runs))
        if len(runs) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return train_chunk(problem, runs, *rest, **options)

    job = Job(problem, tuple(Run(split, seed) for seed in range(5)))
    monkeypatch.setattr(TRAIN_CHUNK, limited)
    [(_, records)] = LocalExecutor(torch.device("cpu")).run([job])
    assert sizes == [5, 2, 3, 1, 2]
    assert [record.seed for record in records] == [0, 1, 2, 3, 4]


@pytest.fixture
def measure(monkeypatch):
    """Measures in a module that this process finds, and so do its workers."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("parts_measure")


def test_a_measure_may_give_its_records_in_parts(problem, split, measure):
    job = Job(problem, tuple(Run(split, seed) for seed in range(3)), measure=measure.one_by_one, task={"from": 10})
    for executor in (LocalExecutor(torch.device("cpu")), ProcessExecutor(1)):
        try:
            found = [[(record.seed, record.extra) for record in records] for _, records in executor.run([job])]
        finally:
            executor.close()
        assert found == [[(0, {"number": 10})], [(1, {"number": 11})], [(2, {"number": 12})]]


@pytest.mark.parametrize("local", [True, False])
def test_what_a_job_gave_before_it_failed_is_kept(problem, split, measure, local):
    job = Job(problem, tuple(Run(split, seed) for seed in range(3)), measure=measure.broken_after_one)
    executor = LocalExecutor(torch.device("cpu"), keep_going=True) if local else ProcessExecutor(1, keep_going=True)
    try:
        found = [[record.status for record in records] for _, records in executor.run([job])]
    finally:
        executor.close()
    assert found == [["ok"], ["failed: no more"] * 3]


@pytest.mark.slow
def test_a_job_that_is_repeated_gives_no_list_twice(problem, split, measure, tmp_path):
    task = {"from": 0, "dies": str(tmp_path / "died")}  # after its first list, once
    job = Job(problem, tuple(Run(split, seed) for seed in range(2)), measure=measure.one_by_one, task=task)
    executor = ProcessExecutor(1)
    try:
        found = [[record.seed for record in records] for _, records in executor.run([job])]
    finally:
        executor.close()
    assert (tmp_path / "died").exists()
    assert found == [[0], [1]]


def test_cuts_do_not_depend_on_what_is_left(problem, split):
    runs = [Run(split, seed) for seed in range(5)]
    jobs = cut(problem, runs, 2, keep=lambda run: run.seed != 1)
    assert [[run.seed for run in job.runs] for job in jobs] == [[0], [2, 3], [4]]


def test_a_measure_that_others_cannot_import_is_refused():
    with pytest.raises(InputError, match="a function on the top level of a module"):
        measure_name(lambda job, device, on_epoch=None: iter(()))


def test_a_worker_that_the_system_kills_lacked_memory(problem, split, monkeypatch):
    executor = ProcessExecutor(1)
    monkeypatch.setattr(DyingWorker, "poll", lambda _: -signal.SIGKILL)
    monkeypatch.setattr(executor, "_start", lambda stop: DyingWorker())
    monkeypatch.setattr(executor, "_ask", lambda worker, job: iter(()))
    try:
        with pytest.raises(FisherGCNError, match=r"killed 3 times on the same job, probably for lack of memory; fewer"):
            list(executor.run(jobs_of(problem, split, 1)))
    finally:
        executor.close()


@pytest.mark.parametrize(("rows", "wanted"), [(1, 2), (10**9, 1)])
def test_only_a_large_graph_uses_the_threads_of_torch(problem, split, monkeypatch, rows, wanted):
    monkeypatch.setattr("fishergcn._kernels.threads._ROWS_FOR_THREADS", rows)
    seen = []

    def count(job, device, on_epoch=None):
        seen.append(torch.get_num_threads())
        yield []

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        list(LocalExecutor(torch.device("cpu")).run([Job(problem, (Run(split, 0),), measure=count)]))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [wanted]
