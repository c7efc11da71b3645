"""Largest eigenpairs of a large sparse symmetric matrix by Chebyshev-filtered subspace iteration.

    T_0(x) = 1,   T_1(x) = x,   T_{m+1}(x) = 2 x T_m(x) - T_{m-1}(x)

With x = (M - c I)/e mapping [low, cut] to [-1, 1], T_m(x) stays within ±1 on what is not wanted and grows as
cosh(m arcosh x) above the cut (Zhou & Saad 2007). Products are in float32: this is for tolerances that float32 can
meet, and the residual is checked in float64 by the caller.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from fishergcn._base.backend import usable
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray
from fishergcn._kernels.threads import on_rows, row_shares

#: Residuals below this are out of reach of float32.
SMALLEST_TOLERANCE = 1e-5
_LANCZOS_STEPS = 40
_MOST_PRODUCTS = 3000
_LONGEST_FILTER, _LARGEST_GROWTH = 50, 14.0  # e^14: float32 still tells the columns of a block apart


def suits(matrix: CSRArray, rank: int, tolerance: float) -> bool:
    """Whether the compiled product is there and float32 meets the tolerance."""
    return usable("numba") and tolerance >= SMALLEST_TOLERANCE and 8 * _width(rank) <= matrix.shape[0]


def chebyshev(matrix: CSRArray, rank: int, seed: int, tolerance: float) -> FloatArray | None:
    """Return vectors that span the ``rank`` largest eigenvectors up to the tolerance, or None if they do not."""
    rng, width = np.random.default_rng(seed), _width(rank)
    product = _Product(matrix)
    low, ritz = _lanczos(product, rng)
    block: AnyArray = rng.standard_normal((matrix.shape[0], width), dtype=np.float32)
    cut = ritz[-3:][0]  # below the largest few of the estimates, so that something is above it
    values, products = ritz[::-1], 0
    while products < _MOST_PRODUCTS and cut > low:
        degree = _degree(values[0], cut, low)
        block = product.filtered(block, degree, low, cut)
        values, block, residuals = _ritz(product, block)
        products += degree + 1
        if len(values) < width:  # float32 could not tell some columns from others: begin these again
            fresh = rng.standard_normal((len(block), width - len(values)), dtype=np.float32)
            block = np.ascontiguousarray(np.hstack([block, fresh / np.linalg.norm(fresh, axis=0)]))
        elif residuals[:rank].max() <= 0.9 * tolerance * abs(values[0]):
            return np.asarray(block[:, :rank], dtype=np.float64)
        cut = max(values[-1], low + 0.05 * (values[0] - low))
    return None


def _width(rank: int) -> int:
    """Return how many columns a block has: some more than wanted, and full vectors of the processor."""
    return 16 * math.ceil((rank + 10) / 16)


def _degree(largest: float, cut: float, low: float) -> int:
    """Return the degree at which the largest eigenvalue outgrows the others by no more than float32 can hold."""
    growth = math.acosh(max(1.0, 1 + 2 * (largest - cut) / (cut - low)))
    return max(8, min(_LONGEST_FILTER, int(_LARGEST_GROWTH / max(growth, 1e-6))))


class _Product:
    """M in float32."""

    def __init__(self, matrix: CSRArray) -> None:
        self.matrix: Any = sparse.csr_array(matrix.astype(np.float32, copy=False))

    def times(self, dense: AnyArray) -> AnyArray:
        """Return M Z."""
        from fishergcn._kernels import cpu

        out, nothing = np.empty_like(dense), np.empty((0, dense.shape[1]), dtype=np.float32)
        indptr, indices, values = self.matrix.indptr, self.matrix.indices, self.matrix.data
        left = np.empty((len(out), 0), dtype=np.float32)

        def run(first: int, last: int, _: int) -> None:
            pointers = indptr[first : last + 1]
            cpu.csr_times_dense(out[first:last], pointers, indices, values, dense, left[first:last], nothing)

        on_rows(len(out), run)
        return out

    @cached_property
    def _diagonal(self) -> IntArray:
        """Where the entries of the diagonal are stored."""
        rows = np.repeat(np.arange(self.matrix.shape[0], dtype=self.matrix.indices.dtype), np.diff(self.matrix.indptr))
        return np.flatnonzero(self.matrix.indices == rows)

    def _shifted(self, factor: float, shift: float) -> CSRArray:
        """Return factor * M + shift * I."""
        size = self.matrix.shape[0]
        if len(self._diagonal) < size:  # some are not stored
            added: Any = factor * self.matrix + shift * sparse.eye_array(size, format="csr", dtype=np.float32)
            return sparse.csr_array(added)
        values = np.float32(factor) * self.matrix.data
        values[self._diagonal] += np.float32(shift)
        return sparse.csr_array((values, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape)

    def filtered(self, block: AnyArray, degree: int, low: float, cut: float) -> AnyArray:
        """Return T_m of (M - c I)/e, applied to a block, whose memory is used up."""
        from fishergcn._kernels import cpu

        center, half = (cut + low) / 2, (cut - low) / 2
        doubled = _Product(self._shifted(2.0 / half, -2.0 * center / half))
        indptr, indices, values = doubled.matrix.indptr, doubled.matrix.indices, doubled.matrix.data
        previous, current = block, doubled.times(block)
        current *= np.float32(0.5)

        def run(first: int, last: int, _: int) -> None:
            cpu.chebyshev_step(previous[first:last], indptr[first : last + 1], indices, values, current)

        for _ in range(degree - 1):
            on_rows(len(current), run)
            previous, current = current, previous
        return current


def _lanczos(product: _Product, rng: np.random.Generator) -> tuple[float, FloatArray]:
    """Return a number below the smallest eigenvalue, and Ritz values, ascending."""
    vector: FloatArray = rng.standard_normal((product.matrix.shape[0], 1))
    vector /= np.linalg.norm(vector)
    before, beta = np.zeros_like(vector), 0.0
    diagonal, off = [], []
    for _ in range(_LANCZOS_STEPS):
        image = np.asarray(product.times(vector.astype(np.float32)), dtype=np.float64) - beta * before
        alpha = float(np.vdot(vector, image))
        image -= alpha * vector
        diagonal.append(alpha)
        beta = float(np.linalg.norm(image))
        off.append(beta)
        if beta < 1e-6:
            break
        before, vector = vector, image / beta
    values = linalg.eigvalsh_tridiagonal(diagonal, off[:-1])
    return float(values[0] - off[-1]), np.asarray(values, dtype=np.float64)


def _ritz(product: _Product, block: AnyArray) -> tuple[FloatArray, AnyArray, FloatArray]:
    """Return Ritz values of a block, descending, its Ritz vectors, orthonormal, and their residuals."""
    block = np.ascontiguousarray(block / np.linalg.norm(block, axis=0))
    image = product.times(block)
    gram, projected = _inner(block, block), _inner(block, image)
    weights, vectors = linalg.eigh(gram)
    kept = weights > 1e-6 * weights[-1]  # what float32 cannot tell from the other columns is left out
    white = vectors[:, kept] / np.sqrt(weights[kept])
    values, rotation = linalg.eigh(white.T @ (projected + projected.T) @ white / 2)
    turn = (white @ rotation[:, ::-1]).astype(np.float32)
    block, image = block @ turn, image @ turn
    values = values[::-1]
    residuals = np.linalg.norm(image - block * values.astype(np.float32), axis=0)
    return values, np.ascontiguousarray(block), np.asarray(residuals, dtype=np.float64)


def _inner(first: AnyArray, second: AnyArray) -> FloatArray:
    """Return the inner products of columns, added up in float64 from blocks of rows."""
    from fishergcn._kernels import cpu_network

    sums = np.zeros((len(row_shares(len(first))), first.shape[1], second.shape[1]))
    on_rows(len(first), lambda a, z, part: cpu_network.moments(sums[part], first[a:z], second[a:z]))
    return np.asarray(sums.sum(0))
