"""Ã of a graph that need not fit into memory: written to files block by block, and mapped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from scipy import sparse

from fishergcn._base.arrays import row_blocks
from fishergcn._base.types import CSRArray
from fishergcn.propagation._walk import row_sums


def renormalized_into(adjacency: CSRArray, folder: Path) -> CSRArray:
    """Return Ã as :func:`renormalized` does, bit for bit, of a checked A that may be mapped, in mapped files."""
    nodes = adjacency.shape[0]
    degrees, counts = np.empty(nodes), np.zeros(nodes + 1, dtype=np.int64)
    for first, last, weights in _blocks(adjacency):
        degrees[first:last] = row_sums(weights)
        counts[first + 1 : last + 1] = np.diff(weights.indptr)
    indptr = np.cumsum(counts)
    index = np.int32 if max(int(indptr[-1]), nodes) <= np.iinfo(np.int32).max else np.int64
    kinds: dict[str, Any] = {"data": np.float64, "indices": index, "indptr": index}
    arrays = {
        name: npy.open_memmap(folder / f"{name}.npy", "w+", kind, (nodes + 1 if name == "indptr" else int(indptr[-1]),))
        for name, kind in kinds.items()
    }
    arrays["indptr"][:] = indptr
    for first, last, weights in _blocks(adjacency):
        span = slice(indptr[first], indptr[last])
        arrays["indices"][span] = weights.indices
        # As in `normalized`: sqrt((w/d_i)(w/d_j)) is exactly symmetric.
        by_row = weights.data / np.repeat(degrees[first:last], np.diff(weights.indptr))
        arrays["data"][span] = np.sqrt(by_row * (weights.data / degrees[weights.indices]))
    for array in arrays.values():
        array.flush()
    mapped = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in ("data", "indices", "indptr"))
    found = sparse.csr_array(tuple(mapped), shape=(nodes, nodes))
    found.has_sorted_indices = found.has_canonical_format = True
    return found


def _blocks(adjacency: Any) -> Iterator[tuple[int, int, Any]]:
    """Yield first and last row, exclusive, and those rows of A + I."""
    nodes, indptr = adjacency.shape[0], adjacency.indptr
    for first, last in row_blocks(indptr):
        span, rows = slice(indptr[first], indptr[last]), last - first
        parts = (adjacency.data[span], adjacency.indices[span], indptr[first : last + 1] - indptr[first])
        ones = (np.ones(rows), np.arange(first, last), np.arange(rows + 1))
        shape = (rows, nodes)
        yield first, last, sparse.csr_array(parts, shape=shape) + sparse.csr_array(ones, shape=shape)
