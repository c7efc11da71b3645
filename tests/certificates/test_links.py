"""Certificates over reweighted links against corners and samples of all weights, and dense passes."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from scipy import optimize, sparse

import fishergcn
from fishergcn.certificates import certify_links
from fishergcn.certificates._reweighted import Rows
from fishergcn.errors import InputError
from fishergcn.nn import GCN
from fishergcn.splits import Split

NODES, CLASSES = 16, 3


@cache
def graph():
    """A weighted graph, one node linked to itself, one without links."""
    rng = np.random.default_rng(5)
    links = np.triu(rng.random((NODES, NODES)) < 0.2, 1) * rng.uniform(0.5, 3.0, (NODES, NODES))
    links[2, 2] = 0.7
    links[:, 9] = links[9] = 0.0
    links = links + np.triu(links, 1).T
    return fishergcn.Graph(links, rng.normal(size=(NODES, 4)), np.arange(NODES) % CLASSES)


@cache
def model_of(kind):
    if kind in ("one", "two"):
        generator = torch.Generator().manual_seed(2)
        hidden = () if kind == "one" else (6,)
        network = GCN(4, hidden, CLASSES, generator=generator, dtype=torch.float64, bias=True)
        with torch.no_grad():
            for each in network.biases:
                each.copy_(torch.linspace(-0.1, 0.1, len(each)))
        return fishergcn.TrainedModel.from_network(network, graph(), scaling="none")
    config = {"dtype": "float64", "scaling": "none", "max_epochs": 30, "bias": True}
    config |= {"own_weights": True, "hidden": (5,)} if kind == "own" else {"weight_decay": 0.05}
    split = Split("mine", train=np.arange(8), val=np.arange(8, 11), test=np.arange(11, NODES))
    made = fishergcn.TrainConfig(**config)
    records = fishergcn.train(graph(), "gcn" if kind == "own" else "linear", split, config=made, keep_weights=True)
    return fishergcn.TrainedModel.from_records(graph(), records, split)


def dense_logits(model, links):
    """A pass in NumPy over dense A', degrees included."""
    w, x = links + np.eye(NODES), np.asarray(graph().features, dtype=np.float64)
    matrix = w / np.sqrt(np.outer(w.sum(1), w.sum(1)))
    tensors = {name: each[0].numpy() for name, each in model.weights.items()}
    if model.method.base == "linear":
        inner = matrix @ x @ tensors["weights.2"] + x @ tensors["weights.1"]
        return matrix @ inner + x @ tensors["weights.0"] + tensors["biases.0"]
    for layer in range(model.depth):
        own = x @ tensors[f"own.{layer}"] if f"own.{layer}" in tensors else 0
        x = matrix @ x @ tensors[f"weights.{layer}"] + own + tensors[f"biases.{layer}"]
        x = np.maximum(x, 0) if layer < model.depth - 1 else x
    return x


def margins(logits, classes):
    rest = logits.copy()
    rest[np.arange(len(classes)), classes] = -np.inf
    return logits[np.arange(len(classes)), classes] - rest.max(1)


@pytest.mark.parametrize("kind", ["one", "two", "linear", "own"])
def test_no_sampled_reweighting_is_below_the_bound(kind):
    model, links = model_of(kind), graph().adjacency.toarray()
    rng = np.random.default_rng(1)
    for percent in (2, 15, 60):
        everywhere, alone = certify_links(model, percent), certify_links(model, percent, own=True)
        lowest, nearby = np.full(NODES, np.inf), np.full(NODES, np.inf)
        for at in range(150):
            moved = rng.choice([-1, 1], links.shape) if at % 2 else rng.uniform(-1, 1, links.shape)
            moved = 1 + percent / 100 * (np.triu(moved) + np.triu(moved, 1).T)
            lowest = np.minimum(lowest, margins(dense_logits(model, links * moved), everywhere.classes))
            node = at % NODES
            mask = np.zeros_like(links, dtype=bool)
            mask[node] = mask[:, node] = True
            found = margins(dense_logits(model, np.where(mask, links * moved, links)), alone.classes)[node]
            nearby[node] = min(nearby[node], found)
        assert (everywhere.lower <= lowest).all()
        assert (alone.lower <= nearby).all()
        assert (alone.lower >= everywhere.lower).all()
        assert not (everywhere.certified & (lowest <= 0)).any()


