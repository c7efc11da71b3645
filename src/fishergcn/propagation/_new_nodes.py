"""How new nodes join a graph that has been learned on: one by one, without changing it.

The links of a new node give it a row of the propagation matrix. The degrees of the old nodes stay, so that a
prediction depends neither on the other new nodes nor on their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.propagation._walk import row_sums, transition_matrix, walk_sum


def renormalized_rows(links: CSRArray, adjacency: CSRArray) -> tuple[CSRArray, FloatArray]:
    """Return the rows ã_ij = w_ij / sqrt((d_i + 1)(d_j + 1)) of new nodes i, and ã_ii = 1 / (d_i + 1).

    Parameters
    ----------
    links : csr_array of shape (m, n)
        w, the links of m new nodes to n old ones.
    adjacency : csr_array of shape (n, n)
        A of the old nodes.

    Returns
    -------
    csr_array of shape (m, n), ndarray of shape (m,)
        What a new node takes from the old ones and from itself.

    Examples
    --------
    >>> rows, own = renormalized_rows(sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[0.0, 1], [1, 0]]))
    >>> rows.toarray(), own
    (array([[0.5, 0. ]]), array([0.5]))
    """
    degrees, old = row_sums(links) + 1.0, row_sums(adjacency) + 1.0
    return _scaled(links, 1.0 / np.sqrt(degrees), 1.0 / np.sqrt(old)), 1.0 / degrees


def high_order_rows(
    links: CSRArray, adjacency: CSRArray, propagation: CSRArray, order: int, threshold: float
) -> tuple[CSRArray, FloatArray]:
    """Return the same for the high-order propagation matrix: s_ij + s_ji, and 2 on the diagonal, normalized.

    A walk from a new node i steps to an old one and goes on among them: s_i = (p_i + p_i P + … + p_i P^(T-1))/T.
    Walks back follow from detailed balance, s_ji = s_ij d_i / d_j. Entries up to ν are dropped.

    Parameters
    ----------
    links, adjacency
        As in :func:`renormalized_rows`, whose results these are, too.
    propagation : csr_array of shape (n, n)
        Ã of the old nodes, from :func:`high_order`.
    order, threshold
        T and ν.

    Examples
    --------
    >>> from fishergcn import high_order
    >>> pair = sparse.csr_array([[0.0, 1], [1, 0]])
    >>> rows, own = high_order_rows(sparse.csr_array([[1.0, 0.0]]), pair, high_order(pair, 1), 1, 1e-4)
    >>> rows.toarray().round(3), own
    (array([[0.5, 0. ]]), array([0.5]))
    """
    walk, old = transition_matrix(adjacency), row_sums(adjacency)
    there: Any = walk_sum(transition_matrix(links), lambda rows: rows @ walk, order)
    there.data /= order
    back = _scaled(there, row_sums(links), np.divide(1.0, old, out=np.zeros_like(old), where=old > 0))
    for walks in (there, back):
        walks.data[walks.data <= threshold] = 0.0
    weights = there + back
    totals = row_sums(weights) + 2.0
    # Ã_jj = 2/d'_j holds for the old nodes, which gives back their d'.
    return _scaled(weights, 1.0 / np.sqrt(totals), np.sqrt(propagation.diagonal() / 2.0)), 2.0 / totals


def _scaled(matrix: Any, rows: FloatArray, columns: FloatArray) -> CSRArray:
    """Return m_ij r_i c_j."""
    scaled: CSRArray = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    scaled.data *= np.repeat(rows, np.diff(scaled.indptr)) * columns[scaled.indices]
    return scaled
