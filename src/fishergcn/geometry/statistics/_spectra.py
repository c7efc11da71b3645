"""What remains of a distance when nodes are not matched: that of the sorted spectra, for graphs of any sizes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import scipy.linalg
from scipy import sparse, special

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import DENSE_LIMIT, support
from fishergcn.geometry.intrinsic._laplacian import Local, graph_laplacian
from fishergcn.geometry.statistics._collection import GraphCollection, adjacencies_of, check_links, listed
from fishergcn.geometry.statistics._densities import Geometry
from fishergcn.geometry.statistics._determinants import largest_bound
from fishergcn.geometry.statistics._pairwise import Distances
from fishergcn.graph import Graph
from fishergcn.spectrum import gauss_rules

How: TypeAlias = Literal["auto", "exact", "estimate"]


def spectral_distance(
    graphs: GraphCollection | Sequence[Graph | MatrixLike] | Mapping[str, Graph | MatrixLike],
    *,
    geometry: Geometry = "laplacian",
    laplacian: Local = "combinatorial",
    compute: How = "auto",
    probes: int = 8,
    steps: int = 160,
    seed: int = 0,
) -> Distances:
    """Distances of the sorted spectra of graphs, whose nodes need neither be matched nor equal in number.

    For density matrices ρ and σ of n nodes with eigenvalues λ and μ, both sorted,

        min over orthogonal U of D_B(ρ, UσUᵀ) = (Σ_i (λ_i^½ - μ_i^½)²)^½.

    *Proof.* D_B² = 2 - 2F, and F(ρ, UσUᵀ) is the sum of the singular values of ρ^½ U σ^½ Uᵀ, that is the largest
    tr(ρ^½ U σ^½ Uᵀ V) over orthogonal V. By von Neumann's trace inequality this is at most Σ_i (λ_i μ_i)^½ for all U
    and V. It is attained where U takes the eigenvectors of σ to those of ρ, in order, and V = I. ∎

    So it bounds from below the Bures distance for every way to match the nodes, and is 0 for graphs with equal spectra.

    For graphs of different sizes, let q(u), 0 < u < 1, be the quantile function of the eigenvalues of nρ, whose mean is
    1. The distance is (∫ (q_ρ^½ - q_σ^½)² du)^½, the Wasserstein distance of the densities of states of (nρ)^½. For
    equal sizes it is the one above; for n and m nodes it is the one between m copies of the first graph and n of the
    second. It is a metric of spectra, at most √2.

    Parameters
    ----------
    graphs
        A collection, or graphs or adjacency matrices of any sizes, in a list or a mapping from names; at least two. An
        isolated node is a node, with eigenvalue 0.
    geometry, laplacian
        Which density matrix stands for a graph, see :func:`pairwise`.
    compute : {"auto", "exact", "estimate"}
        "exact" finds all eigenvalues of each graph, once, with up to 6000 linked nodes. "estimate", for Laplacians of
        any size, finds densities of states by Lanczos quadrature with random probes. "auto" estimates larger graphs.
    probes, steps, seed : int
        How many random sign vectors (at least 2), and the length of their Lanczos runs (at least 10); memory is one
        vector a step. The width of the intervals falls as 1/steps.

    Returns
    -------
    Distances
        ``low`` and ``high`` enclose an estimate: for each probe, the nodes of a Gauss rule separate its weights
        (Chebyshev, Markov and Stieltjes), so that each quantile lies between the nodes beside the estimated one. That
        bounds what quadrature leaves open, and is widened by Student's interval of 95% over the probes (jackknife).

    Examples
    --------
    >>> import numpy as np
    >>> def ring(n):
    ...     shift = np.roll(np.eye(n), 1, axis=1)
    ...     return shift + shift.T
    >>> found = spectral_distance([ring(10), np.kron(np.eye(2), ring(10)), ring(11)])
    >>> found.values[0].round(4)
    array([0.   , 0.   , 0.103])
    """
    check_choice("geometry", geometry, get_args(Geometry))
    check_choice("laplacian", laplacian, get_args(Local))
    check_choice("compute", compute, get_args(How))
    check_integer("probes", probes, minimum=2)
    check_integer("steps", steps, minimum=10)
    check_integer("seed", seed, minimum=0)
    adjacencies, names, times = _each(graphs)
    if len(names) < 2:
        raise InputError(f"graphs must hold at least 2 graphs for a distance, got {len(names)}.")
    matrices = [_linked(each, laplacian) for each in adjacencies]
    method = _chosen(matrices, names, compute, geometry)
    shares = [matrix.shape[0] / each.shape[0] for matrix, each in zip(matrices, adjacencies, strict=True)]
    states = [
        _exact_states(matrix, share, geometry)
        if method == "exact"
        else _estimated_states(matrix, share, probes, steps, seed)
        for matrix, share in zip(matrices, shares, strict=True)
    ]
    values, low, high = found = np.zeros((3, len(names), len(names)))
    for one, other in itertools.combinations(range(len(names)), 2):
        found[:, one, other] = found[:, other, one] = _compare(states[one], states[other])
    return Distances(values, low, high, names, times, method)


@dataclass(frozen=True, eq=False)
class _Steps:
    """A quantile function: ``values`` up to the shares ``ends`` of all eigenvalues; both ascending."""

    values: FloatArray
    ends: FloatArray

    @classmethod
    def of(cls, values: FloatArray, weights: FloatArray) -> _Steps:
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(weights[order])
        return cls(values[order], ends / ends[-1])

    def __call__(self, shares: FloatArray) -> FloatArray:
        return np.asarray(self.values[np.minimum(np.searchsorted(self.ends, shares), self.ends.size - 1)])


@dataclass(frozen=True, eq=False)
class _States:
    """Roots of the eigenvalues of nρ: their quantiles, bounds of these, and what each probe left out would give."""

    middle: _Steps
    low: _Steps
    high: _Steps
    without: tuple[_Steps, ...] = ()


def _compare(one: _States, other: _States) -> tuple[float, float, float]:
    """Return a distance, and where it lies."""
    value = _apart(one.middle, other.middle)
    if not one.without:
        return value, value, value
    least, most = _bounds(one, other)
    left = np.array([_apart(*each) for each in zip(one.without, other.without, strict=True)])
    error = np.sqrt((left.size - 1) / left.size * np.square(left - left.mean()).sum())
    spread = float(special.stdtrit(left.size - 1, 0.975) * error)
    return value, max(0.0, least - spread), min(float(np.sqrt(2)), most + spread)


def _pieces(*steps: _Steps) -> tuple[FloatArray, FloatArray]:
    """Return points between all ends of quantile functions, and the lengths of the pieces."""
    ends = np.unique(np.concatenate([np.zeros(1), *(each.ends for each in steps)]))
    return (ends[1:] + ends[:-1]) / 2, np.diff(ends)


def _apart(one: _Steps, other: _Steps) -> float:
    points, lengths = _pieces(one, other)
    return float(np.sqrt(lengths @ np.square(one(points) - other(points))))


def _bounds(one: _States, other: _States) -> tuple[float, float]:
    """Return the least and the largest distance of quantile functions between bounds."""
    points, lengths = _pieces(one.low, one.high, other.low, other.high)
    down, up = (low(points) - high(points) for low, high in ((one.low, other.high), (other.low, one.high)))
    least, most = np.maximum(0.0, np.maximum(down, up)), np.maximum(-down, -up)
    return float(np.sqrt(lengths @ least**2)), float(np.sqrt(lengths @ most**2))


def _exact_states(matrix: CSRArray, share: float, geometry: Geometry) -> _States:
    dense = matrix.toarray()
    values = np.asarray(
        scipy.linalg.eigvalsh(dense, driver="evd", overwrite_a=True, check_finite=False), dtype=np.float64
    )
    kept = support(values)
    found = np.where(kept, values if geometry == "laplacian" else 1 / np.where(kept, values, 1.0), 0.0)
    roots = np.sqrt(found / (found.mean() * share))
    steps = _with_isolated(roots, np.full(roots.size, 1 / roots.size), share)
    return _States(steps, steps, steps)


def _estimated_states(matrix: CSRArray, share: float, probes: int, steps: int, seed: int) -> _States:
    size = matrix.shape[0]
    scaled = sparse.csr_array(matrix * (size / share / float(matrix.trace())))
    top = largest_bound(scaled) if size > 20 else float(abs(scaled).sum(axis=1).max())
    rules, lows, highs = [], [], []
    for nodes, weights in gauss_rules(scaled, probes=probes, steps=steps, seed=seed):
        inside = np.clip(nodes, 0.0, top)
        ended = nodes.size < steps  # the rule is exact, and nothing is left open
        rules.append((np.sqrt(inside), weights))
        lows.append((np.sqrt(inside if ended else np.append(0.0, inside[:-1])), weights))
        highs.append((np.sqrt(inside if ended else np.append(inside[1:], top)), weights))

    def merged(parts: Sequence[tuple[FloatArray, FloatArray]]) -> _Steps:
        values, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
        return _with_isolated(values, weights / weights.sum(), share)

    without = tuple(merged(rules[:at] + rules[at + 1 :]) for at in range(probes))
    return _States(merged(rules), merged(lows), merged(highs), without)


def _with_isolated(values: FloatArray, weights: FloatArray, share: float) -> _Steps:
    """Return the quantiles of all nodes, of which a share has links."""
    if share == 1:
        return _Steps.of(values, weights)
    return _Steps.of(np.append(0.0, values), np.append(1 - share, weights * share))


def _each(
    graphs: GraphCollection | Sequence[Graph | MatrixLike] | Mapping[str, Graph | MatrixLike],
) -> tuple[Sequence[CSRArray], tuple[str, ...], tuple[float, ...] | None]:
    if isinstance(graphs, GraphCollection):
        return graphs.adjacencies, graphs.names, graphs.times
    given, names = listed(graphs)
    adjacencies = adjacencies_of(given, names)
    check_links(names, adjacencies)
    return adjacencies, names, None


def _linked(adjacency: CSRArray, laplacian: Local) -> CSRArray:
    """Return the Laplacian on the nodes that have links."""
    matrix = graph_laplacian(adjacency, laplacian)
    nodes = np.flatnonzero(matrix.diagonal() > 0)
    return matrix if nodes.size == matrix.shape[0] else sparse.csr_array(matrix[nodes][:, nodes])


def _chosen(matrices: Sequence[CSRArray], names: tuple[str, ...], compute: How, geometry: Geometry) -> str:
    """Return how spectra are found, or say why not."""
    sizes = [matrix.shape[0] for matrix in matrices]
    large = max(sizes) > DENSE_LIMIT
    if geometry == "pseudoinverse" and compute == "estimate":
        raise InputError("compute must be 'exact' for geometry 'pseudoinverse', got 'estimate'.")
    if large and (compute == "exact" or geometry == "pseudoinverse"):
        raise InputError(
            f"graphs must have at most {DENSE_LIMIT} nodes with links for exact spectra, but "
            f"{names[int(np.argmax(sizes))]!r} has {max(sizes)}; those of Laplacians are estimated at any size."
        )
    return "estimate" if compute == "estimate" or (compute == "auto" and large) else "exact"
