"""A network on its graph: what the extrinsic geometry asks of the two together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._base.matrices import as_square_csr
from fishergcn._base.types import AnyArray, IntArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.nn import GCN, Features, full_view, make_features
from fishergcn.nn import logits as gcn_logits
from fishergcn.operators import SparseMatrix
from fishergcn.propagation import renormalized

__all__ = ["Model", "NetworkOnGraph", "network_on"]

Model: TypeAlias = "GCN | Callable[[Any], Tensor]"


@dataclass(frozen=True)
class NetworkOnGraph:
    """A network that predicts the labels of a graph's nodes, without dropout.

    Attributes
    ----------
    model : GCN or callable
        A GCN, or any function that maps a propagation operator to logits.
    labels : ndarray of shape (n,), or None
        The class of each node, -1 where unknown.
    num_nodes : int
        n.
    propagation : SparseMatrix
        Ã, in float64 on the CPU.
    weights : tuple of Tensor
        W^l of a GCN in float64 on the CPU, first layer first; empty for a callable.
    features : Features, or None
        X as the GCN wants it; None for a callable.
    """

    model: Model
    labels: IntArray | None
    num_nodes: int
    propagation: SparseMatrix
    weights: tuple[Tensor, ...]
    features: Features | None

    def logits(self, operator: Any = None, weights: Sequence[Tensor] | None = None) -> Tensor:
        """Return the logits (n, C) over an operator (Ã by default), with other weights if given."""
        operator = self.propagation if operator is None else operator
        if self.features is None:
            out = self.model(operator)
        else:
            stacked = [each.unsqueeze(0) for each in (self.weights if weights is None else weights)]
            out = gcn_logits(stacked, full_view(self.features, operator, len(stacked)))[:, 0]
        if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[0] != self.num_nodes:
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise InputError(f"model must return logits of shape ({self.num_nodes}, C), got {got}.")
        return out

    def loss(self, logits: Tensor, nodes: IntArray) -> Tensor:
        """Return the mean of -log p(y_i) over the nodes."""
        return functional.cross_entropy(logits[torch.as_tensor(nodes)], self.targets(logits, nodes))

    def targets(self, logits: Tensor, nodes: IntArray) -> Tensor:
        """Return the labels of the nodes; all must be known and among the classes of the network."""
        if self.labels is None:
            raise InputError("the graph has no labels, which this needs.")
        chosen = self.labels[nodes]
        if (chosen < 0).any():
            raise InputError(f"nodes must be labeled, but node {nodes[chosen < 0][0]} has no label.")
        if chosen.max() >= logits.shape[1]:
            raise InputError(f"labels must be below {logits.shape[1]}, the model's classes, got {chosen.max()}.")
        return torch.as_tensor(chosen, device=logits.device)

    def check_nodes(self, nodes: Sequence[int] | AnyArray | None, *, labeled: bool) -> IntArray:
        """Return the nodes asked for; by default all of them, or all that have a label."""
        if nodes is None:
            if not labeled:
                return np.arange(self.num_nodes, dtype=np.int64)
            if self.labels is None or (self.labels < 0).all():
                raise InputError("the graph has no labels, which this needs.")
            return np.flatnonzero(self.labels >= 0).astype(np.int64)
        index = np.asarray(nodes)
        if index.ndim != 1 or index.dtype.kind not in "iu" or len(index) == 0:
            raise InputError("nodes must be a list of node indices, at least one.")
        if len(np.unique(index)) < len(index):
            raise InputError("nodes must be different from each other, got one twice.")
        self.check_range("nodes", index)
        return index.astype(np.int64)

    def check_range(self, name: str, index: AnyArray) -> None:
        """Raise for an index that is not a node."""
        outside = index[(index < 0) | (index >= self.num_nodes)]
        if len(outside):
            raise InputError(f"{name} must be between 0 and {self.num_nodes - 1}, got {outside[0]}.")


def network_on(
    model: Model,
    graph: Graph,
    propagation: SparseMatrix | MatrixLike | None = None,
    normalize_features: bool = True,
) -> NetworkOnGraph:
    """Put a network on a graph, and raise where the two do not fit.

    Parameters
    ----------
    model : GCN or callable
        Predicts; a callable maps an operator to logits and closes over its features.
    graph : Graph
        With the features that a GCN was trained on.
    propagation : SparseMatrix or matrix of shape (n, n), optional
        Ã; that of the renormalized graph by default.
    normalize_features : bool
        Divide each row of the features by its sum, as in training.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2)], features=[[1, 0], [0, 1], [1, 1]], labels=[0, 1, 1])
    >>> network_on(GCN(2, (4,), 2), graph).logits().shape
    torch.Size([3, 2])
    """
    if not isinstance(graph, Graph):
        raise InputError(f"graph must be a Graph, got {type(graph).__name__}.")
    matrix = _propagation(graph, propagation)
    if not isinstance(model, GCN):
        if not callable(model):
            raise InputError(f"model must be a GCN or map an operator to logits, got {type(model).__name__}.")
        return NetworkOnGraph(model, graph.labels, graph.num_nodes, matrix, (), None)
    weights = tuple(each.detach().to("cpu", torch.float64) for each in model.weights)
    if graph.features is None:
        raise InputError("the graph has no features, which the model needs.")
    if graph.num_features != len(weights[0]):
        raise InputError(
            f"model and graph must fit: the model takes {len(weights[0])} features a node, "
            f"the graph has {graph.num_features}."
        )
    classes = weights[-1].shape[1]
    if graph.num_classes > classes:
        raise InputError(
            f"model and graph must fit: the model knows {classes} classes, the graph has {graph.num_classes}."
        )
    features = make_features(graph.features, normalize=normalize_features, dtype=torch.float64)
    return NetworkOnGraph(model, graph.labels, graph.num_nodes, matrix, weights, features)


def _propagation(graph: Graph, propagation: SparseMatrix | MatrixLike | None) -> SparseMatrix:
    if propagation is None:
        return SparseMatrix.from_scipy(renormalized(graph.adjacency))
    if isinstance(propagation, SparseMatrix):
        matrix = propagation.to("cpu", torch.float64)
    else:
        matrix = SparseMatrix.from_scipy(as_square_csr(propagation, name="propagation"))
    if matrix.shape != (graph.num_nodes, graph.num_nodes):
        rows, columns = matrix.shape
        raise InputError(
            f"graph and propagation must be on the same nodes, got {graph.num_nodes} nodes "
            f"and a matrix of {rows} x {columns}."
        )
    return matrix
