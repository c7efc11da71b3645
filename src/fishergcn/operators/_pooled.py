"""One of a few matrices for each entry of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fishergcn.operators._operator import Placed
from fishergcn.operators._sparse import SparseMatrix


class PooledOperator(Placed):
    """Ã_b = Ã^(k_b), b = 1..B: each entry of a batch has one of K matrices.

    Parameters
    ----------
    matrices : sequence of SparseMatrix
        Ã^(1), …, Ã^(K), of one shape.
    chosen : Tensor of shape (B,), int64
        k_b, from 0 on.

    Examples
    --------
    >>> import torch
    >>> one, two = (SparseMatrix.from_scipy([[0.0, value], [value, 0.0]]) for value in (1.0, 2.0))
    >>> pooled = PooledOperator([one, two], torch.tensor([1, 0, 1]))
    >>> pooled.propagate(torch.ones(2, 3, 1, dtype=torch.float64))[0].flatten()
    tensor([2., 1., 2.], dtype=torch.float64)
    """

    def __init__(self, matrices: Sequence[SparseMatrix], chosen: Tensor) -> None:
        self._core = matrices[0]
        self.matrices, self.chosen = matrices, chosen

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(B,)."""
        return (len(self.chosen),)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> PooledOperator:
        """Return the operator on another device or in another precision."""
        return PooledOperator([each.to(device, dtype) for each in self.matrices], self.chosen.to(device or self.device))

    def propagate(self, dense: Tensor) -> Tensor:
        """Return Ã_b Z[:, b] for Z of shape (n, B, d): one product for each matrix that is used."""
        order = self.chosen.argsort()
        sizes = torch.bincount(self.chosen, minlength=len(self.matrices)).tolist()
        groups = zip(self.matrices, torch.split(dense[:, order], sizes, dim=1), strict=True)
        done = [matrix.propagate(group.contiguous()) for matrix, group in groups if group.shape[1]]
        return torch.cat(done, dim=1)[:, order.argsort()]
