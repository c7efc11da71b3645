"""Loss and all gradients (weights, features, ξ) of every layer, against dense float64 matrices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

pytest.importorskip("torch_geometric")
from pyg_dense import (
    CLASSES,
    FEATURES,
    RANK,
    SAMPLES,
    changes,
    dense_pass,
    deviation,
    graph,
    weigh,
)
from torch import nn
from torch_geometric import nn as pyg

from fishergcn.integrations.pyg import BuresAdversary, NodeAdversary

pytestmark = pytest.mark.filterwarnings("ignore")


class Deep(nn.Module):
    """Two layers, a normalization after each, and jumping knowledge."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.first, self.second, self.norm = pyg.GCNConv(FEATURES, 6), pyg.GCNConv(6, 6), norm
        self.jump, self.out = pyg.JumpingKnowledge("cat"), nn.Linear(12, CLASSES)

    def forward(self, x, edge_index):
        first = self.norm(self.first(x, edge_index)).relu()
        return self.out(self.jump([first, self.norm(self.second(first, edge_index)).relu()]))


def linear() -> nn.Module:
    return nn.Linear(FEATURES, CLASSES)


# Layers of the normalized graph with self-links, which both adversaries enter.
RENORMALIZED: dict[str, Callable[[], nn.Module]] = {
    "GCNConv": lambda: pyg.GCNConv(FEATURES, CLASSES),
    "GCNConv cached": lambda: pyg.GCNConv(FEATURES, CLASSES, cached=True),
    "GCNConv target_to_source": lambda: pyg.GCNConv(FEATURES, CLASSES, flow="target_to_source"),
    "SGConv": lambda: pyg.SGConv(FEATURES, CLASSES, K=3),
    "SSGConv": lambda: pyg.SSGConv(FEATURES, CLASSES, alpha=0.2, K=3),
    "APPNP": lambda: pyg.APPNP(K=7, alpha=0.1),
    "GCN2Conv": lambda: pyg.GCN2Conv(FEATURES, 0.1, 0.5, 2),
    "MixHopConv": lambda: pyg.MixHopConv(FEATURES, CLASSES),
    "GCN": lambda: pyg.GCN(FEATURES, 8, 3, CLASSES),
    "BatchNorm": lambda: Deep(pyg.BatchNorm(6)),
    "GraphNorm": lambda: Deep(pyg.GraphNorm(6)),
    "PairNorm": lambda: Deep(pyg.PairNorm()),
    "InstanceNorm": lambda: Deep(pyg.InstanceNorm(6, affine=True, track_running_stats=True)),
    "LayerNorm": lambda: Deep(pyg.LayerNorm(6)),
    "DiffGroupNorm": lambda: Deep(pyg.DiffGroupNorm(6, 2)),
}
# Others, with the weight of the self-links of their graph.
OTHERS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "GCNConv without self-links": (lambda: pyg.GCNConv(FEATURES, CLASSES, add_self_loops=False), 0),
    "TAGConv": (lambda: pyg.TAGConv(FEATURES, CLASSES), 0),
    "LGConv": (pyg.LGConv, 0),
    "ARMAConv": (lambda: pyg.ARMAConv(FEATURES, CLASSES, num_stacks=2), 0),
    "SAGEConv": (lambda: pyg.SAGEConv(FEATURES, CLASSES), 1),
    "SAGEConv project": (lambda: pyg.SAGEConv(FEATURES, CLASSES, project=True, normalize=True), 1),
    "GraphConv": (lambda: pyg.GraphConv(FEATURES, CLASSES), 1),
    "GINConv": (lambda: pyg.GINConv(linear(), train_eps=True), 1),
    "GatedGraphConv": (lambda: pyg.GatedGraphConv(FEATURES, 2), 1),
    "MFConv": (lambda: pyg.MFConv(FEATURES, CLASSES), 1),
    "ClusterGCNConv": (lambda: pyg.ClusterGCNConv(FEATURES, CLASSES), 1),
    "SimpleConv": (lambda: pyg.SimpleConv(aggr="mean"), 1),
    "GATConv": (lambda: pyg.GATConv(FEATURES, CLASSES, heads=2), 1),
    "GATConv mean of heads": (lambda: pyg.GATConv(FEATURES, CLASSES, heads=2, concat=False), 1),
    "GATv2Conv": (lambda: pyg.GATv2Conv(FEATURES, CLASSES, heads=2), 1),
    "SuperGATConv": (lambda: pyg.SuperGATConv(FEATURES, CLASSES), 1),
    "TransformerConv": (lambda: pyg.TransformerConv(FEATURES, CLASSES, heads=2, beta=True), 1),
    "AGNNConv": (pyg.AGNNConv, 1),
    "FAConv": (lambda: pyg.FAConv(FEATURES), 1),
}
# On a graph whose links have weights.
WEIGHTED: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "GCNConv": (lambda: pyg.GCNConv(FEATURES, CLASSES), 1),
    "GCNConv improved": (lambda: pyg.GCNConv(FEATURES, CLASSES, improved=True), 2),
    "TAGConv": (lambda: pyg.TAGConv(FEATURES, CLASSES), 0),
    "APPNP": (lambda: pyg.APPNP(K=4, alpha=0.2), 1),
}


