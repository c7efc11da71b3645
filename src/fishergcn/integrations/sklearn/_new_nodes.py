"""The network on nodes that were there at training, or on new ones beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from scipy import sparse

from fishergcn._base.tensors import check_outputs
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray
from fishergcn.nn import local_view, logits, make_features


def join(propagation: CSRArray, rows: Any, own: FloatArray) -> CSRArray:
    """Return [[Ã, 0], [R, diag(own)]], over which new nodes see the old ones and the old ones do not see them.

    Examples
    --------
    >>> import numpy as np
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
    >>> import numpy as np
    >>> from scipy import sparse
    >>> eye = sparse.eye_array(2, format="csr")
    >>> probabilities([np.eye(2)], np.log([[1.0, 3.0], [1.0, 1.0]]), eye, np.array([0]))
    array([[0.25, 0.75]])
    """
    prepared = make_features(features, scaling="none", dtype=torch.float64)
    view = local_view(prepared, propagation, nodes, len(weights), device="cpu", dtype=torch.float64)
    with torch.no_grad():
        out = logits([torch.as_tensor(each, dtype=torch.float64).unsqueeze(0) for each in weights], view)
        checked = check_outputs(out, lambda row: str(int(nodes[row])))
        found: FloatArray = torch.softmax(checked[:, 0], dim=1).numpy()
    return found
