"""Random noise on features: some of a node's words are replaced by others, some of its numbers by those of other nodes.

For binary features these are bit flips, 1 to 0 and 0 to 1, that leave the number of words of each node as it is;
weights (as of PubMed's words) move along. In a dense matrix, where columns are quantities with units and ranges of
their own, each column keeps its values, and loses what they say about the nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_real
from fishergcn._base.types import FeatureMatrix, IntArray
from fishergcn.errors import InputError


def replace_entries(features: FeatureMatrix, share: float, seed: int) -> FeatureMatrix:
    """Replace a share, from 0 to 1, of the entries of X, (n, D), drawn uniformly.

    Sparse X, of which no row is filled by more than a half, or an array that is mostly 0: round(share * nnz) entries
    move to random free columns of their rows, which keep their values. Dense X: in each column 2 round(share * n / 2)
    entries swap their values in pairs; the swap of two equal values changes nothing. From the same seed a larger share
    contains the moves of the smaller one.

    Examples
    --------
    >>> from scipy import sparse
    >>> replace_entries(sparse.csr_array([[3.0, 0.0]]), 1.0, seed=0).toarray()
    array([[0., 3.]])
    >>> replace_entries(np.array([[1.5, 70.0], [2.5, 80.0]]), 1.0, seed=0)
    array([[ 2.5, 80. ],
           [ 1.5, 70. ]])
    """
    share = check_real("share", share, minimum=0.0, maximum=1.0)
    check_noise(features)
    if not _counts_as_sparse(features):
        swapped: FeatureMatrix = _swap_entries(np.array(features), share, np.random.default_rng(seed))
        return swapped
    if not sparse.issparse(features):
        moved_words: Any = replace_entries(sparse.csr_array(features), share, seed)
        dense: FeatureMatrix = moved_words.toarray()
        return dense
    matrix: sparse.csr_array[np.float32, tuple[int, int]] = _entries(features)
    lengths, columns = np.diff(matrix.indptr), matrix.shape[1]
    rng = np.random.default_rng(seed)
    row = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), lengths)
    moved = rng.permutation(matrix.nnz)[: round(share * matrix.nnz)]
    target = _free_columns(row, matrix.indices.astype(np.int64), columns, rng)
    matrix.indices[moved] = target[moved]
    matrix.sort_indices()
    return matrix


def _counts_as_sparse(features: FeatureMatrix) -> bool:
    """Whether X is sparse, or an array of which at most a quarter is not 0, and of no row more than a half."""
    if sparse.issparse(features):
        return True
    filled = np.count_nonzero(np.asarray(features), axis=1)
    return bool(4 * filled.sum() <= np.size(features) and (2 * filled <= np.shape(features)[1]).all())


def count_replaced(features: FeatureMatrix, share: float) -> int:
    """Return how many entries :func:`replace_entries` replaces."""
    if _counts_as_sparse(features):
        return round(share * int(_entries(features).nnz))
    nodes, columns = np.shape(features)
    return 2 * _swaps(nodes, share) * int(columns)


def check_noise(features: FeatureMatrix) -> None:
    """Raise unless X is a matrix and, if it is sparse, its rows leave room to move: at most a half is filled."""
    if not sparse.issparse(features):
        if np.ndim(features) != 2:
            raise InputError(f"features must be a matrix, got {np.ndim(features)} dimensions.")
        return
    matrix = _entries(features)
    lengths, columns = np.diff(matrix.indptr), matrix.shape[1]
    if (2 * lengths > columns).any():
        raise InputError(
            f"noise on features needs rows filled by at most a half, got {lengths.max()} of {columns} entries."
        )


def _entries(features: Any) -> Any:
    """Return a copy of a sparse matrix with every entry stored once."""
    matrix: Any = sparse.csr_array(features, copy=True)
    matrix.sum_duplicates()
    return matrix


def _swap_entries(matrix: Any, share: float, rng: np.random.Generator) -> Any:
    """Swap entries of each column in pairs; pairs are drawn for all rows, and the first of them are swapped."""
    nodes, columns = matrix.shape
    count = _swaps(nodes, share)
    for column in range(columns):
        order = rng.permutation(nodes)
        first, second = order[0 : 2 * count : 2], order[1 : 2 * count : 2]
        matrix[first, column], matrix[second, column] = matrix[second, column], matrix[first, column]
    return matrix


def _swaps(nodes: int, share: float) -> int:
    return min(round(share * nodes / 2), nodes // 2)


def _free_columns(row: IntArray, column: IntArray, columns: int, rng: np.random.Generator) -> IntArray:
    """Return for every entry a column that no entry of its row has, neither now nor after all have moved."""
    taken = row * columns + column
    target = rng.integers(columns, size=len(row))
    while True:
        keys = row * columns + target
        first = np.zeros(len(keys), dtype=np.bool_)
        first[np.unique(keys, return_index=True)[1]] = True
        clash = np.flatnonzero(~first | np.isin(keys, taken))
        if len(clash) == 0:
            return target
        target[clash] = rng.integers(columns, size=len(clash))
