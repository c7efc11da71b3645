"""Matrices that are not sparse: dense ones, and the identity, over which a network pays for no product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import CSRArray
from fishergcn.operators._operator import Operator, Placed
from fishergcn.operators._sparse import SparseMatrix


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
    >>> swap.propagate(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])).tolist()
    [[[3.0, 4.0]], [[1.0, 2.0]]]
    """

    _parts = ("matrix",)

    def __init__(self, matrix: Tensor) -> None:
        self._core = self.matrix = matrix

    def propagate(self, dense: Tensor) -> Tensor:
        """Return Ã Z for node-major activations Z of shape (n, B, d), shape (p, B, d)."""
        return (self.matrix @ dense.reshape(len(dense), -1)).view(-1, *dense.shape[1:])


@dataclass(frozen=True)
class IdentityOperator:
    """I in place of Ã: every product is what it was multiplied with."""

    shape: tuple[int, int]
    device: torch.device
    dtype: torch.dtype

    def propagate(self, dense: Tensor) -> Tensor:
        """Return the activations themselves."""
        return dense

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> IdentityOperator:
        """Return the operator on another device or in another precision."""
        return IdentityOperator(self.shape, torch.device(device or self.device), dtype or self.dtype)


def as_operator(matrix: CSRArray, *, device: torch.device | str, dtype: torch.dtype) -> Operator:
    """Return a matrix as an operator: the identity as one that costs nothing."""
    rows, columns = matrix.shape
    if rows == columns == matrix.nnz and (matrix.data == 1).all() and (matrix.indices == np.arange(rows)).all():
        return IdentityOperator((rows, columns), torch.device(device), dtype)
    return SparseMatrix.from_scipy(matrix, device=device, dtype=dtype)
