"""Algorithm 1 on sparse matrices, compiled where numba is installed and with SciPy where not, the same bit for bit."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse

from fishergcn._base.backend import usable
from fishergcn._base.types import AnyArray, CSRArray, FloatArray
from fishergcn.errors import InputError
from fishergcn.propagation._walk import row_sums, sparse_step, walk_sum

# Up to this many nodes the SciPy path multiplies dense blocks: after a few steps they are full anyway.
DENSE_NODES = 32_768
# Full rows for which a thread of the compiled path has room at least; with less, there are fewer threads.
_ROWS_A_BLOCK = 8

# Consecutive rows of a CSR matrix: entries per row, columns, values.
Rows: TypeAlias = "tuple[AnyArray, AnyArray, FloatArray]"


def cut_walks(walk: CSRArray, order: int, threshold: float, memory_limit: int) -> CSRArray:
    """Return S = (P + … + P^T)/T of P, with its diagonal set to zero and entries up to ν dropped."""
    rows = _compiled_rows if _has_numba() else _scipy_rows
    return _stacked(rows(walk, order, threshold, memory_limit))


def assembled(steps: CSRArray) -> CSRArray:
    """Return D'^-1/2 (S + Sᵀ + 2I) D'^-1/2 of S after the cut."""
    return _compiled_assembly(steps) if _has_numba() else _scipy_assembly(steps)


def _has_numba() -> bool:
    return usable("numba")


def _compiled_rows(walk: CSRArray, order: int, threshold: float, memory_limit: int) -> Iterator[Rows]:
    """Yield blocks of rows of S after the cut from compiled code, on as many threads as torch has and memory allows."""
    from fishergcn.propagation._numba import fill_rows

    n = walk.shape[0]
    index_type = walk.indices.dtype
    entry = 8 + index_type.itemsize
    # The kernel's own arrays, by node: three dense rows and a count; sets take three bits.
    own = n * (8 + 8 + 8 + 8 + 1)
    # Half of what is left is for the buffer, half for the copy of its filled part. A row takes n at most.
    least = own + 2 * entry * n
    if memory_limit < least:
        raise _too_little_memory(memory_limit, least, n)
    threads = int(np.clip(memory_limit // (least * _ROWS_A_BLOCK), 1, torch.get_num_threads()))
    capacity = min((memory_limit // threads - own) // (2 * entry), n * n)
    indptr, indices = walk.indptr.astype(np.uint64), walk.indices.astype(np.uint32)
    counts = np.zeros(n, dtype=np.int64)
    buffers = threading.local()

    def blocks(start: int, stop: int) -> list[Rows]:
        if not hasattr(buffers, "columns"):
            buffers.columns, buffers.values = np.empty(capacity, dtype=index_type), np.empty(capacity)
        columns, values = buffers.columns, buffers.values
        parts: list[Rows] = []
        while start < stop:
            after = fill_rows(indptr, indices, walk.data, start, stop, order, threshold, columns, values, counts)
            used = int(counts[start:after].sum())
            parts.append((counts[start:after].copy(), columns[:used].copy(), values[:used].copy()))
            start = after
        return parts

    edges = np.linspace(0, n, min(n, 8 * threads) + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        for parts in pool.map(blocks, edges[:-1], edges[1:]):
            yield from parts


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
    first = backward_walk[:, nodes].toarray()
    total = walk_sum(first, lambda power: backward_walk @ power, order)
    total /= order
    total[nodes, np.arange(nodes.size)] = 0.0
    offset, column = np.nonzero((total > threshold).T)
    return offset, column, total[column, offset]


def _sparse_block(walk: CSRArray, nodes: AnyArray, order: int, threshold: float) -> Rows:
    """Return the same from sparse rows of P^t."""
    entries = walk_sum(walk[nodes], lambda rows: sparse_step(rows, walk), order).tocoo()
    # Not total / order, which SciPy takes as total * (1 / order).
    value = entries.data / order
    kept = (value > threshold) & (entries.col != nodes[entries.row])
    return entries.row[kept], entries.col[kept], value[kept]


def _stacked(blocks: Iterable[Rows]) -> CSRArray:
    """Return the matrix that blocks of rows make up."""
    counts, columns, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    n = counts.size
    indptr = np.concatenate([[0], np.cumsum(counts)])
    # S + Sᵀ + 2I holds up to twice as many entries, and n.
    index_type = columns.dtype if 2 * indptr[-1] + n <= np.iinfo(columns.dtype).max else np.int64
    return sparse.csr_array((values, columns.astype(index_type, copy=False), indptr.astype(index_type)), shape=(n, n))


def _compiled_assembly(steps: Any) -> CSRArray:
    from fishergcn.propagation._numba import fill_symmetric, scale_symmetric

    n = steps.shape[0]
    backward = steps.T.tocsr()
    columns = np.empty(2 * steps.nnz + n, dtype=steps.indices.dtype)
    values = np.empty(columns.size)
    indptr = np.zeros(n + 1, dtype=steps.indices.dtype)
    both = [part for matrix in (steps, backward) for part in (matrix.indptr, matrix.indices, matrix.data)]
    fill_symmetric(*both, columns, values, indptr[1:])
    del backward, both
    # Gives back what was not filled, without a copy.
    columns.resize(indptr[-1], refcheck=False)
    values.resize(indptr[-1], refcheck=False)
    weights: Any = sparse.csr_array((values, columns, indptr), shape=(n, n))
    scale_symmetric(weights.indptr, weights.indices, weights.data, row_sums(weights))
    result: CSRArray = weights
    return result


def _scipy_assembly(steps: Any) -> CSRArray:
    identity: Any = sparse.eye_array(steps.shape[0], format="csr")
    return normalized(steps + steps.T.tocsr() + 2 * identity)


def normalized(weights: Any) -> CSRArray:
    """Return D^-1/2 W D^-1/2 in the memory of W, where D holds the row sums of W, all positive."""
    degrees = row_sums(weights)
    # sqrt((w/d_i)(w/d_j)) is exactly symmetric, exactly 1 where w = d_i = d_j, and cannot overflow.
    by_column = weights.data / degrees[weights.indices]
    weights.data /= np.repeat(degrees, np.diff(weights.indptr))
    weights.data *= by_column
    np.sqrt(weights.data, out=weights.data)
    result: CSRArray = weights
    return result


def _too_little_memory(got: int, needed: int, n: int) -> InputError:
    return InputError(
        f"memory_limit must be at least {needed} bytes for a single row of a graph with {n} nodes, got {got}."
    )
