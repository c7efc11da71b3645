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
_KNOWN = 1e-3  # the error of Ritz values, relative to the largest, up to which their vectors need not be found again
_REST = 0.5  # of its distance to the eigenvalues found, which the error of the next one may have


class _Unsettled(Exception):
    """The Krylov space has ended, or the restarts have, before all was known."""


def lanczos(matrix: CSRArray, rank: int, seed: int, tolerance: float) -> FloatArray | None:
    """Return the ``rank`` largest Ritz vectors, or None if they do not converge, or the Krylov space ends before."""
    try:
        return _largest(matrix, rank, seed, tolerance)
    except _Unsettled:
        return None


def _largest(matrix: CSRArray, rank: int, seed: int, tolerance: float) -> FloatArray:
    size, width, keep = matrix.shape[0], 2 * rank + 12, rank + 8
    basis, projected, rng = np.empty((width + 1, size)), np.zeros((width, width)), np.random.default_rng(seed)
    basis[0], done = _random_beside(basis[:0], rng), 0
    csr = SparseMatrix.from_symmetric(matrix).forward  # whose products are faster than SciPy's
    for _ in range(_RESTARTS):
        with one_thread():
            beta = _extend(csr, basis, projected, done)
        values, rotation = np.linalg.eigh(projected)
        errors, scale = np.abs(beta * rotation[-1, -keep:]), abs(values[-1])
        best, following, done = rotation[:, -keep:], basis[width].copy(), keep
        basis[:done] = best.T @ basis[:width]
        projected[:] = np.diag(np.concatenate([values[-done:], np.zeros(width - done)]))
        # Half the tolerance leaves room for the difference between this estimate and the residual itself.
        if errors[-rank:].max() > 0.5 * tolerance * scale:
            basis[done] = following
            projected[done, :done] = projected[:done, done] = beta * best[-1]
            continue
        known = basis[:done][errors <= _KNOWN * scale]
        with one_thread():
            more = _above(csr, known, values[-rank] + tolerance * scale, rng)
        if more is None:
            return np.ascontiguousarray(basis[done - rank : done].T)
        basis[:rank], basis[rank] = basis[done - rank : done].copy(), more
        projected[:], done = np.diag(np.concatenate([values[-rank:], np.zeros(width - rank)])), rank
    raise _Unsettled


def _above(csr: Tensor, known: FloatArray, threshold: float, rng: np.random.Generator) -> FloatArray | None:
    """Return a vector, orthogonal to orthonormal rows, whose Rayleigh quotient is above the threshold.

    None, if there is none as far as a random vector tells: the largest eigenvalue beside the known ones has come to
    rest below, and is not only on its way up.
    """
    first, size = known.shape
    width, keep = 24, 8
    basis, projected = np.empty((first + width + 1, size)), np.zeros((first + width, first + width))
    basis[:first], done = known, 0
    basis[first] = _random_beside(known, rng)
    for _ in range(_RESTARTS):
        beta = _extend(csr, basis, projected, first + done)
        values, rotation = np.linalg.eigh(projected[first:, first:])
        if values[-1] > threshold:
            return np.asarray(rotation[:, -1] @ basis[first:-1])
        if abs(beta * rotation[-1, -1]) <= _REST * (threshold - values[-1]):
            return None
        best, following, done = rotation[:, -keep:], basis[-1].copy(), keep
        basis[first : first + done] = best.T @ basis[first:-1]
        basis[first + done] = following
        projected[:] = np.diag(np.concatenate([np.zeros(first), values[-done:], np.zeros(width - done)]))
        row = np.concatenate([np.zeros(first), beta * best[-1]])
        projected[first + done, : first + done] = projected[: first + done, first + done] = row
    raise _Unsettled


def _random_beside(vectors: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return a random unit vector that is orthogonal to orthonormal rows."""
    drawn: FloatArray = rng.standard_normal((vectors.shape[1],))
    for _ in range(2):  # once more, since the first pass cancels digits
        drawn -= (vectors @ drawn) @ vectors
    return np.asarray(drawn / np.linalg.norm(drawn))


def _extend(csr: Tensor, basis: FloatArray, projected: FloatArray, done: int) -> float:
    """Fill T and the rows of V from ``done`` on; return β."""
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
            raise _Unsettled
        projected[j, j] = alpha
        if j + 1 < width:
            projected[j, j + 1] = projected[j + 1, j] = beta
        np.divide(image, beta, out=basis[j + 1])
    return beta
