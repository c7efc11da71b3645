"""What a layer of a mini-batch multiplies with: a rectangular part of the perturbed graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fishergcn._base.autograd import without_autocast
from fishergcn.errors import InputError
from fishergcn.operators._operator import Placed
from fishergcn.operators._product import product
from fishergcn.operators._sparse import SparseMatrix


class BlockOperator(Placed):
    """Ã_RC - Ū_R diag(c) Ū_Cᵀ for each vector c of a batch: what a layer of a mini-batch multiplies with.

    ``matrix`` is Ã_RC, p x q, possibly sampled; ``left`` Ū_R (p, k) and ``right`` Ū_C (q, k) are rows of the global
    basis, constants without a gradient; ``coefficients`` is c, (B, k). ``add`` sums Ū_Cᵀ Z over the processes that hold
    other parts of the batch, gradients too; ``right`` must then be divided by the number of processes that hold a node.
    """

    _parts = ("matrix", "left", "right", "coefficients", "add")

    def __init__(
        self,
        matrix: SparseMatrix,
        left: Tensor,
        right: Tensor,
        coefficients: Tensor,
        add: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        rows, columns = matrix.shape
        if left.shape[0] != rows or right.shape[0] != columns or left.shape[1] != right.shape[1]:
            raise InputError(
                f"the bases of a {rows} x {columns} block must have shapes ({rows}, k) and ({columns}, k), "
                f"got {tuple(left.shape)} and {tuple(right.shape)}."
            )
        self._core = self.matrix = matrix
        self.left, self.right, self.coefficients = left.detach(), right.detach(), coefficients
        self.add = add

    def propagate(self, dense: Tensor) -> Tensor:
        """Return the product with node-major activations (q, B, d), shape (p, B, d)."""
        if self.add is None:
            return product(self.matrix, dense, self.coefficients, self.left, self.right)
        # The other processes' shares come in between the two factors of the perturbation.
        plain = product(self.matrix, dense)
        with without_autocast(dense.device):
            dense = dense.to(self.right.dtype)
            moments = self.add(self.right.T @ dense.flatten(1)).view(-1, *dense.shape[1:])
            weighted = self.coefficients.T.unsqueeze(-1) * moments
            return torch.addmm(plain.flatten(1), self.left, weighted.flatten(1), alpha=-1).view_as(plain)


class NodeBlockOperator(Placed):
    """I_RC - s M_R (I_RC - Ã_RC) M_C with diagonal M: what a layer of a mini-batch multiplies with.

    ``matrix`` is Ã_RC, p × q, possibly sampled; ``place`` (p,) says where each node of R stands among those of C;
    ``left`` (p, B) and ``right`` (q, B) are the weights m of the nodes R and C, ``scale`` (B,) is s.
    """

    _parts = ("matrix", "place", "left", "right", "scale")

    def __init__(self, matrix: SparseMatrix, place: Tensor, left: Tensor, right: Tensor, scale: Tensor) -> None:
        self._core = self.matrix = matrix
        self.place, self.left, self.right, self.scale = place, left, right, scale

    def propagate(self, dense: Tensor) -> Tensor:
        """Return the product with node-major activations (q, B, d), shape (p, B, d)."""
        heard = self.matrix.propagate(self.right.unsqueeze(-1) * dense)
        kept = 1.0 - self.scale * self.left.square()
        return kept.unsqueeze(-1) * dense[self.place] + (self.scale * self.left).unsqueeze(-1) * heard
