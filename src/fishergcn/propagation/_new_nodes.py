"""How new nodes join a graph that has been learned on: one by one, without changing it.

The links of a new node give it a row of the propagation matrix. The degrees of the old nodes stay, so that a
prediction depends neither on the other new nodes nor on their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.propagation._walk import row_sums, sparse_step, transition_matrix, walk_sum


def renormalized_rows(links: CSRArray, adjacency: CSRArray) -> tuple[CSRArray, FloatArray]:
    """Return the rows ã_ij = w_ij / sqrt((d_i + 1)(d_j + 1)) of new nodes i, and ã_ii = 1 / (d_i + 1).

    ``links`` is w, the links of m new nodes to n old ones, and ``adjacency`` A of the old ones.
    """
    degrees, old = row_sums(links) + 1.0, row_sums(adjacency) + 1.0
    return _scaled(links, 1.0 / np.sqrt(degrees), 1.0 / np.sqrt(old)), 1.0 / degrees


def normalized_rows(links: CSRArray, adjacency: CSRArray) -> tuple[CSRArray, FloatArray]:
    """Return the rows w_ij / sqrt(d_i d_j) of new nodes i for D^-1/2 A D^-1/2, in which nothing comes from i itself."""
    here, there = (np.sqrt(_inverse(row_sums(each))) for each in (links, adjacency))
    return _scaled(links, here, there), np.zeros(len(here))


def mean_rows(links: CSRArray) -> tuple[CSRArray, FloatArray]:
    """Return the rows w_ij / d_i of new nodes i for D⁻¹ A, in which nothing comes from i itself."""
    return transition_matrix(links), np.zeros(links.shape[0])


def high_order_rows(
    links: CSRArray, adjacency: CSRArray, propagation: CSRArray, order: int, threshold: float
) -> tuple[CSRArray, FloatArray]:
    """Return the same for the high-order propagation matrix: s_ij + s_ji, and 2 on the diagonal, normalized.

    A walk from a new node i steps to an old one and goes on among them: s_i = (p_i + p_i P + … + p_i P^(T-1))/T. Walks
    back follow from detailed balance, s_ji = s_ij d_i / d_j. Entries up to ν are dropped.

    A new node with the links of an old one has its row of S, bit for bit: sums are taken in the order of
    :func:`high_order`. The walks back are not counted but follow from those there, and so may differ from counted ones
    in the last digit. Where such an entry equals ν up to rounding (see the notes on :func:`high_order`), one of the two
    keeps it and the other does not: on Cora that is up to 3e-5 in an entry of Ã.
    """
    walk, old = transition_matrix(adjacency), row_sums(adjacency)
    first = transition_matrix(links)
    first.sort_indices()
    there: Any = walk_sum(first, lambda rows: sparse_step(rows, walk), order)
    there.data /= order
    back = _scaled(there, row_sums(links), _inverse(old))
    for walks in (there, back):
        walks.data[walks.data <= threshold] = 0.0
    weights = there + back
    totals = row_sums(weights) + 2.0
    # Ã_jj = 2/d'_j holds for the old nodes, which gives back their d'.
    return _scaled(weights, 1.0 / np.sqrt(totals), np.sqrt(propagation.diagonal() / 2.0)), 2.0 / totals


def joined(propagation: CSRArray, rows: CSRArray, own: FloatArray) -> CSRArray:
    """Return [[Ã, 0], [R, diag(own)]], over which new nodes see the old ones and the old ones do not see them."""
    blocks: Any = sparse.block_array([[propagation, None], [rows, sparse.diags_array(own)]], format="csr")
    return sparse.csr_array(blocks)


def _inverse(sums: FloatArray) -> FloatArray:
    """Return 1 / d, and 0 where d is 0."""
    return np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)


def _scaled(matrix: Any, rows: FloatArray, columns: FloatArray) -> CSRArray:
    """Return m_ij r_i c_j."""
    scaled: CSRArray = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    scaled.data *= np.repeat(rows, np.diff(scaled.indptr)) * columns[scaled.indices]
    return scaled
