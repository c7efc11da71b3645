"""The Ray executor: a simulated cluster of two nodes that loses one, and a machine without Ray."""

from __future__ import annotations

import contextlib
import dataclasses
import sys

import pytest

from fishergcn import studies
from fishergcn.errors import FisherGCNError, MissingExtraError
from fishergcn.execution import Job, Listener, measure_name
from fishergcn.execution._jobs import run_to_dict
from fishergcn.execution._ray import RayExecutor, _problem, _problems, _train_arrays
from fishergcn.studies import make_plan, open_runs, run
from fishergcn.training import problem_arrays, problem_key

SMALL = 80 * 2**20  # bytes of shared memory, the least that Ray takes is 75 MB


@pytest.fixture
def plan():
    return make_plan(studies.load_preset("quick"), splits=3, seeds=2, epochs=30)


def table(folder):
    return [(name, dataclasses.replace(record, seconds=0.0)) for name, record in open_runs(folder).entries()]


def test_without_ray_the_extra_is_named(plan, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fishergcn\[cluster\]'"):
        run(plan, tmp_path, cluster="auto")


def test_what_a_node_does(plan, tmp_path):
    """The task itself, without a cluster: problem as bytes, runs and records as JSON."""
    import json

    import fishergcn
    from fishergcn.training import Run, parse_method, prepare

    graph = fishergcn.datasets.load("cora")
    config = fishergcn.TrainConfig(max_epochs=2)
    job = Job(prepare(graph, parse_method("fishergcn"), config), (Run(fishergcn.splits.public(graph), 1),))
    files, key = problem_arrays(job.problem), problem_key(job.problem)
    assert all(array.dtype.kind in "biuf" for array in files.values())
    runs = json.dumps([run_to_dict(run) for run in job.runs])
    what = (measure_name(job.measure), json.dumps(job.task))
    [(answer, [weights])] = _train_arrays(key, files, runs, False, True, *what)
    assert _problem(key, {}) is _problems[key]  # kept: the second task of a cell reads nothing
    [expected] = fishergcn.train(graph, "fishergcn", job.runs[0].split, [1], config)
    [found] = (fishergcn.RunRecord.from_dict(values) for values in json.loads(answer))
    assert dataclasses.replace(found, seconds=0.0) == dataclasses.replace(expected, seconds=0.0)
    shapes = [array.shape for name, array in weights.items() if name.startswith("weights.")]
    assert shapes == [(1433, 64), (64, 7)]


@contextlib.contextmanager
def two_nodes(monkeypatch):
    pytest.importorskip("ray")
    # Ray takes the loopback address for what it is only where it expects no cluster.
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    settings = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": SMALL}
    cluster = Cluster(initialize_head=True, head_node_args={**settings, "include_dashboard": False})
    try:
        second = cluster.add_node(**settings)
        cluster.wait_for_nodes()
        yield cluster, second
    finally:
        cluster.shutdown()


class Remover(Listener):
    """A listener that takes a node away in the middle of the work."""

    def __init__(self, cluster, node, after):
        self.cluster, self.node, self.after = cluster, node, after
        self.finished_runs = self.outstanding = 0

    def started(self, name, runs):
        self.outstanding += runs

    def finished(self, name, records):
        self.finished_runs += len(records)
        self.outstanding -= len(records)
        if self.finished_runs == self.after:
            self.outstanding_then = self.outstanding
            self.cluster.remove_node(self.node, allow_graceful=False)


def test_a_run_that_failed_on_a_node_says_why():
    """Ray's own error says where in its first line, and has what was raised there as its cause."""

    class TaskError(Exception):
        cause = ModuleNotFoundError("No module named 'mine'")

    class Failing:
        def get(self, _):
            raise TaskError("ray::_train_arrays() (pid=1)")

    executor = RayExecutor.__new__(RayExecutor)  # without a cluster
    executor._ray, executor.keep_going = Failing(), False
    with pytest.raises(FisherGCNError, match=r"^a task on the cluster failed: No module named 'mine'\.$"):
        executor._parts(None, None)


@pytest.mark.slow
def test_tasks_import_nothing_from_the_working_folder(plan, tmp_path, monkeypatch):
    """Ray puts the folder in which it is called first on the path of its workers."""
    place = tmp_path / "place"
    place.mkdir()
    for name in ("random", "numpy", "fishergcn", "sitecustomize"):
        (place / f"{name}.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'w').write({name!r})\n")
    with two_nodes(monkeypatch) as (cluster, _):
        monkeypatch.chdir(place)
        assert run(plan, tmp_path / "ray", cluster=cluster.address, device="cpu").counts() == {"ok": 18}
    assert not (tmp_path / "was-run").exists()


@pytest.mark.slow
def test_a_node_is_lost_and_the_table_is_the_same(plan, tmp_path, monkeypatch):
    with two_nodes(monkeypatch) as (cluster, second):
        ear = Remover(cluster, second, after=4)
        assert run(plan, tmp_path / "ray", cluster=cluster.address, device="cpu", listener=ear).counts() == {"ok": 18}
    assert ear.outstanding_then >= 3  # both nodes were at work
    # In processes of their own, as there: in one with a long history BLAS was seen to round a last bit differently.
    assert run(plan, tmp_path / "here", device="cpu", workers=2).counts() == {"ok": 18}
    for (name, there), (other, here) in zip(table(tmp_path / "ray"), table(tmp_path / "here"), strict=True):
        assert name == other
        assert there.to_dict() == here.to_dict()  # field by field, so that a failure names the one that differs
