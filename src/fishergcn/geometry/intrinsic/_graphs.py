"""How far apart two graphs are: exact or estimated, and in units of one link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

import numpy as np
from scipy import sparse, special

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import CSRArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import DENSE_LIMIT, density_matrix, density_spectrum, positive_trace
from fishergcn.geometry.intrinsic._distance import bures_distance
from fishergcn.geometry.intrinsic._laplacian import DENSITIES, Density, Local, graph_laplacian, kernel_vector
from fishergcn.geometry.intrinsic._large import low_rank_distance, probed_distance
from fishergcn.geometry.intrinsic._spectral import entropy_of, estimate_entropy, rank_projection
from fishergcn.geometry.intrinsic._transport import FIRST_LOOK, Kernel
from fishergcn.graph import Graph

Compute: TypeAlias = Literal["auto", "exact", "estimate"]


@dataclass(frozen=True)
class GraphDistance:
    """How close two graphs are, with an error bar; see :func:`graph_distance`."""

    fidelity: float
    distance: float
    standard_error: float
    bias: float
    method: str
    probes: int = 0

    @property
    def distance_interval(self) -> tuple[float, float]:
        """Student's interval of 95%, t(0.975, probes - 1) standard errors to each side, and the bias."""
        spread = float(special.stdtrit(self.probes - 1, 0.975)) * self.standard_error if self.probes > 1 else 0.0
        width = 2 * (spread + self.bias)
        low, high = max(0.0, self.distance**2 - width), min(2.0, self.distance**2 + width)
        return float(np.sqrt(low)), float(np.sqrt(high))


def graph_distance(
    a: Graph | MatrixLike,
    b: Graph | MatrixLike,
    laplacian: Density = "renormalized",
    *,
    compute: Compute = "auto",
    probes: int = 20,
    steps: int = 160,
    seed: int = 0,
) -> GraphDistance:
    """Bures distance and fidelity of two graphs on the same nodes, exact or, for graphs of any size, estimated.

    The exact distance is :func:`bures_distance` of the two density matrices, which are dense.

    The estimate takes sparse products alone. With ρ and σ the density matrices of a and b, and M = σ(ρσ)^-½ the
    optimal transport map from one to the other, D_B² is the expectation of ‖y - My‖² over random y with covariance ρ.
    Such a y is a random sign for every link, added at its ends; My comes from a Lanczos run, since ρσ is symmetric in
    the inner product of σ. No matrix is factorized, and the relative error does not grow when the graphs are close.
    Where the graphs differ in a few links, the change has low rank and nothing is left to chance: the Krylov space of
    the changed nodes holds all that is different, and D_B is that of the two matrices within it.

    Parameters
    ----------
    a, b : Graph, (n, n) array or SciPy sparse matrix
        Graphs, or their adjacency matrices, symmetric and non-negative. Nodes with ids must have the same ones.
    laplacian : {"renormalized", "high-order", "normalized", "combinatorial"}
        Which Laplacian stands for a graph, see :func:`graph_laplacian`.
    compute : {"auto", "exact", "estimate"}
        "auto" is exact up to 6000 nodes and estimates beyond.
    probes, seed : int
        Number of random vectors of an estimate, at least 2. The standard error falls as its square root; for one
        vector it is of the order of n^-½, so that large graphs need few. The same seed gives the same estimate.
    steps : int
        Most Lanczos iterations for each, at least 20; a run ends earlier where doubling its length changed less than
        0.1%. Memory is one vector a step.

    Returns
    -------
    GraphDistance
        ``distance`` D_B = sqrt(2 - 2F), ``fidelity`` F (the root fidelity), and ``method``, how they were found:
        "dense", "low rank" (no chance involved), "probes" or "equal". ``standard_error`` of F over the probes and its
        ``bias``, how far F may be off apart from chance, are 0 for the exact distance; ``distance_interval`` is where
        D_B lies, with 95% confidence: Student's t with probes - 1 degrees of freedom, and the bias.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(200), 1, axis=1)
    >>> ring = ring + ring.T
    >>> cut = ring.copy()
    >>> cut[3, 4] = cut[4, 3] = 0.0
    >>> exact, found = graph_distance(ring, cut), graph_distance(ring, cut, compute="estimate")
    >>> exact.method, found.method, bool(abs(found.distance - exact.distance) < 1e-5 * exact.distance)
    ('dense', 'low rank', True)
    """
    check_choice("laplacian", laplacian, DENSITIES)
    check_integer("probes", probes, minimum=2)
    check_integer("steps", steps, minimum=2 * FIRST_LOOK)
    check_integer("seed", seed, minimum=0)
    graphs = _on_the_same_nodes(a, b)
    laplacians = [graph_laplacian(graph, laplacian) for graph in graphs]
    if _is_exact(compute, graphs[0].shape[0]):
        chord = bures_distance(*(density_matrix(each) for each in laplacians))
        return GraphDistance(1 - chord**2 / 2, chord, 0.0, 0.0, "dense")
    kernels = [kernel_of(graph, laplacian, each) for graph, each in zip(graphs, laplacians, strict=True)]
    return estimated_distance(laplacians, kernels, probes, steps, seed)


