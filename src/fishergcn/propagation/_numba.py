"""Compiled loops of Algorithm 1: rows of S = (P + … + P^T)/T one at a time, and A' = S + Sᵀ + 2I.

Importing this module needs numba; :mod:`fishergcn.propagation` does so only where it is installed.

A row of a power of P is a dense vector of values with a set of nodes, one bit each, where it may be nonzero.
The bits give the nodes in ascending order without sorting, so that every sum is taken in the order in which
a product of SciPy matrices with sorted indices takes it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba.extending import intrinsic

from fishergcn._base.types import AnyArray, FloatArray

_ONE, _SIX, _LOW = np.uint64(1), np.uint64(6), np.uint64(63)


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def _lowest_bit(typing_context: Any, word: Any) -> Any:
    """Return the position of the lowest bit that is set in a word that is not zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return numba.uint64(numba.uint64), generate


@numba.njit(forceinline=True, cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _advance(
    indptr: AnyArray,
    indices: AnyArray,
    data: FloatArray,
    power: FloatArray,
    power_set: AnyArray,
    following: FloatArray,
    following_set: AnyArray,
    total: FloatArray,
    total_set: AnyArray,
) -> None:
    """Add a row of B to ``total``, put the row of B P into ``following``, and empty ``power``."""
    for word in range(power_set.size):
        members = power_set[word]
        power_set[word] = 0
        total_set[word] |= members
        first = np.uint64(word) << _SIX
        while members != 0:
            node = first + _lowest_bit(members)
            members &= members - _ONE
            weight = power[node]
            power[node] = 0.0
            total[node] += weight
            for link in range(indptr[node], indptr[node + _ONE]):
                neighbor = np.uint64(indices[link])
                following[neighbor] += weight * data[link]
                # Without asking whether it is there already: a branch that cannot be foreseen costs more.
                following_set[neighbor >> _SIX] |= _ONE << (neighbor & _LOW)


@numba.njit(forceinline=True, cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _collect(
    row: int,
    order: int,
    threshold: float,
    power: FloatArray,
    power_set: AnyArray,
    total: FloatArray,
    total_set: AnyArray,
    columns: AnyArray,
    values: FloatArray,
    used: int,
) -> int:
    """Append what is kept of (total + power)/T, empty both, and return the new number of entries."""
    # A little too low: what passes is divided and compared as it should be.
    limit = order * threshold * (1 - 1e-9)
    for word in range(total_set.size):
        members = total_set[word] | power_set[word]
        total_set[word] = power_set[word] = 0
        first = np.uint64(word) << _SIX
        while members != 0:
            node = first + _lowest_bit(members)
            members &= members - _ONE
            value = total[node] + power[node]
            total[node] = power[node] = 0.0
            if value > limit and value / order > threshold and node != np.uint64(row):
                columns[used] = node
                values[used] = value / order
                used += 1
    return used


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def fill_rows(
    indptr: AnyArray,
    indices: AnyArray,
    data: FloatArray,
    start: int,
    stop: int,
    order: int,
    threshold: float,
    columns: AnyArray,
    values: FloatArray,
    counts: AnyArray,
) -> int:
    """Write rows ``start``, …, ``stop - 1`` of S after the cut, or as many as the buffers are sure to hold.

    P is in CSR with sorted indices, unsigned, which spares numba a test for negative ones. ``columns`` and ``values``,
    at least n long, receive the entries, and ``counts`` their number by row. Returns the first row that was not
    computed.
    """
    n = indptr.size - 1
    words = (n + 63) // 64
    power, following, total = np.zeros(n), np.zeros(n), np.zeros(n)
    power_set, following_set, total_set = (
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
    )
    used = 0
    for row in range(start, stop):
        if used + n > columns.size:
            return row
        for link in range(indptr[row], indptr[row + 1]):
            neighbor = np.uint64(indices[link])
            power[neighbor] = data[link]
            power_set[neighbor >> _SIX] |= _ONE << (neighbor & _LOW)
        for _ in range(order - 1):
            _advance(indptr, indices, data, power, power_set, following, following_set, total, total_set)
            power, following = following, power
            power_set, following_set = following_set, power_set
        before = used
        used = _collect(row, order, threshold, power, power_set, total, total_set, columns, values, used)
        counts[row] = used - before
    return stop


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def fill_symmetric(
    indptr: AnyArray,
    indices: AnyArray,
    data: FloatArray,
    backward_indptr: AnyArray,
    backward_indices: AnyArray,
    backward_data: FloatArray,
    columns: AnyArray,
    values: FloatArray,
    ends: AnyArray,
) -> None:
    """Merge the rows of S and of Sᵀ, both in CSR with sorted indices and no diagonal, into S + Sᵀ + 2I.

    Entries go into ``columns`` and ``values``, which hold as many as S, Sᵀ and I together, and ``ends[i]``
    becomes the end of row i.
    """
    n = indptr.size - 1
    used = 0
    for row in range(n):
        left, left_end = indptr[row], indptr[row + 1]
        right, right_end = backward_indptr[row], backward_indptr[row + 1]
        is_diagonal_due = True
        while is_diagonal_due or left < left_end or right < right_end:
            left_column = indices[left] if left < left_end else n
            right_column = backward_indices[right] if right < right_end else n
            column = min(left_column, right_column)
            if is_diagonal_due and row < column:
                columns[used], values[used] = row, 2.0
                is_diagonal_due = False
            else:
                value = 0.0
                if left_column == column:
                    value += data[left]
                    left += 1
                if right_column == column:
                    value += backward_data[right]
                    right += 1
                columns[used], values[used] = column, value
            used += 1
        ends[row] = used


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def scale_symmetric(indptr: AnyArray, indices: AnyArray, data: FloatArray, degrees: FloatArray) -> None:
    """Replace w_ij by sqrt((w_ij/d_i)(w_ij/d_j)) in a CSR matrix."""
    for row in range(indptr.size - 1):
        degree = degrees[row]
        for entry in range(indptr[row], indptr[row + 1]):
            weight = data[entry]
            data[entry] = np.sqrt((weight / degree) * (weight / degrees[indices[entry]]))
