"""What the estimator makes of a table: known labels, a graph of nearest rows, features on a common scale."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn._base.imports import require
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray
from fishergcn._base.warn import warn
from fishergcn.errors import InputError
from fishergcn.graph import Graph, known_nodes
from fishergcn.nn import FeatureScaling
from fishergcn.splits import Split

neighbors: Any = require("sklearn.neighbors", extra="sklearn", purpose="FisherGCNClassifier")

UNKNOWN = -1
Metric = str | Callable[..., float]
Kind: TypeAlias = Literal["global", "columns", "rows", "none"]
SCALINGS: tuple[Kind, ...] = get_args(Kind)


def check_metric(metric: Metric) -> None:
    """Raise where X would be a matrix of distances, which has no features for the network."""
    if isinstance(metric, str) and metric == "precomputed":
        raise InputError(
            "metric must compare rows of features, got 'precomputed': the network would take distances for features; "
            "give the features as X and the neighbors as graph, for instance kneighbors_graph(distances, 7, "
            "metric='precomputed') made symmetric."
        )


class Neighbors:
    """Links rows if one is among the nearest of the other, and new rows to their nearest ones."""

    def __init__(self, table: Any, count: int, metric: Metric, n_jobs: int | None) -> None:
        others = table.shape[0] - 1
        if others < count:
            warn(f"n_neighbors is {count}, but a row of X has only {others} others: all rows are linked.")
        options = {"n_neighbors": min(count, others), "metric": metric, "n_jobs": n_jobs}
        self._nearest = neighbors.NearestNeighbors(**options).fit(table)
        # Without an argument a row is not its own neighbor.
        arcs = sparse.csr_array(self._nearest.kneighbors_graph())
        symmetric: Any = arcs.maximum(arcs.T)
        self.adjacency: CSRArray = sparse.csr_array(symmetric)

    def links(self, table: Any) -> CSRArray:
        """Return the links of new rows, m x n."""
        return sparse.csr_array(self._nearest.kneighbors_graph(table))


@dataclass(frozen=True, eq=False)
class Scaling:
    """Features on a common scale, those by columns with a column of ones.

    The ones give the first layer a bias, without which features of both signs are hard to tell apart.
    """

    features: FeatureScaling
    ones: bool = False

    @classmethod
    def learn(cls, features: Any, kind: Kind) -> Scaling:
        """Take means and scales from X; those of a sparse X are 0 and root mean squares."""
        dense = not sparse.issparse(features)
        if kind in ("rows", "none") or (kind == "columns" and dense):
            return cls(FeatureScaling.learn(features, kind), ones=kind == "columns")
        center = features.mean(axis=0) if dense else None
        squares: Any = (features - center) ** 2 if dense else features.multiply(features)
        variances = np.asarray(squares.mean(axis=0), dtype=np.float64).reshape(-1)
        if kind == "global":
            variances = np.full(len(variances), variances.mean())
        return cls(FeatureScaling(center=center, scale=np.where(variances > 0, np.sqrt(variances), 1.0)), ones=True)

    def apply(self, features: Any) -> Any:
        """Return what the network sees, in float64."""
        scaled = self.features.apply(features)
        if not self.ones:
            return scaled
        ones = np.ones((features.shape[0], 1))
        if sparse.issparse(scaled):
            columns: list[Any] = [scaled, sparse.csr_array(ones)]
            return sparse.csr_array(sparse.hstack(columns))
        return np.hstack([scaled, ones])


def marked(y: Any) -> Any:
    """Return labels with -1 in place of NaN and of None; what holds neither comes back as it is."""
    # NumPy would make text of all that stands beside text in a list.
    found = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if found.dtype.kind == "f":
        return np.where(np.isnan(found), UNKNOWN, found) if np.isnan(found).any() else y
    if found.dtype.kind != "O" or found.ndim != 1:
        return y
    values = [UNKNOWN if _missing(each) else each for each in found]
    if all(new is old for new, old in zip(values, found, strict=True)):
        return y
    text = any(isinstance(each, str) for each in values)
    return np.array(values, dtype=object) if text else np.array(values)


def _missing(value: Any) -> bool:
    if isinstance(value, numbers.Real):
        return value != value  # NaN
    return value is None or type(value).__name__ == "NAType"  # that of pandas


def known_labels(y: AnyArray) -> AnyArray:
    """Return which labels are not -1; raise if none is."""
    if y.dtype.kind in "US":
        if (wrong := np.isin(y, (str(UNKNOWN), "nan"))).any():
            raise InputError(
                f"y is an array of text that holds {str(y[wrong][0])!r}; for unknown classes use dtype=object and the "
                "number -1, NaN or None."
            )
        return np.ones(y.shape, dtype=np.bool_)
    known: AnyArray = np.asarray(y != UNKNOWN, dtype=np.bool_)
    if not known.any():
        raise InputError("y must hold at least one known class, got -1 only.")
    return known


def given_graph(graph: Any) -> Graph:
    """Return the links of a :class:`Graph`, a NetworkX graph or a ``Data`` of PyTorch Geometric, or of a matrix."""
    if isinstance(graph, Graph):
        return graph
    if hasattr(graph, "edge_index") or hasattr(graph, "adj_t"):
        # Without features and labels, which are X and y here.
        return Graph.from_pyg(graph, features=None, labels=None, standard_split=None, masks=None)
    if hasattr(graph, "adj") and hasattr(graph, "nodes"):
        return Graph.from_networkx(graph)
    return Graph(graph)


def first_equal(rows: Any, fitted: Any) -> IntArray:
    """Return for each row the number of the first fitted row that equals it, -1 where there is none."""
    places: dict[bytes, int] = {}
    for at, key in enumerate(_keys(fitted)):
        places.setdefault(key, at)
    return np.array([places.get(key, -1) for key in _keys(rows)], dtype=np.int64)


def _keys(table: Any) -> Iterator[bytes]:
    """Yield the entries of each row that are not zero, with their columns, as bytes."""
    rows = sparse.csr_array(table, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    columns = rows.indices.astype(np.int64)
    for start, end in itertools.pairwise(rows.indptr):
        yield columns[start:end].tobytes() + rows.data[start:end].tobytes()


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
    features, nodes = graph.features, graph.num_nodes
    labels = graph.labels if graph.targets is None else graph.targets
    if labels is None:
        raise AssertionError("the graph of an estimator has labels")
    empty = np.zeros((1, graph.num_features), dtype=np.float32)
    stack: Any = sparse.vstack if sparse.issparse(features) else np.vstack
    larger = Graph(
        sparse.block_diag([graph.adjacency, sparse.csr_array((1, 1))], format="csr"),
        stack([features, empty]),
        np.concatenate([labels, np.zeros((1, *labels.shape[1:]), dtype=labels.dtype)]),
        name=graph.name,
        task=graph.task,
    )
    train_nodes = np.flatnonzero(known_nodes(graph))
    weight = None if weight is None else np.append(weight, 0.0)
    return larger, Split("all-labels", train_nodes, np.array([nodes]), np.empty(0, dtype=np.int64), weight)
