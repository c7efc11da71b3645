"""Which nodes and links account for the distance between graphs, through the derivative of the fidelity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import scipy.linalg
from scipy import sparse

from fishergcn._base.checks import check_choice
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, FloatArray, IntArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import DENSE_LIMIT, decompose, positive_trace
from fishergcn.geometry.intrinsic._laplacian import Local, graph_laplacian, kernel_vector
from fishergcn.graph import Graph


@dataclass(frozen=True, eq=False)
class ChangeExplanation:
    """What the distance between graphs is made of; see :func:`explain_change`."""

    distance: float
    nodes: FloatArray
    links: IntArray
    contributions: FloatArray
    before: FloatArray
    after: FloatArray
    __repr__ = one_line

    def top_nodes(self, most: int = 10) -> IntArray:
        """Return the nodes that account for most of the distance, largest first; those that account for none never."""
        order = np.argsort(-self.nodes, kind="stable")[:most]
        return np.asarray(order[self.nodes[order] > 0])

    def top_links(self, most: int = 10) -> IntArray:
        """Return the places in ``links`` of those that account for most of the distance, largest first."""
        order = np.argsort(-self.contributions, kind="stable")[:most]
        return np.asarray(order[self.contributions[order] > 0])


def explain_change(
    before: Graph | MatrixLike | Sequence[Any],
    after: Graph | MatrixLike | Sequence[Any],
    laplacian: Local = "combinatorial",
) -> ChangeExplanation:
    """Split the squared Bures distance of two graphs, or of two sets of graphs, over nodes and links.

    With M = 2 ∂F/∂ρ and N = 2 ∂F/∂σ, twice the derivatives of the fidelity of ρ (before) and σ (after), F = tr Mρ
    = tr Nσ, since F is homogeneous of degree ½ in each. So with ρ = Σ_e g_e g_eᵀ and σ = Σ_e h_e h_eᵀ over links,

        D_B² = 2 - 2F = Σ_e [g_eᵀ(I - M)g_e + h_eᵀ(I - N)h_e],

    and the bracket is what link e contributes: exactly, whatever the size of the change. A link whose presence brings
    the two closer contributes a negative amount. What node i contributes is ρ_ii + σ_ii - 2 (Mρ)_ii, never negative,
    which sums to D_B² too: the squared distance of its rows in the closest factors of ρ and σ.

    Parameters
    ----------
    before, after : Graph or adjacency matrix, or a list of them
        On the same nodes. Of several graphs, ρ is the mean of their density matrices.
    laplacian : {"combinatorial", "normalized", "renormalized"}
        Which Laplacian stands for a graph, see :func:`fishergcn.geometry.intrinsic.graph_laplacian`.

    Returns
    -------
    ChangeExplanation
        ``distance`` D_B; ``nodes``, what each of the n nodes contributes to D_B²; ``links``, (m, 2), all that are in
        any of the graphs, with their ``contributions`` and their mean weights ``before`` and ``after``. The methods
        ``top_nodes`` and ``top_links`` give the largest.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(8), 1, axis=1)
    >>> cut = ring.copy()
    >>> cut[3, 4] = 0.0
    >>> found = explain_change(ring + ring.T, cut + cut.T)
    >>> found.links[found.top_links(1)].tolist(), sorted(found.top_nodes(2).tolist())
    ([[3, 4]], [3, 4])
    >>> bool(np.isclose(found.contributions.sum(), found.distance**2))
    True
    """
    check_choice("laplacian", laplacian, get_args(Local))
    sides = [_adjacencies(name, value) for name, value in (("before", before), ("after", after))]
    sizes = {graph.shape[0] for side in sides for graph in side}
    if len(sizes) > 1:
        raise InputError(
            f"before and after must be graphs on the same nodes, got {', '.join(map(str, sorted(sizes)))}."
        )
    count = sizes.pop()
    linked = np.zeros(count, dtype=bool)
    for side in sides:
        for graph in side:
            linked |= np.diff(graph.indptr) > 0
    kept = np.flatnonzero(linked)
    if kept.size > DENSE_LIMIT:
        raise InputError(f"before and after must have links at no more than {DENSE_LIMIT} nodes, got {kept.size}.")
    small = [[sparse.csr_array(graph[kept][:, kept]) for graph in side] for side in sides]
    parts = [[_LinkParts.of(graph, laplacian) for graph in side] for side in small]
    x, y = (_factor(name, side, kept.size) for name, side in zip(("before", "after"), parts, strict=True))
    left, values, right = scipy.linalg.svd(y.T @ x, check_finite=False)
    held = values > values.size * np.finfo(np.float64).eps * max(values[0], np.finfo(np.float64).tiny)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=held)
    # M = 2 ∂F/∂ρ = σ^½ (σ^½ ρ σ^½)^-½ σ^½ in factors, and N with the roles exchanged.
    forward, backward = y @ left, x @ right.T
    slopes = [(forward * inverse) @ forward.T, (backward * inverse) @ backward.T]
    aligned = forward[:, held] @ right[held]
    rest = np.maximum((y * y).sum(axis=1) - (aligned * aligned).sum(axis=1), 0.0)  # what has no partner in ρ
    nodes = np.zeros(count)
    nodes[kept] = np.square(x - aligned).sum(axis=1) + rest
    links, contributions = _link_sums(parts, slopes, kept.size)
    distance = float(np.sqrt(min(2.0, float(nodes.sum()))))
    means = [_mean_weights(side, links) for side in small]
    return ChangeExplanation(distance, nodes, kept[links], contributions, means[0], means[1])


@dataclass(frozen=True)
class _LinkParts:
    """A density matrix as a sum over links: weight (e_i / v_i - e_j / v_j)(…)ᵀ."""

    rows: IntArray
    columns: IntArray
    weights: FloatArray
    inverse: FloatArray  # 1 / v
    density: CSRArray

    @classmethod
    def of(cls, graph: CSRArray, laplacian: Local) -> _LinkParts:
        matrix = graph_laplacian(graph, laplacian)
        trace = positive_trace(float(matrix.trace()))
        kernel = kernel_vector(graph, laplacian, matrix)
        upper = sparse.triu(matrix, 1, format="coo")
        rows, columns = (each.astype(np.int64) for each in upper.coords)
        weights = np.maximum(-upper.data, 0.0) * kernel[rows] * kernel[columns] / trace
        density: Any = matrix / trace
        return cls(rows, columns, np.asarray(weights), 1 / kernel, sparse.csr_array(density))

    def contributions(self, slope: FloatArray) -> FloatArray:
        """Return g_eᵀ(I - M)g_e of every link for M the slope."""
        one, other = self.inverse[self.rows], self.inverse[self.columns]
        diagonal = 1 - slope.diagonal()
        own = diagonal[self.rows] * one**2 + diagonal[self.columns] * other**2
        return np.asarray(self.weights * (own + 2 * slope[self.rows, self.columns] * one * other))


def _link_sums(
    parts: Sequence[Sequence[_LinkParts]], slopes: Sequence[FloatArray], size: int
) -> tuple[IntArray, FloatArray]:
    """Return the links of all graphs and the sums of their contributions."""
    pairs, values = [], []
    for side, slope in zip(parts, slopes, strict=True):
        for each in side:
            pairs.append(each.rows * size + each.columns)
            values.append(each.contributions(slope) / len(side))
    distinct, place = np.unique(np.concatenate(pairs), return_inverse=True)
    sums = np.bincount(place, weights=np.concatenate(values), minlength=distinct.size)
    return np.stack(np.divmod(distinct, size), axis=1), np.asarray(sums, dtype=np.float64)


def _mean_weights(graphs: Sequence[CSRArray], links: IntArray) -> FloatArray:
    total: Any = sum(graphs[1:], graphs[0])
    return np.asarray(sparse.csr_array(total)[links[:, 0], links[:, 1]], dtype=np.float64).ravel() / len(graphs)


def _factor(name: str, parts: Sequence[_LinkParts], size: int) -> FloatArray:
    mean = np.zeros((size, size))
    for each in parts:
        mean += each.density.toarray() / len(parts)
    values, vectors = decompose(name, mean)
    return np.asarray(vectors * np.sqrt(values))


def _adjacencies(name: str, value: Any) -> list[CSRArray]:
    rows = isinstance(value, list | tuple) and bool(value) and np.ndim(value[0]) == 1  # of a matrix as nested lists
    several = list(value) if isinstance(value, list | tuple) and not rows else [value]
    graphs = [each.adjacency if isinstance(each, Graph) else check_adjacency(each, name=name) for each in several]
    if not graphs:
        raise InputError(f"{name} must be a graph or a list of at least one.")
    for graph in graphs:
        if sparse.triu(graph, 1).nnz == 0:
            raise InputError(f"{name} must have links, but one of its graphs has none.")
    return graphs
