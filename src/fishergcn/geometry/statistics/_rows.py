"""The distances of one graph to those after it: the unit of work that is done, saved and resumed as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import scipy.linalg

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.geometry.intrinsic._graphs import estimated_distance, kernel_of
from fishergcn.geometry.intrinsic._laplacian import Local
from fishergcn.geometry.intrinsic._spectral import entropy_of
from fishergcn.geometry.intrinsic._transport import Kernel
from fishergcn.geometry.statistics._collection import GraphCollection
from fishergcn.geometry.statistics._densities import Densities, Geometry, Measure, densities_of
from fishergcn.geometry.statistics._determinants import TOLERANCE, Grounded, Rule

Compute: TypeAlias = Literal["auto", "exact", "bounds", "estimate"]

# Below this D², 2 - 2F has lost too many digits, and D is found from aligned factors.
_CLOSE = 1e-5
# Memory for factors of density matrices that are kept, in bytes.
_KEPT = 1_500_000_000


@dataclass(frozen=True)
class Settings:
    """How distances are computed; plain values, which identify a folder of results."""

    measure: Measure
    geometry: Geometry
    laplacian: Local
    compute: Compute
    probes: int
    steps: int
    seed: int


class Rows:
    """Distances of graph i to graphs i + 1, i + 2, … of a collection, as three rows: value, low and high."""

    def __init__(self, graphs: GraphCollection, settings: Settings, rule: Rule | None = None) -> None:
        self.graphs, self.settings, self.rule = graphs, settings, rule
        self._roots: dict[int, FloatArray] = {}

    def row(self, index: int) -> FloatArray:
        """Return the distances of a graph to those after it, (3, m - 1 - index): value, low, high."""
        others = range(index + 1, len(self.graphs))
        if self.settings.compute == "estimate":
            return np.array([self._estimated(index, other) for other in others]).T
        if self.rule is not None:
            return self._bounded(index, self.rule)
        find: dict[Measure, Callable[[int, int], float]] = {
            "bures": self._bures,
            "jensen-shannon": self._jensen_shannon,
            "entropy": lambda one, other: abs(self.entropies[one] - self.entropies[other]),
        }
        return np.tile([find[self.settings.measure](index, other) for other in others], (3, 1))

    @cached_property
    def densities(self) -> Densities:
        return densities_of(self.graphs, self.settings.geometry, self.settings.laplacian)

    @cached_property
    def linked(self) -> list[int]:
        """How many nodes of each graph have links."""
        return [int(np.count_nonzero(each.diagonal())) for each in self.densities.laplacians]

    @cached_property
    def entropies(self) -> list[float]:
        return [entropy_of(self.densities.eigenvalues(index)) for index in range(len(self.graphs))]

    def _bounded(self, index: int, rule: Rule) -> FloatArray:
        """Return distances between the bounds of a rule; exact ones where two graphs are so close that it is wide."""
        size, laplacians = self.densities.size, self.densities.laplacians
        graph = Grounded(laplacians[index] * size, self.densities.kernels[index])
        found = []
        for other in range(index + 1, len(self.graphs)):
            sums = graph.sums(laplacians[other] * size, rule.points, square=rule.square)
            middle, low, high = rule.bounds(sums, size)
            if high - low <= 4 * TOLERANCE * (2 - 2 * middle):
                found.append([np.sqrt(2 - 2 * fidelity) for fidelity in (middle, high, low)])
            else:
                found.append([self._bures(index, other)] * 3)
        return np.array(found).T

    def _root(self, index: int) -> FloatArray:
        """Return a factor of a density matrix, kept as long as there is memory for it."""
        if index not in self._roots:
            if 8 * self.densities.size**2 * len(self._roots) > _KEPT:
                self._roots.pop(next(iter(self._roots)))
            self._roots[index] = self.densities.root(index)
        return self._roots[index]

    def _bures(self, one: int, other: int) -> float:
        one, other = sorted((one, other), key=lambda each: self.linked[each])  # the smaller matrix
        root = self._root(one)
        if self.settings.geometry == "laplacian":  # sparse
            product = root.T @ np.asarray(self.densities.laplacians[other] @ root)
        else:
            inner = self._root(other).T @ root
            product = inner.T @ inner
        values = scipy.linalg.eigvalsh(product, driver="evd", overwrite_a=True, check_finite=False)
        noise = values.size * np.finfo(np.float64).eps * values[-1]
        squared = 2 - 2 * float(np.sqrt(values[values > noise]).sum())
        if squared > _CLOSE:
            return float(np.sqrt(min(2.0, squared)))
        return _aligned_distance(root, self._root(other))

    def _jensen_shannon(self, one: int, other: int) -> float:
        """Return the root of H((ρ + σ) / 2) - (H(ρ) + H(σ)) / 2, which is a metric."""
        if self.settings.geometry == "laplacian":
            middle: FloatArray = (self.densities.laplacians[one] + self.densities.laplacians[other]).toarray() / 2
        else:
            x, y = self._root(one), self._root(other)
            middle = (x @ x.T + y @ y.T) / 2
        values = scipy.linalg.eigvalsh(middle, driver="evd", overwrite_a=True, check_finite=False)
        mixed = entropy_of(np.maximum(values, 0.0))
        return float(np.sqrt(max(0.0, mixed - (self.entropies[one] + self.entropies[other]) / 2)))

    @cached_property
    def _sparse(self) -> list[tuple[CSRArray, Kernel]]:
        """The Laplacian of each graph and its kernel."""
        kind, graphs = self.settings.laplacian, self.graphs
        pairs = zip(graphs.adjacencies, graphs.laplacians(kind), strict=True)
        return [(matrix, kernel_of(graph, kind, matrix)) for graph, matrix in pairs]

    def _estimated(self, one: int, other: int) -> tuple[float, float, float]:
        chosen = self.settings
        (first, kernel), (second, other_kernel) = self._sparse[one], self._sparse[other]
        found = estimated_distance((first, second), (kernel, other_kernel), chosen.probes, chosen.steps, chosen.seed)
        return found.distance, *found.distance_interval


def _aligned_distance(one: FloatArray, other: FloatArray) -> float:
    """Return the least ‖X - YU‖ over orthogonal U: D_B without cancellation."""
    width = max(one.shape[1], other.shape[1])
    x, y = (np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in (one, other))
    left, _, right = scipy.linalg.svd(y.T @ x, check_finite=False)
    return float(np.linalg.norm(x - y @ (left @ right)))
