"""What follows from the spectrum of a density matrix: its entropy, exact or estimated, powers, the nearest low rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.geometry.intrinsic._density import (
    DENSE_LIMIT,
    check_semidefinite_sparse,
    check_trace_one,
    decompose,
    density_spectrum,
    positive_trace,
    shape_of,
    sparse_symmetric,
    support,
)
from fishergcn.spectrum import trace_samples

# Below this size a dense decomposition is as fast as any iteration.
_DENSE_SIZE = 512


def von_neumann_entropy(rho: MatrixLike) -> float:
    """Von Neumann entropy H = -Σ λ_i log λ_i of a density matrix, in nats, between 0 and log n; 0 log 0 = 0.

    ``rho`` has n up to 6000; for larger graphs there is :func:`estimate_entropy`.

    Examples
    --------
    >>> import numpy as np
    >>> round(von_neumann_entropy(np.eye(2) / 2), 6)
    0.693147
    """
    return entropy_of(density_spectrum(rho))


def entropy_of(eigenvalues: FloatArray) -> float:
    """Return -Σ λ_i log λ_i of a clean spectrum."""
    values = eigenvalues[eigenvalues > 0]
    # A pure state would give -0.0, and rounding a value of the order of -1e-16.
    return max(0.0, float(-(values * np.log(values)).sum()))


@dataclass(frozen=True)
class EntropyEstimate:
    """An entropy in nats and its standard error over random probes; see :func:`estimate_entropy`."""

    value: float
    standard_error: float


def estimate_entropy(laplacian: MatrixLike, probes: int = 30, steps: int = 60, seed: int = 0) -> EntropyEstimate:
    """Von Neumann entropy of L / tr L by stochastic Lanczos quadrature, for sparse graphs of any size.

    H = log tr L - tr(L log L) / tr L. The trace is the expectation of zᵀ(L log L)z over random signs z, and
    each such form is integrated with the Gauss rule that ``steps`` Lanczos iterations from z provide. A
    quadratic fit of x log x is subtracted first and its trace added exactly: only the rest is left to chance.
    The result has ``value``, in nats, and its ``standard_error`` over the probes.

    Parameters
    ----------
    laplacian : (n, n) array or SciPy sparse matrix
        L, symmetric and positive semi-definite with tr L > 0; it need not be normalized.
    probes, seed : int
        Number of random vectors, at least 2, and their seed. The standard error falls as the root of the number.
    steps : int
        Lanczos iterations for each, at least 2. The bias of the quadrature, which the standard error does not
        show, falls at least as steps⁻²; at the default it is far below the standard error on citation graphs.

    Examples
    --------
    >>> from scipy import sparse
    >>> steps = sparse.eye_array(99, 100) - sparse.eye_array(99, 100, k=1)
    >>> path = steps.T @ steps  # the Laplacian of a path of 100 nodes
    >>> estimate, exact = estimate_entropy(path), von_neumann_entropy(path / path.trace())
    >>> abs(estimate.value - exact) < 3 * estimate.standard_error < 0.03
    True
    """
    check_integer("probes", probes, minimum=2)
    check_integer("steps", steps, minimum=2)
    check_integer("seed", seed, minimum=0)
    shape_of(laplacian, "laplacian")
    given: Any = laplacian
    matrix = sparse_symmetric("laplacian", given if sparse.issparse(given) else sparse.csr_array(given))
    n = matrix.shape[0]
    # Work with n·ρ, whose eigenvalues have mean one: H = log n - tr(nρ log nρ)/n.
    scaled: CSRArray = sparse.csr_array(matrix * (n / positive_trace(float(matrix.trace()))))
    largest = float(abs(scaled).sum(axis=1).max())  # Gershgorin's bound
    constant, slope, curvature = _quadratic_fit(largest)
    exact = constant * n + slope * n + curvature * float((scaled.data**2).sum())

    def remainder(x: FloatArray) -> FloatArray:
        # Estimates lie within the spectrum, so a negative one proves a negative eigenvalue.
        if x[0] < -1e-10 * max(np.abs(x).max(), 1e-300):
            raise InputError(
                "laplacian must be positive semi-definite, but it has an eigenvalue of at most "
                f"{x[0]:.6g} times its mean eigenvalue."
            )
        x = np.maximum(x, 0.0)
        return _x_log_x(x) - (constant + slope * x + curvature * x**2)

    samples = trace_samples(scaled, remainder, probes=probes, steps=steps, seed=seed)
    value = np.log(n) - (exact + samples.mean()) / n
    return EntropyEstimate(float(value), float(samples.std(ddof=1) / np.sqrt(probes) / n))


def power(rho: MatrixLike, omega: float) -> FloatArray:
    """Return ρ^ω / tr ρ^ω, dense, for ω > 0: the same eigenvectors, a spectrum sharpened by ω > 1.

    Its entropy H obeys dH/dω = -ω Var(log λ) under the weights λ^ω / Σ λ^ω, so it never rises with ω.
    """
    exponent = check_real("omega", omega, above=0.0)
    eigenvalues, eigenvectors = decompose("rho", rho)
    # Relative to the largest one, so that a large ω does not underflow everything.
    weights = np.where(eigenvalues > 0, (eigenvalues / eigenvalues[0]) ** exponent, 0.0)
    return np.asarray((eigenvectors * (weights / weights.sum())) @ eigenvectors.T)


def _x_log_x(x: FloatArray) -> FloatArray:
    return np.asarray(x * np.log(np.where(x > 0, x, 1.0)))


def _quadratic_fit(largest: float) -> tuple[float, float, float]:
    """Coefficients of a quadratic close to x log x on [0, largest]: least squares at Chebyshev points."""
    points = largest * (1 + np.cos(np.pi * (np.arange(64) + 0.5) / 64)) / 2
    constant, slope, curvature = np.polynomial.polynomial.polyfit(points, _x_log_x(points), 2)
    return float(constant), float(slope), float(curvature)


@dataclass(frozen=True, eq=False)
class RankProjection:
    """The nearest density matrix of rank k, Ū diag(λ̄) Ūᵀ; see :func:`rank_projection`."""

    eigenvalues: FloatArray
    eigenvectors: FloatArray
    distance: float
    captured_mass: float
    gap: float

    __repr__ = one_line

    def to_dense(self) -> FloatArray:
        """Return the projection as an (n, n) matrix."""
        return np.asarray((self.eigenvectors * self.eigenvalues) @ self.eigenvectors.T)


def rank_projection(rho: MatrixLike, rank: int) -> RankProjection:
    """Closest density matrix of rank k in Bures distance: the k largest eigenpairs, renormalized.

    ρ̄ᵏ = Σ_{i≤k} λ_i u_i u_iᵀ / s with s = Σ_{i≤k} λ_i, at D_B² = 2(1 - sqrt s). A sparse ``rho`` of more than 512
    nodes is handled by a Lanczos method that finds only the top of the spectrum, at any size (p.s.d.-ness is then
    checked by a short one at the bottom), unless the rank is of the order of n. ``rank`` is k, between 1 and the rank
    of ρ.

    Returns
    -------
    RankProjection
        ``eigenvalues`` λ̄, descending with sum 1, and ``eigenvectors`` Ū, (n, k); ``to_dense()`` is Ū diag(λ̄) Ūᵀ.
        ``captured_mass`` is s, ``distance`` the Bures distance to ρ, and ``gap`` λ_k - λ_{k+1} of ρ: the projection is
        unique if and only if it is positive.

    Examples
    --------
    >>> import numpy as np
    >>> projection = rank_projection(np.diag([0.5, 0.3, 0.2]), 2)
    >>> round(projection.captured_mass, 12), round(projection.gap, 12)
    (0.8, 0.1)
    >>> projection.to_dense().diagonal()
    array([0.625, 0.375, 0.   ])
    """
    size = max(shape_of(rho), default=1)
    check_integer("rank", rank, minimum=1, maximum=max(size, 1))
    given: Any = rho
    if sparse.issparse(given) and size > _DENSE_SIZE and (size > DENSE_LIMIT or 10 * rank < size):
        eigenvalues, eigenvectors = _top_pairs(rho, rank)
        tail = max(0.0, 1.0 - float(eigenvalues[:rank].sum()))
    else:
        eigenvalues, eigenvectors = decompose("rho", rho)
        tail = float(eigenvalues[rank:].sum())
    found = int(np.count_nonzero(support(eigenvalues)))
    if rank > found:
        raise InputError(f"rank must be at most the rank of rho, which is {found}, got {rank}.")
    mass = float(eigenvalues[:rank].sum())
    below = float(eigenvalues[rank]) if rank < len(eigenvalues) else 0.0
    return RankProjection(
        eigenvalues=eigenvalues[:rank] / mass,
        eigenvectors=np.ascontiguousarray(eigenvectors[:, :rank]),
        # 1 - sqrt(s) = (1 - s) / (1 + sqrt(s)), and the tail is summed directly: no cancellation at s ≈ 1.
        distance=float(np.sqrt(2 * tail / (1 + np.sqrt(mass)))),
        captured_mass=mass,
        gap=float(eigenvalues[rank - 1]) - below,
    )


def _top_pairs(rho: MatrixLike, rank: int) -> tuple[FloatArray, FloatArray]:
    matrix = sparse_symmetric("rho", rho)
    check_trace_one("rho", float(matrix.trace()))
    check_semidefinite_sparse("rho", matrix)
    size = matrix.shape[0]
    if rank + 1 >= size // 2:
        raise InputError(f"rank must be below {size // 2 - 1} on a sparse matrix of {size} rows, got {rank}.")
    # Fixed start, so that the same matrix always gives the same vectors.
    start = np.random.default_rng(0).standard_normal(size)
    try:
        # Wider than ARPACK's default of 2k + 1, which pays where eigenvalues crowd together.
        width = min(size, 2 * (rank + 1) + 30)
        values, vectors = eigsh(matrix, k=rank + 1, which="LA", v0=start, tol=0, ncv=width)
    except ArpackNoConvergence as error:
        raise ConvergenceError(
            f"The {rank + 1} largest eigenpairs of rho did not converge ({len(error.eigenvalues)} did); "
            "a smaller rank may help."
        ) from error
    order = np.argsort(values)[::-1]
    return np.asarray(values[order], dtype=np.float64), np.asarray(vectors[:, order], dtype=np.float64)
