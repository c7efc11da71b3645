"""From an adjacency matrix A to the propagation matrix Ã that a graph convolution multiplies with."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from fishergcn._adjacency import check_adjacency
from fishergcn._checks import check_integer, check_real
from fishergcn._types import AnyArray, CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError

__all__ = ["high_order", "renormalized"]

# Entries of S this close to the threshold (relatively) equal it: rounding, which depends on the order of
# summation and so on the numbering of the nodes, must not decide. PubMed has 988 entries within rounding
# of 1e-4.
TIE = 1e-10
# Up to this many nodes the SciPy path multiplies dense blocks: after a few steps they are full anyway.
DENSE_NODES = 32_768

# Consecutive rows of a CSR matrix: entries per row, columns, values.
Rows: TypeAlias = "tuple[AnyArray, AnyArray, FloatArray]"


def renormalized(adjacency: MatrixLike) -> CSRArray:
    """Return the propagation matrix of a graph convolutional network.

    Ã = (D + I)^-1/2 (A + I) (D + I)^-1/2, where D is the diagonal matrix of the row sums of A.

    Links in A from a node to itself count like any other entry. Ã depends on the scale of A: doubling all
    weights changes it.

    Parameters
    ----------
    adjacency : array_like or SciPy sparse, shape (n, n)
        A: symmetric, non-negative, finite, n ≥ 2.

    Returns
    -------
    csr_array of float64, shape (n, n)
        Ã: exactly symmetric, with spectrum in (-1, 1]. A node without links has Ã_ii = 1.

    Raises
    ------
    InputError
        If ``adjacency`` is not as described.

    Examples
    --------
    >>> renormalized([[0, 1], [1, 0]]).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    adjacency = check_adjacency(adjacency)
    identity: Any = sparse.eye_array(adjacency.shape[0], format="csr")
    return _normalized(adjacency + identity)


def high_order(
    adjacency: MatrixLike,
    order: int = 5,
    threshold: float = 1e-4,
    *,
    memory_limit: int = 512 * 2**20,
) -> CSRArray:
    """Return the propagation matrix of a high-order graph convolution (Algorithm 1 of the paper).

    P = D^-1 A,  S = (P + P² + … + P^T)/T with its diagonal set to zero and entries up to ν dropped,
    A' = S + Sᵀ + 2I,  Ã = D'^-1/2 A' D'^-1/2, where D and D' hold the row sums of A and A'.

    S_ij and S_ji are compared with ν each on its own, so that A'_ij may hold one of the two or both. Ã does
    not depend on the scale of A. With T = 1 it is *not* the renormalized matrix: a d-regular graph gives
    (A/d + I)/2.

    Parameters
    ----------
    adjacency : array_like or SciPy sparse, shape (n, n)
        A: symmetric, non-negative, finite, n ≥ 2. Links from a node to itself are used as they are.
    order : int
        T ≥ 1, the longest walk.
    threshold : float
        ν in [0, 1): entries of S that exceed it are kept. Those that equal it up to rounding (1e-10
        relatively) are not.
    memory_limit : int
        Bytes for the working arrays of one block of rows; the result, and while it is put together a copy
        of it, come on top. The result does not depend on it, bit for bit.

    Returns
    -------
    csr_array of float64, shape (n, n)
        Ã: exactly symmetric, with spectrum in (-1/3, 1]. A node without links has Ã_ii = 1.

    Raises
    ------
    InputError
        If an argument is not as described, or ``memory_limit`` does not hold a single row.

    Notes
    -----
    Rows are compiled with numba where it is installed. Without it SciPy does the same, slower; the two
    agree up to rounding.

    Examples
    --------
    >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> high_order(path, order=2, threshold=0.3).toarray().round(3)
    array([[0.8  , 0.183, 0.   ],
           [0.183, 0.667, 0.183],
           [0.   , 0.183, 0.8  ]])
    """
    adjacency = check_adjacency(adjacency)
    order = check_integer("order", order, minimum=1)
    threshold = check_real("threshold", threshold, minimum=0, below=1)
    memory_limit = check_integer("memory_limit", memory_limit, minimum=1)

    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
    walk = adjacency.copy()
    # Rows without links hold no entries, so nothing is divided by zero.
    walk.data /= np.repeat(degrees, np.diff(walk.indptr))
    rows = _compiled_rows if importlib.util.find_spec("numba") is not None else _scipy_rows
    return _symmetrized(
        list(rows(walk, degrees, order, threshold * (1 + TIE), memory_limit)), adjacency.shape[0]
    )


