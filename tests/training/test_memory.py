"""What a training holds, counted from sizes; what will not fit is refused in one sentence with what would."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import fishergcn
from fishergcn import Graph, TrainConfig, datasets, splits
from fishergcn._base.memory import free_memory
from fishergcn.errors import InputError
from fishergcn.splits import Split
from fishergcn.training import Run, Sizes, Trainer, held_bytes, parse_method, prepare

MILLION = Sizes(10**6, 10**7, 1.1e7, 100, 10**7, 10, train=10**4, val=5000, test=5000)
NODES = 400
SPLIT = Split("mine", train=list(range(30)), val=list(range(30, 60)), test=list(range(60, 90)))


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    links = [(i, i + 1) for i in range(NODES - 1)] + rng.integers(NODES, size=(NODES, 2)).tolist()
    return Graph.from_edges(
        [pair for pair in links if pair[0] != pair[1]],
        features=sparse.csr_array((rng.random((NODES, 20)) < 0.3) * 1.0),
        labels=np.arange(NODES) % 3,
    )


@pytest.mark.parametrize("data", ["cora", "citeseer", "pubmed"])
def test_sizes_are_those_of_the_graph(data):
    graph = datasets.load(data)
    split = splits.public(graph)
    sizes = Sizes.of(graph, parse_method("gcn"), TrainConfig(), [split])
    propagation = fishergcn.renormalized(graph.adjacency)
    assert sizes.entries == propagation.nnz
    assert (sizes.stored, sizes.links) == (graph.features.nnz, graph.adjacency.nnz)
    for nodes in (split.train, split.val):
        exact = [nodes]
        for _ in range(2):
            exact.insert(0, np.unique(propagation[exact[0]].indices))
        for found, layer in zip(sizes.reached(len(nodes), 2), exact, strict=True):
            assert 0.5 < found[0] / len(layer) < 2


def test_a_dense_graph_without_features_has_sizes_too():
    graph = Graph.from_edges([(0, 1), (1, 2)], labels=[0, 1, 0])
    sizes = Sizes.of(graph, parse_method("gcn"), TrainConfig())
    assert (sizes.features, sizes.stored, sizes.train) == (3, 3, 3)


@pytest.mark.parametrize("threshold", [1e-4, 1e-2])
def test_the_size_of_the_high_order_matrix_is_estimated(threshold):
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(np.argwhere(np.triu(rng.random((60, 60)) < 0.05, 1)), num_nodes=60)
    config = TrainConfig(threshold=threshold)
    exact = fishergcn.high_order(graph.adjacency, order=config.order, threshold=threshold).nnz
    sizes = Sizes.of(graph, parse_method("gcn-t"), config)
    assert sizes.entries == pytest.approx(exact, rel=0.02)  # of 60 nodes all rows are sampled


@pytest.mark.parametrize("method", ["gcn", "gcn-x5", "fishergcn", "mlp", "gcn-x5-c"])
@pytest.mark.parametrize("bias", [False, True])
def test_whether_a_step_sees_all_nodes_is_known_beforehand(method, bias):
    """Where it does, no more is held if more nodes are learned from."""
    cora = datasets.load("cora")
    split, config = splits.public(cora), TrainConfig(bias=bias, rank=2)
    problem = prepare(cora, parse_method(method), config)
    rows = Trainer(problem, [Run(split, 1)], torch.device("cpu")).train_view.operators[0].shape[1]
    sizes = Sizes.of(cora, problem.method, config, [split])
    more = dataclasses.replace(sizes, train=cora.num_nodes)
    same = held_bytes(sizes, problem.method, config, 1) == held_bytes(more, problem.method, config, 1)
    assert same == (rows == cora.num_nodes)


@given(st.integers(1, 40), st.sampled_from(["gcn", "fishergcn", "gcn-x5-c"]), st.booleans())
def test_more_runs_samples_or_units_hold_more(number, method, gpu):
    method, config = parse_method(method), TrainConfig(samples=number)
    more = dataclasses.replace(config, hidden=(128,))
    held = held_bytes(MILLION, method, config, number, gpu=gpu)
    assert held < held_bytes(MILLION, method, config, number + 1, gpu=gpu)
    assert held < held_bytes(MILLION, method, more, number, gpu=gpu)
    for chosen in (config, dataclasses.replace(config, bias=True)):
        assert held_bytes(MILLION, method, chosen, 1, batches=True) < held_bytes(MILLION, method, chosen, 1)


@given(factor=st.integers(2, 50), method=st.sampled_from(["gcn", "gcn-x3", "fishergcn", "gcn-t", "mlp"]))
def test_memory_grows_with_the_graph_as_its_parts_do(factor, method):
    """A graph of several copies of another holds as many times as much, but for libraries and weights."""
    method, config = parse_method(method), TrainConfig()
    names = ("nodes", "links", "entries", "stored", "train", "val", "test")
    one, two, many = (
        dataclasses.replace(MILLION, **{name: times * getattr(MILLION, name) for name in names})
        for times in (1, 2, factor + 1)
    )
    held = [held_bytes(sizes, method, config, 1) for sizes in (one, two, many)]
    assert held[2] - held[0] == pytest.approx(factor * (held[1] - held[0]), rel=1e-6)
    assert 0 < held[1] - held[0] < held[0]


def test_the_tiles_of_a_high_order_matrix_are_not_all_filled():
    cora, config = datasets.load("cora"), TrainConfig()
    plain, high = (Sizes.of(cora, parse_method(name), config) for name in ("gcn", "gcn-t"))
    assert plain.tile_share == 1.0
    assert high.entries / high.nodes**2 < high.tile_share < 1.0
    full = dataclasses.replace(high, clustered=False)
    assert held_bytes(high, parse_method("gcn-t"), config, 1, gpu=True) < held_bytes(
        full, parse_method("gcn-t"), config, 1, gpu=True
    )


@pytest.mark.parametrize(
    ("triton", "changes"),
    [
        (False, {}),
        (True, {"dtype": "float64"}),
        (True, {"perturbation": "link-drop"}),
        (True, {"directions": "nodes"}),
    ],
)
def test_without_fused_kernels_a_gpu_holds_more(monkeypatch, triton, changes):
    method, config = parse_method("fishergcn"), TrainConfig()
    monkeypatch.setattr("fishergcn._base.backend.usable", lambda _: True)
    fused = held_bytes(MILLION, method, config, 1, gpu=True)
    monkeypatch.setattr("fishergcn._base.backend.usable", lambda _: triton)
    other = dataclasses.replace(config, **changes)
    assert 2 * fused < held_bytes(MILLION, method, other, 1, gpu=True)


def test_a_million_nodes_take_some_gigabytes():
    assert round(held_bytes(MILLION, parse_method("fishergcn"), TrainConfig(), 1) / 1e9) == 3


def test_the_compiled_step_holds_less_than_autograd():
    method, config = parse_method("fishergcn"), TrainConfig()
    compiled = held_bytes(MILLION, method, config, 1)
    with fishergcn.backend("autograd"):
        assert 2 * compiled < held_bytes(MILLION, method, config, 1)


def test_memory_that_is_too_small_is_told_with_what_would_fit(graph, monkeypatch) -> None:
    array = 2 * NODES * 64  # numbers of one sample, 2.3 bytes each at the peak
    monkeypatch.setattr("fishergcn.training._memory.free_memory", lambda: int(2.3 * array * 2.5))
    with pytest.raises(InputError) as raised:
        fishergcn.train(graph, "fishergcn", [SPLIT], config=TrainConfig(rank=3), device="cpu")
    [text] = str(raised.value).splitlines()
    assert "a step of fishergcn on 400 nodes needs about 0.0 GB" in text
    assert "samples=2 or hidden=32 or mini-batches" in text
    for changes in ({"samples": 2}, {"hidden": 32}):
        config = TrainConfig(rank=3, max_epochs=2, **changes)
        [record] = fishergcn.train(graph, "fishergcn", [SPLIT], config=config, device="cpu")
        assert record.status == "ok"


def test_an_unknown_amount_of_memory_stops_nothing(graph, monkeypatch) -> None:
    monkeypatch.setattr("fishergcn.training._memory.free_memory", lambda: None)
    [record] = fishergcn.train(graph, "gcn", [SPLIT], config=TrainConfig(max_epochs=2), device="cpu")
    assert record.status == "ok"


def test_free_memory_is_what_the_system_says() -> None:
    free = free_memory()
    assert free is None or 2**20 < free < 2**50
