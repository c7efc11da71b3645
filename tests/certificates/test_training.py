"""Certified training: its worst case is that of the certificate, and its loss is at least that of every graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fishergcn
from fishergcn.certificates import certify, train_certified
from fishergcn.certificates._training import _WorstCase
from fishergcn.errors import InputError
from fishergcn.splits import Split

NODES = 24
SPLIT = Split("mine", train=np.arange(8), val=np.arange(8, 14), test=np.arange(14, NODES))


@pytest.fixture(scope="module")
def graph():
    rng, labels = np.random.default_rng(2), np.arange(NODES) % 2
    links = np.argwhere(np.triu(rng.random((NODES, NODES)) < 0.15, 1))
    chain = np.stack([np.arange(NODES - 1), np.arange(1, NODES)], axis=1)
    features = rng.random((NODES, 4)) + 0.4 * labels[:, None]
    return fishergcn.Graph.from_edges(np.concatenate([links, chain]), features=features, labels=labels)


def config(hidden):
    return fishergcn.TrainConfig(hidden=hidden, rank=3, max_epochs=40, dropout=0.0, scaling="none")


@pytest.fixture(scope="module", params=[(), (6,)], ids=["one layer", "two layers"])
def trained(graph, request):
    return train_certified(graph, SPLIT, 0.1, config=config(request.param))


def worst(model, radius):
    """Return z and w of all nodes against the class that the model predicts."""
    around = fishergcn.Neighborhood(model.propagation, rank=3, radius=0.0)
    case = _WorstCase(model, around, radius, 0.0, torch.Generator())
    weights = [model.weights[name][0].float() for name in sorted(model.weights)]
    classes = torch.tensor(model.predict())
    plain, moved = case.logits(weights, case.part(np.arange(NODES)), classes)
    return around, plain.detach().numpy(), moved.detach().numpy(), classes.numpy()


def test_the_worst_case_of_one_layer_is_that_of_the_certificate(graph):
    model = train_certified(graph, SPLIT, 0.1, config=config(()))
    around, _, moved, classes = worst(model, 0.1)
    found = certify(model, 0.1, neighborhood=around, bound=None)
    leads = moved.copy()
    leads[np.arange(NODES), classes] = -np.inf
    assert -leads.max(1) == pytest.approx(found.lower, abs=1e-5)


def test_to_first_order_no_graph_is_worse(trained):
    """At a small radius, where the linearized network is the network up to the square of it."""
    radius = 1e-3
    around, plain, moved, classes = worst(trained, radius)
    assert plain == pytest.approx(trained.logits()[:, 0].double().numpy(), abs=1e-5)
    wide = trained.to("cpu", torch.float64)
    rng, highest = np.random.default_rng(0), np.full_like(moved, -np.inf)
    for _ in range(300):
        phi = rng.normal(size=3) / np.sqrt(around.projected_spectrum.numpy())
        step = radius / float(around.distance(torch.as_tensor(1e-3 * phi))) * 1e-3
        out = wide.logits(around.operator(torch.as_tensor(step * phi)))[:, 0].double().numpy()
        highest = np.maximum(highest, out - out[np.arange(NODES), classes][:, None])
    assert (highest <= moved + 1e-4).all()
    assert np.abs(highest - moved).max() < 5e-3  # and it is attained


def test_training_on_the_worst_case_lowers_it(graph):
    """With the same steps, the mean worst lead of training nodes over their own class is lower."""

    def loss(weight):
        model = train_certified(graph, SPLIT, 0.1, config=config(()), weight=weight)
        around = fishergcn.Neighborhood(model.propagation, rank=3, radius=0.0)
        case = _WorstCase(model, around, 0.1, 0.0, torch.Generator())
        weights = [model.weights["weights.0"][0].float()]
        labels = torch.tensor(graph.labels)
        moved = case.logits(weights, case.part(SPLIT.train), labels)[1]
        return float(torch.nn.functional.cross_entropy(moved, labels[SPLIT.train.copy()]))

    assert loss(1.0) < loss(0.0)


def test_bad_input(graph):
    with pytest.raises(InputError, match=r"radius must be at most .*, that of the farthest graph, got 3"):
        train_certified(graph, SPLIT, 3.0, config=config(()))
    with pytest.raises(InputError, match="at most one size for certified training"):
        train_certified(graph, SPLIT, 0.1, config=config((4, 4)))
    with pytest.raises(InputError, match="does not know the setting 'bias'"):
        train_certified(graph, SPLIT, 0.1, config=fishergcn.TrainConfig(bias=True))
