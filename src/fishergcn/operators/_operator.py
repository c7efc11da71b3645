"""What a graph convolution can multiply with, whatever it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

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
    """Shape, precision and place of an operator: those of the matrix at its core.

    ``_parts`` names the arguments of the constructor, which are attributes of the operator too.
    """

    _core: SparseMatrix | Tensor
    _parts: ClassVar[tuple[str, ...]] = ()

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

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """Return the operator on another device or in another precision; gradients still flow to what it is made of."""
        place = torch.device(device or self.device), dtype or self.dtype
        return type(self)(*(_moved(getattr(self, name), *place) for name in self._parts))


def _moved(part: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """Move a tensor, matrix, factor or list of them; anything else stays as it is."""
    if isinstance(part, Tensor):
        return part.to(device, dtype if part.is_floating_point() else None)
    if isinstance(part, list | tuple):
        return [_moved(each, device, dtype) for each in part]
    return part.to(device, dtype) if hasattr(part, "to") else part
