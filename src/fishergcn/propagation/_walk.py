"""The random walks of Algorithm 1: P = D^-1 A, and P + P² + … + P^T of whatever can take a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from fishergcn._base.types import CSRArray, FloatArray

Walkers = TypeVar("Walkers")


def walk_sum(first: Walkers, step: Callable[[Walkers], Walkers], order: int) -> Walkers:
    """Return x + s(x) + s(s(x)) + …, T ≥ 1 terms in all.

    ``first`` is x, where walkers are after one step: P itself, rows of it or a product with it, sparse or dense, in
    NumPy or torch. ``step`` is s, one step more: x ↦ xP, or x ↦ Px.
    """
    power = total = first
    for _ in range(order - 1):
        power = step(power)
        total = total + power  # type: ignore[operator]
    return total


def sparse_step(rows: Any, walk: CSRArray) -> Any:
    """Return xP of sparse rows x, summed in ascending order of the nodes in between: the same bit for bit everywhere.

    SciPy leaves the entries of a product unsorted, and the next product sums in the order in which they come.
    """
    following = rows @ walk
    following.sort_indices()
    return following


def transition_matrix(weights: Any) -> CSRArray:
    """Return P = D^-1 W, where D holds the row sums of W ≥ 0; a row without entries stays empty."""
    walk: CSRArray = sparse.csr_array(weights, dtype=np.float64, copy=True)
    walk.eliminate_zeros()
    walk.data /= np.repeat(row_sums(walk), np.diff(walk.indptr))
    return walk


def row_sums(matrix: Any) -> FloatArray:
    """Return the row sums of a sparse matrix or array."""
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).reshape(-1)
