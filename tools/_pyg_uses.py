"""Layers and uses of the add-on for PyTorch Geometric, each against a dense computation, trained, or refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from _pyg_data import (
    hetero,
    homogeneous,
    of_weights,
    random_nodes,
    several_graphs,
    sparse_features,
    stale_spectrum,
    to_hetero,
)
from _pyg_dense import CLASSES, RANK, WIDTH, dense_copy, dense_correction, graph
from _pyg_running import (
    checkpoints,
    compiled,
    converted_adversary,
    copied_model,
    evaluation_mode,
    nested,
    normalized,
    on_features,
    one_by_one,
    precision,
    processes,
    reentrant_checkpoints,
    reversible,
    threads,
    trains,
    wrong_numbers,
)
from torch import nn
from torch_geometric import nn as pyg

from fishergcn.errors import InputError
from fishergcn.integrations.pyg import BuresAdversary

DOUBLE, SINGLE, HALF = 1e-11, 2e-5, 5e-2  # largest deviation that rounding may make in each precision


class Use(NamedTuple):
    """A row of the table: what, the group it is listed in, what comes out, and the function that finds it."""

    name: str
    group: str
    verdict: str  # exact, trains or refused
    limit: float
    find: Callable[[], float | None]


def deviation(make: Callable[[], nn.Module], self_links: int, extra: bool) -> Callable[[], float]:
    """Return the largest deviation of a layer's perturbed output."""

    def find() -> float:
        torch.manual_seed(0)
        data, layer = graph(), make().double()
        fresh = copy.deepcopy(layer)  # some layers keep what cannot be copied after a pass
        inputs = (data.x, data.x, data.edge_index) if extra else (data.x, data.edge_index)
        if self_links == 2:  # PyG gives self-links another weight only where links have weights
            data.edge_weight = torch.ones(data.num_edges, dtype=torch.float64)
            inputs += (data.edge_weight,)
        adversary = BuresAdversary(data, RANK, 1.0, self_links=self_links)
        layer(*inputs)  # lazy layers and caches
        worst = 0.0
        for phi in adversary.draw()[:2]:
            with adversary.attach(layer), adversary.perturbed(phi):
                found = layer(*inputs)
            expected = dense_copy(fresh, dense_correction(data, phi, self_links))(*inputs)
            if (found - layer(*inputs)).abs().max() < 1e-4:
                raise AssertionError("nothing was perturbed")
            worst = max(worst, float((found - expected).detach().abs().max()))
        return worst

    return find


def refused(make: Callable[[], nn.Module]) -> Callable[[], None]:
    return lambda: BuresAdversary(graph(), RANK).attach(make()) and None


def _layers() -> list[Use]:
    linear = lambda: nn.Linear(WIDTH, CLASSES)  # noqa: E731
    exact: list[tuple[str, Callable[[], nn.Module], int]] = [
        ("GCNConv", lambda: pyg.GCNConv(WIDTH, CLASSES), 1),
        ("GCNConv, `cached=True`", lambda: pyg.GCNConv(WIDTH, CLASSES, cached=True), 1),
        ("GCNConv, `improved=True` and weights, with `self_links=2`",
         lambda: pyg.GCNConv(WIDTH, CLASSES, improved=True), 2),
        ("GCNConv, `add_self_loops=False`, with `self_links=0`",
         lambda: pyg.GCNConv(WIDTH, CLASSES, add_self_loops=False), 0),
        ("GCN2Conv", lambda: pyg.GCN2Conv(WIDTH, alpha=0.2), 1),
        ("APPNP, 4 steps", lambda: pyg.APPNP(K=4, alpha=0.1), 1),
        ("SGConv, 3 steps", lambda: pyg.SGConv(WIDTH, CLASSES, K=3), 1),
        ("SSGConv, 3 steps", lambda: pyg.SSGConv(WIDTH, CLASSES, alpha=0.1, K=3), 1),
        ("MixHopConv", lambda: pyg.MixHopConv(WIDTH, CLASSES), 1),
        ("TAGConv, with `self_links=0`", lambda: pyg.TAGConv(WIDTH, CLASSES), 0),
        ("LGConv, with `self_links=0`", pyg.LGConv, 0),
        ("ARMAConv, with `self_links=0`", lambda: pyg.ARMAConv(WIDTH, CLASSES, num_stacks=2), 0),
        ("SAGEConv", lambda: pyg.SAGEConv(WIDTH, CLASSES), 1),
        ("GraphConv", lambda: pyg.GraphConv(WIDTH, CLASSES), 1),
        ("GINConv", lambda: pyg.GINConv(linear()), 1),
        ("GatedGraphConv", lambda: pyg.GatedGraphConv(WIDTH, 2), 1),
        ("MFConv", lambda: pyg.MFConv(WIDTH, CLASSES), 1),
        ("ClusterGCNConv", lambda: pyg.ClusterGCNConv(WIDTH, CLASSES), 1),
        ("SimpleConv, mean", lambda: pyg.SimpleConv(aggr="mean"), 1),
        ("GATConv, 2 heads", lambda: pyg.GATConv(WIDTH, CLASSES, heads=2), 1),
        ("GATv2Conv, 2 heads", lambda: pyg.GATv2Conv(WIDTH, CLASSES, heads=2), 1),
        ("SuperGATConv", lambda: pyg.SuperGATConv(WIDTH, CLASSES), 1),
        ("TransformerConv, 2 heads", lambda: pyg.TransformerConv(WIDTH, CLASSES, heads=2), 1),
        ("AGNNConv", pyg.AGNNConv, 1),
        ("FAConv", lambda: pyg.FAConv(WIDTH), 1),
    ]  # fmt: skip
    not_linear = [
        ("ChebConv", lambda: pyg.ChebConv(WIDTH, CLASSES, K=2)),
        ("EdgeConv", lambda: pyg.EdgeConv(nn.Linear(2 * WIDTH, CLASSES))),
        ("GINEConv", lambda: pyg.GINEConv(linear())),
        ("RGCNConv", lambda: pyg.RGCNConv(WIDTH, CLASSES, num_relations=2)),
        ('SAGEConv, `aggr="max"`', lambda: pyg.SAGEConv(WIDTH, CLASSES, aggr="max")),
        ("SGConv, `cached=True`", lambda: pyg.SGConv(WIDTH, CLASSES, cached=True)),
    ]
    rows = [
        Use(name, "layers", "exact", DOUBLE, deviation(make, loops, extra=name in ("GCN2Conv", "FAConv")))
        for name, make, loops in exact
    ]
    return rows + [Use(name, "layers", "refused", 0.0, refused(make)) for name, make in not_linear]


