"""Arrays of indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fishergcn._base.types import AnyArray, IntArray
from fishergcn.errors import InputError


def ranges(starts: AnyArray, lengths: AnyArray) -> IntArray:
    """Return the numbers from each start on, as many as its length, one range after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    offsets = np.asarray(starts, dtype=np.int64) - (ends - lengths)
    found: IntArray = np.arange(total, dtype=np.int64) + np.repeat(offsets, lengths)
    return found


def row_blocks(indptr: AnyArray, entries: int = 1 << 19) -> Iterator[tuple[int, int]]:
    """Yield first and last row, exclusive, of blocks of a sparse matrix of at most ``entries`` entries, or one row."""
    first, rows = 0, len(indptr) - 1
    while first < rows:
        last = int(np.searchsorted(indptr, int(indptr[first]) + entries, side="right")) - 1
        last = min(max(last, first + 1), first + entries, rows)
        yield first, last
        first = last


def check_compressed(name: str, matrix: Any) -> None:
    """Raise for pointers or columns that compiled code would follow out of the arrays; SciPy does not look at them."""
    counts = np.diff(matrix.indptr)
    ordered = len(matrix.indptr) == matrix.shape[0] + 1 and matrix.indptr[0] == 0 and not (counts < 0).any()
    if not ordered or matrix.indptr[-1] > min(len(matrix.indices), len(matrix.data)):
        raise InputError(f"{name} must have row pointers that begin with 0 and ascend, got others.")
    if len(matrix.indices) and not 0 <= matrix.indices.min() <= matrix.indices.max() < matrix.shape[1]:
        got = f"{matrix.indices.min()} to {matrix.indices.max()}"
        raise InputError(f"{name} of {matrix.shape[1]} columns must have column numbers below that, got {got}.")


def check_indices(name: str, values: Any, count: int | None = None) -> IntArray:
    """Return a list of node indices as a read-only int64 copy, or raise; ``count`` is the number of nodes, if known."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # lists of different lengths
        array = np.empty((0, 0))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        hint = " (of a mask, take numpy.flatnonzero)" if array.dtype.kind == "b" else ""
        raise InputError(
            f"{name} must be a list of node indices, got an array of {array.dtype} with shape {array.shape}{hint}."
        )
    nodes = array.astype(np.int64)
    outside = nodes[(nodes < 0) | (False if count is None else nodes >= count)]
    if outside.size:
        allowed = "of at least 0" if count is None else f"from 0 to {count - 1}"
        raise InputError(f"{name} must list nodes by indices {allowed}, got {outside[0]}.")
    nodes.flags.writeable = False
    return nodes
