"""New nodes of which a model knows little: without links, without known features, or far from its training nodes.

    d(x) = min_t ‖h(x) - h(t)‖₂ over training nodes t

with h what the last layer of a network multiplies with its weights, after propagation; of a network of another kind
and of a method that trains nothing, its logits. A new node is far if d is larger than for 99% of the nodes of the graph
of training that the model was not trained on; than for all of them where these are fewer than 99, but at least 19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import BoolArray, FloatArray, IntArray
from fishergcn.execution import check_graph
from fishergcn.models._conformal import conformal_quantile
from fishergcn.models._matching import matched_features, node_names_of
from fishergcn.nn import Family, by_layer, full_view

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.models._trained import TrainedModel

_USUAL, _LEAST = 0.99, 0.95  # shares of nodes that are nearer
_MOST = 2000  # training nodes, and nodes that they are compared with

NO_LINKS, NO_FEATURES, FAR = "no links", "no known features", "unlike the training nodes"


def cautions(model: TrainedModel, graph: Graph) -> tuple[str, ...]:
    """Return why the prediction of each node needs caution, "" where nothing is known against it or it is not new."""
    known = set(model.node_names)
    new = np.array([place for place, name in enumerate(node_names_of(check_graph(graph))) if name not in known])
    said: list[list[str]] = [[] for _ in range(graph.num_nodes)]
    if not len(new):
        return ("",) * graph.num_nodes
    adjacency = graph.adjacency
    links = np.diff(adjacency.indptr)[new] - (adjacency.diagonal()[new] != 0)
    reasons = {NO_LINKS: links == 0, NO_FEATURES: ~_has_features(model, graph, new), FAR: _far(model, graph, new)}
    for reason, holds in reasons.items():
        for node in new[holds].tolist():
            said[node].append(reason)
    return tuple("; ".join(each) for each in said)


def _has_features(model: TrainedModel, graph: Graph, new: IntArray) -> BoolArray:
    """Say which new nodes have a feature that is not 0, of those that the model was trained with, if it reads any."""
    if not model.method.trained:
        return np.ones(len(new), dtype=np.bool_)
    features: Any = matched_features(model.graph, graph, model.graph.num_features)
    return np.asarray(abs(features[new]).sum(axis=1) > 0).ravel()


def _far(model: TrainedModel, graph: Graph, new: IntArray) -> BoolArray:
    """Say which new nodes are far from the training nodes; of an ensemble, by shares of its members."""
    members: tuple[TrainedModel, ...] = getattr(model, "members", ())
    if members:
        shares: tuple[float, ...] = getattr(model, "shares", ())
        votes = [share * _far(each, graph, new) for each, share in zip(members, shares, strict=True)]
        return np.asarray(np.sum(votes, axis=0) > 0.5)
    if not model.runs:
        return np.zeros(len(new), dtype=np.bool_)
    rng = np.random.default_rng(2019)
    train = np.asarray(model.runs[0].split.train)
    rest = np.setdiff1d(np.arange(model.graph.num_nodes), train)
    own, other = _last_layer(model, None), _last_layer(model, graph)
    center = own[rng.permutation(train)[:_MOST]]
    known = _distances(own[rng.permutation(rest)[:_MOST]], center)
    usual = conformal_quantile(known, min(_USUAL, max(len(known) / (len(known) + 1), _LEAST)))
    return np.asarray(_distances(other[new], center) > usual)


def _distances(rows: FloatArray, center: FloatArray) -> FloatArray:
    """Return d of each row."""
    parts = np.array_split(rows, max(len(rows) // _MOST, 1))
    found = [torch.cdist(torch.from_numpy(each), torch.from_numpy(center)).min(dim=1).values for each in parts]
    return np.asarray(torch.cat(found).numpy())


@torch.no_grad()
def _last_layer(model: TrainedModel, graph: Graph | None) -> FloatArray:
    """Return h at all nodes: the output of the network where the last weights are the identity."""
    layers = by_layer(model.weights, "weights")
    if len(layers) < 2 or not model.method.trained or not isinstance(model.method.network, Family):
        return model.raw_logits(graph)
    last, (runs, width, _) = len(layers) - 1, layers[-1].shape

    def replaced(name: str, each: Tensor) -> Tensor:
        if name == f"weights.{last}":
            return torch.eye(width).to(each).expand(runs, -1, -1)
        if name == f"own.{last}":
            return each.new_zeros(runs, width, width)
        return each.new_zeros(runs, width) if name == f"biases.{last}" else each

    weights = {name: replaced(name, each) for name, each in model.weights.items()}
    features = model.features if graph is None else model.features_of(graph)
    operator = model.operator if graph is None else model.operator_of(graph)
    out = model.over(full_view(features, operator, model.depth), weights)
    return np.asarray(out[:, 0].double().cpu().numpy())
