"""Graphs seen through a change of their nodes: L becomes M L M, which is positive semi-definite whatever M is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, overload

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.tensors import ArrayOrTensor, as_tensor
from fishergcn._base.types import AnyArray
from fishergcn.errors import InputError
from fishergcn.operators._operator import Placed
from fishergcn.operators._sparse import SparseMatrix


class Factor(Protocol):
    """M, symmetric, one for each entry of a batch of B."""

    def times(self, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        """Return M Z for activations (n, B, d), given Ã."""

    def to(self, device: torch.device, dtype: torch.dtype) -> Factor:
        """Return the factor on another device or in another precision."""


class CongruenceOperator(Placed):
    """Ã′ = I - s M (I - Ã) M, for each of B symmetric factors M with its scale s (B,).

    With L = I - Ã the new L′ = s M L M is symmetric and positive semi-definite whatever M is; s = 1/tr(ρM²) with ρ = L
    / tr L keeps the trace. Two factors and one product with Ã make a product with Ã′; derivatives of every kind flow to
    the activations, to M and to s.
    """

    _parts = ("sparse", "factor", "scale", "batch_shape")

    def __init__(
        self, sparse: SparseMatrix, factor: Factor, scale: Tensor, batch_shape: Sequence[int] | None = None
    ) -> None:
        rows, columns = sparse.shape
        if rows != columns:
            raise InputError(f"The sparse part must be square, got shape {rows} × {columns}.")
        self._core = self.sparse = sparse
        self.factor = factor.to(sparse.device, sparse.dtype)
        self.scale = scale.to(sparse.device, sparse.dtype)
        self.batch_shape = (len(scale),) if batch_shape is None else tuple(batch_shape)

    def propagate(self, dense: Tensor) -> Tensor:
        """Return Ã′ Z for node-major activations (n, B, d)."""
        if dense.ndim != 3 or dense.shape[1] != len(self.scale):
            raise InputError(f"activations must be a batch of {len(self.scale)}, got shape {tuple(dense.shape)}.")
        inner = self.factor.times(self.sparse, dense)
        inner = inner - self.sparse.propagate(inner)
        return dense - self.scale.unsqueeze(-1) * self.factor.times(self.sparse, inner)

    @overload
    def __matmul__(self, operand: Tensor) -> Tensor: ...
    @overload
    def __matmul__(self, operand: AnyArray) -> AnyArray: ...

    def __matmul__(self, operand: ArrayOrTensor) -> ArrayOrTensor:
        """Multiply by Z of shape (n,), (n, d) or (..., n, d), whose leading dimensions broadcast against the batch.

        A NumPy array gives a NumPy array, without gradients.
        """
        if isinstance(operand, np.ndarray):
            with torch.no_grad():
                return (self @ as_tensor(operand, self.dtype, self.device)).cpu().numpy()
        if not isinstance(operand, Tensor):
            return NotImplemented
        if operand.ndim == 1:
            return (self @ operand.unsqueeze(-1)).squeeze(-1)
        batch, (nodes, width) = self.batch_shape, operand.shape[-2:]
        if nodes != self.shape[1]:
            raise InputError(f"the operand must have {self.shape[1]} rows, got shape {tuple(operand.shape)}.")
        full = torch.broadcast_shapes(batch, operand.shape[:-2])  # type: ignore[no-untyped-call]
        own = (1,) * (len(full) - len(batch)) + batch
        # What is there once for all of them stands beside the columns; the others are the batch.
        beside, along = ([axis for axis, size in enumerate(own) if (size == 1) == alone] for alone in (True, False))
        order = [len(full), *along, *beside, len(full) + 1]
        moved = operand.expand(*full, nodes, width).permute(order)
        out = self.propagate(moved.reshape(nodes, len(self.scale), -1)).reshape(moved.shape)
        return out.permute([order.index(axis) for axis in range(len(order))])

    def to_dense(self) -> Tensor:
        """Return all entries, shape (..., n, n), for checks on small graphs."""
        return self @ torch.eye(self.shape[0], dtype=self.dtype, device=self.device)


class PolynomialOperator(Placed):
    """Σ_a b_a T_a(Ã), a polynomial in Ã written with Chebyshev polynomials T_a, a = 0..p.

    Coefficients b that are tensors are broadcast against the activations (n, B, d) and get gradients.
    """

    _parts = ("sparse", "coefficients")

    def __init__(self, sparse: SparseMatrix, coefficients: Sequence[float] | Sequence[Tensor]) -> None:
        self._core = self.sparse = sparse
        self.coefficients = coefficients

    def propagate(self, dense: Tensor) -> Tensor:
        """Return the product with node-major activations (n, B, d): p products, T_{a+1} = 2 Ã T_a - T_{a-1}."""
        before, current = dense, dense
        out = self.coefficients[0] * dense
        rest: Sequence[Any] = self.coefficients[1:]
        for order, coefficient in enumerate(rest):
            following = self.sparse.propagate(current)
            before, current = current, following if order == 0 else 2 * following - before
            out = out + coefficient * current
        return out
