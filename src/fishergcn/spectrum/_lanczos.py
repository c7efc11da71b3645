"""Largest eigenpairs of a sparse symmetric matrix by the Lanczos method with thick restarts (Wu & Simon 2000).

    M V = V T + β v eᵀ

with orthonormal columns V, of which a restart keeps the best Ritz vectors. A Krylov space has one vector of each
eigenspace, so whatever was found is tried once more with a new random vector beside it, until the largest eigenvalue
that is not among them is known: copies of an eigenvalue show then, and are found in turn.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.backend import usable
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
    # All in torch, and on one thread: for vectors of this size, threads of its own and of NumPy's BLAS would only get
    # in each other's way.
    with one_thread():
        try:
            return _largest(matrix, rank, seed, tolerance).numpy()
        except _Unsettled:
            return None


def _largest(matrix: CSRArray, rank: int, seed: int, tolerance: float) -> Tensor:
    size, width, keep = matrix.shape[0], 2 * rank + 12, rank + 8
    basis, projected, rng = _empty(width + 1, size), _zeros(width), np.random.default_rng(seed)
    basis[0], done = _random_beside(basis[:0], rng), 0
    csr = SparseMatrix.from_symmetric(matrix).forward  # whose products are faster than SciPy's
    for _ in range(_RESTARTS):
        beta = _extend(csr, basis, projected, done)
        values, rotation = torch.linalg.eigh(projected)
        errors, scale = (beta * rotation[-1, -keep:]).abs(), float(values[-1].abs())
        best, following, done = rotation[:, -keep:], basis[width].clone(), keep
        basis[:done] = best.T @ basis[:width]
        projected.zero_()[:done, :done] = values[-done:].diag()
        # Half the tolerance leaves room for the difference between this estimate and the residual itself.
        if float(errors[-rank:].max()) > 0.5 * tolerance * scale:
            basis[done] = following
            projected[done, :done] = projected[:done, done] = beta * best[-1]
            continue
        known = basis[:done][errors <= _KNOWN * scale]
        more = _above(csr, known, float(values[-rank]) + tolerance * scale, rng)
        if more is None:
            return basis[done - rank : done].T.contiguous()
        basis[:rank], basis[rank] = basis[done - rank : done].clone(), more
        projected.zero_()[:rank, :rank], done = values[-rank:].diag(), rank
    raise _Unsettled


def _above(csr: Tensor, known: Tensor, threshold: float, rng: np.random.Generator) -> Tensor | None:
    """Return a vector, orthogonal to orthonormal rows, whose Rayleigh quotient is above the threshold.

    None where the largest eigenvalue beside the known ones has come to rest below, and is not still on its way up.
    """
    first, size = known.shape
    width, keep = 24, 8
    basis, projected = _empty(first + width + 1, size), _zeros(first + width)
    basis[:first], done = known, 0
    basis[first] = _random_beside(known, rng)
    for _ in range(_RESTARTS):
        beta = _extend(csr, basis, projected, first + done)
        values, rotation = torch.linalg.eigh(projected[first:, first:])
        if float(values[-1]) > threshold:
            return torch.mv(basis[first:-1].T, rotation[:, -1])
        if abs(beta * float(rotation[-1, -1])) <= _REST * (threshold - float(values[-1])):
            return None
        best, following, done = rotation[:, -keep:], basis[-1].clone(), keep
        end = first + done
        basis[first:end] = best.T @ basis[first:-1]
        basis[end] = following
        projected.zero_()[first:end, first:end] = values[-done:].diag()
        projected[end, first:end] = projected[first:end, end] = beta * best[-1]
    raise _Unsettled


def _empty(rows: int, columns: int) -> Tensor:
    return torch.empty((rows, columns), dtype=torch.float64)


def _zeros(size: int) -> Tensor:
    return torch.zeros((size, size), dtype=torch.float64)


def _random_beside(vectors: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a random unit vector that is orthogonal to orthonormal rows."""
    drawn = torch.from_numpy(rng.standard_normal((vectors.shape[1],)))
    for _ in range(2):  # once more, since the first pass cancels digits
        drawn -= (vectors @ drawn) @ vectors
    return drawn.div_(torch.linalg.vector_norm(drawn))


def _extend(csr: Tensor, basis: Tensor, projected: Tensor, done: int) -> float:
    """Fill T and the rows of V from ``done`` on; return β."""
    if usable("numba"):
        from fishergcn._kernels import cpu_lanczos

        parts = (csr.crow_indices(), csr.col_indices(), csr.values(), basis, projected, basis.new_empty(len(basis)))
        beta: float = cpu_lanczos.extend(*(part.numpy() for part in parts), done)
        if beta < 0:
            raise _Unsettled
        return beta
    return extend_reference(csr, basis, projected, done)


def extend_reference(csr: Tensor, basis: Tensor, projected: Tensor, done: int) -> float:
    """The same in plain torch."""
    width, beta = len(projected), 0.0
    for j in range(done, width):
        image, all_before = csr @ basis[j], basis[: j + 1]
        alpha = float(basis[j] @ image)
        image.sub_(basis[j], alpha=alpha)
        if j > done:
            image.sub_(basis[j - 1], alpha=beta)
        else:
            image -= projected[:done, done] @ basis[:done]
        image.addmv_(all_before.T, all_before @ image, alpha=-1)
        scale, beta = abs(alpha) + beta, math.sqrt(float(image @ image))
        if not beta > 1e-12 * scale:
            raise _Unsettled
        projected[j, j] = alpha
        if j + 1 < width:
            projected[j, j + 1] = projected[j + 1, j] = beta
        torch.div(image, beta, out=basis[j + 1])
    return beta
