"""Processes of one machine share one copy of the graph: what counts is proportional memory, as Linux tells it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph, TrainConfig
from fishergcn.execution import save_problem, shared_arrays, shared_graph
from fishergcn.training import parse_method, prepare, problem_arrays

NODES, LINKS = 40_000, 2_500_000
pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells memory by processes")

# Maps a problem, trains an epoch, and holds it; tells how much of the files it has, and its proportional part of that.
_HOLD = """
import sys
from pathlib import Path
import numpy as np, torch
from fishergcn.execution import load_problem
from fishergcn.splits import Split
from fishergcn.training import Run, Trainer
torch.set_num_threads(1)
problem = load_problem(Path(sys.argv[1]))
split = Split("some", np.arange(20), np.arange(20, 40), [])
trainer = Trainer(problem, [Run(split, 0)], torch.device("cpu"))
trainer.epoch(0)
for _ in sys.stdin:
    found, inside = {"Rss": 0, "Pss": 0}, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        inside = sys.argv[1] in line if " " in name else inside  # the head of a mapping names its file
        if inside and name in found:
            found[name] += 1024 * int(rest.split()[0])
    print(found["Rss"], found["Pss"], flush=True)
"""


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    pairs = rng.integers(NODES, size=(LINKS, 2))
    half = sparse.csr_array((np.ones(LINKS), tuple(pairs.T)), shape=(NODES, NODES))
    half.data[:] = 1
    columns = rng.integers(200, size=40 * NODES)
    features = sparse.csr_array(
        (np.ones(len(columns)), columns, np.arange(0, len(columns) + 1, 40)), shape=(NODES, 200)
    )
    return Graph(half, features, np.arange(NODES) % 3, name="large", directed="symmetrize")


class Holder:
    def __init__(self, folder: Path) -> None:
        paths = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", _HOLD, str(folder)], env=os.environ | paths, **pipes)

    def memory(self) -> tuple[int, ...]:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return tuple(map(int, self.process.stdout.readline().split()))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.mark.parametrize(("method", "hidden"), [("gcn", 4), pytest.param("gcn-x2-c", 2, marks=pytest.mark.slow)])
def test_two_workers_count_the_graph_once(graph, tmp_path, method, hidden):
    config = TrainConfig(hidden=hidden, scaling="none", max_epochs=1)
    problem = prepare(graph, parse_method(method), config)
    save_problem(problem, tmp_path / "problem")
    size = sum(path.stat().st_size for path in (tmp_path / "problem").iterdir())
    first = Holder(tmp_path / "problem")
    try:
        first.memory()
        second = Holder(tmp_path / "problem")
        try:
            second.memory()
            (has, part), (other_has, other_part) = first.memory(), second.memory()
        finally:
            second.close()
    finally:
        first.close()
    # Both have most of it in memory, and together they count it once.
    assert size > 1.5e8
    assert min(has, other_has) > 0.3 * size
    assert part + other_part < 0.6 * (has + other_has)


def test_a_problem_travels_without_copies(graph):
    problem = prepare(graph, parse_method("gcn"), TrainConfig(scaling="none"))
    arrays = problem_arrays(problem)
    for name, array in (("graph_adjacency_data", graph.adjacency.data), ("scaled", graph.features.data)):
        assert np.shares_memory(arrays[name], array)


@pytest.fixture
def two_processes(monkeypatch, tmp_path):
    """The environment of a process that torchrun started, by its number."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))

    def set_rank(rank: int) -> None:
        for name, value in {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_PORT": 29500}.items():
            monkeypatch.setenv(name, str(value))

    return set_rank


def test_the_first_process_makes_and_the_second_maps(two_processes, tmp_path):
    two_processes(0)
    first = shared_arrays("numbers", lambda: {"a": np.arange(5)})
    two_processes(1)
    second = shared_arrays("numbers", lambda: pytest.fail("it was made twice"))
    assert first["a"].tolist() == second["a"].tolist() == [0, 1, 2, 3, 4]
    [folder] = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0  # for this user alone
    pair = Graph.from_edges([(0, 1)], name="pair")
    two_processes(0)
    assert shared_graph("graph", lambda: pair).mapped
    two_processes(1)
    assert shared_graph("graph", lambda: pytest.fail("it was loaded twice")) == pair


def test_a_process_alone_writes_no_file(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    pair = Graph.from_edges([(0, 1)])
    assert shared_graph("pair", lambda: pair) is pair
    assert shared_arrays("numbers", lambda: {"a": np.arange(3)})["a"].tolist() == [0, 1, 2]
    assert not list(tmp_path.iterdir())


def test_what_fails_leaves_nothing_behind(two_processes, tmp_path):
    two_processes(0)
    with pytest.raises(ZeroDivisionError):
        shared_arrays("numbers", lambda: {"a": np.zeros(1 // 0)})
    assert not list(tmp_path.iterdir())
