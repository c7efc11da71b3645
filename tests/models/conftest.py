"""Models that know no two things in the same way, on one small graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph, TrainConfig, TrainedModel, train
from fishergcn.models import Ensemble
from fishergcn.nn import Network, Parameter, register, unregister
from fishergcn.splits import Split

NODES = 60
SPLIT = Split("mine", np.arange(24), np.arange(24, 40), np.arange(40, 60))
#: Method and settings by a short name.
KINDS = {
    "gcn": ("gcn", {"scaling": "rows", "bias": True}),
    "deep": ("gcn", {"hidden": (6, 5), "own_weights": True, "norm": "layer", "scaling": "columns", "bias": True}),
    "batch norm": ("gcn", {"hidden": (6, 5), "own_weights": True, "norm": "batch", "scaling": "rows", "bias": True}),
    "gcn-t": ("gcn-t", {"scaling": "none", "order": 3, "threshold": 1e-2}),
    "sage": ("sage", {"scaling": "none", "bias": True}),
    "mlp": ("mlp", {"scaling": "columns", "bias": True}),
    "linear": ("linear", {"scaling": "none", "bias": True, "weight_decay": 0.1}),
    "lp": ("lp", {}),
    "mlp, links": ("mlp", {"links_as_features": True, "scaling": "rows"}),
    "gcn, links": ("gcn", {"links_as_features": True, "scaling": "none"}),
}


class Skipping(Network):
    """A network of one's own: P (X W) + X V, with a product that no other network has."""

    name, title, summary, matrix = "skipping", "a network of mine", "skips a step", "renormalized"

    def parameters(self, inputs, classes, config):
        return {"weights.0": Parameter((inputs, classes)), "own.0": Parameter((inputs, classes), stream=1)}

    def widths(self, classes, config):
        return (classes, classes)

    def sees_itself(self, config):
        return True

    def logits(self, weights, view, config, dropout=None, *, once=False):
        entering = view.enter(torch.cat([weights["weights.0"], weights["own.0"]], dim=2), dropout)
        once_more = view.propagate(0, entering, own=True)
        return view.propagate(1, once_more)


def ring(seed: int = 0) -> Graph:
    """A ring with chords of different weights, so that a node sees a part of it; self-links; words and numbers."""
    rng = np.random.default_rng(seed)
    labels = np.arange(NODES) // 4 % 3
    links = {(node, (node + step) % NODES): 1.0 for node in range(NODES) for step in (1, 2)}
    links |= {(node, (node + 5) % NODES): 0.5 + node % 3 for node in range(0, NODES, 4)} | {(3, 3): 2.0, (50, 50): 1.0}
    words = (rng.random((NODES, 7)) < np.where(np.eye(3, 7)[labels] > 0, 0.7, 0.15)) * 1.0
    features = np.column_stack([words, rng.gamma(2.0, 1.0, NODES) + labels])
    return Graph.from_edges(
        list(links), weights=list(links.values()), features=sparse.csr_array(features), labels=labels, name="ring",
        node_ids=[f"n{node}" for node in range(NODES)], class_names=["red", "green", "blue"],
        feature_names=[*(f"word {letter}" for letter in "abcdefg"), "age"],
    )  # fmt: skip


@pytest.fixture(scope="package")
def graph() -> Graph:
    return ring()


@pytest.fixture(scope="module", autouse=True)
def _own_network():
    """The network is known in these modules alone: other processes that tests start could not import it."""
    register(Skipping())
    yield
    unregister("skipping")


@pytest.fixture(scope="package")
def kinds(graph) -> dict[str, TrainedModel]:
    """Each kind trained a little, in float64, then all of them but the own network as an ensemble."""
    found = {}
    register(Skipping())  # before the fixture of the module does
    for name, (method, settings) in {**KINDS, "own": ("skipping", {"scaling": "none"})}.items():
        config = TrainConfig(**{"max_epochs": 25, "hidden": 8, **settings})
        records = train(graph, method, SPLIT, config=config, device="cpu", keep_weights=True)
        found[name] = TrainedModel.from_records(graph, records, SPLIT).to("cpu", torch.float64)
    members = [found[name] for name in KINDS]
    shares = np.arange(1, len(members) + 1) / sum(range(1, len(members) + 1))
    found["ensemble"] = Ensemble.from_models(members, shares.tolist(), np.linspace(0.6, 1.5, len(members)).tolist())
    return found
