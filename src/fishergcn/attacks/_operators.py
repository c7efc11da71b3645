"""The propagation operator of a changed graph, where the networks run.

Every change of the graph needs Algorithm 1 anew for the high-order methods. On a GPU that is done with dense matrices,
in float64 as elsewhere; entries that equal the threshold up to rounding may fall on the other side of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fishergcn.operators import SparseMatrix
from fishergcn.propagation import dense_high_order, high_order, renormalized

if TYPE_CHECKING:
    from fishergcn._base.types import CSRArray
    from fishergcn.nn import Operator
    from fishergcn.training import TrainConfig

__all__ = ["DenseOperator", "operator_of"]

_DENSE_NODES = 32_768  # up to here a dense matrix is built on a GPU: 8 GB in float64


class DenseOperator:
    """Ã as a dense matrix on a GPU."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    def propagate(self, dense: Tensor) -> Tensor:
        """Return Ã Z for node-major activations Z of shape (n, B, d)."""
        return (self.matrix @ dense.reshape(len(dense), -1)).view(dense.shape)


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
        return DenseOperator(dense_high_order(adjacency, config.order, config.threshold, device=device).to(dtype))
    made = high_order(adjacency, config.order, config.threshold) if high else renormalized(adjacency)
    return SparseMatrix.from_scipy(made, device=device, dtype=dtype)
