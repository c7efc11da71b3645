"""What the extrinsic geometry asks of a model: one network in float64 on the CPU, nodes, labels, a loss.

All that depends on how a network keeps its parameters and runs its forward pass is here; the rest of the package knows
a network as a function of an operator and of named tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._base.checks import check_integer
from fishergcn._base.types import AnyArray, IntArray
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.nn import by_layer, full_view
from fishergcn.operators import Operator
from fishergcn.perturbation import Neighborhood


def one_network(model: TrainedModel, *, links: bool = True) -> TrainedModel:
    """Return a model of one network in float64 on the CPU, one that reads the links; a function works as it is."""
    if not isinstance(model, TrainedModel):
        raise InputError(
            f"model must be a TrainedModel, got {type(model).__name__}; "
            "TrainedModel.from_network(network, graph) makes one."
        )
    model.check_network(links=links, symmetric=links)
    return model.only().to("cpu", torch.float64)


def in_neighborhood(model: TrainedModel, neighborhood: Neighborhood) -> tuple[TrainedModel, Neighborhood]:
    """Put a network in a neighborhood of its graph."""
    if not isinstance(neighborhood, Neighborhood):
        raise InputError(f"neighborhood must be a Neighborhood, got {type(neighborhood).__name__}.")
    network = one_network(model)
    nodes, rows = network.graph.num_nodes, neighborhood.propagation.shape[0]
    if nodes != rows:
        raise InputError(f"model and neighborhood must be on the same nodes, got {nodes} and {rows} nodes.")
    return network, neighborhood.to("cpu", torch.float64) if parameters(network) else neighborhood


def parameters(model: TrainedModel) -> dict[str, Tensor]:
    """Return the parameters of the one network of a model by name; none of a function."""
    return {name: each[0] for name, each in model.weights.items()}


def layer_name(model: TrainedModel, layer: int) -> str:
    """Return the name of a layer's weights among the parameters, or refuse a layer that is not there."""
    if not model.weights:
        raise InputError("model must be of a network whose layers have weights, got a function.")
    last = len(by_layer(model.weights, "weights")) - 1
    return f"weights.{check_integer('layer', layer, minimum=0, maximum=last)}"


def logits(
    model: TrainedModel, operator: Operator | None = None, changed: Mapping[str, Tensor] | None = None
) -> Tensor:
    """Return the logits (n, C) on the model's graph, or with an operator in its place, some parameters changed."""
    if changed is None:
        return model.logits(operator)[:, 0]
    weights = {**model.weights, **{name: each.unsqueeze(0) for name, each in changed.items()}}
    view = full_view(model.features, model.operator if operator is None else operator, model.depth)
    return model.over(view, weights)[:, 0]


def loss(model: TrainedModel, logits: Tensor, nodes: IntArray) -> Tensor:
    """Return the mean of -log p(y_i) over the nodes, of logits (n, C)."""
    return functional.cross_entropy(logits[torch.as_tensor(nodes)], targets(model, logits, nodes))


def targets(model: TrainedModel, logits: Tensor, nodes: IntArray) -> Tensor:
    """Return the labels of the nodes; all must be known and among the classes of the logits."""
    labels = model.graph.labels
    if labels is None:
        raise InputError("the graph has no labels, which this needs.")
    chosen = labels[nodes]
    if (chosen < 0).any():
        raise InputError(f"nodes must be labeled, but node {nodes[chosen < 0][0]} has no label.")
    if chosen.max() >= logits.shape[1]:
        raise InputError(f"labels must be below {logits.shape[1]}, the model's classes, got {chosen.max()}.")
    return torch.as_tensor(chosen, device=logits.device)


def check_nodes(model: TrainedModel, nodes: Sequence[int] | AnyArray | None, *, labeled: bool) -> IntArray:
    """Return the nodes asked for; by default all of them, or all that have a label."""
    labels = model.graph.labels
    if nodes is None:
        if not labeled:
            return np.arange(model.graph.num_nodes, dtype=np.int64)
        if labels is None or (labels < 0).all():
            raise InputError("the graph has no labels, which this needs.")
        return np.flatnonzero(labels >= 0).astype(np.int64)
    index = np.asarray(nodes)
    if index.ndim != 1 or index.dtype.kind not in "iu" or len(index) == 0:
        raise InputError("nodes must be a list of node indices, at least one.")
    if len(np.unique(index)) < len(index):
        raise InputError("nodes must be different from each other, got one twice.")
    check_range(model, "nodes", index)
    return index.astype(np.int64)


def check_range(model: TrainedModel, name: str, index: AnyArray) -> None:
    """Raise for an index that is not a node."""
    last = model.graph.num_nodes - 1
    outside = index[(index < 0) | (index > last)]
    if len(outside):
        raise InputError(f"{name} must be between 0 and {last}, got {outside[0]}.")