def kernel_of(graph: CSRArray, kind: Density, matrix: CSRArray) -> Kernel:
    """Return the kernel of a graph's Laplacian, which must not be zero."""
    positive_trace(float(matrix.trace()))
    return Kernel(matrix, kernel_vector(graph, kind, matrix))


def estimated_distance(
    laplacians: Sequence[CSRArray], kernels: Sequence[Kernel], probes: int, steps: int, seed: int
) -> GraphDistance:
    """Return the distance of two graphs from their Laplacians, as :func:`graph_distance` estimates it."""
    local = low_rank_distance(*laplacians)
    if local is not None:
        distance, change = local
        return _estimate(distance**2, 0.0, change, "low rank" if distance > 0 else "equal")
    return _estimate(*probed_distance(laplacians, kernels, probes, steps, seed), "probes", probes)


def link_distance(adjacency: MatrixLike, laplacian: Local = "renormalized", *, links: int = 60, seed: int = 0) -> float:
    """Bures distance of a graph from itself less one typical link: divide a distance by it to have it in links.

    It is the root mean square over randomly chosen links, each removed alone, by the exact method of
    :func:`graph_distance` for changes of low rank. Squares add up, not distances: k links that are gone are about
    sqrt(k) times as far as this.
    ``adjacency`` is A, symmetric and non-negative, with at least two links, ``laplacian`` as in
    :func:`link_information`, ``links`` how many to try (all of them if there are fewer), and ``seed`` that of their
    choice.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(50), 1, axis=1)
    >>> unit = link_distance(ring + ring.T)
    >>> cut = ring.copy()
    >>> cut[3, 4] = 0.0
    >>> round(graph_distance(ring + ring.T, cut + cut.T).distance / unit, 6)
    1.0
    """
    check_choice("laplacian", laplacian, get_args(Local))
    check_integer("links", links, minimum=1)
    check_integer("seed", seed, minimum=0)
    matrix = check_adjacency(adjacency)
    upper = sparse.triu(matrix, 1, format="coo")
    rows, columns = upper.coords
    if rows.size < 2:
        raise InputError(f"adjacency must have at least 2 links, so that one can be removed, got {rows.size}.")
    chosen = np.random.default_rng(seed).choice(rows.size, size=min(links, rows.size), replace=False)
    found = []
    for link in chosen:
        i, j = int(rows[link]), int(columns[link])
        gone = sparse.csr_array(([matrix[i, j]] * 2, ([i, j], [j, i])), shape=matrix.shape)
        # Never below zero: a number less itself is zero.
        fewer = sparse.csr_array(matrix - gone)
        found.append(graph_distance(matrix, fewer, laplacian, compute="estimate", seed=seed).distance)
    return float(np.sqrt(np.mean(np.square(found))))


@dataclass(frozen=True)
class GraphComparison:
    """Two graphs side by side; see :func:`compare_graphs`."""

    distance: GraphDistance
    traces: tuple[float, float]
    entropies: tuple[float, float]
    eigenvalues: tuple[list[float], list[float]]
    link_distance: float | None


