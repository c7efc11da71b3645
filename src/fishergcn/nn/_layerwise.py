"""Predictions on large graphs, one layer after the other and in blocks of rows.

Two layers' activations are held at most, and only those of nodes that the wanted ones depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.arrays import ranges
from fishergcn._base.types import CSRArray, IntArray
from fishergcn.nn._features import make_features
from fishergcn.nn._linear import times_weight
from fishergcn.operators import SparseMatrix

__all__ = ["layerwise_logits", "reach"]

ROWS_AT_ONCE = 65_536


def reach(propagation: CSRArray, nodes: IntArray, depth: int, rows_at_once: int = ROWS_AT_ONCE) -> list[IntArray]:
    """Return the nodes that enter each layer, first layer first, and last those wanted, ascending.

    Examples
    --------
    >>> from scipy import sparse
    >>> path = sparse.csr_array([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]])
    >>> reach(path, np.array([0]), depth=2)
    [array([0, 1, 2]), array([0, 1]), array([0])]
    """
    found = [np.unique(nodes)]
    for _ in range(depth):
        entering = np.zeros(propagation.shape[1], dtype=np.bool_)
        for rows in _pieces(found[-1], rows_at_once):
            starts = propagation.indptr[rows]
            entering[propagation.indices[ranges(starts, propagation.indptr[rows + 1] - starts)]] = True
        found.append(np.flatnonzero(entering))
    return found[::-1]


@torch.no_grad()
def layerwise_logits(
    weights: Sequence[Tensor],
    propagation: CSRArray,
    features: Any,
    reached: Sequence[IntArray],
    *,
    normalize: bool,
    rows_at_once: int = ROWS_AT_ONCE,
) -> Tensor:
    """Return the logits of one network without dropout, on the rows ``reached[-1]``, shape (p, C).

    Parameters
    ----------
    weights
        W^l for each layer, shape (1, d_l, d_{l+1}).
    propagation
        Ã.
    features
        X of the whole graph, SciPy CSR or an array.
    reached
        Which nodes enter each layer, and which are wanted; see :func:`reach`.
    normalize
        Divide each row of the features by its sum.
    rows_at_once
        How many rows a block has.
    """
    first = weights[0].detach()
    pieces = [
        make_features(features[rows], normalize=normalize, device=first.device, dtype=first.dtype).times(
            first, None, 1, 0.0
        )
        for rows in _pieces(reached[0], rows_at_once)
    ]
    values = torch.cat(pieces)
    number = np.zeros(propagation.shape[1], dtype=np.int64)
    for layer, rows in enumerate(reached[1:]):
        number[reached[layer]] = np.arange(len(reached[layer]))
        pieces = []
        for piece in _pieces(rows, rows_at_once):
            block = _block(propagation, piece, number, len(values))
            product = SparseMatrix.from_scipy(block, device=first.device, dtype=first.dtype).propagate(values)
            if layer + 1 < len(weights):
                product = times_weight(torch.relu(product), weights[layer + 1].detach())
            pieces.append(product)
        values = torch.cat(pieces)
    return values[:, 0]


def _block(propagation: Any, rows: IntArray, number: IntArray, columns: int) -> Any:
    """Return some rows of Ã with the columns renumbered; ``number`` keeps their order."""
    starts = propagation.indptr[rows]
    lengths = propagation.indptr[rows + 1] - starts
    entries = ranges(starts, lengths)
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    parts = (propagation.data[entries], number[propagation.indices[entries]], pointers)
    return sparse.csr_array(parts, shape=(len(rows), columns))


def _pieces(rows: IntArray, size: int) -> list[IntArray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
