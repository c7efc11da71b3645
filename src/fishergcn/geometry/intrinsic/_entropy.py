"""How spread out a spectrum is: von Neumann entropy, exact or estimated, and powers of a density matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import (
    decompose,
    density_spectrum,
    positive_trace,
    shape_of,
    sparse_symmetric,
)
from fishergcn.spectrum import trace_samples


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

    Parameters
    ----------
    laplacian : (n, n) array or SciPy sparse matrix
        L, symmetric and positive semi-definite with tr L > 0; it need not be normalized.
    probes : int
        Number of random vectors, at least 2. The standard error falls as its square root.
    steps : int
        Lanczos iterations for each, at least 2. The bias of the quadrature, which the standard error does not
        show, falls at least as steps⁻²; at the default it is far below the standard error on citation graphs.
    seed : int
        Of the probes; the same seed gives the same estimate.

    Returns
    -------
    EntropyEstimate
        ``value``, in nats, and ``standard_error``, that of the value over the probes.

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
        _check_semidefinite(x)
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


def _check_semidefinite(estimates: FloatArray) -> None:
    # They lie within the spectrum, so a negative one proves a negative eigenvalue.
    if estimates[0] < -1e-10 * max(np.abs(estimates).max(), 1e-300):
        raise InputError(
            "laplacian must be positive semi-definite, but it has an eigenvalue of at most "
            f"{estimates[0]:.6g} times its mean eigenvalue."
        )


def _x_log_x(x: FloatArray) -> FloatArray:
    return np.asarray(x * np.log(np.where(x > 0, x, 1.0)))


def _quadratic_fit(largest: float) -> tuple[float, float, float]:
    """Coefficients of a quadratic close to x log x on [0, largest]: least squares at Chebyshev points."""
    points = largest * (1 + np.cos(np.pi * (np.arange(64) + 0.5) / 64)) / 2
    constant, slope, curvature = np.polynomial.polynomial.polyfit(points, _x_log_x(points), 2)
    return float(constant), float(slope), float(curvature)
