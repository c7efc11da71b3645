"""Kernel 2: propagation over a sparse matrix, optionally corrected by a low-rank perturbation.

    Y[:, b] = S Z[:, b] - U (c[b] ∘ (Uᵀ Z[:, b]))

for a batch of activations Z[:, b], stored node-major: shape (n, B, d), so that one pass over S serves the
whole batch and, on a GPU, the batch is one wide matrix product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fishergcn._base.backend import backend_of
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.operators._sparse import SparseMatrix

__all__ = ["propagate", "reference"]

# From this share of non-zeros on, a dense product on tensor cores beats a sparse one.
_DENSE_SHARE = 0.005


def propagate(
    matrix: SparseMatrix, dense: Tensor, basis: Tensor | None = None, coefficients: Tensor | None = None
) -> Tensor:
    """Multiply a batch of activations by a propagation operator.

    Parameters
    ----------
    matrix
        S, shape (p, n).
    dense
        Z, shape (n, B, d).
    basis
        U, shape (n, k), orthonormal columns; None for a plain product. With it S must be square.
    coefficients
        c, shape (B, k).

    Returns
    -------
    Tensor of shape (p, B, d)
    """
    # Compiled code does not check its bounds.
    if dense.ndim != 3 or dense.shape[0] != matrix.shape[1] or dense.dtype != matrix.dtype:
        wanted = f"{matrix.dtype} of shape ({matrix.shape[1]}, B, d)"
        raise InputError(f"activations must be {wanted}, got {dense.dtype} of shape {tuple(dense.shape)}.")
    if coefficients is not None and len(coefficients) != dense.shape[1]:
        raise InputError(f"activations must be a batch of {len(coefficients)}, got {dense.shape[1]}.")
    if backend_of(dense) == "reference":
        return reference(matrix, dense, basis, coefficients)
    if torch.is_inference_mode_enabled() and (basis is None or coefficients is None):
        return _product(matrix, dense, None, None)
    result: Tensor = _Propagation.apply(dense, coefficients, basis, matrix)  # type: ignore[no-untyped-call]
    return result


def reference(
    matrix: SparseMatrix, dense: Tensor, basis: Tensor | None = None, coefficients: Tensor | None = None
) -> Tensor:
    """The kernel in plain differentiable torch."""
    from fishergcn.operators._sparse import spmm

    rows, batch, width = dense.shape
    plain = spmm(matrix, dense.reshape(rows, batch * width)).view(-1, batch, width)
    if basis is None or coefficients is None:
        return plain
    moments = torch.einsum("nk,nbd->kbd", basis, dense)
    return plain - torch.einsum("nk,bk,kbd->nbd", basis, coefficients, moments)


def _product(
    matrix: SparseMatrix,
    dense: Tensor,
    basis: Tensor | None,
    weighted: Tensor | None,
    *,
    transposed: bool = False,
) -> Tensor:
    """S Z - U V, or Sᵀ Z - U V, for Z of shape (n, B, d) and V of shape (k, B, d)."""
    dense = dense.contiguous()
    csr = matrix.backward if transposed else matrix.forward
    if backend_of(dense) == "numba":
        from fishergcn._kernels import cpu

        out = dense.new_empty(csr.shape[0], *dense.shape[1:])
        parts = matrix.backward_arrays if transposed else matrix.forward_arrays
        cpu.csr_times_dense(cpu.lanes_of(dense.shape[2]), out.numpy(), *parts, dense.numpy())
        return _subtract(out, basis, weighted)
    from fishergcn._kernels import cuda

    if csr.values().numel() > _DENSE_SHARE * csr.shape[0] * csr.shape[1]:
        return _subtract(cuda.half_product(matrix, dense, transposed), basis, weighted)
    out = dense.new_empty(csr.shape[0], *dense.shape[1:])
    cuda.csr_times_dense(out, csr, dense, basis, weighted)
    return out


def _subtract(out: Tensor, basis: Tensor | None, weighted: Tensor | None) -> Tensor:
    """Subtract U V in place, as one matrix product over the whole batch."""
    if basis is not None and weighted is not None:
        flat = out.view(len(out), -1)
        torch.addmm(flat, basis, weighted.reshape(len(weighted), -1), alpha=-1, out=flat)
    return out


def _moments(basis: Tensor, dense: Tensor) -> Tensor:
    """Return Uᵀ Z, shape (k, B, d)."""
    return (basis.T @ dense.reshape(len(dense), -1)).view(-1, *dense.shape[1:])


def _weighted(coefficients: Tensor, moments: Tensor) -> Tensor:
    return coefficients.T.unsqueeze(-1) * moments


class _Propagation(torch.autograd.Function):
    """Bilinear in (Z, 1) and (Z, c); S and U are constants."""

    @staticmethod
    def forward(
        ctx: Any, dense: Tensor, coefficients: Tensor | None, basis: Tensor | None, matrix: SparseMatrix
    ) -> Tensor:
        ctx.matrix, ctx.basis = matrix, basis
        dense = dense.detach()
        if basis is None or coefficients is None:
            return _product(matrix, dense, None, None)
        coefficients = coefficients.detach()
        moments = _moments(basis, dense)
        ctx.save_for_backward(coefficients, moments)
        ctx.save_for_forward(coefficients, moments)
        return _product(matrix, dense, basis, _weighted(coefficients, moments))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad = grad.contiguous()
        wanted, wanted_coefficients = ctx.needs_input_grad[:2]
        if ctx.basis is None or not ctx.saved_tensors:
            plain = _product(ctx.matrix, grad, None, None, transposed=True) if wanted else None
            return plain, None, None, None
        coefficients, moments = ctx.saved_tensors
        grad_moments = _moments(ctx.basis, grad)
        result = None
        if wanted:
            result = _product(ctx.matrix, grad, ctx.basis, _weighted(coefficients, grad_moments), transposed=True)
        grad_coefficients = -(grad_moments * moments).sum(-1).T if wanted_coefficients else None
        return result, grad_coefficients, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None, coefficients_tangent: Tensor | None, *_: None) -> Tensor:
        coefficients, moments = ctx.saved_tensors if ctx.saved_tensors else (None, None)
        terms = []
        if tangent is not None:
            weighted = None if coefficients is None else _weighted(coefficients, _moments(ctx.basis, tangent))
            terms.append(_product(ctx.matrix, tangent, ctx.basis, weighted))
        if coefficients_tangent is not None and moments is not None:
            weighted = _weighted(coefficients_tangent, moments)
            terms.append(-(ctx.basis @ weighted.reshape(len(weighted), -1)).view(-1, *moments.shape[1:]))
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]