def compare_graphs(
    a: Graph | MatrixLike,
    b: Graph | MatrixLike,
    laplacian: Density = "renormalized",
    *,
    compute: Compute = "auto",
    rank: int = 10,
    links: int = 60,
) -> GraphComparison:
    """Compare two graphs on the same nodes: Bures distance, entropies, largest eigenvalues of their Laplacians.

    ``a``, ``b``, ``laplacian`` and ``compute`` are as in :func:`graph_distance`; entropies and eigenvalues are exact or
    estimated as the distance is. ``rank`` is how many of the largest eigenvalues, and ``links`` how many links to
    remove, one at a time, to find the effect of one (:func:`link_distance`); 0 to skip it.

    Returns
    -------
    GraphComparison
        ``distance``, what :func:`graph_distance` returns, and of the two graphs ``traces`` and the largest
        ``eigenvalues`` of L, and ``entropies`` of L / tr L. ``link_distance`` is that of a; None where it was skipped,
        for high-order Laplacians and for a graph of fewer than two links.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(50), 1, axis=1)
    >>> cut = ring.copy()
    >>> cut[3, 4] = 0.0
    >>> found = compare_graphs(ring + ring.T, cut + cut.T, "combinatorial", rank=2)
    >>> found.traces, round(found.distance.distance / found.link_distance, 6)
    ((100.0, 98.0), 1.0)
    """
    check_integer("links", links, minimum=0)
    graphs = _on_the_same_nodes(a, b)
    nodes = graphs[0].shape[0]
    check_integer("rank", rank, minimum=1, maximum=nodes)
    distance = graph_distance(*graphs, laplacian, compute=compute)
    laplacians = [graph_laplacian(graph, laplacian) for graph in graphs]
    if _is_exact(compute, nodes):
        spectra = [density_spectrum(density_matrix(each)) for each in laplacians]
        entropies = [entropy_of(spectrum) for spectrum in spectra]
        tops = [spectrum[:rank] for spectrum in spectra]
    else:
        projections = [rank_projection(density_matrix(each), rank) for each in laplacians]
        entropies = [estimate_entropy(each).value for each in laplacians]
        tops = [each.captured_mass * each.eigenvalues for each in projections]
    traces = [float(each.trace()) for each in laplacians]
    has_unit = links > 0 and laplacian != "high-order" and sparse.triu(graphs[0], 1).nnz > 1
    return GraphComparison(
        distance,
        (traces[0], traces[1]),
        (entropies[0], entropies[1]),
        ((traces[0] * tops[0]).tolist(), (traces[1] * tops[1]).tolist()),
        link_distance(graphs[0], cast("Local", laplacian), links=links) if has_unit else None,
    )


def _is_exact(compute: Compute, nodes: int) -> bool:
    check_choice("compute", compute, get_args(Compute))
    return compute == "exact" or (compute == "auto" and nodes <= DENSE_LIMIT)


def _estimate(squared: float, standard_error: float, bias: float, method: str, probes: int = 0) -> GraphDistance:
    """Return an estimate from that of D_B² and its errors."""
    squared = float(min(2.0, max(0.0, squared)))
    errors = float(standard_error) / 2, float(bias) / 2
    return GraphDistance(1 - squared / 2, float(np.sqrt(squared)), *errors, method, probes)


def _on_the_same_nodes(a: Graph | MatrixLike, b: Graph | MatrixLike) -> tuple[CSRArray, CSRArray]:
    """Return the adjacency matrices of two graphs, or say in which node they differ."""
    pairs = [("a", a), ("b", b)]
    graphs = [each.adjacency if isinstance(each, Graph) else check_adjacency(each, name=name) for name, each in pairs]
    names = [(each.name if isinstance(each, Graph) else None) or name for name, each in pairs]
    sizes = [graph.shape[0] for graph in graphs]
    if sizes[0] != sizes[1]:
        raise InputError(
            f"a and b must be graphs on the same nodes, but {names[0]} has {sizes[0]} and {names[1]} has {sizes[1]}."
        )
    first, second = (each.node_ids if isinstance(each, Graph) else None for _, each in pairs)
    if first is not None and second is not None and first != second:
        position = next(i for i, (one, other) in enumerate(zip(first, second, strict=True)) if one != other)
        raise InputError(
            f"a and b must be graphs on the same nodes in the same order, but node {position} is {first[position]!r} "
            f"in {names[0]} and {second[position]!r} in {names[1]}."
        )
    return graphs[0], graphs[1]
