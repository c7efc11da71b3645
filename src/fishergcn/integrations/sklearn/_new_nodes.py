"""The network on nodes that were there at training, or on new ones beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fishergcn._base.types import AnyArray, FloatArray

__all__ = ["forward", "softmax"]


def forward(
    features: Any,
    weights: Sequence[AnyArray],
    rows: Any,
    own: FloatArray | None = None,
    old: Sequence[FloatArray] | None = None,
) -> list[FloatArray]:
    """Return Z^l = H^l W^l of every layer and, last, the logits.

    Parameters
    ----------
    features : matrix of shape (m, D)
        H⁰.
    weights : sequence of ndarray
        W^l.
    rows : sparse matrix of shape (m, n)
        What a node takes from the old nodes; the propagation matrix for the old nodes themselves.
    own : ndarray of shape (m,), optional
        What a new node takes from itself.
    old : sequence of ndarray, optional
        Z^l of the old nodes, for new ones.

    Returns
    -------
    list of ndarray
        Z⁰, Z¹, …, logits.

    Examples
    --------
    >>> from scipy import sparse
    >>> eye = sparse.eye_array(2, format="csr")
    >>> forward(np.eye(2), [np.eye(2), np.ones((2, 1))], eye)[-1].ravel()
    array([1., 1.])
    """
    hidden, found = features, []
    for layer, weight in enumerate(weights):
        projected = np.asarray(hidden @ weight.astype(np.float64))
        found.append(projected)
        hidden = np.asarray(rows @ (projected if old is None else old[layer]))
        if own is not None:
            hidden = hidden + own[:, None] * projected
        if layer < len(weights) - 1:
            hidden = np.maximum(hidden, 0.0)
    return [*found, hidden]


def softmax(logits: FloatArray) -> FloatArray:
    """Return the probabilities of each row.

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
