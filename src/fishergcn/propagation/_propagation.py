"""From an adjacency matrix A to the propagation matrix Ã that a graph convolution multiplies with."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.graph import check_adjacency

__all__ = ["MAX_ORDER", "high_order", "renormalized"]

MAX_ORDER = 1000  # of random walks; far beyond it their distributions no longer change

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
        ν in [0, 1): entries of S that exceed it are kept.
    memory_limit : int
        Bytes for the working arrays of one block of rows; the result, and while it is put together S and Sᵀ
        after the cut, come on top. The result does not depend on it, bit for bit.

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
    Everything is float64, and sums are taken in ascending order of the nodes in between: B = P, S = P, then
    T - 1 times B ← BP and S ← S + B; S/T is compared with ν.

    Entries of S that equal ν up to rounding are decided by rounding, and so by how the nodes are numbered.
    With T = 5 and ν = 1e-4 these are 177 entries on Cora (158 of them kept, of 621,715 in all), 47 on
    CiteSeer (21 of 287,923) and 988 on PubMed (427 of 8,991,826); no other entry is within 2e-8 of ν,
    relatively.

    Rows are compiled with numba where it is installed. Without it SciPy does the same, slower, with the same
    result bit for bit, as long as neither compiler fuses multiplications with additions.

    Examples
    --------
    >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> high_order(path, order=2, threshold=0.3).toarray().round(3)
    array([[0.8  , 0.183, 0.   ],
           [0.183, 0.667, 0.183],
           [0.   , 0.183, 0.8  ]])
    """
    adjacency = check_adjacency(adjacency)
    order = check_integer("order", order, minimum=1, maximum=MAX_ORDER)
    threshold = check_real("threshold", threshold, minimum=0, below=1)
    memory_limit = check_integer("memory_limit", memory_limit, minimum=1)

    degrees = _row_sums(adjacency)
    walk = adjacency.copy()
    # Rows without links hold no entries, so nothing is divided by zero.
    walk.data /= np.repeat(degrees, np.diff(walk.indptr))
    if _has_numba():
        return _compiled_assembly(_stacked(_compiled_rows(walk, order, threshold, memory_limit)))
    return _scipy_assembly(_stacked(_scipy_rows(walk, order, threshold, memory_limit)))


def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


