"""The runner in this process: does what is missing, computes shared things once, survives failures."""

from __future__ import annotations

import dataclasses
import os
import signal

import numpy as np
import pytest
import torch

from fishergcn import Graph, studies
from fishergcn.errors import DataFileError, InputError
from fishergcn.execution import Listener, LocalExecutor, train_job
from fishergcn.studies import RunStore, make_plan, open_runs
from fishergcn.studies import _jobs as jobs
from fishergcn.studies._runner import Signals, Stopped

CPU = torch.device("cpu")


class Ear(Listener):
    """A listener that remembers, and may do something at a certain moment."""

    def __init__(self, action=None, after=1):
        self.started_runs = self.epochs = 0
        self.cells = []
        self.action, self.after = action, after

    def begin(self, title, planned, before=()):
        self.before = len(list(before))

    def started(self, name, runs):
        self.started_runs += runs

    def epoch(self, progress):
        self.epochs += 1

    def finished(self, name, records):
        self.cells += [name[1]] * len(records)
        if self.action is not None and len(self.cells) == self.after:
            self.action()


@pytest.fixture(scope="module")
def small():
    return make_plan(studies.load_preset("quick"), splits=2, seeds=2, epochs=2)


def run(plan, folder, **options):
    with studies.run(plan, folder, **{"device": "cpu", "workers": 1, **options}) as runs:
        return runs.counts()


def table(folder):
    return [(name, dataclasses.replace(record, seconds=0.0)) for name, record in open_runs(folder).entries()]


@pytest.fixture(scope="module")
def undisturbed(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run(small, folder) == {"ok": 12}
    return table(folder)


def test_everything_is_run_in_order(small, undisturbed):
    expected = [(cell.name, *key) for cell in small.cells for key in small.runs()]
    assert [(name, record.split, record.seed) for name, record in undisturbed] == expected
    assert {record.epochs for _, record in undisturbed} == {2}
    assert {name for name, record in undisturbed if record.shape} == {"fishergcn"}


def test_a_second_start_has_nothing_to_do(small, tmp_path, monkeypatch):
    run(small, tmp_path)
    monkeypatch.setattr(jobs, "prepare", None)  # not even that
    ear = Ear()
    assert run(small, tmp_path, listener=ear) == {"ok": 12}
    assert (ear.before, ear.started_runs, ear.cells) == (12, 0, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_between_runs_and_the_rest_is_done_later(small, tmp_path, undisturbed, number):
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped:
        run(small, tmp_path, listener=Ear(lambda: os.kill(os.getpid(), number), after=5))
    assert (stopped.value.number, str(stopped.value)) == (number, f"stopped by {signal.Signals(number).name}")
    assert signal.getsignal(number) is before
    with RunStore(tmp_path, writable=False) as store:
        assert store.counts() == {"ok": 5}
    ear = Ear()
    assert run(small, tmp_path, listener=ear) == {"ok": 12}
    assert ear.started_runs == 7
    assert table(tmp_path) == undisturbed


def test_a_signal_within_an_epoch_ends_the_work_and_not_just_the_run(small, tmp_path):
    ear = Ear()
    ear.epoch = lambda progress: os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Stopped):
        run(small, tmp_path, listener=ear)
    with RunStore(tmp_path, writable=False) as store:
        assert store.counts() == {}


def test_a_signal_waits_for_a_write():
    done = []
    with Signals() as signals, pytest.raises(Stopped):  # noqa: PT012
        with signals.held():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("written")
        done.append("not reached")
    assert done == ["written"]


def test_a_second_signal_does_not_break_the_cleaning_up():
    with Signals() as signals:
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Stopped):
            signals.check()


def test_failed_runs_are_recorded_and_tried_again(small, tmp_path, undisturbed):
    def breaking(job, *rest):
        if job.problem.method.name == "gcn-x5" and job.runs[0].seed == 2020:
            raise RuntimeError("out of luck\nmore lines")
        yield from train_job(job, *rest)

    assert run(small, tmp_path, measure=breaking) == {"ok": 10, "failed": 2}
    failed = [(name, record) for name, record in table(tmp_path) if record.status != "ok"]
    assert {(name, record.seed, record.status) for name, record in failed} == {
        ("gcn-x5", 2020, "failed: RuntimeError: out of luck")
    }
    ear = Ear()
    assert run(small, tmp_path, listener=ear) == {"ok": 12}
    assert ear.started_runs == 2
    assert table(tmp_path) == undisturbed