def check(make, kind, keep: bool, self_links: int = 1, weighted: bool = False, compiled: bool = False) -> None:
    """Compare ``average`` with the mean of dense passes."""
    torch.manual_seed(0)
    data, model = graph(weighted), make().double().train()
    options = {"rank": RANK, "self_links": self_links} if kind is BuresAdversary else {}
    adversary = kind(data, radius=0.6, samples=SAMPLES, **options)
    x = data.x.clone().requires_grad_()
    links = (data.edge_index, data.edge_weight) if weighted else (data.edge_index,)
    inputs = (x, x, *links) if isinstance(model, pyg.GCN2Conv | pyg.FAConv) else (x, *links)
    leaves = [x, adversary.xi, *model.parameters()]
    passes = [dense_pass(model, each) for each in changes(adversary, adversary.xi, data, self_links)]
    wanted = torch.stack([weigh(each(*inputs)) for each in passes]).mean()
    expected = torch.autograd.grad(wanted, leaves, allow_unused=True)
    adversary.attach(model)
    runs = model
    if compiled:
        torch._dynamo.reset()
        state, runs = adversary.get_generator_state(), torch.compile(model, backend="aot_eager")
        adversary.average(lambda: weigh(runs(*inputs)))  # the first pass runs as it is written
        adversary.set_generator_state(state)
    found = adversary.average(lambda: weigh(runs(*inputs)), keep=keep)
    found.backward()
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
    assert deviation([each.grad for each in leaves], list(expected)) < 1e-10
    assert adversary.xi.grad.abs().max() > 0


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", [BuresAdversary, NodeAdversary])
@pytest.mark.parametrize("name", RENORMALIZED)
def test_layers_of_the_renormalized_graph(name, kind, keep) -> None:
    check(RENORMALIZED[name], kind, keep)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_layers_with_other_weights(name, keep) -> None:
    check(OTHERS[name][0], BuresAdversary, keep, OTHERS[name][1])


ON_WEIGHTS = [(name, BuresAdversary) for name in WEIGHTED] + [("GCNConv", NodeAdversary), ("APPNP", NodeAdversary)]


@pytest.mark.parametrize(("name", "kind"), ON_WEIGHTS)
def test_layers_on_weighted_links(name, kind) -> None:
    check(WEIGHTED[name][0], kind, keep=False, self_links=WEIGHTED[name][1], weighted=True)


EVERY = [(name, kind, 1) for name in RENORMALIZED for kind in (BuresAdversary, NodeAdversary)] + [
    (name, BuresAdversary, self_links) for name, (_, self_links) in OTHERS.items()
]


@pytest.mark.slow
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(("name", "kind", "self_links"), EVERY)
def test_compiled_layers(name, kind, self_links, keep) -> None:
    make = RENORMALIZED[name] if name in RENORMALIZED else OTHERS[name][0]
    check(make, kind, keep, self_links, compiled=True)
