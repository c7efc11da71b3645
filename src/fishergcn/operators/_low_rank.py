"""The perturbed graph as one linear operator: a sparse matrix minus a symmetric one of low rank."""

from __future__ import annotations

from typing import overload

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.tensors import ArrayOrTensor, as_tensor
from fishergcn._base.types import AnyArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.operators._operator import Placed
from fishergcn.operators._product import batched_product, product
from fishergcn.operators._sparse import SparseMatrix


class SparsePlusLowRank(Placed):
    """Ã(φ) = S - U diag(c) Uᵀ, for one vector c or a batch of them, never built as a dense matrix.

    ``operator @ Z`` is S Z - U (c ∘ (Uᵀ Z)), at O(nnz · d + n k d) for each c. Gradients of every kind flow
    to c and to Z, to any order. S and U are constants: a ``basis`` that requires a gradient is refused. With
    c = 0 the product *is* S Z, bit for bit (for finite Z).

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
    The dtype and device are those of ``sparse`` when it is a :class:`~fishergcn.operators.SparseMatrix`, and
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

    _parts = ("sparse", "basis", "coefficients")

    def __init__(self, sparse: SparseMatrix | MatrixLike, basis: ArrayOrTensor, coefficients: ArrayOrTensor) -> None:
        if not isinstance(sparse, SparseMatrix):
            device = coefficients.device if isinstance(coefficients, Tensor) else "cpu"
            sparse = SparseMatrix.from_scipy(sparse, device=device)
        self._core = self.sparse = sparse
        if isinstance(basis, Tensor) and basis.requires_grad:
            raise InputError("The basis must not require a gradient, since it would get none; give basis.detach().")
        self.basis = as_tensor(basis, sparse.dtype, sparse.device)
        self.coefficients = as_tensor(coefficients, sparse.dtype, sparse.device)
        rows, columns = sparse.shape
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
    def rank(self) -> int:
        """k, the number of directions."""
        return self.basis.shape[1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of operators, () for a single one."""
        return tuple(self.coefficients.shape[:-1])

    @property
    def T(self) -> SparsePlusLowRank:
        """The transpose Sᵀ - U diag(c) Uᵀ; the low-rank part is symmetric."""
        return SparsePlusLowRank(self.sparse.T, self.basis, self.coefficients)

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
        return batched_product(self.sparse, operand, self.coefficients, self.basis)

    def propagate(self, dense: Tensor) -> Tensor:
        """Multiply node-major activations (n, B, d), B the size of the batch, any for a single operator."""
        coefficients = self.coefficients.reshape(-1, self.rank)
        if dense.ndim == 3 and self.batch_shape and len(coefficients) != dense.shape[1]:
            raise InputError(f"activations must be a batch of {len(coefficients)}, got {dense.shape[1]}.")
        return product(self.sparse, dense, coefficients, self.basis, self.basis)

    def __repr__(self) -> str:
        rows, columns = self.shape
        batch = f", batch {self.batch_shape}" if self.batch_shape else ""
        return f"SparsePlusLowRank({rows} × {columns}, rank {self.rank}{batch}, {self.dtype}, {self.device})"
