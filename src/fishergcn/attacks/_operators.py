"""The propagation operator of a changed graph, where the networks run.

Every change of the graph needs Algorithm 1 anew for the high-order methods. On a GPU that is done with dense matrices,
in float64 as elsewhere; entries that equal the threshold up to rounding may fall on the other side of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fishergcn.operators import DenseOperator, Operator, SparseMatrix
from fishergcn.propagation import high_order, renormalized

if TYPE_CHECKING:
    from fishergcn._base.types import CSRArray, FloatArray
    from fishergcn.training import TrainConfig

__all__ = ["dense_high_order", "operator_of"]

_DENSE_NODES = 32_768  # up to here a dense matrix is built on a GPU: 8 GB in float64


def operator_of(adjacency: CSRArray, high: bool, config: TrainConfig, device: torch.device) -> Operator:
    """Return Ã of a graph, renormalized or of high order, on ``device`` in the precision of ``config``.

    Examples
    --------
    >>> import torch
    >>> from scipy import sparse
    >>> from fishergcn import TrainConfig
    >>> link = sparse.csr_array([[0.0, 1.0], [1.0, 0.0]])
    >>> operator_of(link, False, TrainConfig(), torch.device("cpu"))
    SparseMatrix(2 × 2, 4 entries, torch.float32, cpu)
    """
    dtype: torch.dtype = getattr(torch, config.dtype)
    if high and device.type != "cpu" and adjacency.shape[0] <= _DENSE_NODES:
        return DenseOperator(dense_high_order(adjacency, config.order, config.threshold, device).to(dtype))
    made = high_order(adjacency, config.order, config.threshold) if high else renormalized(adjacency)
    return SparseMatrix.from_scipy(made, device=device, dtype=dtype)


def dense_high_order(adjacency: CSRArray, order: int, threshold: float, device: torch.device) -> Tensor:
    """Algorithm 1 with dense matrices: the same as :func:`fishergcn.high_order`, as a float64 tensor.

    Examples
    --------
    >>> import torch
    >>> from scipy import sparse
    >>> path = sparse.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> dense_high_order(path, 2, 0.3, torch.device("cpu"))[0].numpy().round(3)
    array([0.8  , 0.183, 0.   ])
    """
    degrees: FloatArray = np.asarray(adjacency.sum(axis=1)).ravel()
    walk = adjacency.copy()
    walk.data /= np.repeat(degrees, np.diff(walk.indptr))
    step = SparseMatrix.from_scipy(walk, device=device).forward
    power = step.to_dense()
    total = power.clone()
    for _ in range(order - 1):
        power = step @ power  # P^t commutes with P
        total += power
    total /= order
    total.fill_diagonal_(0.0)
    total[total <= threshold] = 0.0
    made = total + total.T
    made.diagonal().add_(2.0)
    root = made.sum(1).rsqrt()
    return made.mul_(root).mul_(root[:, None])