def _compiled_rows(
    walk: CSRArray, degrees: FloatArray, order: int, cutoff: float, memory_limit: int
) -> Iterator[Rows]:
    """Yield blocks of rows of H, the upper triangle of A' with half its diagonal, from compiled code."""
    from fishergcn._high_order_numba import fill_rows

    n = walk.shape[0]
    index_type = walk.indices.dtype
    entry = 8 + index_type.itemsize
    # The kernel's own arrays, by node: two dense rows, an inverse degree, a link, a list and a flag.
    own = n * (8 + 8 + 8 + 8 + 4 + 1)
    # Half of what is left is for the buffer, half for the copy of its filled part. A row takes n at most.
    capacity = min((memory_limit - own) // (2 * entry), n * n)
    if capacity < n:
        raise _too_little_memory(memory_limit, own + 2 * entry * n, n)
    columns, values = np.empty(capacity, dtype=index_type), np.empty(capacity)
    counts = np.zeros(n, dtype=np.int64)
    indptr, indices = walk.indptr.astype(np.int64), walk.indices.astype(np.uint32)
    start = 0
    while start < n:
        stop = fill_rows(indptr, indices, walk.data, degrees, start, order, cutoff, columns, values, counts)
        used = int(counts[start:stop].sum())
        yield counts[start:stop].copy(), columns[:used].copy(), values[:used].copy()
        start = stop


def _scipy_rows(
    walk: CSRArray, degrees: FloatArray, order: int, cutoff: float, memory_limit: int
) -> Iterator[Rows]:
    """Yield the same blocks of rows from products of SciPy matrices."""
    n = walk.shape[0]
    # At most four n x b arrays of float64, and a mask, exist at a time; 64 columns still fit into a cache.
    # A sparse block may fill up entirely, and then takes as much.
    width = min(memory_limit // (40 * n), 64)
    if width < 1:
        raise _too_little_memory(memory_limit, 40 * n, n)
    backward_walk: Any = walk.T.tocsr()
    block_powers = _dense_block if n <= DENSE_NODES else _sparse_block
    for start in range(0, n, width):
        nodes = np.arange(start, min(start + width, n))
        column, offset, total = block_powers(walk, backward_walk, degrees, nodes, order, cutoff)
        row = nodes[offset]
        forward = total / order
        backward = forward * degrees[row] / degrees[column]
        kept = np.where(forward > cutoff, forward, 0.0) + np.where(backward > cutoff, backward, 0.0)
        chosen = (column > row) & (kept > 0)
        row, column, kept = (
            np.concatenate(pair)
            for pair in ((nodes, row[chosen]), (nodes, column[chosen]), (np.ones(nodes.size), kept[chosen]))
        )
        by_row = np.argsort(row, kind="stable")
        counts = np.bincount(row - start, minlength=nodes.size)
        yield counts, column[by_row].astype(walk.indices.dtype), kept[by_row]


def _dense_block(
    walk: CSRArray,
    backward_walk: Any,
    degrees: FloatArray,
    nodes: AnyArray,
    order: int,
    cutoff: float,
) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Return (j, b, Σ_t P^t[nodes[b], j]) wherever it may pass the cut and j ≥ nodes[0]."""
    offsets = np.arange(nodes.size)
    total = np.zeros((walk.shape[0], nodes.size))
    for _ in range(order - 1):
        total[nodes, offsets] += 1.0
        total = backward_walk @ total
    total[nodes, offsets] += 1.0
    first = int(nodes[0])
    total = backward_walk[first:] @ total
    # S_ij > ν or S_ij d_i/d_j > ν; a little less, since the caller decides. Isolated nodes have zeros only.
    own = np.where(degrees[nodes] > 0, degrees[nodes], 1.0)
    limit = np.minimum(np.divide.outer(degrees[first:], own), 1.0)
    limit *= order * cutoff * (1 - TIE)
    column, offset = np.nonzero(total > limit)
    return column + first, offset, total[column, offset]


def _sparse_block(
    walk: CSRArray,
    backward_walk: Any,
    degrees: FloatArray,
    nodes: AnyArray,
    order: int,
    cutoff: float,
) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Return (j, b, Σ_t P^t[nodes[b], j]) wherever it is not zero."""
    unit: Any = sparse.csr_array(
        (np.ones(nodes.size), nodes, np.arange(nodes.size + 1)), shape=(nodes.size, walk.shape[0])
    )
    total = unit @ walk
    for _ in range(order - 1):
        total = (unit + total) @ walk
    entries = total.tocoo()
    return entries.col.astype(np.int64), entries.row.astype(np.int64), entries.data


def _symmetrized(blocks: list[Rows], n: int) -> CSRArray:
    """Return Ã from the rows of H, where A' = H + Hᵀ."""
    counts, columns, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    blocks.clear()
    indptr = np.concatenate([[0], np.cumsum(counts)])
    index_type = columns.dtype if indptr[-1] * 2 <= np.iinfo(columns.dtype).max else np.int64
    upper: Any = sparse.csr_array(
        (values, columns.astype(index_type), indptr.astype(index_type)), shape=(n, n)
    )
    del columns, values
    # Transposing sorts: first the lower triangle, then, from it, the upper one.
    lower = upper.T.tocsr()
    upper = lower.T.tocsr()
    return _normalized(upper + lower)


def _normalized(weights: CSRArray) -> CSRArray:
    """Return D^-1/2 W D^-1/2 in the memory of W, where D holds the row sums of W, all positive."""
    degrees = np.asarray(weights.sum(axis=1), dtype=np.float64)
    # sqrt((w/d_i)(w/d_j)) is exactly symmetric, exactly 1 where w = d_i = d_j, and cannot overflow.
    by_column = weights.data / degrees[weights.indices]
    weights.data /= np.repeat(degrees, np.diff(weights.indptr))
    weights.data *= by_column
    np.sqrt(weights.data, out=weights.data)
    return weights


def _too_little_memory(got: int, needed: int, n: int) -> InputError:
    return InputError(
        f"memory_limit must be at least {needed} bytes for a single row of a graph with {n} nodes, got {got}."
    )
