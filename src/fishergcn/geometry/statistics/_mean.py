"""The mean of graphs, their variance, and how close to the mean a result provably is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy import sparse

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._base.reprs import one_line
from fishergcn._base.tensors import one_thread
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.execution import count_cores
from fishergcn.geometry.intrinsic._density import DENSE_LIMIT, support
from fishergcn.geometry.intrinsic._laplacian import Local
from fishergcn.geometry.intrinsic._transport import FIRST_LOOK
from fishergcn.geometry.statistics._collection import Graphs, as_collection
from fishergcn.geometry.statistics._densities import Densities, Geometry, densities_of
from fishergcn.geometry.statistics._large_mean import large_mean


@dataclass(frozen=True, eq=False)
class GraphMean:
    """The Bures mean of graphs with its certificate; see :func:`mean`.

    ``density`` is τ on the ``nodes`` that have a link in some graph (indices in the collection), ``fidelities`` those
    of τ with every graph, ``weights`` the graphs', with sum 1. ``residual`` is how much the last step moved τ, and
    ``lowest_variance`` a bound: no density matrix has a smaller variance.

    With ``method`` "estimate", ``density`` is sparse, ``residual`` is the length (E of :func:`mean`) of the step that
    would follow, and all numbers are estimates: ``fidelity_errors``, ``variance_error`` and ``residual_error`` are half
    the widths of their 95% intervals, and ``lowest_variance`` is the lower end of one. These errors are 0 else.
    """

    density: FloatArray | CSRArray
    nodes: IntArray
    weights: FloatArray
    fidelities: FloatArray
    residual: float
    lowest_variance: float
    iterations: int
    num_nodes: int
    geometry: Geometry = "laplacian"
    method: Literal["exact", "estimate"] = "exact"
    fidelity_errors: FloatArray | float = 0.0
    variance_error: float = 0.0
    residual_error: float = 0.0

    __repr__ = one_line

    @property
    def dense(self) -> FloatArray:
        """τ on its ``nodes`` as a dense matrix."""
        if not isinstance(self.density, np.ndarray):
            raise InputError(
                f"the mean of {self.nodes.size} nodes is too large for a dense matrix; .density is sparse."
            )
        return self.density

    @property
    def distances(self) -> FloatArray:
        """Bures distances of the graphs from the mean."""
        return np.sqrt(np.maximum(0.0, 2 - 2 * self.fidelities))

    @property
    def variance(self) -> float:
        """Weighted mean of the squared Bures distances from the mean."""
        return max(0.0, 2 - 2 * float(self.weights @ self.fidelities))

    def matrix(self) -> FloatArray:
        """Return τ on all nodes of the collection, (n, n): zero where no graph has a link."""
        found = np.zeros((self.num_nodes, self.num_nodes))
        found[np.ix_(self.nodes, self.nodes)] = self.dense
        return found

    def adjacency(self, least: float = 0.0) -> CSRArray:
        """Return the links of the mean, a_ij = -l_ij where that is above ``least``: weights for tr D = 1.

        l is τ, or τ† / tr τ† in the geometry of pseudo-inverses. The mean of combinatorial Laplacians need not be one:
        entries l_ij > 0 count as no link.
        """
        check_real("least", least, minimum=0.0)
        if isinstance(self.density, np.ndarray):
            found = sparse.coo_array(-laplacian_of(self.density, self.geometry))
        else:
            found = -self.density.tocoo()
        rows, columns = found.coords
        kept = (rows != columns) & (found.data > least)
        rows, columns = rows[kept], columns[kept]
        shape = (self.num_nodes, self.num_nodes)
        return sparse.csr_array((found.data[kept], (self.nodes[rows], self.nodes[columns])), shape=shape)


def mean(
    graphs: Graphs,
    weights: Sequence[float] | AnyArray | None = None,
    *,
    geometry: Geometry = "laplacian",
    laplacian: Local = "combinatorial",
    compute: Literal["auto", "exact", "estimate"] = "auto",
    tolerance: float = 1e-10,
    max_iterations: int = 500,
    probes: int = 10,
    steps: int = 160,
    seed: int = 0,
) -> GraphMean:
    """Bures mean of graphs: the density matrix τ with the least Σ w_i D_B(ρ_i, τ)², their barycenter.

    Up to its trace it is the Wasserstein barycenter of Gaussians with covariances ρ_i, and solves
    S = Σ w_i (S^½ ρ_i S^½)^½. From the arithmetic mean on, steps

        S ← S^-½ K² S^-½,   K = Σ w_i (S^½ ρ_i S^½)^½

    (Álvarez-Esteban, del Barrio, Cuesta-Albertos and Matrán, 2016) raise Σ w_i F(ρ_i, S) until S moves by less than
    ``tolerance``. With maps T = S^-½ K S^-½, duality bounds how much more is possible: for every density matrix τ′,
    Σ w_i F(ρ_i, τ′) ≤ (λ_max(T) Σ w_i F(ρ_i, τ))^½, whatever τ is. So ``lowest_variance`` ≤ the variance of the true
    mean ≤ ``variance``. The mean of two graphs is the midpoint of their geodesic.

    The mean is dense. For graphs of any size, ``compute="estimate"`` takes the best of a few sparse density matrices on
    the links of all graphs instead: their average, and averages of powers of links' weights. It is not the mean, but
    ``lowest_variance`` says how little of the variance there is to gain. With E = Σ w_i T_i / f - I, T_i the maps from
    this τ to the graphs and f = Σ w_i F(ρ_i, τ), ``residual`` is (tr EτE)^½: to first order, the Bures distance from τ
    to what one more step would lead to. Maps are applied to random vectors by sparse products.

    Parameters
    ----------
    graphs : GraphCollection, or graphs as it takes them
        At least one.
    weights
        One for each graph, not negative, of any sum; equal by default.
    geometry, laplacian
        Which density matrix stands for a graph, see :func:`pairwise`.
    compute : {"auto", "exact", "estimate"}
        "exact" takes up to 6000 nodes that have a link in some graph, "estimate" Laplacians of any size; "auto"
        estimates beyond 6000.
    tolerance, max_iterations
        When to stop: at a step with ‖S_new - S‖ ≤ tolerance ‖S‖ (Frobenius norms); with an error if none comes.
    probes, steps, seed : int
        Random vectors of an estimate, at least 2, Lanczos steps for each at most, and the seed of the vectors.

    Returns
    -------
    GraphMean
        ``density`` τ and ``matrix()`` on all nodes, ``variance``, ``distances`` of the graphs from it, and the
        certificate: ``residual`` and ``lowest_variance``.

    Examples
    --------
    >>> import numpy as np
    >>> path, ring = np.diag([1.0, 1.0], 1), np.ones((3, 3)) - np.eye(3)
    >>> found = mean([path + path.T, ring])
    >>> found.distances.round(6), found.residual < 1e-9
    (array([0.130806, 0.130806]), True)
    >>> bool(0 <= found.variance - found.lowest_variance < 1e-8)
    True
    """
    check_real("tolerance", tolerance, above=0.0)
    check_integer("max_iterations", max_iterations, minimum=1)
    check_choice("compute", compute, ("auto", "exact", "estimate"))
    check_integer("probes", probes, minimum=2)
    check_integer("steps", steps, minimum=2 * FIRST_LOOK)
    check_integer("seed", seed, minimum=0)
    collection = as_collection(graphs)
    shares = check_weights(weights, len(collection))
    densities = densities_of(collection, geometry, laplacian, dense=compute == "exact")
    if compute == "estimate" or densities.size > DENSE_LIMIT:
        return _estimated(densities, shares, collection.num_nodes, (probes, steps, seed))
    found = barycenter(densities.matrices(), shares, tolerance, max_iterations)
    density, fidelities, residual, bound, steps = found
    size = collection.num_nodes
    return GraphMean(density, densities.nodes, shares, fidelities, residual, bound, steps, size, geometry)


def _estimated(densities: Densities, shares: FloatArray, nodes: int, chosen: tuple[int, int, int]) -> GraphMean:
    if densities.geometry != "laplacian":
        raise InputError(
            f"geometry must be 'laplacian' for an estimated mean, which {densities.size} linked nodes need beyond "
            f"{DENSE_LIMIT}, got {densities.geometry!r}."
        )
    made = large_mean(densities, shares, *chosen)
    return GraphMean(
        made.density, densities.nodes, shares, made.fidelities, made.residual, made.lowest_variance, 0, nodes,
        densities.geometry, "estimate", made.fidelity_errors, made.variance_error, made.residual_error,
    )  # fmt: skip


def variance(
    graphs: Graphs,
    weights: Sequence[float] | AnyArray | None = None,
    *,
    geometry: Geometry = "laplacian",
    laplacian: Local = "combinatorial",
) -> float:
    """Fréchet variance of graphs, Σ w_i D_B(ρ_i, τ)² with τ their :func:`mean`, between 0 and 2.

    Arguments are those of :func:`mean`; at least two graphs.

    Examples
    --------
    >>> import numpy as np
    >>> path, ring = np.diag([1.0, 1.0], 1), np.ones((3, 3)) - np.eye(3)
    >>> round(variance([path + path.T, ring]), 6)
    0.01711
    """
    collection = as_collection(graphs, at_least=2, why=" for a variance")
    return mean(collection, weights, geometry=geometry, laplacian=laplacian).variance


def check_weights(weights: Sequence[float] | AnyArray | None, count: int) -> FloatArray:
    """Return one non-negative weight for each graph, with sum 1."""
    if weights is None:
        return np.full(count, 1 / count)
    found = np.array([check_real(f"weights[{at}]", each, minimum=0.0) for at, each in enumerate(weights)])
    if found.size != count:
        raise InputError(f"weights must be one for each graph, {count}, got {found.size}.")
    if not found.sum() > 0:
        raise InputError("weights must not all be zero.")
    return np.asarray(found / found.sum())


def barycenter(
    densities: Sequence[FloatArray | CSRArray], weights: FloatArray, tolerance: float, max_iterations: int
) -> tuple[FloatArray, FloatArray, float, float, int]:
    """Return the barycenter of density matrices, fidelities with it, residual, least variance and iterations."""
    point = np.zeros(densities[0].shape)
    for weight, density in zip(weights, densities, strict=True):
        point += weight * density
    rank, step, residual = 0, 0, np.inf
    last: tuple[FloatArray, FloatArray] | None = None
    accelerated = True
    while residual > tolerance:
        if step == max_iterations:
            raise ConvergenceError(
                f"The mean did not converge in {max_iterations} iterations: the last one moved it by {residual:.2g}, "
                f"more than the tolerance of {tolerance:g}; a larger tolerance or max_iterations may help."
            )
        previous, step = point, step + 1
        root, inverse, found = roots_of(point)
        rank = rank or found
        if found < rank and last is not None and accelerated:  # the extrapolated point is not positive
            point, last, accelerated = last[0], None, False
            continue
        fidelities, middle = np.empty(len(densities)), np.zeros_like(root)
        for at, (fidelity, image) in enumerate(overlaps(densities, root)):
            fidelities[at] = fidelity
            middle += weights[at] * image
        moved = inverse @ middle
        point = made = moved @ moved.T
        change = made - previous
        residual = float(np.linalg.norm(change) / np.linalg.norm(previous))
        if last is not None and accelerated:
            point = _extrapolated(made, change, *last)
        last = made, change
    # Fidelities belong to the point before the last step, whose trace is not one.
    trace = float(np.trace(previous))
    fidelities = np.minimum(1.0, fidelities / np.sqrt(trace))
    # The bound needs maps on all of the graphs' common support.
    stretch = float(np.linalg.eigvalsh(moved @ inverse)[-1]) * np.sqrt(trace) if found == rank else np.inf
    bound = max(0.0, 2 - 2 * min(1.0, np.sqrt(stretch * float(weights @ fidelities))))
    return previous / trace, fidelities, residual, bound, step


def _extrapolated(made: FloatArray, change: FloatArray, made_before: FloatArray, before: FloatArray) -> FloatArray:
    """Return the point on the line through the last two at which their changes would be smallest (Anderson)."""
    turn = change - before
    share = float(np.vdot(change, turn)) / max(float(np.vdot(turn, turn)), np.finfo(np.float64).tiny)
    return np.asarray(made - share * (made - made_before))


def roots_of(point: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Return S^½, its pseudo-inverse and its rank."""
    values, vectors = np.linalg.eigh(point)
    kept = support(values)
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T, roots.size


