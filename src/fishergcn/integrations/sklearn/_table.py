"""What the estimator makes of a table of numbers: a graph of nearest rows, and features on a common scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn._base.imports import require
from fishergcn._base.types import CSRArray
from fishergcn._base.warn import warn
from fishergcn.errors import InputError
from fishergcn.nn import FeatureScaling

neighbors: Any = require("sklearn.neighbors", extra="sklearn", purpose="FisherGCNClassifier")

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