USES: list[Use] = [
    *_layers(),
    Use("weights in `edge_attr`", "data", "exact", DOUBLE, of_weights("edge_attr")),
    Use("`T.GCNNorm()`, layers with `normalize=False`", "data", "exact", DOUBLE, of_weights("GCNNorm")),
    Use("`T.ToSparseTensor()` (`adj_t`)", "data", "exact", DOUBLE, of_weights("adj_t")),
    Use("sparse features", "data", "exact", DOUBLE, sparse_features),
    Use("a stored spectrum of other links", "data", "refused", 0.0, stale_spectrum),
    Use("`HeteroData`", "data", "refused", 0.0, lambda: BuresAdversary(hetero()) and None),
    Use("a model from `to_hetero`", "data", "refused", 0.0, to_hetero),
    Use("`HeteroData.to_homogeneous()`", "data", "trains", 0.0, trains(homogeneous)),
    Use("a `Batch` of four graphs", "batches", "exact", DOUBLE, several_graphs(False)),
    Use("`DataLoader`", "batches", "exact", DOUBLE, several_graphs(True)),
    Use("`RandomNodeLoader`", "batches", "exact", DOUBLE, random_nodes(False)),
    Use("`RandomNodeLoader` on a `Batch`", "batches", "exact", DOUBLE, random_nodes(True)),
    Use("mini-batches by node numbers (`n_id`)", "batches", "exact", DOUBLE, random_nodes(False, by_number=True)),
    Use("node numbers in another order", "batches", "refused", 0.0, wrong_numbers),
    Use("float32", "precision", "exact", SINGLE, precision(torch.float32)),
    Use("bfloat16", "precision", "exact", HALF, precision(torch.bfloat16)),
    Use("float16", "precision", "exact", HALF, precision(torch.float16)),
    Use("`torch.autocast`, bfloat16", "precision", "exact", HALF, precision(torch.float32, autocast=True)),
    Use("`adversary.half()`, then Adam", "precision", "exact", DOUBLE, converted_adversary),
    Use("`torch.compile`, the whole model, `fullgraph=True`", "how it runs", "exact", DOUBLE, compiled("model")),
    Use("`torch.compile`, one layer of two", "how it runs", "exact", DOUBLE, compiled("layer")),
    Use("gradients of M = 5 passes, one by one", "how it runs", "exact", DOUBLE, one_by_one(False)),
    Use("gradients of M = 5 passes, `keep=True`", "how it runs", "exact", DOUBLE, one_by_one(True)),
    Use("`DistributedDataParallel`, ξ after 20 steps", "how it runs", "exact", DOUBLE, processes),
    Use("`torch.utils.checkpoint`, `use_reentrant=False`", "how it runs", "exact", DOUBLE, checkpoints),
    Use("`torch.utils.checkpoint`, `use_reentrant=True`", "how it runs", "refused", 0.0, reentrant_checkpoints),
    Use("reversible layers (`GroupAddRev`)", "how it runs", "refused", 0.0, reversible),
    Use("two threads on one model", "how it runs", "exact", DOUBLE, threads),
    Use("`perturbed` inside `perturbed`", "how it runs", "exact", DOUBLE, nested),
    Use("`perturbed` in evaluation mode", "how it runs", "exact", DOUBLE, evaluation_mode),
    Use("a copy of the attached model", "how it runs", "refused", 0.0, copied_model),
    Use("batch normalization and dropout", "how it runs", "trains", 0.0, trains(normalized)),
    Use("`FeatureAdversary`", "how it runs", "trains", 0.0, trains(on_features)),
]


def verdict(use: Use) -> tuple[str, float | None]:
    """Find what comes out, with the largest deviation where it is compared."""
    try:
        found = use.find()
    except InputError:
        return "refused", None
    if found is None:
        return "trains", None
    if found > use.limit:
        return f"off by {found:.1e}", found
    return "exact", found
