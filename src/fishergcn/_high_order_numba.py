"""Compiled rows of S = (P + … + P^T)/T, one row at a time.

Importing this module needs numba; :mod:`fishergcn.propagation` does so only where it is installed.
"""

from __future__ import annotations

import numba
import numpy as np

from fishergcn._types import AnyArray, FloatArray

__all__ = ["fill_rows"]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def fill_rows(
    indptr: AnyArray,
    indices: AnyArray,
    data: FloatArray,
    degrees: FloatArray,
    start: int,
    order: int,
    cutoff: float,
    columns: AnyArray,
    values: FloatArray,
    counts: AnyArray,
) -> int:
    """Write rows ``start``, ``start + 1``, … of H until the buffers might not hold another one.

    H is the upper triangle of S + Sᵀ after the cut, plus I. Row i of P + … + P^T is, by Horner's rule, y_T
    with y_0 = 0 and y_{t+1} = (e_i + y_t) P. The support of y_t lies among the nodes reached so far, which
    ``reached`` lists in the order of their discovery; a product is one pass over the links of that list.
    The last product, the dearest, only visits neighbors j > i: S_ji = S_ij d_i/d_j gives the other half.

    Parameters
    ----------
    indptr, indices, data : arrays
        P in CSR with sorted indices; unsigned ones spare numba a test for negative numbers.
    degrees : array, shape (n,)
        d, the row sums of A.
    start : int
        First row to compute.
    order, cutoff : int, float
        T ≥ 1, and the value that S_ij must exceed to be kept.
    columns, values : arrays, at least n long
        Receive the entries, row after row, columns in no particular order.
    counts : array, shape (n,)
        ``counts[i]`` receives the number of entries of row i.

    Returns
    -------
    int
        The first row that was not computed; n when all are done.
    """
    n = indptr.size - 1
    current, following = np.zeros(n), np.zeros(n)
    reached = np.empty(n, dtype=indices.dtype)
    is_reached = np.zeros(n, dtype=np.bool_)
    inverse = np.where(degrees > 0, 1.0 / degrees, 0.0)
    # A little below the cutoff: what passes here is looked at again without shortcuts.
    limit = order * cutoff * (1 - 1e-9)
    # upper[k] is the first link of k to a node beyond the current row; it only moves forward.
    upper = indptr[:-1].copy()
    used = 0
    for row in range(start, n):
        if used + n > columns.size:
            return row
        reached[0] = row
        is_reached[row] = True
        size = 1
        for _ in range(order - 1):
            current[row] += 1.0
            for position in range(size):
                node = reached[position]
                weight = current[node]
                current[node] = 0.0
                for link in range(indptr[node], indptr[node + 1]):
                    neighbor = indices[link]
                    following[neighbor] += weight * data[link]
                    if not is_reached[neighbor]:
                        is_reached[neighbor] = True
                        reached[size] = neighbor
                        size += 1
            current, following = following, current

        current[row] += 1.0
        for position in range(size):
            node = reached[position]
            weight = current[node]
            current[node] = 0.0
            link = upper[node]
            while link < indptr[node + 1] and indices[link] <= row:
                link += 1
            upper[node] = link
            for link in range(upper[node], indptr[node + 1]):
                neighbor = indices[link]
                following[neighbor] += weight * data[link]
                if not is_reached[neighbor]:
                    is_reached[neighbor] = True
                    reached[size] = neighbor
                    size += 1

        before = used
        columns[used], values[used] = row, 1.0
        used += 1
        is_reached[row] = False
        for position in range(1, size):
            node = reached[position]
            is_reached[node] = False
            total = following[node]
            following[node] = 0.0
            if total * max(1.0, degrees[row] * inverse[node]) > limit:
                forward = total / order
                backward = forward * degrees[row] / degrees[node]
                kept = 0.0
                if forward > cutoff:
                    kept += forward
                if backward > cutoff:
                    kept += backward
                if kept > 0.0:
                    columns[used], values[used] = node, kept
                    used += 1
        counts[row] = used - before
    return n
