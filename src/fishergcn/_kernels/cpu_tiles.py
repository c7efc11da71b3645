"""Products with rather full sparse matrices on the CPU, compiled: imported only where they run.

A high-order propagation matrix has hundreds of entries in a row, so that its product is bound by where the operand is
read from, not by the matrix. Four things keep it near: nodes are renumbered so that neighbors stand together, the
operand is cut into tiles of columns that fit the cache, rows are taken in pairs that share what is read, and sums stay
in registers. See `cpu_lines` for the last.
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from fishergcn._base.types import AnyArray, CSRArray
from fishergcn._kernels.cpu_lines import VECTOR_BYTES, pair_sums

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_MOST_VECTORS = 4  # by two rows these are 8 registers for sums, of the 16 that a processor has at least


class PairedRows(NamedTuple):
    """A sparse matrix with its rows in pairs: an entry is a column, and its two values, one of which may be 0."""

    rows: AnyArray  # which row of the matrix stands where, (p,)
    columns: AnyArray  # which column, (n,)
    pointers: AnyArray  # where the entries of a pair begin, (⌈p/2⌉ + 1,)
    places: AnyArray  # the columns of the entries, by their new numbers
    values: AnyArray  # two for each entry


def paired_rows(matrix: CSRArray) -> PairedRows:
    """Put the rows of a matrix in pairs, those of a symmetric pattern after renumbering the nodes."""
    rows, columns = (np.arange(size, dtype=np.int64) for size in matrix.shape)
    if matrix.shape[0] == matrix.shape[1]:
        # Symmetric or not, neighbors of neighbors get close numbers; a wrong guess costs time, not digits.
        rows = columns = reverse_cuthill_mckee(sparse.csr_matrix(matrix), symmetric_mode=True).astype(np.int64)
        matrix = sparse.csr_array(matrix[rows][:, columns])
    matrix.sort_indices()
    pointers = np.zeros(len(rows) // 2 + len(rows) % 2 + 1, dtype=np.int64)
    _count_pairs(pointers, matrix.indptr, matrix.indices)
    np.cumsum(pointers, out=pointers)
    places, values = np.empty(pointers[-1], dtype=np.uint32), np.zeros(2 * pointers[-1], dtype=matrix.data.dtype)
    _fill_pairs(places, values, matrix.indptr, matrix.indices, matrix.data)
    return PairedRows(rows, columns, pointers, places, values)


@njit(inline="always", **_FAST)
def _next(first, second, first_stop, second_stop, indices):
    """Return the smaller of the next columns of two rows, and which of them have it."""
    a = indices[first] if first < first_stop else np.iinfo(np.int64).max
    b = indices[second] if second < second_stop else np.iinfo(np.int64).max
    return min(a, b), a <= b, b <= a


@njit(**_FAST)
def _count_pairs(pointers, indptr, indices):
    rows = indptr.shape[0] - 1
    for pair in range(pointers.shape[0] - 1):
        a, a_stop = indptr[2 * pair], indptr[2 * pair + 1]
        b, b_stop = a_stop, indptr[min(2 * pair + 2, rows)]
        while a < a_stop or b < b_stop:
            _, in_a, in_b = _next(a, b, a_stop, b_stop, indices)
            a, b = a + in_a, b + in_b
            pointers[pair + 1] += 1


@njit(**_FAST)
def _fill_pairs(places, values, indptr, indices, data):
    rows, t = indptr.shape[0] - 1, 0
    for first in range(0, rows, 2):
        a, a_stop = indptr[first], indptr[first + 1]
        b, b_stop = a_stop, indptr[min(first + 2, rows)]
        while a < a_stop or b < b_stop:
            column, in_a, in_b = _next(a, b, a_stop, b_stop, indices)
            places[t] = column
            if in_a:
                values[2 * t] = data[a]
                a += 1
            if in_b:
                values[2 * t + 1] = data[b]
                b += 1
            t += 1


@njit(cache=True, nogil=True, fastmath={"reassoc"}, error_model="numpy")
def finite(dense):
    """Whether all numbers are finite: in a pair of rows the 0 of one row would make infinity NaN."""
    flat = dense.ravel()
    total = flat.dtype.type(0)
    for t in range(flat.shape[0]):
        total += flat[t] * flat.dtype.type(0)
    return total == 0


def times(out: AnyArray, matrix: PairedRows, dense: AnyArray) -> None:
    """out[i] = Σ_j s_ij dense[j], of shapes (p, B, d) and (n, B, d), for finite activations."""
    width = dense.shape[1] * dense.shape[2]
    flat_out, flat = out.reshape(len(out), width), dense.reshape(len(dense), width)
    lanes = VECTOR_BYTES // dense.itemsize
    widest = _MOST_VECTORS * lanes
    for start in range(0, width, widest):
        vectors = min(_MOST_VECTORS, -(-(width - start) // lanes))
        _tile((0,) * vectors, flat_out[:, start : start + widest], *matrix, flat[:, start : start + widest])


@njit(**_FAST)
def _tile(vectors, out, rows, columns, pointers, places, values, dense):
    """The product of one tile of columns; the length of ``vectors`` says how many registers hold a row of it."""
    width, padded = out.shape[1], len(vectors) * (VECTOR_BYTES // values.itemsize)
    tile = np.empty((columns.shape[0], padded), dtype=values.dtype)
    for j in range(columns.shape[0]):
        for h in range(width):
            tile[j, h] = dense[columns[j], h]
        for h in range(width, padded):
            tile[j, h] = 0
    sums = np.empty((2, padded), dtype=values.dtype)
    for pair in range(pointers.shape[0] - 1):
        pair_sums(vectors, sums, tile, places, values, pointers[pair], pointers[pair + 1])
        for h in range(width):
            out[rows[2 * pair], h] = sums[0, h]
        if 2 * pair + 1 < rows.shape[0]:
            for h in range(width):
                out[rows[2 * pair + 1], h] = sums[1, h]
