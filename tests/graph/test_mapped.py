"""Graphs that are mapped: the same content on the memory of files, checked as any other."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import fishergcn
from fishergcn import Graph, TrainConfig, train
from fishergcn.errors import DataFileError, FisherGCNError, InputError
from fishergcn.propagation import renormalized, renormalized_into
from fishergcn.training import BatchSettings


@st.composite
def graphs(draw):
    nodes = draw(st.integers(2, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    links = np.triu(rng.random((nodes, nodes)) < draw(st.floats(0, 0.6)), draw(st.integers(0, 1)))
    weights = np.where(links, rng.random((nodes, nodes)) + 0.1, 0)
    features = {
        "none": lambda: None,
        "dense": lambda: rng.random((nodes, 4)),
        "sparse": lambda: sparse.csr_array((rng.random((nodes, 6)) < 0.3) * 1.0),
    }[draw(st.sampled_from(["none", "dense", "sparse"]))]()
    labels = draw(st.sampled_from([None, rng.integers(-1, 3, nodes)]))
    return Graph(weights + np.triu(weights, 1).T, features, labels, name=draw(st.sampled_from([None, "a"])))


@given(graphs())
def test_arrays_hold_all_of_a_graph(graph):
    again = Graph.from_arrays(graph.to_arrays())
    assert again.digest == graph.digest
    assert (again.name, again.num_links, again.num_classes) == (graph.name, graph.num_links, graph.num_classes)
    assert graph.num_links == 0 or np.shares_memory(again.adjacency.data, graph.adjacency.data)


@given(graphs(), st.data())
def test_arrays_that_are_no_graph_are_refused(graph, data):
    arrays = {name: np.array(array) for name, array in graph.to_arrays().items()}
    name = data.draw(st.sampled_from([each for each in arrays if each.startswith("adjacency") and arrays[each].size]))
    at = data.draw(st.integers(0, arrays[name].size - 1))
    before = arrays[name][at]
    arrays[name][at] = data.draw(st.sampled_from([-1, 0, 1, 7, 2**31 - 1]))
    if arrays[name][at] == before:
        return
    try:
        found = Graph.from_arrays(arrays)
    except FisherGCNError:
        return
    # What was let through is a graph: a weight on the diagonal, say.
    assert Graph(found.adjacency.toarray()).digest == Graph(found.adjacency).digest


@pytest.fixture
def cora(tmp_path):
    graph = fishergcn.datasets.load("cora")
    graph.save(tmp_path / "cora", mapped=True)
    return graph, Graph.load(tmp_path / "cora")


def test_a_folder_is_mapped(cora):
    graph, mapped = cora
    assert mapped == graph
    assert mapped.mapped
    assert not graph.mapped
    assert mapped.class_names == graph.class_names
    with pytest.raises(ValueError, match="read-only"):
        mapped.adjacency.data[0] = 2


def test_a_folder_is_not_replaced(cora, tmp_path):
    with pytest.raises(DataFileError, match="holds other files"):
        cora[0].save(tmp_path / "cora", mapped=True)


@pytest.mark.parametrize("harm", ["missing", "cut", "text", "pickle", "asymmetric", "object"])
def test_a_damaged_folder_is_refused(cora, tmp_path, harm):
    path = tmp_path / "cora" / "adjacency_data.npy"
    if harm == "missing":
        path.unlink()
    elif harm == "cut":
        os.truncate(path, path.stat().st_size - 100)
    elif harm == "text":
        path.write_text("no array")
    elif harm == "pickle":
        np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    elif harm == "object":
        (tmp_path / "cora" / "description.npy").unlink()
    else:
        values = np.load(path)
        values[3] = 2.0
        np.save(path, values)
    with pytest.raises(DataFileError) as raised:
        Graph.load(tmp_path / "cora")
    assert len(str(raised.value).splitlines()) == 1


@given(graphs())
def test_the_renormalized_matrix_in_files_is_the_same_bit_for_bit(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("renormalized")
    found, expected = renormalized_into(graph.adjacency, folder), renormalized(graph.adjacency)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("method", ["gcn", "fishergcn"])
@pytest.mark.parametrize("batches", [None, BatchSettings(64, (5, 5))])
def test_training_on_a_mapped_graph_is_the_same(cora, method, batches):
    graph, mapped = cora
    config = TrainConfig(max_epochs=3, rank=3)
    options = {"config": config, "device": "cpu", "batches": batches}
    [one], [other] = (train(each, method, "public", **options) for each in (graph, mapped))
    assert one.curves == other.curves


_BEYOND = """
import resource, sys
from pathlib import Path
import numpy as np
from fishergcn import Graph, TrainConfig, train
from fishergcn.training import BatchSettings
graph = Graph.load(sys.argv[1])
from fishergcn.splits import Split
split = Split("some", np.arange(50), np.arange(50, 60), [])
options = {"settings": {"max_epochs": 1, "hidden": 8}, "device": "cpu", "batches": BatchSettings(16, (2, 2))}
train(graph, "gcn", split, **options)  # loads kernels
size = sum(path.stat().st_size for path in Path(sys.argv[1]).iterdir())
private = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData"))
limit = private + size // 2  # what is mapped from a file does not count
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
[record] = train(graph, "gcn", split, **options)
print(record.status, size)
try:
    last = graph.num_nodes - 1000
    everywhere = Split("all", np.arange(last), np.arange(last, graph.num_nodes), [])
    train(graph, "gcn-x5", everywhere, settings={"max_epochs": 1, "bias": False}, device="cpu")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of private memory are those of Linux")
def test_a_graph_beyond_memory_trains_in_mini_batches(tmp_path):
    """With private memory for half of the graph: batches are trained, and all at once ends in one sentence."""
    rng = np.random.default_rng(0)
    nodes, links = 60_000, 3_000_000
    pairs = rng.integers(nodes, size=(links, 2))
    half = sparse.csr_array((np.ones(links), tuple(pairs.T)), shape=(nodes, nodes))
    half.data[:] = 1
    features = sparse.csr_array(
        (np.ones(5 * nodes), rng.integers(50, size=5 * nodes), np.arange(0, 5 * nodes + 1, 5)), shape=(nodes, 50)
    )
    graph = Graph(half, features, np.arange(nodes) % 3, name="large", directed="symmetrize")
    graph.save(tmp_path / "large", mapped=True)
    command = [sys.executable, "-c", _BEYOND, str(tmp_path / "large")]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trained, refused = done.stdout.splitlines()
    assert trained.startswith("ok")
    assert refused.startswith("InputError there is not enough memory to train gcn-x5 on large")


def test_arrays_of_other_types_are_refused():
    arrays = Graph.from_edges([(0, 1)]).to_arrays()
    for name, wrong in (("adjacency_data", np.float32), ("adjacency_indices", np.int16)):
        with pytest.raises(InputError, match="adjacency must hold float64"):
            Graph.from_arrays({**arrays, name: arrays[name].astype(wrong)})
