"""Fidelity and distance of two graphs of any size, from sparse products alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import positive_trace
from fishergcn.geometry.intrinsic._laplacian import DENSITIES, Density, graph_laplacian, kernel_vector
from fishergcn.geometry.intrinsic._low_rank import low_rank_distance

# Lanczos runs are looked at after 10, 20, 40 … steps, and end where doubling their length changed less than this.
_FIRST_LOOK = 10
_CONVERGED = 1e-3


@dataclass(frozen=True)
class FidelityEstimate:
    """How close two graphs are, with an error bar.

    Attributes
    ----------
    fidelity, distance : float
        The root fidelity F and the Bures distance D_B = sqrt(2 - 2F).
    standard_error : float
        Standard error of F over the random probes; 0 where there are none.
    bias : float
        How far F may be off apart from chance: what the second half of the Krylov steps changed, and half of what b
        may hold in the kernel of a.
    method : str
        ``"low rank"`` (no chance involved), ``"probes"``, or ``"equal"``.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(200), 1, axis=1)
    >>> chords = np.roll(np.eye(200), 7, axis=1)
    >>> a, b = ring + ring.T, ring + ring.T + chords + chords.T
    >>> found = estimate_fidelity(a, b)
    >>> found.method, f"{found.fidelity:.2f}", found.standard_error < 0.01
    ('probes', '0.95', True)
    >>> low, high = found.distance_interval
    >>> low < found.distance < high
    True
    """

    fidelity: float
    distance: float
    standard_error: float
    bias: float
    method: str

    @property
    def distance_interval(self) -> tuple[float, float]:
        """Two standard errors to either side, and the bias: where the Bures distance lies."""
        width = 2 * (2 * self.standard_error + self.bias)
        low, high = max(0.0, self.distance**2 - width), min(2.0, self.distance**2 + width)
        return float(np.sqrt(low)), float(np.sqrt(high))


def estimate_fidelity(
    a: MatrixLike,
    b: MatrixLike,
    laplacian: Density = "renormalized",
    *,
    probes: int = 20,
    steps: int = 160,
    seed: int = 0,
) -> FidelityEstimate:
    """Fidelity and Bures distance of two sparse graphs on the same nodes, of any size.

    With ρ and σ the density matrices of a and b, and M = σ(ρσ)^-½ the optimal transport map from one to the other,
    D_B² is the expectation of ‖y - My‖² over random y with covariance ρ. Such a y is a random sign for every link,
    added at its ends; My comes from a Lanczos run, since ρσ is symmetric in the inner product of σ. No matrix is
    factorized, and the relative error does not grow when the graphs are close.

    Where the graphs differ in a few links, the change has low rank and nothing is left to chance: the Krylov space of
    the changed nodes holds all that is different, and D_B is that of the two matrices within it.

    Parameters
    ----------
    a, b : (n, n) array or SciPy sparse matrix
        Adjacency matrices, symmetric and non-negative.
    laplacian : {"renormalized", "high-order", "normalized", "combinatorial"}
        Which Laplacian stands for a graph, see :func:`graph_laplacian`.
    probes : int
        Number of random vectors, at least 2. The standard error falls as its square root; for one vector it is of the
        order of n^-½, so that large graphs need few.
    steps : int
        Most Lanczos iterations for each, at least 20; a run ends earlier where doubling its length changed less than
        0.1%. Memory is one vector a step.
    seed : int
        Seed of the probes; the same seed gives the same estimate.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(500), 1, axis=1)
    >>> ring = ring + ring.T
    >>> cut = ring.copy()
    >>> cut[3, 4] = cut[4, 3] = 0.0
    >>> found = estimate_fidelity(ring, cut)
    >>> from fishergcn.geometry.intrinsic import bures_distance, density_matrix, graph_laplacian
    >>> exact = bures_distance(*(density_matrix(graph_laplacian(each)) for each in (ring, cut)))
    >>> found.method, bool(abs(found.distance - exact) < 1e-5 * exact)
    ('low rank', True)
    """
    check_choice("laplacian", laplacian, DENSITIES)
    check_integer("probes", probes, minimum=2)
    check_integer("steps", steps, minimum=2 * _FIRST_LOOK)
    check_integer("seed", seed, minimum=0)
    graphs = [check_adjacency(a, name="a"), check_adjacency(b, name="b")]
    if graphs[0].shape != graphs[1].shape:
        raise InputError(f"a and b must have the same nodes, got {graphs[0].shape[0]} and {graphs[1].shape[0]}.")
    laplacians = [graph_laplacian(graph, laplacian) for graph in graphs]
    for each in laplacians:
        positive_trace(float(each.trace()))
    local = low_rank_distance(*laplacians)
    if local is not None:
        distance, change = local
        return _estimate(distance**2, 0.0, change, "low rank" if distance > 0 else "equal")
    # Work with n·ρ, whose eigenvalues are of the order of one.
    scaled = [sparse.csr_array(each * (each.shape[0] / each.trace())) for each in laplacians]
    kernels = [kernel_vector(graph, laplacian, each) for graph, each in zip(graphs, laplacians, strict=True)]
    missed = [_mass_in_kernel(scaled[1 - i], scaled[i], kernels[i]) for i in (0, 1)]
    source = int(np.argmin(missed))  # from this graph a map leads to (nearly) all of the other
    samples = _transport_costs(scaled[source], scaled[1 - source], kernels[source], probes, steps, seed)
    means, changes = samples.mean(axis=0)
    errors = samples[:, 0].std(axis=0, ddof=1) / np.sqrt(probes)
    found = [
        # What is out of reach costs itself; half of its bound is off by at most the other half.
        (means[0] + missed[source] / 2, errors[0], abs(changes[0]) + missed[source] / 2),
        (means[1], errors[1], abs(changes[1])),
    ]
    best = min(found, key=lambda each: 2 * each[1] + each[2])
    return _estimate(*best, "probes")


def _estimate(squared: float, standard_error: float, bias: float, method: str) -> FidelityEstimate:
    """Return an estimate from that of D_B² and its errors."""
    squared = float(min(2.0, max(0.0, squared)))
    return FidelityEstimate(
        1 - squared / 2, float(np.sqrt(squared)), float(standard_error) / 2, float(bias) / 2, method
    )


def _mass_in_kernel(target: CSRArray, source: CSRArray, kernel: FloatArray) -> float:
    """Return tr KᵀσK for K the kernel of ρ: at most this part of σ is out of reach of a map from ρ.

    The kernel has one vector for each component, ``kernel`` restricted to it. The part of σ out of reach is
    tr (Kᵀσ⁺K)⁻¹ over those kernel vectors that lie in the range of σ, which is at most tr KᵀσK.
    """
    count, label = connected_components(source, directed=False)
    norm = np.sqrt(np.bincount(label, weights=kernel**2, minlength=count))
    entries = target.tocoo()
    rows, columns = entries.coords
    unit = kernel / norm[label]
    same = label[rows] == label[columns]
    total = float((entries.data * unit[rows] * unit[columns])[same].sum())
    # Where the kernels agree, what is left is rounding.
    return total / target.shape[0] if total > 1e-10 else 0.0


def _transport_costs(
    source: CSRArray, target: CSRArray, kernel: FloatArray, probes: int, steps: int, seed: int
) -> FloatArray:
    """Return two samples of D_B² for each probe, and below them how much the second half of the steps changed them."""
    n = source.shape[0]
    upper = sparse.triu(source, 1, format="coo")
    rows, columns = upper.coords
    # L = Σ c_e c_eᵀ over links e = (i, j), with c_e = (-L_ij v_i v_j)^½ (e_i / v_i - e_j / v_j), Lv = 0.
    sizes = np.sqrt(np.maximum(-upper.data, 0.0) * kernel[rows] * kernel[columns])
    generator = np.random.default_rng(seed)
    samples = np.empty((probes, 2, 2))
    for probe in range(probes):
        signed = np.where(generator.integers(0, 2, size=sizes.size, dtype=np.int8), sizes, -sizes)
        start = np.bincount(rows, weights=signed, minlength=n) - np.bincount(columns, weights=signed, minlength=n)
        samples[probe] = _transport_cost(source, target, start / kernel, steps)
    return samples / n


def _transport_cost(source: CSRArray, target: CSRArray, start: FloatArray, steps: int) -> FloatArray:
    """Return ‖y - My‖² and 2yᵀ(y - My), and below them how much the second half of the steps changed them.

    M = σ(ρσ)^-½. Lanczos vectors v_k are orthonormal in the inner product of σ, in which ρσ is symmetric; with the
    tridiagonal T, My ≈ Σ_k σv_k (T^-½ e_1)_k ‖y‖_σ. Rounding repeats eigenvalues but does no harm to this sum.

    Both have the mean D_B², the first if σ lies within reach of M: then ‖My‖² has the mean tr σ. It varies less.
    """
    image: FloatArray = np.asarray(target @ start)
    size = float(np.sqrt(max(float(start @ image), 0.0)))
    costs = np.array([1.0, 2.0]) * float(start @ start)
    changes = np.zeros(2)
    if size == 0:
        return np.stack([costs, changes])
    vector, image = start / size, image / size
    previous, coupling = np.zeros_like(vector), 0.0
    images: list[FloatArray] = []
    diagonal: list[float] = []
    couplings: list[float] = []
    look = _FIRST_LOOK
    for step in range(1, steps + 1):
        images.append(image)
        following = np.asarray(source @ image)
        diagonal.append(float(following @ image))
        following -= diagonal[-1] * vector + coupling * previous
        previous = vector
        image = np.asarray(target @ following)
        coupling = float(np.sqrt(max(float(following @ image), 0.0)))
        ended = coupling <= 1e-12 * diagonal[0]
        if step in (look, steps) or ended:
            found = _costs(start, images, size * _inverse_root(diagonal, couplings))
            changes, costs = found - costs, found
            if ended:  # the Krylov space is exhausted, so that nothing can change any more
                return np.stack([costs, np.zeros(2)])
            if abs(changes[0]) <= _CONVERGED * costs[0]:
                break
            look = min(2 * look, steps)
        couplings.append(coupling)
        vector, image = following / coupling, image / coupling
    return np.stack([costs, changes])


def _inverse_root(diagonal: list[float], couplings: list[float]) -> FloatArray:
    """Return T^-½ e_1 for the tridiagonal T, over its eigenvalues that are not rounding noise."""
    values, vectors = scipy.linalg.eigh_tridiagonal(np.array(diagonal), np.array(couplings))
    kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
    roots = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(vectors @ (roots * vectors[0]))


def _costs(start: FloatArray, images: list[FloatArray], weights: FloatArray) -> FloatArray:
    rest = start.copy()
    for image, weight in zip(images, weights, strict=True):
        rest -= weight * image
    return np.array([rest @ rest, 2 * (start @ rest)])