def test_matrix_and_spectrum_are_computed_once(tmp_path):
    ablation = make_plan(studies.load_preset("ablation"), splits=1, seeds=1, epochs=1)
    chosen = [cell for cell in ablation.cells if "link" not in cell.name and "directions" not in cell.name]
    plan = dataclasses.replace(ablation, cells=tuple(chosen))
    problems = []

    def watching(job, *rest):
        problems.append(job.problem)
        yield from train_job(job, *rest)

    assert run(plan, tmp_path, measure=watching) == {"ok": len(chosen)}
    assert len({id(each.propagation) for each in problems}) == 1
    spectra = {id(each.neighborhood.spectrum): each.config.rank for each in problems if each.neighborhood is not None}
    assert sorted(spectra.values()) == [10, 50]


def test_jobs_are_made_as_they_are_taken(tmp_path):
    plan = make_plan(studies.load_preset("quick"), splits=50, seeds=200, epochs=1)
    ear = Ear()
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        missing = iter(jobs.Jobs(plan, store, train_job, LocalExecutor(CPU), ear, "chunk"))
        taken = [next(missing) for _ in range(3)]
    assert ear.started_runs == 3
    assert taken[0].problem is taken[2].problem


def test_where_jobs_share_a_gpu_long_ones_begin_first(tmp_path):
    graphs = [
        Graph.from_edges(
            [(i, (i + 1) % n) for i in range(n)], features=np.eye(n), labels=[i % 2 for i in range(n)], name=f"ring{n}"
        )
        for n in (40, 20, 30)
    ]
    plan = make_plan("table2", datasets=graphs, splits=["per-class:2+3:1"], seeds=1, epochs=1)
    executor = LocalExecutor(CPU)
    executor.shares_gpu = True
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        order = [job.problem for job in jobs.Jobs(plan, store, train_job, executor, Ear(), "chunk")]
    wanted = ["gcn-t-x5", "fishergcn-t", "gcn-t", "gcn-x5", "fishergcn", "gcn"]
    assert [(each.graph.name, each.method.name) for each in order] == [
        ("ring20", "gcn-x5"),  # which need no preparation
        ("ring20", "gcn"),
        *(("ring40", name) for name in wanted),
        *(("ring30", name) for name in wanted),
        *(("ring20", name) for name in ("gcn-t-x5", "fishergcn-t", "gcn-t", "fishergcn")),
    ]
    assert len({id(each.graph) for each in order}) == 3


def test_chunks_stay_as_they_were_cut(small, tmp_path, make_record):
    """What is missing of a chunk is one job; runs of other chunks do not fill it up."""
    cell = small.cells[0]
    with RunStore(tmp_path, writable=True) as store:
        store.begin(small)
        store.add(cell, [make_record(cell, "shuffled:2019", 2019)])
        executor = LocalExecutor(CPU)
        executor.chunk_size = lambda problem: 2
        missing = list(jobs.Jobs(small, store, train_job, executor, Ear(), "chunk"))
    assert [len(job.runs) for job in missing] == [1, 2, 2, 2, 2, 2]


def test_a_second_runner_is_refused(small, tmp_path):
    with pytest.raises(DataFileError, match=rf"another runner \(process {os.getpid()}\)"):
        run(small, tmp_path, listener=Ear(lambda: run(small, tmp_path)))
    assert run(small, tmp_path) == {"ok": 12}  # the lock is free again


def test_other_settings_are_refused(small, tmp_path):
    run(make_plan(studies.load_preset("quick"), methods=["gcn"], splits=1, seeds=1, epochs=1), tmp_path)
    with pytest.raises(DataFileError, match="contains runs with other settings; you asked for: splits"):
        run(small, tmp_path)


def test_a_full_disk_ends_the_work_with_one_sentence(small, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalExecutor, "run", full)
    with pytest.raises(DataFileError, match=r"No space left on device\. Finished runs are saved"):
        run(small, tmp_path)


def test_curves_for_tensorboard(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    plan = make_plan(studies.load_preset("quick"), methods=["gcn"], splits=1, seeds=1, epochs=4)
    run(plan, tmp_path, tensorboard=tmp_path / "tb")
    [record] = open_runs(tmp_path).records()
    events = loader.EventAccumulator(str(tmp_path / "tb" / "cora" / "gcn" / "shuffled-2019-2019"))
    events.Reload()
    for name, values in record.curves.items():
        found = events.Scalars(name)
        assert [event.step for event in found] == [1, 2, 3, 4]
        assert [event.value for event in found] == pytest.approx(values, rel=1e-6)


def test_tensorboard_is_an_extra(small, tmp_path, monkeypatch):
    import sys

    from fishergcn.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"fishergcn\[report\]"):
        run(small, tmp_path / "new", tensorboard=tmp_path / "tb")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be at least 1"),
        ({"device": "tpu"}, "device must be"),
    ],
)
def test_bad_options(small, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        run(small, tmp_path, **options)


def test_a_folder_that_cannot_be_made(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFileError, match="cannot make the folder"):
        run(small, tmp_path / "file" / "runs")