def overlaps(densities: Sequence[FloatArray | CSRArray], root: FloatArray) -> Iterator[tuple[float, FloatArray]]:
    """Yield the fidelity tr H_i and H_i = (S^½ ρ_i S^½)^½ of each density matrix, in order."""
    factor = torch.from_numpy(root)

    def overlap(density: FloatArray | CSRArray) -> tuple[float, FloatArray]:
        if isinstance(density, np.ndarray):
            image = torch.from_numpy(density) @ factor
        else:
            image = torch.from_numpy(np.asarray(density @ root))
        found, vectors = torch.linalg.eigh(factor @ image)
        values = found.numpy()
        values = np.sqrt(np.where(support(values), values, 0.0))
        return float(values.sum()), ((vectors * torch.from_numpy(values)) @ vectors.T).numpy()

    cores = count_cores()
    threads = min(len(densities), cores)
    # A thread for each graph; threads within decompositions would wait for each other.
    with one_thread(threads == cores), ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(densities), threads):  # no more results in memory than threads
            yield from pool.map(overlap, densities[first : first + threads])


def laplacian_of(density: FloatArray, geometry: Geometry) -> FloatArray:
    """Return a Laplacian of trace 1 from its density matrix, as a copy."""
    if geometry == "laplacian":
        return density.copy()
    found = np.linalg.pinv(density, hermitian=True)
    return np.asarray(found / np.trace(found))
