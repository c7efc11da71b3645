"""Label propagation against its closed form, the majority class against counts, and both as runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from fishergcn import Graph, TrainConfig, train
from fishergcn.operators import SparseMatrix
from fishergcn.propagation import normalized_adjacency
from fishergcn.splits import Split
from fishergcn.training import BatchSettings, parse_method

LP, MAJORITY = parse_method("lp"), parse_method("majority")
NODES = 60


@pytest.fixture(scope="module")
def graph():
    """Three classes, links mostly within them, two nodes that no link reaches; no features."""
    rng = np.random.default_rng(0)
    labels = np.arange(NODES) % 3
    links = np.triu(rng.random((NODES, NODES)) < np.where(labels[:, None] == labels, 0.2, 0.01), 1) * 1.0
    links[:, 58:] = 0
    return Graph(links + links.T, labels=labels, name="planted")


SPLITS = [
    Split("few", np.arange(6), np.arange(6, 20), np.arange(20, 60)),
    Split("uneven", np.array([0, 3, 6, 9, 1, 2]), np.arange(10, 20), np.arange(20, 60)),
]


def shares(labels, train):
    counts = np.bincount(labels[train], minlength=3) + 1.0
    return counts / counts.sum()


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
def test_label_propagation_is_its_closed_form(graph, split):
    adjacency = graph.adjacency.toarray()
    degrees = adjacency.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degrees), out=np.zeros(NODES), where=degrees > 0)
    given = np.zeros((NODES, 3))
    given[split.train, graph.labels[split.train]] = 1.0
    spread = 0.1 * np.linalg.solve(np.eye(NODES) - 0.9 * scale[:, None] * adjacency * scale, given)
    sums = spread.sum(axis=1, keepdims=True)
    prior = np.broadcast_to(shares(graph.labels, split.train), spread.shape)
    expected = 0.999 * np.divide(spread, sums, out=prior.copy(), where=sums > 0) + 0.001 * prior

    operator = SparseMatrix.from_scipy(normalized_adjacency(graph.adjacency))
    others = [each.train for each in SPLITS]
    found = LP.rule.log_probabilities(operator, graph.labels, [split.train, *others], 3).exp()
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-4)  # 100 steps: 0.9^100 is 3e-5
    np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found[58:, 0], prior[58:], rtol=1e-12)  # nothing reaches them
    [own] = [at for at, each in enumerate(SPLITS, start=1) if each is split]
    assert torch.equal(found[:, 0], found[:, own])  # runs side by side do not touch each other


def test_the_most_frequent_class(graph):
    operator = SparseMatrix.from_scipy(normalized_adjacency(graph.adjacency))
    found = MAJORITY.rule.log_probabilities(operator, graph.labels, [split.train for split in SPLITS], 3).exp()
    for run, split in enumerate(SPLITS):
        np.testing.assert_allclose(found[:, run], np.tile(shares(graph.labels, split.train), (NODES, 1)))
    assert set(found[:, 1].argmax(-1).tolist()) == {0}


@pytest.mark.parametrize("batches", [None, BatchSettings(4, (3, 3))])
def test_they_are_runs_like_others(graph, batches, recwarn):
    records = train(graph, ["lp", "majority"], SPLITS, 2, device="cpu", keep_weights=True, batches=batches)
    assert not any("no features" in str(each.message) for each in recwarn)
    assert [(record.method, record.split, record.seed) for record in records[:2]] == [
        ("lp", "few", 2019),
        ("lp", "few", 2020),
    ]
    for record in records:
        assert (record.status, record.epochs, record.curves, record.shape) == ("ok", 0, {}, [])
        assert record.test_loss == record.test_cross_entropy
        assert all(math.isfinite(getattr(record, f"{part}_macro_f1")) for part in ("val", "test"))
        assert record.config == TrainConfig.named("general").to_dict()
    assert records[0].test_accuracy > 0.8
    majority = records[6]
    expected = (graph.labels[SPLITS[1].test] == 0).mean()
    assert (majority.split, majority.test_accuracy) == ("uneven", pytest.approx(expected))
    assert majority.test_balanced_accuracy == pytest.approx(1 / 3)
    np.testing.assert_array_equal(records[0].weights["train"], SPLITS[0].train)
    assert records[0].test_accuracy == records[1].test_accuracy  # whatever the seed


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
def test_their_cross_entropy_is_calibrated_like_that_of_networks(graph, split):
    spread, same = train(graph, ["lp", "majority"], split, device="cpu")
    assert spread.extra["val_calibrated_cross_entropy"] < spread.val_cross_entropy
    logits = np.log(shares(graph.labels, split.train))
    best = min(
        -np.mean(log_softmax(logits / temperature)[graph.labels[split.val]])
        for temperature in 2 ** np.linspace(-3, 3, 33)
    )
    assert same.extra["val_calibrated_cross_entropy"] == pytest.approx(best)


def test_without_test_nodes(graph):
    split = Split("no-test", np.arange(6), np.arange(6, 20), np.empty(0, dtype=np.int64))
    [record] = train(graph, "lp", split)
    assert math.isnan(record.test_accuracy)
    assert record.val_accuracy > 0.5


def test_workers_give_the_same(graph):
    alone, two = (
        train(graph, ["lp", "majority"], SPLITS, device="cpu", workers=workers, keep_weights=True) for workers in (1, 2)
    )
    for one, other in zip(alone, two, strict=True):
        assert (one.identity, one.test_loss, one.val_macro_f1) == (other.identity, other.test_loss, other.val_macro_f1)
        np.testing.assert_array_equal(one.weights["train"], other.weights["train"])
