"""Largest eigenpairs of a sparse symmetric matrix by the Lanczos method with thick restarts (Wu & Simon 2000).

    M V = V T + β v eᵀ

with orthonormal columns V, of which a restart keeps the best Ritz vectors: then T is diagonal there, with one full row
for what couples them to the next vector. It is what ARPACK does by shifts, with less beside the products: rounding is
kept away by one pass over all vectors after the two terms that exact arithmetic would leave.
"""

from __future__ import annotations

import math

import numpy as np

from fishergcn._base.types import CSRArray, FloatArray

_RESTARTS = 300


def lanczos(matrix: CSRArray, rank: int, seed: int, tolerance: float) -> FloatArray | None:
    """Return the ``rank`` largest Ritz vectors, or None if they do not converge, or the Krylov space ends before."""
    size, width, keep = matrix.shape[0], 2 * rank + 12, rank + 8
    basis, projected = np.empty((width + 1, size)), np.zeros((width, width))
    start = np.random.default_rng(seed).standard_normal(size)
    basis[0], done = start / np.linalg.norm(start), 0
    for _ in range(_RESTARTS):
        beta = _extend(matrix, basis, projected, done)
        if beta is None:
            return None
        values, rotation = np.linalg.eigh(projected)
        best = rotation[:, -keep:]
        # Half the tolerance leaves room for the difference between this estimate and the residual itself.
        if np.abs(beta * best[-1, -rank:]).max() <= 0.5 * tolerance * abs(values[-1]):
            return np.ascontiguousarray((best[:, -rank:].T @ basis[:width]).T)
        basis[:keep] = best.T @ basis[:width]
        basis[keep], done = basis[width], keep
        projected[:] = np.diag(np.concatenate([values[-keep:], np.zeros(width - keep)]))
        projected[keep, :keep] = projected[:keep, keep] = beta * best[-1]
    return None


def _extend(matrix: CSRArray, basis: FloatArray, projected: FloatArray, done: int) -> float | None:
    """Fill T and the rows of V from ``done`` on; return β, or None where nothing is left to go on with."""
    width, beta = len(projected), 0.0
    for j in range(done, width):
        image: FloatArray = matrix @ basis[j]
        alpha = float(basis[j] @ image)
        image -= alpha * basis[j]
        if j > done:
            image -= beta * basis[j - 1]
        else:
            image -= projected[:done, done] @ basis[:done]
        image -= (basis[: j + 1] @ image) @ basis[: j + 1]
        scale, beta = abs(alpha) + beta, math.sqrt(image @ image)
        if not beta > 1e-12 * scale:
            return None
        projected[j, j] = alpha
        if j + 1 < width:
            projected[j, j + 1] = projected[j + 1, j] = beta
        np.divide(image, beta, out=basis[j + 1])
    return beta
