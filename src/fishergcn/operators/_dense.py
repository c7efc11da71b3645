"""A dense matrix as an operator, for the matrices that are not sparse."""

from __future__ import annotations

import torch
from torch import Tensor

from fishergcn.operators._operator import Placed


class DenseOperator(Placed):
    """Ã as a dense matrix; gradients flow to its entries too.

    Parameters
    ----------
    matrix : Tensor of shape (p, n)
        Ã.

    Examples
    --------
    >>> import torch
    >>> swap = DenseOperator(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> swap.propagate(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]))
    tensor([[[3., 4.]],
    <BLANKLINE>
            [[1., 2.]]])
    """

    def __init__(self, matrix: Tensor) -> None:
        self._core = self.matrix = matrix

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> DenseOperator:
        """Return the operator on another device or in another precision."""
        return DenseOperator(self.matrix.to(device or self.device, dtype or self.dtype))

    def propagate(self, dense: Tensor) -> Tensor:
        """Return Ã Z for node-major activations Z of shape (n, B, d), shape (p, B, d)."""
        return (self.matrix @ dense.reshape(len(dense), -1)).view(-1, *dense.shape[1:])
