"""Awkward graphs and features: each is trained on, or refused with one sentence; and both precisions agree."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph, TrainConfig, train
from fishergcn.errors import FisherGCNError, InputError
from fishergcn.splits import Split

NODES = 12


def links(pairs, num_nodes=NODES, weights=None):
    return Graph.from_edges(pairs, num_nodes=num_nodes, weights=weights).adjacency


def ring(num_nodes=NODES, weights=None):
    return links([(i, (i + 1) % num_nodes) for i in range(num_nodes)], num_nodes, weights)


GRAPHS = {
    "complete": lambda: links([(i, j) for i in range(NODES) for j in range(i)]),
    "complete with self-links": lambda: np.ones((NODES, NODES)),
    "complete bipartite": lambda: links([(i, j) for i in range(6) for j in range(6, 12)]),
    "star": lambda: links([(0, i) for i in range(1, NODES)]),
    "path": lambda: links([(i, i + 1) for i in range(NODES - 1)]),
    "ring": ring,
    "two equal components": lambda: sparse.block_diag([ring(6), ring(6)]),
    "six equal pairs": lambda: links([(i, i + 1) for i in range(0, NODES, 2)]),
    "a single link": lambda: links([(0, 1)]),
    "no link": lambda: sparse.csr_array((NODES, NODES)),
    "isolated nodes": lambda: links([(0, 1), (1, 2), (2, 0)]),
    "self-links only": lambda: sparse.eye_array(NODES),
    "weights of 1e-12": lambda: ring(weights=[1e-12] * NODES),
    "weights of 1e12": lambda: ring(weights=[1e12] * NODES),
    "weights from 1e-12 to 1e12": lambda: ring(weights=np.geomspace(1e-12, 1e12, NODES)),
    "weights of 1e-37": lambda: ring(weights=[1e-37] * NODES),
    "weights of 1e300": lambda: ring(weights=[1e300] * NODES),
}
FEATURES = {
    "random": lambda: np.random.default_rng(0).random((NODES, 4)),
    "sparse": lambda: sparse.csr_array(np.eye(NODES)),
    "all equal": lambda: np.ones((NODES, 4)),
    "all zero": lambda: np.zeros((NODES, 4)),
    "all zero, sparse": lambda: sparse.csr_array((NODES, 4)),
    "one column": lambda: np.arange(NODES, dtype=float)[:, None],
    "no column": lambda: np.zeros((NODES, 0)),
    "rows that sum to zero": lambda: np.tile([1.0, -1.0], (NODES, 2)),
    "tiny": lambda: np.full((NODES, 4), 1e-45),
    "huge": lambda: np.full((NODES, 4), 3e38),
}
METHODS = ("gcn", "fishergcn", "gcn-t", "fishergcn-t")


def fit(adjacency, features, labels, method, **settings):
    graph = Graph(adjacency, features, labels, name="awkward")
    split = Split("s", np.arange(4), np.arange(4, 8), np.arange(8, NODES))
    config = TrainConfig(**({"max_epochs": 4, "hidden": 5, "rank": 2, "stopping": "none"} | settings))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # a division by zero that nobody thought of
        [record] = train(graph, method, split, config=config)
    return record


def check_trains_or_says_why(*arguments, **settings):
    """Train; the record must be sound, or the error one sentence."""
    try:
        record = fit(*arguments, **settings)
    except FisherGCNError as error:
        text = str(error)
        assert "\n" not in text
        assert text.endswith(".")
        assert len(text) > 20
        return text
    if record.status == "diverged":
        return record.status
    assert record.status == "ok"
    assert record.epochs == 4
    assert math.isfinite(record.test_loss)
    assert 0 <= record.test_accuracy <= 1
    assert all(math.isfinite(value) for curve in record.curves.values() for value in curve)
    assert all(math.isfinite(value) for value in record.shape)
    return ""


LABELS = np.arange(NODES) % 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name, method):
    said = check_trains_or_says_why(GRAPHS[name](), FEATURES["random"](), LABELS, method)
    if "fisher" not in method:
        assert said == "", "only the perturbation has a reason to refuse a graph"


@pytest.mark.parametrize("method", ["fishergcn", "gcn-t"])
@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("scaling", ["rows", "none", "columns"])
def test_features(name, method, scaling):
    said = check_trains_or_says_why(ring(), FEATURES[name](), LABELS, method, scaling=scaling)
    if scaling != "none" or name != "huge":  # numbers near the end of float32 may well diverge as they are
        assert said == ""  # without a column, each node gets one of its own


@pytest.mark.parametrize("method", METHODS)
def test_one_class(method):
    said = check_trains_or_says_why(ring(), FEATURES["random"](), np.zeros(NODES, dtype=int), method)
    assert "class" in said or said == ""


@pytest.mark.parametrize("settings", [{"rank": 11}, {"rank": 12}, {"rank": 500}, {"radius": 1e-12}, {"radius": 1e6}])
@pytest.mark.parametrize("name", ["ring", "complete", "star", "two equal components"])
def test_extreme_neighborhoods(name, settings):
    check_trains_or_says_why(GRAPHS[name](), FEATURES["random"](), LABELS, "fishergcn", **settings)


@pytest.mark.parametrize("settings", [{"learning_rate": 1e6}, {"weight_decay": 1e30}, {"learning_rate": 1e-30}])
def test_what_diverges_is_called_so(settings):
    record = fit(ring(), FEATURES["random"](), LABELS, "fishergcn", max_epochs=30, **settings)
    assert record.status in ("ok", "diverged")
    assert math.isfinite(record.test_loss) == (record.status == "ok")


@pytest.mark.parametrize("method", METHODS)
def test_both_precisions_agree(method):
    """Float32 differs from float64 by rounding alone: 2e-5 of the loss after 20 epochs, the same predictions."""
    settings = {"max_epochs": 20, "hidden": 16, "rank": 3}
    single, double = (
        fit(ring(), FEATURES["random"](), LABELS, method, dtype=dtype, **settings) for dtype in ("float32", "float64")
    )
    for name in ("train_loss", "val_loss"):
        assert single.curves[name] == pytest.approx(double.curves[name], rel=2e-5)
    assert single.test_accuracy == double.test_accuracy
    assert single.shape == pytest.approx(double.shape, rel=1e-3)
    assert single.curves["train_loss"] != double.curves["train_loss"], "one of them ran in the other precision"


def test_no_labels_at_all():
    with pytest.raises(InputError, match="no label"):
        fit(ring(), FEATURES["random"](), np.full(NODES, -1), "gcn")
