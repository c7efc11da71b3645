"""Labels of which some are unknown, and the graph that training gets."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.types import AnyArray, FloatArray
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.splits import Split

UNKNOWN = -1


def known_labels(y: AnyArray) -> AnyArray:
    """Return which labels are not -1; raise if none is."""
    if y.dtype.kind in "US":
        if (y == str(UNKNOWN)).any():
            raise InputError(
                "y is an array of text that holds '-1'; for unknown classes use dtype=object and the number -1."
            )
        return np.ones(y.shape, dtype=np.bool_)
    known: AnyArray = np.asarray(y != UNKNOWN, dtype=np.bool_)
    if not known.any():
        raise InputError("y must hold at least one known class, got -1 only.")
    return known


def same_rows(first: Any, second: Any) -> bool:
    """Return whether two matrices, both dense or both sparse, are equal."""
    if first.shape != second.shape or sparse.issparse(first) != sparse.issparse(second):
        return False
    return not (first != second).nnz if sparse.issparse(first) else bool(np.array_equal(first, second))


def without_validation(graph: Graph, weight: FloatArray | None = None) -> tuple[Graph, Split]:
    """Return a graph and a split in which all labeled nodes are learned from, with these weights if they are given.

    Training watches a validation node. Where no label can be spared, it is an additional one without links
    or features: it neither sends nor receives anything.
    """
    features, nodes, labels = graph.features, graph.num_nodes, graph.labels
    if labels is None:
        raise AssertionError("the graph of an estimator has labels")
    empty = np.zeros((1, graph.num_features), dtype=np.float32)
    stack: Any = sparse.vstack if sparse.issparse(features) else np.vstack
    larger = Graph(
        sparse.block_diag([graph.adjacency, sparse.csr_array((1, 1))], format="csr"),
        stack([features, empty]),
        np.append(labels, 0),
        name=graph.name,
    )
    train_nodes = np.flatnonzero(labels >= 0)
    weight = None if weight is None else np.append(weight, 0.0)
    return larger, Split("all-labels", train_nodes, np.array([nodes]), np.empty(0, dtype=np.int64), weight)
