"""How new nodes join a graph that has been learned on: one by one, without changing it.

The links of a new node give it a row of the propagation matrix. The degrees of the old nodes stay, so that a
prediction depends neither on the other new nodes nor on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse

from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray
from fishergcn.nn import local_view, logits, make_features

__all__ = ["high_order_rows", "join", "probabilities", "renormalized_rows"]


def renormalized_rows(links: Any, adjacency: CSRArray) -> tuple[Any, FloatArray]:
    """Return the rows ã_ij = w_ij / sqrt((d_i + 1)(d_j + 1)) of new nodes i, and ã_ii = 1 / (d_i + 1).

    Parameters
    ----------
    links : sparse matrix of shape (m, n)
        w, the links of m new nodes to n old ones.
    adjacency : csr_array of shape (n, n)
        A of the old nodes.

    Returns
    -------
    sparse matrix of shape (m, n), ndarray of shape (m,)
        What a new node takes from the old ones and from itself.

    Examples
    --------
    >>> rows, own = renormalized_rows(sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[0.0, 1], [1, 0]]))
    >>> rows.toarray(), own
    (array([[0.5, 0. ]]), array([0.5]))
    """
    degrees, own = _sums(links) + 1.0, _sums(adjacency) + 1.0
    return _scaled_rows(links, degrees, own), 1.0 / degrees


def high_order_rows(
    links: Any, adjacency: CSRArray, propagation: CSRArray, order: int, threshold: float
) -> tuple[Any, FloatArray]:
    """Return the same for the high-order propagation matrix: s_ij + s_ji, and 2 on the diagonal, normalized.

    A walk from a new node i steps to an old one and goes on among them: s_i = (p_i + p_i P + … + p_i P^(T-1))/T.
    Walks back follow from detailed balance, s_ji = s_ij d_i / d_j. Entries up to ν are dropped.

    Parameters
    ----------
    links, adjacency
        As in :func:`renormalized_rows`.
    propagation : csr_array of shape (n, n)
        Ã of the old nodes, from :func:`fishergcn.high_order`.
    order, threshold
        T and ν.

    Returns
    -------
    sparse matrix of shape (m, n), ndarray of shape (m,)
        What a new node takes from the old ones and from itself.

    Examples
    --------
    >>> from fishergcn import high_order
    >>> pair = sparse.csr_array([[0.0, 1], [1, 0]])
    >>> rows, own = high_order_rows(sparse.csr_array([[1.0, 0.0]]), pair, high_order(pair, 1), 1, 1e-4)
    >>> rows.toarray().round(3), own
    (array([[0.5, 0. ]]), array([0.5]))
    """
    degrees, old = _sums(links), _sums(adjacency)
    walk = _scaled_rows(adjacency, old**2, np.ones_like(old))
    power = _scaled_rows(links, degrees**2, np.ones_like(old))
    total = power
    for _ in range(order - 1):
        power = power @ walk
        total = total + power
    there = sparse.csr_array(total / order)
    back = _scaled_rows(there, np.divide(1.0, degrees**2, where=degrees > 0, out=np.zeros_like(degrees)), old**2)
    there.data[there.data <= threshold] = 0.0
    back.data[back.data <= threshold] = 0.0
    weights = there + back
    totals = _sums(weights) + 2.0
    return _scaled_rows(weights, totals, 2.0 / propagation.diagonal()), 2.0 / totals


def _scaled_rows(matrix: Any, row: FloatArray, column: FloatArray) -> Any:
    """Return m_ij / sqrt(r_i c_j), and 0 where r_i or c_j is 0."""
    left, right = (np.divide(1.0, np.sqrt(each), where=each > 0, out=np.zeros(each.shape)) for each in (row, column))
    return sparse.csr_array(sparse.diags_array(left) @ matrix @ sparse.diags_array(right))


def _sums(matrix: Any) -> FloatArray:
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).reshape(-1)


def join(propagation: CSRArray, rows: Any, own: FloatArray) -> CSRArray:
    """Return [[Ã, 0], [R, diag(own)]], over which new nodes see the old ones and the old ones do not see them.

    Examples
    --------
    >>> join(sparse.csr_array([[0.5, 0.5], [0.5, 0.5]]), sparse.csr_array([[0.5, 0.0]]), np.array([0.5])).toarray()
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0.5, 0. , 0.5]])
    """
    blocks: Any = sparse.block_array([[propagation, None], [rows, sparse.diags_array(own)]], format="csr")
    return sparse.csr_array(blocks)


def probabilities(weights: Sequence[AnyArray], features: Any, propagation: CSRArray, nodes: IntArray) -> FloatArray:
    """Return the probability of each class at some nodes, ascending, in float64.

    Parameters
    ----------
    weights : sequence of ndarray
        W^l.
    features : matrix of shape (n, D)
        X.
    propagation : csr_array of shape (n, n)
        Ã, which need not be symmetric.
    nodes : ndarray of int
        Whose probabilities; only what they depend on is computed.

    Examples
    --------
    >>> eye = sparse.eye_array(2, format="csr")
    >>> probabilities([np.eye(2)], np.log([[1.0, 3.0], [1.0, 1.0]]), eye, np.array([0]))
    array([[0.25, 0.75]])
    """
    prepared = make_features(features, normalize=False, dtype=torch.float64)
    view = local_view(prepared, propagation, nodes, len(weights), device="cpu", dtype=torch.float64)
    with torch.no_grad():
        out = logits([torch.as_tensor(each, dtype=torch.float64).unsqueeze(0) for each in weights], view)
        found: FloatArray = torch.softmax(out[:, 0], dim=1).numpy()
    return found
