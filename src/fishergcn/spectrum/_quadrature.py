"""Stochastic Lanczos quadrature: the trace of a matrix function from matrix-vector products alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg

from fishergcn._base.types import CSRArray, FloatArray


def trace_samples(
    matrix: CSRArray, function: Callable[[FloatArray], FloatArray], *, probes: int, steps: int, seed: int
) -> FloatArray:
    """Draw estimates of tr f(M), one for each random sign vector z: zᵀ f(M) z ≈ n Σ_k τ_k f(θ_k).

    M is symmetric; f is applied to vectors of estimates θ of its eigenvalues, ascending, which lie within its spectrum;
    ``steps`` is the length of each Lanczos run. The ``probes`` samples are independent; their mean estimates the trace.
    """
    rules = gauss_rules(matrix, probes=probes, steps=steps, seed=seed)
    return np.array([matrix.shape[0] * (weights @ function(nodes)) for nodes, weights in rules])


def gauss_rules(matrix: CSRArray, *, probes: int, steps: int, seed: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield nodes θ and weights τ of a Gauss rule for each random sign vector z: estimates of the density of states.

    Σ τ_k p(θ_k) = zᵀ p(M) z / n for polynomials p of degree below 2·steps, the expectation of which is tr p(M) / n. A
    rule with fewer than ``steps`` nodes is exact for z: its Krylov space has ended.
    """
    generator = np.random.default_rng(seed)
    n = matrix.shape[0]
    for _ in range(probes):
        signs = generator.choice(np.array([-1.0, 1.0]), size=n)
        yield _gauss_rule(matrix, signs / np.sqrt(n), min(steps, n))


def _gauss_rule(matrix: CSRArray, start: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes θ, Ritz values, and weights τ with Σ τ_k p(θ_k) = vᵀ p(M) v for p of degree < 2·steps."""
    basis = np.empty((steps, start.size))
    diagonal, off_diagonal = np.empty(steps), np.empty(steps)
    vector = start
    for step in range(steps):
        basis[step] = vector
        image = np.asarray(matrix @ vector)
        diagonal[step] = vector @ image
        scale = float(np.linalg.norm(image))
        # Orthogonalize against everything, twice: plain three-term Lanczos would find eigenvalues repeatedly.
        known = basis[: step + 1]
        for _ in range(2):
            image -= known.T @ (known @ image)
        off_diagonal[step] = np.linalg.norm(image)
        if off_diagonal[step] <= 1e-12 * max(scale, 1e-300):
            break
        vector = image / off_diagonal[step]
    size = step + 1
    nodes, vectors = scipy.linalg.eigh_tridiagonal(diagonal[:size], off_diagonal[: size - 1])
    return np.asarray(nodes, dtype=np.float64), np.asarray(vectors[0] ** 2, dtype=np.float64)