@pytest.mark.parametrize("kind", ["one", "two", "linear", "own"])
@pytest.mark.parametrize("own", [False, True])
def test_broken_nodes_change_class_in_a_dense_pass_within_the_family(kind, own):
    model, links = model_of(kind), graph().adjacency.toarray()
    found = certify_links(model, 60, own=own)
    assert found.broken.any()
    assert found.certified.any()
    for node in found.nodes[found.broken]:
        moved = found.adjacency(node).toarray()
        assert (moved == moved.T).all()
        assert (np.abs(moved - links) <= 0.6 * links + 1e-12).all()
        if own:
            away = np.delete(np.arange(NODES), node)
            assert (moved[np.ix_(away, away)] == links[np.ix_(away, away)]).all()
        logits = dense_logits(model, moved)
        assert logits[node].argmax() != found.classes[node]
        assert margins(logits, found.classes)[node] == pytest.approx(found.upper[node], abs=1e-9)
    counts = found.counts()
    assert sum(counts.values()) == NODES
    assert counts == {name: found.words.count(name) for name in counts}


def test_a_small_step_is_nearly_exact():
    """As x goes to 0, bounds and attacks agree with the slope: both lose a part of the order x² or what is given up."""
    model = model_of("two")
    found = certify_links(model, 1e-6)
    plain = margins(dense_logits(model, graph().adjacency.toarray()), found.classes)
    assert found.lower == pytest.approx(plain, abs=1e-6)
    assert (found.lower < plain).all()


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("shift", [-3.0, 0.0, 0.6, 3.0])
def test_a_row_is_minimized_exactly(half, shift):
    """Against all corners and a general solver from many starts."""
    rng, power = np.random.default_rng(3), 0.5 if half else 1.0
    for _ in range(12):
        low = rng.uniform(0.2, 1.0, 4)
        high, c = low * rng.uniform(1.0, 3.0, 4), rng.normal(size=4) + shift
        rows = Rows(np.array([0, 4]), np.arange(4), low, high)
        found = rows.smallest(c, half=half)[0]

        def ratio(w, c=c):
            return w @ c / w.sum() ** power

        corners = [ratio(np.where(each, high, low)) for each in product([False, True], repeat=4)]
        solved = [
            optimize.minimize(ratio, rng.uniform(low, high), bounds=list(zip(low, high, strict=True)), tol=1e-14).fun
            for _ in range(4)
        ]
        assert found <= min(corners) + 1e-12
        assert found == pytest.approx(min(*corners, *solved), abs=1e-8)


def test_rows_of_several_lengths_and_columns_agree_with_single_ones():
    rng = np.random.default_rng(0)
    matrix = sparse.csr_array(np.abs(rng.normal(size=(9, 9))) * (rng.random((9, 9)) < 0.4) + np.eye(9))
    rows = Rows.of(0.8 * matrix, 1.2 * matrix, np.array([4, 0, 7]))
    values = rng.normal(size=(len(rows.columns), 3))
    together = rows.smallest(values, half=True)
    for row, (first, last) in enumerate(zip(rows.starts[:-1], rows.starts[1:], strict=True)):
        span = slice(first, last)
        alone = Rows(np.array([0, last - first]), rows.columns[span], rows.low[span], rows.high[span])
        assert together[row] == pytest.approx(alone.smallest(values[span], half=True)[0], abs=1e-14)


def test_scaling_all_links_moves_a_mean_not_at_all():
    """c is the same for all neighbors: whatever the weights are, Σ w c / Σ w is c."""
    rows = Rows(np.array([0, 5]), np.arange(5), np.full(5, 0.5), np.full(5, 1.5))
    assert rows.smallest(np.full(5, 0.7), half=False) == pytest.approx([0.7], abs=1e-15)


def test_what_is_not_covered_is_refused_in_a_sentence():
    split = Split("mine", train=np.arange(8), val=np.arange(8, 11), test=np.arange(11, NODES))
    config = fishergcn.TrainConfig(max_epochs=1, hidden=(4, 4))
    for method, settings, words in (
        ("gcn", config, "one or two layers, got 3"),
        ("gcn-t", fishergcn.TrainConfig(max_epochs=1), "reweighted in"),
        ("lp", fishergcn.TrainConfig(max_epochs=1), "trains no network"),
    ):
        records = fishergcn.train(graph(), method, split, config=settings, keep_weights=True)
        with pytest.raises(InputError, match=words):
            certify_links(fishergcn.TrainedModel.from_records(graph(), records, split), 10)
    for percent in (0, 100, "10"):
        with pytest.raises(InputError, match="percent"):
            certify_links(model_of("two"), percent)
    found = certify_links(model_of("two"), 2)
    with pytest.raises(InputError, match="broken, got"):
        found.adjacency(int(found.nodes[found.certified][0]))
