"""Another graph beside the one of training: nodes matched by name, features by the names of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.types import AnyArray, CSRArray, FeatureMatrix, IntArray, MatrixLike
from fishergcn._base.warn import warn
from fishergcn.errors import InputError
from fishergcn.graph import Graph

_MOST_NAMED = 3


def node_names_of(graph: Graph) -> tuple[str, ...]:
    """Return the names of the nodes; their numbers where they have none."""
    return graph.node_ids or tuple(map(str, range(graph.num_nodes)))


def nodes_in_words(known: Graph, graph: Graph) -> str:
    """Say how many nodes of a graph another one has, and how many it has not."""
    before, now = set(node_names_of(known)), set(node_names_of(graph))
    old, new, gone = len(now & before), len(now - before), len(before - now)
    lost = f"; {gone:,} training nodes are missing" if gone else ""
    return f"{len(now):,} nodes: {old:,} known from training, {new:,} new{lost}."


def matched_features(known: Graph, graph: Graph, width: int) -> FeatureMatrix:
    """Return the features of a graph in the columns of another, of which a network reads ``width``.

    Columns are matched by name where both graphs have names, and a warning says how many are left out; otherwise by
    number. Where training had no features but one for each node, a node that was there has its own again, and a new
    one has none.
    """
    if graph.features is None or graph.num_features == 0:
        if not has_one_feature_each(known):
            raise InputError(f"the graph has no features, and the network needs {width} of each node.")
        column = {name: number for number, name in enumerate(node_names_of(known))}
        found = [(row, column[name]) for row, name in enumerate(node_names_of(graph)) if name in column]
        rows, columns = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(graph.num_nodes, width))
    if known.feature_names is None or graph.feature_names is None:
        if graph.num_features != width:
            unnamed = "the graph" if graph.feature_names is None else "that of training"
            raise InputError(
                f"a node of the graph must have {width} features, got {graph.num_features}; they are told apart by "
                f"number, since {unnamed} has no names of columns."
            )
        return graph.features
    place = {name: number for number, name in enumerate(graph.feature_names)}
    # A text of training that no node has now, beside others of its column: 0 for all of them.
    encoded = {name.partition("=")[0] for name in place if "=" in name}
    absent = [name for name in known.feature_names if name not in place]
    unseen = [name for name in absent if "=" in name and name.partition("=")[0] in encoded]
    known_texts = set(unseen)
    missing = [name for name in absent if name not in known_texts]
    if missing:
        raise InputError(f"the graph lacks {_named(missing)}, which the network needs.")
    extra = sorted(place.keys() - set(known.feature_names))
    if extra:
        warn(f"{_named(extra)} {'was' if len(extra) == 1 else 'were'} not present in training and ignored.")
    features = graph.features
    if unseen:
        warn(f"{_named(unseen)} {'is' if len(unseen) == 1 else 'are'} 0 for all nodes, since none has such a text.")
        zero = np.zeros((graph.num_nodes, 1), np.float32)
        features = (
            np.hstack([features, zero])
            if isinstance(features, np.ndarray)
            else sparse.csr_array(sparse.hstack([features, sparse.csr_array(zero)]))
        )
    order = [place.get(name, graph.num_features) for name in known.feature_names]
    return features if order == list(range(graph.num_features)) else features[:, order]


def moved_labels(
    labels: AnyArray, names: Sequence[str], graph: Graph, nodes: Sequence[IntArray]
) -> tuple[AnyArray, tuple[IntArray, ...]]:
    """Return the labels of some nodes on another graph, -1 elsewhere, and where they are: nodes are found by name."""
    places = {name: place for place, name in enumerate(node_names_of(graph))}
    moved = np.full((graph.num_nodes, *labels.shape[1:]), -1, dtype=labels.dtype)
    found = []
    for each in nodes:
        there = [(places[names[node]], node) for node in each if names[node] in places]
        if not there:
            raise InputError("label propagation needs a training node in the graph, and none is there by name.")
        new, old = np.array(there).T
        moved[new] = labels[old]
        found.append(new)
    return moved, tuple(found)


def check_links(links: MatrixLike, shape: tuple[int, int]) -> CSRArray:
    """Return the links of m new nodes to the n of a graph, m x n, or raise."""
    given: Any = links
    matrix: CSRArray = sparse.csr_array(given, dtype=np.float64)
    if matrix.shape != shape:
        raise InputError(f"links must have shape {shape}, got {matrix.shape}.")
    if not (np.isfinite(matrix.data).all() and (matrix.data >= 0).all()):
        raise InputError("links must be finite and not negative.")
    return matrix


def stacked_features(graph: Graph, features: MatrixLike) -> FeatureMatrix:
    """Return the features of a graph with those of new nodes below them, in float32; sparse if its own are."""
    new: Any = features if sparse.issparse(features) else np.asarray(features)
    if new.ndim != 2 or new.shape[1] != graph.num_features:
        raise InputError(
            f"a new node must have {graph.num_features} features, got {new.shape[1] if new.ndim == 2 else new.shape}."
        )
    new = new.astype(np.float32)
    if sparse.issparse(graph.features):
        rows: list[Any] = [graph.features, sparse.csr_array(new)]
        return sparse.csr_array(sparse.vstack(rows))
    own: Any = graph.features
    below: Any = new
    return np.vstack([own, below.toarray() if sparse.issparse(new) else new])


def links_to(known: Graph, graph: Graph) -> CSRArray:
    """Return the links of a graph's nodes to the nodes of another one, which are found by name."""
    if graph is known:
        return known.adjacency
    place = {name: number for number, name in enumerate(node_names_of(known))}
    links = graph.adjacency.tocoo()
    column = np.array([place.get(name, -1) for name in node_names_of(graph)], dtype=np.int64)[links.col]
    there = column >= 0
    parts = links.data[there], (links.row[there], column[there])
    return sparse.csr_array(parts, shape=(graph.num_nodes, known.num_nodes))


def has_one_feature_each(graph: Graph) -> bool:
    """Say whether the features are the identity matrix, which stands for none."""
    features = graph.features
    if not isinstance(features, sparse.csr_array) or features.shape != (graph.num_nodes, graph.num_nodes):
        return False
    return features.nnz == graph.num_nodes and bool((features.diagonal() == 1).all())


def _named(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_MOST_NAMED])) + (", …" if len(names) > _MOST_NAMED else "")
    return f"the feature {shown}" if len(names) == 1 else f"{len(names):,} features ({shown})"