def _compiled_rows(walk: CSRArray, order: int, threshold: float, memory_limit: int) -> Iterator[Rows]:
    """Yield blocks of rows of S after the cut from compiled code."""
    from fishergcn.propagation._high_order_numba import fill_rows

    n = walk.shape[0]
    index_type = walk.indices.dtype
    entry = 8 + index_type.itemsize
    # The kernel's own arrays, by node: three dense rows and a count; sets take three bits.
    own = n * (8 + 8 + 8 + 8 + 1)
    # Half of what is left is for the buffer, half for the copy of its filled part. A row takes n at most.
    capacity = min((memory_limit - own) // (2 * entry), n * n)
    if capacity < n:
        raise _too_little_memory(memory_limit, own + 2 * entry * n, n)
    columns, values = np.empty(capacity, dtype=index_type), np.empty(capacity)
    counts = np.zeros(n, dtype=np.int64)
    indptr, indices = walk.indptr.astype(np.uint64), walk.indices.astype(np.uint32)
    start = 0
    while start < n:
        stop = fill_rows(indptr, indices, walk.data, start, order, threshold, columns, values, counts)
        used = int(counts[start:stop].sum())
        yield counts[start:stop].copy(), columns[:used].copy(), values[:used].copy()
        start = stop


def _scipy_rows(walk: CSRArray, order: int, threshold: float, memory_limit: int) -> Iterator[Rows]:
    """Yield the same blocks of rows, bit for bit, from products of SciPy matrices."""
    n = walk.shape[0]
    # At most four n x b arrays of float64, and a mask, exist at a time; 64 columns still fit into a cache.
    # A sparse block may fill up entirely, and then takes as much.
    width = min(memory_limit // (40 * n), 64)
    if width < 1:
        raise _too_little_memory(memory_limit, 40 * n, n)
    backward_walk: Any = walk.T.tocsr()
    for start in range(0, n, width):
        nodes = np.arange(start, min(start + width, n))
        if n <= DENSE_NODES:
            offset, column, value = _dense_block(backward_walk, nodes, order, threshold)
        else:
            offset, column, value = _sparse_block(walk, nodes, order, threshold)
        counts = np.bincount(offset, minlength=nodes.size)
        yield counts, column.astype(walk.indices.dtype), value


def _dense_block(backward_walk: Any, nodes: AnyArray, order: int, threshold: float) -> Rows:
    """Return (b, j, S[nodes[b], j]) for what is kept, by row and then column, from columns of (P^t)ᵀ."""
    offsets = np.arange(nodes.size)
    power = np.zeros((backward_walk.shape[0], nodes.size))
    power[nodes, offsets] = 1.0
    total = np.zeros_like(power)
    for _ in range(order):
        power = backward_walk @ power
        total += power
    del power
    total /= order
    total[nodes, offsets] = 0.0
    offset, column = np.nonzero((total > threshold).T)
    return offset, column, total[column, offset]


def _sparse_block(walk: CSRArray, nodes: AnyArray, order: int, threshold: float) -> Rows:
    """Return the same from sparse rows of P^t."""
    power: Any = walk[nodes]
    total = power
    for _ in range(order - 1):
        power = power @ walk
        # SciPy leaves them unsorted, and the next product sums in the order in which they come.
        power.sort_indices()
        total = total + power
    entries = total.tocoo()
    # Not total / order, which SciPy takes as total * (1 / order).
    value = entries.data / order
    kept = (value > threshold) & (entries.col != nodes[entries.row])
    return entries.row[kept], entries.col[kept], value[kept]


def _stacked(blocks: Iterable[Rows]) -> Any:
    """Return the matrix that blocks of rows make up."""
    counts, columns, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    n = counts.size
    indptr = np.concatenate([[0], np.cumsum(counts)])
    # S + Sᵀ + 2I holds up to twice as many entries, and n.
    index_type = columns.dtype if 2 * indptr[-1] + n <= np.iinfo(columns.dtype).max else np.int64
    return sparse.csr_array((values, columns.astype(index_type, copy=False), indptr.astype(index_type)), shape=(n, n))


def _compiled_assembly(steps: Any) -> CSRArray:
    """Return Ã from S after the cut."""
    from fishergcn.propagation._high_order_numba import fill_symmetric, scale_symmetric

    n = steps.shape[0]
    backward = steps.T.tocsr()
    columns = np.empty(2 * steps.nnz + n, dtype=steps.indices.dtype)
    values = np.empty(columns.size)
    indptr = np.zeros(n + 1, dtype=steps.indices.dtype)
    fill_symmetric(
        steps.indptr,
        steps.indices,
        steps.data,
        backward.indptr,
        backward.indices,
        backward.data,
        columns,
        values,
        indptr[1:],
    )
    del backward
    # Gives back what was not filled, without a copy.
    columns.resize(indptr[-1], refcheck=False)
    values.resize(indptr[-1], refcheck=False)
    weights: Any = sparse.csr_array((values, columns, indptr), shape=(n, n))
    scale_symmetric(weights.indptr, weights.indices, weights.data, _row_sums(weights))
    result: CSRArray = weights
    return result


def _scipy_assembly(steps: Any) -> CSRArray:
    """Return the same, bit for bit."""
    identity: Any = sparse.eye_array(steps.shape[0], format="csr")
    return _normalized(steps + steps.T.tocsr() + 2 * identity)


def _normalized(weights: Any) -> CSRArray:
    """Return D^-1/2 W D^-1/2 in the memory of W, where D holds the row sums of W, all positive."""
    degrees = _row_sums(weights)
    # sqrt((w/d_i)(w/d_j)) is exactly symmetric, exactly 1 where w = d_i = d_j, and cannot overflow.
    by_column = weights.data / degrees[weights.indices]
    weights.data /= np.repeat(degrees, np.diff(weights.indptr))
    weights.data *= by_column
    np.sqrt(weights.data, out=weights.data)
    result: CSRArray = weights
    return result


def _row_sums(matrix: Any) -> FloatArray:
    return np.asarray(matrix.sum(axis=1), dtype=np.float64)


def _too_little_memory(got: int, needed: int, n: int) -> InputError:
    return InputError(
        f"memory_limit must be at least {needed} bytes for a single row of a graph with {n} nodes, got {got}."
    )
