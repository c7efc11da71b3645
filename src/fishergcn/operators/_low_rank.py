"""The perturbed graph as one linear operator: a sparse matrix minus a symmetric one of low rank."""

from __future__ import annotations

from typing import Any, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import AnyArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.operators._product import propagate
from fishergcn.operators._sparse import SparseMatrix, check_operand, multiply, spmm

__all__ = ["SparsePlusLowRank"]

ArrayOrTensor: TypeAlias = "AnyArray | Tensor"


class SparsePlusLowRank:
    """Ã(φ) = S - U diag(c) Uᵀ, for one vector c or a batch of them, never built as a dense matrix.

    ``operator @ Z`` is S Z - U (c ∘ (Uᵀ Z)), at O(nnz · d + n k d) for each c. Gradients of every kind flow
    to c and to Z; S and U are constants. With c = 0 the product *is* S Z, bit for bit (for finite Z).

    Parameters
    ----------
    sparse : SparseMatrix, or a SciPy sparse matrix, of shape (n, n)
        S, the propagation matrix.
    basis : array or Tensor of shape (n, k)
        U, whose columns are the directions of the perturbation.
    coefficients : array or Tensor of shape (k,) or (..., k)
        c. Leading dimensions make a batch of operators.

    Notes
    -----
    The dtype and device are those of ``sparse`` when it is a :class:`~fishergcn.operators._sparse.SparseMatrix`, and
    float64 on the device of ``coefficients`` otherwise; ``basis`` and ``coefficients`` are cast to them.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> link = sparse.csr_array([[0.5, 0.5], [0.5, 0.5]])
    >>> direction = np.array([[1.0], [-1.0]]) / np.sqrt(2)
    >>> operator = SparsePlusLowRank(link, direction, np.array([[0.0], [0.2]]))
    >>> operator
    SparsePlusLowRank(2 × 2, rank 1, batch (2,), torch.float64, cpu)
    >>> (operator @ np.array([1.0, 0.0])).round(6)
    array([[0.5, 0.5],
           [0.4, 0.6]])
    """

    __array_ufunc__ = None  # NumPy must not take `array @ operator` for an elementwise product of objects

    def __init__(self, sparse: SparseMatrix | MatrixLike, basis: ArrayOrTensor, coefficients: ArrayOrTensor) -> None:
        if not isinstance(sparse, SparseMatrix):
            device = coefficients.device if isinstance(coefficients, Tensor) else "cpu"
            sparse = SparseMatrix.from_scipy(sparse, device=device)
        self.sparse = sparse
        self.basis = as_tensor(basis, sparse.dtype, sparse.device)
        self.coefficients = as_tensor(coefficients, sparse.dtype, sparse.device)
        self._check()

    def _check(self) -> None:
        rows, columns = self.sparse.shape
        if rows != columns:
            raise InputError(f"The sparse part must be square, got shape {rows} × {columns}.")
        if self.basis.ndim != 2 or self.basis.shape[0] != rows:
            raise InputError(f"The basis must have shape ({rows}, k), got {tuple(self.basis.shape)}.")
        if self.coefficients.ndim < 1 or self.coefficients.shape[-1] != self.rank:
            raise InputError(
                f"The coefficients must have shape (..., {self.rank}), one for each column of the basis, "
                f"got {tuple(self.coefficients.shape)}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n), the shape of each operator of the batch."""
        return self.sparse.shape

    @property
    def rank(self) -> int:
        """k, the number of directions."""
        return self.basis.shape[1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of operators, () for a single one."""
        return tuple(self.coefficients.shape[:-1])

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the products."""
        return self.sparse.dtype

    @property
    def device(self) -> torch.device:
        """Where the products run."""
        return self.sparse.device

    @property
    def T(self) -> SparsePlusLowRank:
        """The transpose Sᵀ - U diag(c) Uᵀ; the low-rank part is symmetric."""
        return SparsePlusLowRank(self.sparse.T, self.basis, self.coefficients)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> SparsePlusLowRank:
        """Return the operator on another device or in another precision; gradients still flow to c."""
        return SparsePlusLowRank(self.sparse.to(device, dtype), self.basis, self.coefficients)

    def to_dense(self) -> Tensor:
        """Return all entries, shape (..., n, n), for checks on small graphs."""
        return self.sparse.to_dense() - (self.basis * self.coefficients.unsqueeze(-2)) @ self.basis.T

    @overload
    def __matmul__(self, operand: Tensor) -> Tensor: ...
    @overload
    def __matmul__(self, operand: AnyArray) -> AnyArray: ...

    def __matmul__(self, operand: ArrayOrTensor) -> ArrayOrTensor:
        """Multiply by Z of shape (n,), (n, d) or (..., n, d).

        Leading dimensions of Z broadcast against the batch; a Z shared by the whole batch is multiplied by
        the sparse part only once. A NumPy array gives a NumPy array, without gradients.
        """
        if isinstance(operand, np.ndarray):
            with torch.no_grad():
                tensor = as_tensor(operand, self.dtype, self.device)
                return (self @ tensor).cpu().numpy()
        if not isinstance(operand, Tensor):
            return NotImplemented
        if operand.ndim == 1:
            return (self @ operand.unsqueeze(-1)).squeeze(-1)
        check_operand(self.sparse, operand)
        weighted = self.coefficients.unsqueeze(-1) * (self.basis.T @ operand)
        return _difference(self.sparse, self.basis, operand, weighted)

    def propagate(self, dense: Tensor) -> Tensor:
        """Multiply node-major activations (n, B, d), B the size of the batch, with a compiled kernel.

        Differentiable once in Z and c, in reverse and forward mode.
        """
        return propagate(self.sparse, dense, self.basis, self.coefficients.reshape(-1, self.rank))

    def __repr__(self) -> str:
        rows, columns = self.shape
        batch = f", batch {self.batch_shape}" if self.batch_shape else ""
        return f"SparsePlusLowRank({rows} × {columns}, rank {self.rank}{batch}, {self.dtype}, {self.device})"


def as_tensor(value: ArrayOrTensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a tensor, without a copy where there need not be one; torch warns of read-only arrays."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        value = value.copy()
    return torch.as_tensor(value, dtype=dtype, device=device)


def _difference(sparse: SparseMatrix, basis: Tensor, x: Tensor, v: Tensor) -> Tensor:
    result: Tensor = _Difference.apply(sparse, basis, x, v)  # type: ignore[no-untyped-call]
    return result


class _Difference(torch.autograd.Function):
    """S X - U V, linear in (X, V) with S and U constant; X may lack batch dimensions that V has.

    Torch's own operations would store S X and U V apart before they subtract: twice the memory traffic, which
    is what these products cost.
    """

    @staticmethod
    def forward(sparse: SparseMatrix, basis: Tensor, x: Tensor, v: Tensor) -> Tensor:
        if v.ndim == 2:
            return (sparse.forward @ x).addmm_(basis, v, alpha=-1)
        batch, rows, columns = v.shape[:-2], basis.shape[0], v.shape[-1]
        if x.shape[:-2].numel() == 1:
            plain = multiply(sparse.forward, x).expand(*batch, rows, columns).contiguous()
        else:
            plain = multiply(sparse.forward, x.expand(*batch, rows, columns))
        flat = plain.view(-1, rows, columns)
        flat.baddbmm_(basis.expand(len(flat), *basis.shape), v.reshape(-1, *v.shape[-2:]), alpha=-1)
        return plain

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[SparseMatrix, Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.sparse, basis, x, _ = inputs
        ctx.x_shape, ctx.batch = x.shape, output.shape[:-2]
        ctx.save_for_backward(basis)
        ctx.save_for_forward(basis)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor | None, Tensor | None]:
        (basis,) = ctx.saved_tensors
        for_x = spmm(ctx.sparse.T, gradient.sum_to_size(ctx.x_shape)) if ctx.needs_input_grad[2] else None
        return None, None, for_x, -(basis.T @ gradient) if ctx.needs_input_grad[3] else None

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, x: Tensor | None, v: Tensor | None) -> Tensor:
        (basis,) = ctx.saved_tensors
        if x is None or v is None:
            part = -(basis @ v) if x is None else spmm(ctx.sparse, x)
            return part.expand(*ctx.batch, *part.shape[-2:])
        return _difference(ctx.sparse, basis, x, v)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[None, int | None, int | None, int | None],
        sparse: SparseMatrix,
        basis: Tensor,
        x: Tensor,
        v: Tensor,
    ) -> tuple[Tensor, int]:
        _, basis_dim, x_dim, v_dim = in_dims
        if basis_dim is not None:
            raise InputError("The basis is a constant of the operator: vmap over it is not possible.")
        if x_dim is not None:
            x = x.movedim(x_dim, 0)
            # Batch dimensions align at the right; the mapped one must stay in front.
            missing = (v.ndim - (v_dim is not None)) - (x.ndim - 1)
            x = x.reshape(x.shape[0], *(1,) * missing, *x.shape[1:])
        v = v.expand(info.batch_size, *v.shape) if v_dim is None else v.movedim(v_dim, 0)
        return _difference(sparse, basis, x, v), 0
