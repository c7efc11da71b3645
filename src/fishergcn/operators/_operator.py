"""What a graph convolution can multiply with, whatever it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from fishergcn.operators._sparse import SparseMatrix


class Operator(Protocol):
    """Anything a graph convolution can multiply with: a p × n matrix, or B of them side by side.

    Examples
    --------
    >>> import torch
    >>> from fishergcn.operators import DenseOperator, SparseMatrix
    >>> def smooth(operator: Operator, signal: torch.Tensor) -> torch.Tensor:
    ...     return operator.propagate(signal[:, None, None]).flatten()
    >>> signal = torch.tensor([1.0, 0.0], dtype=torch.float64)
    >>> average = torch.full((2, 2), 0.5, dtype=torch.float64)
    >>> for operator in (SparseMatrix.from_scipy(average.numpy()), DenseOperator(average)):
    ...     print(smooth(operator, signal).tolist())
    [0.5, 0.5]
    [0.5, 0.5]
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(p, n), of each matrix."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the products."""

    @property
    def device(self) -> torch.device:
        """Where the products run."""

    def propagate(self, dense: Tensor) -> Tensor:
        """Return the product with node-major activations (n, B, d), shape (p, B, d)."""

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Operator:
        """Return the operator on another device or in another precision."""


class Placed:
    """Shape, precision and place of an operator: those of the matrix at its core."""

    _core: SparseMatrix | Tensor

    def __repr__(self) -> str:
        (rows, columns), batch = self.shape, tuple(getattr(self, "batch_shape", ()))
        several = f", batch {batch}" if batch else ""
        return f"{type(self).__name__}({rows} × {columns}{several}, {self.dtype}, {self.device})"

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        rows, columns = self._core.shape
        return rows, columns

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the products."""
        return self._core.dtype

    @property
    def device(self) -> torch.device:
        """Where the products run."""
        return self._core.device
