"""Largest eigenpairs of a sparse symmetric matrix by the Lanczos method with thick restarts (Wu & Simon 2000).

    M V = V T + β v eᵀ

with orthonormal columns V, of which a restart keeps the best Ritz vectors: then T is diagonal there, with one full row
for what couples them to the next vector. It is what ARPACK does by shifts, with less beside the products: rounding is
kept away by one pass over all vectors after the two terms that exact arithmetic would leave. A Krylov space has one
vector of each eigenspace, so whatever was found is tried once more with a new random vector beside it, until the
largest eigenvalue that is not among them is known: copies of an eigenvalue show then, and are found in turn.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.tensors import one_thread
from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.operators import SparseMatrix

_RESTARTS = 300
_REST = 0.2  # of the distance to the eigenvalues found, which the error of the next one may have


def lanczos(matrix: CSRArray, rank: int, seed: int, tolerance: float) -> FloatArray | None:
    """Return the ``rank`` largest Ritz vectors, or None if they do not converge, or the Krylov space ends before."""
    size, width, keep = matrix.shape[0], 2 * rank + 12, rank + 8
    basis, projected, rng = np.empty((width + 1, size)), np.zeros((width, width)), np.random.default_rng(seed)
    basis[0], done = _random_beside(basis[:0], rng), 0
    csr = SparseMatrix.from_symmetric(matrix).forward  # whose products are faster than SciPy's
    found: FloatArray | None = None  # the eigenvalues beside which a new vector is tried
    for _ in range(_RESTARTS):
        with one_thread():
            beta = _extend(csr, basis, projected, done)
        if beta is None:
            return None
        values, rotation = np.linalg.eigh(projected)
        close = tolerance * abs(values[-1])
        if found is not None and (values[-rank:] - found).max() > close:
            found = None  # there is more than was found
        # The largest of the others must have come to rest below those found, not only be on its way up.
        below, error = values[-rank] - values[-rank - 1], abs(beta * rotation[-1, -rank - 1])
        if found is not None and error <= max(close, _REST * below):
            return np.ascontiguousarray(basis[done - rank : done].T)
        # Half the tolerance leaves room for the difference between this estimate and the residual itself.
        converged = found is None and np.abs(beta * rotation[-1, -rank:]).max() <= 0.5 * close
        done = rank if converged else keep
        best, following = rotation[:, -done:], basis[width].copy()
        basis[:done] = best.T @ basis[:width]
        projected[:] = np.diag(np.concatenate([values[-done:], np.zeros(width - done)]))
        if converged:
            found, basis[done] = values[-rank:], _random_beside(basis[:done], rng)
        else:
            basis[done] = following
            projected[done, :done] = projected[:done, done] = beta * best[-1]
    return None


def _random_beside(vectors: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return a random unit vector that is orthogonal to orthonormal rows."""
    drawn: FloatArray = rng.standard_normal((vectors.shape[1],))
    for _ in range(2):  # once more, since the first pass cancels digits
        drawn -= (vectors @ drawn) @ vectors
    return np.asarray(drawn / np.linalg.norm(drawn))


def _extend(csr: Tensor, basis: FloatArray, projected: FloatArray, done: int) -> float | None:
    """Fill T and the rows of V from ``done`` on; return β, or None where nothing is left to go on with."""
    width, beta = len(projected), 0.0
    for j in range(done, width):
        image: FloatArray = (csr @ torch.from_numpy(basis[j])).numpy()
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
