"""One gate for every square matrix that comes in: finite, canonical CSR, symmetric and non-negative where needed."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import sparse

from fishergcn._base.types import CSRArray, MatrixLike
from fishergcn.errors import InputError

# Two mirrored entries closer than this (relative to the larger) differ by rounding, e.g. because duplicates
# were summed in another order; they are replaced by their mean. Anything further apart is refused.
ROUNDING = 1e-12
# Propagation matrices that were normalized in float32 are symmetric to this.
SYMMETRY = 1e-6


def check_adjacency(matrix: MatrixLike, *, name: str = "adjacency") -> CSRArray:
    """Return a symmetric, non-negative, finite matrix as CSR, or raise a sentence that names its first bad entry.

    What comes back is canonical (indices sorted, no duplicates, no stored zeros), exactly symmetric, and shares no
    memory with ``matrix``; messages call it ``name``.
    """
    csr = as_square_csr(matrix, name=name)
    negative = csr.data < 0
    if negative.any():
        row, column, value = _entry(csr, int(np.argmax(negative)))
        raise InputError(f"{name} must be non-negative, but entry ({row}, {column}) is {value:.12g}.")
    with np.errstate(over="ignore"):
        total = csr.data.sum()
    if not np.isfinite(total):
        raise InputError(f"{name} must have a finite sum, but its entries add up to more than float64 can hold.")
    return symmetric_or_raise(csr, name=name)


def check_propagation(matrix: MatrixLike) -> CSRArray:
    """Return Ã as canonical CSR, exactly symmetric, or raise if it is not finite, square and symmetric."""
    csr = as_square_csr(matrix, name="propagation")
    return symmetric_or_raise(csr, name="propagation", rounding=SYMMETRY)


def as_square_csr(matrix: MatrixLike, *, name: str) -> CSRArray:
    """Return a canonical float64 CSR copy of a finite square matrix with at least two rows, or raise."""
    csr = _to_csr(matrix, name)
    rows, columns = csr.shape
    if rows != columns:
        raise InputError(f"{name} must be square, got shape ({rows}, {columns}).")
    if rows < 2:
        raise InputError(f"{name} must have at least 2 nodes, got {rows}.")
    bad = ~np.isfinite(csr.data)
    if bad.any():
        row, column, value = _entry(csr, int(np.argmax(bad)))
        raise InputError(f"{name} must be finite, but entry ({row}, {column}) is {value}.")
    return csr


def symmetric_or_raise(csr: CSRArray, *, name: str, rounding: float = ROUNDING) -> CSRArray:
    """Return a canonical CSR matrix made exactly symmetric if it is so up to ``rounding``, or raise."""
    mirror = csr.T.tocsr()  # of a canonical matrix: sorted, without duplicates
    same_pattern = np.array_equal(csr.indptr, mirror.indptr) and np.array_equal(csr.indices, mirror.indices)
    if same_pattern and np.array_equal(csr.data, mirror.data):
        return csr
    gap = (csr - mirror).tocoo()
    left, right = csr[gap.row, gap.col], mirror[gap.row, gap.col]
    bad = np.abs(gap.data) > rounding * np.maximum(np.abs(left), np.abs(right))
    if bad.any():
        first = np.lexsort((gap.col[bad], gap.row[bad]))[0]
        row, column = int(gap.row[bad][first]), int(gap.col[bad][first])
        one, other = float(csr[row, column]), float(csr[column, row])
        raise InputError(
            f"{name} must be symmetric, but entry ({row}, {column}) is {one:.12g} "
            f"and entry ({column}, {row}) is {other:.12g}."
        )
    half: Any = (csr + mirror) / 2
    return sparse.csr_array(half)


def _to_csr(matrix: MatrixLike, name: str) -> CSRArray:
    """Copy anything matrix-like of real numbers into canonical CSR."""
    given = type(matrix).__name__
    if not sparse.issparse(matrix):
        refuse_graph(matrix, name, "renormalized(graph.adjacency)" if name == "propagation" else "graph.adjacency")
        try:
            matrix = np.asarray(matrix)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name} must be a matrix of numbers, got {given}: {str(error).rstrip('.')}.") from error
    if matrix.ndim == 0:
        raise InputError(f"{name} must be a matrix with 2 dimensions, got {given}.")
    if matrix.ndim != 2:
        raise InputError(f"{name} must be a matrix with 2 dimensions, got {matrix.ndim}.")
    if matrix.dtype.kind not in "buif":
        raise InputError(f"{name} must hold real numbers, got dtype {matrix.dtype}.")
    csr: Any = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    try:
        csr.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"{name} is not a valid sparse matrix: {error}.") from error
    csr.sum_duplicates()
    csr.eliminate_zeros()
    # The narrowest index type that fits, so that equal graphs have equal bytes.
    index_type = np.int32 if max(csr.nnz, *csr.shape) <= np.iinfo(np.int32).max else np.int64
    csr.indptr, csr.indices = csr.indptr.astype(index_type), csr.indices.astype(index_type)
    return cast(CSRArray, csr)


def refuse_graph(value: Any, name: str, advice: str) -> None:
    """Say which of its matrices to give in place of a graph."""
    if sparse.issparse(getattr(value, "adjacency", None)):
        raise InputError(f"{name} must be a matrix, got a Graph; give {advice}.")


def _entry(csr: CSRArray, position: int) -> tuple[int, int, float]:
    """Return row, column and value of a stored entry."""
    row = int(np.searchsorted(csr.indptr, position, side="right")) - 1
    return row, int(csr.indices[position]), float(csr.data[position])
