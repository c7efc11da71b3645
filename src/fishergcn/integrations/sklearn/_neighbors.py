"""The graph of a table: rows linked to their nearest neighbors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy import sparse

from fishergcn._base.imports import require
from fishergcn._base.types import CSRArray
from fishergcn._base.warn import warn
from fishergcn.errors import InputError

neighbors: Any = require("sklearn.neighbors", extra="sklearn", purpose="FisherGCNClassifier")

Metric = str | Callable[..., float]


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
