"""Random noise on features: some of a node's words are replaced by others.

A stored entry of the feature matrix moves to a random column of its row in which nothing is stored. For binary features
these are bit flips, 1 to 0 and 0 to 1, that leave the number of words of each node as it is; weights (as of PubMed's
words) move along.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._checks import check_real
from fishergcn._types import IntArray
from fishergcn.errors import InputError

__all__ = ["replace_entries"]


def replace_entries(features: Any, share: float, seed: int) -> Any:
    """Move round(share * nnz) stored entries, drawn uniformly, to random free columns of their rows.

    From the same seed a larger share contains the moves of the smaller one.

    Parameters
    ----------
    features
        X, n x D, a SciPy sparse matrix of which no row is filled by more than a half.
    share
        How much of it, from 0 to 1.
    seed
        Of the draws.

    Returns
    -------
    csr_array
        The new X, with as many entries in each row.

    Examples
    --------
    >>> from scipy import sparse
    >>> replace_entries(sparse.csr_array([[3.0, 0.0]]), 1.0, seed=0).toarray()
    array([[0., 3.]])
    """
    share = check_real("share", share, minimum=0.0, maximum=1.0)
    if not sparse.issparse(features):
        raise InputError("noise on features replaces stored entries, so the features must be a sparse matrix.")
    matrix: Any = sparse.csr_array(features, copy=True)  # type: ignore[call-overload]
    matrix.sum_duplicates()
    lengths, columns = np.diff(matrix.indptr), matrix.shape[1]
    if (2 * lengths > columns).any():
        raise InputError(
            f"noise on features needs rows filled by at most a half, got {lengths.max()} of {columns} entries."
        )
    rng = np.random.default_rng(seed)
    row = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), lengths)
    moved = rng.permutation(matrix.nnz)[: round(share * matrix.nnz)]
    target = _free_columns(row, matrix.indices.astype(np.int64), columns, rng)
    matrix.indices[moved] = target[moved]
    matrix.sort_indices()
    return matrix


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
