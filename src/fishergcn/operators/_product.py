"""The one product behind the operators: a sparse matrix, minus a perturbation of low rank, times activations.

    Y_b = S Z_b - L (c_b ∘ (Rᵀ Z_b)),   b = 1..B

Z is stored node-major, (n, B, d), so that one pass over S serves the whole batch and, on a GPU, the batch is one wide
matrix product. S, L and R are constants; derivatives of every kind flow to Z and c, and each of them is such a product
again, so that they nest to any order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.autograd import autocasts, in_derivative, kernel, without_autocast
from fishergcn._base.backend import backend_of
from fishergcn._base.tensors import HALVES
from fishergcn._base.types import AnyArray
from fishergcn._kernels.choice import FEW_DIRECTIONS, FULL_ROW
from fishergcn._kernels.threads import on_rows
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.operators._sparse import SparseMatrix


def product(
    matrix: SparseMatrix,
    dense: Tensor,
    coefficients: Tensor | None = None,
    left: Tensor | None = None,
    right: Tensor | None = None,
) -> Tensor:
    """Return Y, shape (p, B, d), for Z (n, B, d) or (n, 1, d), c (B, k) or (1, k), L (p, k) and R (n, k)."""
    if matrix.dtype in HALVES or autocasts(dense.device):
        return _in_single_precision(matrix, dense, coefficients, left, right)
    # Compiled code does not check its bounds.
    if dense.ndim != 3 or dense.shape[0] != matrix.shape[1] or dense.dtype != matrix.dtype:
        wanted = f"{matrix.dtype} of shape ({matrix.shape[1]}, B, d)"
        raise InputError(f"activations must be {wanted}, got {dense.dtype} of shape {tuple(dense.shape)}.")
    if torch.is_inference_mode_enabled():  # no derivative can be asked for: spare autograd's overhead
        return _forward(matrix, False, dense, coefficients, left, right)[0]
    return _differentiable(matrix, False, dense, coefficients, left, right)[0]


def _in_single_precision(matrix: SparseMatrix, dense: Tensor, *perturbation: Tensor | None) -> Tensor:
    """Return the product of operands in half precision, or under autocast, with sums in float32 (float64 in it).

    As torch's own operations that keep to single precision do, it returns that under autocast; else what came in.
    """
    wide = matrix.wide
    allowed = (matrix.dtype, wide.dtype, *HALVES) if autocasts(dense.device) else (matrix.dtype,)
    if dense.dtype not in allowed:
        raise InputError(f"activations must be {matrix.dtype}, got {dense.dtype}.")
    with without_autocast(dense.device):
        given = (None if each is None else each.to(wide.dtype) for each in perturbation)
        return product(wide, dense.to(wide.dtype), *given).to(wide.dtype if wide is matrix else matrix.dtype)


def batched_product(
    matrix: SparseMatrix, operand: Tensor, coefficients: Tensor | None = None, basis: Tensor | None = None
) -> Tensor:
    """S X - U (c ∘ (Uᵀ X)) for X of shape (..., n, d) and c of shape (..., k), whose batches broadcast."""
    check_operand(matrix, operand)
    batch = operand.shape[:-2]
    flat = None
    if coefficients is not None:
        batch = torch.broadcast_shapes(batch, coefficients.shape[:-1])  # type: ignore[no-untyped-call]
        flat = _flat_batch(coefficients, batch, 1)
    dense = _flat_batch(operand, batch, 2).movedim(0, 1)
    result = product(matrix, dense, flat, basis, basis)
    return result.view(len(result), *batch, result.shape[2]).movedim(0, -2)


def _flat_batch(tensor: Tensor, batch: tuple[int, ...], kept: int) -> Tensor:
    """Return the tensor with one batch dimension: 1 where all share it, so that it is multiplied only once."""
    own = tensor.shape[tensor.ndim - kept :]
    if math.prod(tensor.shape[: tensor.ndim - kept]) == 1:
        return tensor.reshape(1, *own)
    return tensor.expand(*batch, *own).reshape(math.prod(batch), *own)


def check_operand(matrix: SparseMatrix, dense: Tensor) -> None:
    """Raise unless ``matrix @ dense`` is defined, in one dtype and on one device."""
    if not isinstance(dense, Tensor):
        raise InputError(f"The dense operand must be a torch tensor, got {type(dense).__name__}.")
    if dense.ndim < 2 or dense.shape[-2] != matrix.shape[1]:
        raise InputError(f"The dense operand must have shape (..., {matrix.shape[1]}, d), got {tuple(dense.shape)}.")
    cast = autocasts(dense.device) and dense.dtype in HALVES
    if (dense.dtype != matrix.dtype and not cast) or dense.device != matrix.device:
        raise InputError(
            f"The dense operand must be {matrix.dtype} on {matrix.device} like the sparse matrix, got "
            f"{dense.dtype} on {dense.device}; move one of them with .to()."
        )


def _differentiable(*arguments: Any) -> tuple[Tensor, ...]:
    return cast("tuple[Tensor, ...]", _Product.apply(*arguments))  # type: ignore[no-untyped-call]


@kernel
class _Product(torch.autograd.Function):
    """Y and, where the product is perturbed, the moments M = Rᵀ Z, which the derivative in c needs.

    With G the gradient of Y, the gradient of Z is the product with Sᵀ in which L and R change places; the moments
    H = Lᵀ G that it returns give the gradient of c, -Σ_d H ∘ M.
    """

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        return _forward(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.matrix, ctx.transposed, dense, coefficients, left, right = inputs
        ctx.batch = dense.shape[1]
        ctx.set_materialize_grads(False)
        if coefficients is not None:
            ctx.save_for_backward(coefficients, left, right, output[1])
            ctx.save_for_forward(coefficients, left, right, output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_moments: Tensor | None = None) -> tuple[Tensor | None, ...]:
        if autocasts(ctx.matrix.device):  # backward() inside the context; the sums stay as precise as they were
            with without_autocast(ctx.matrix.device):
                return _Product.backward(ctx, grad, grad_moments)
        for_dense = for_coefficients = None
        *_, dense_wanted, coefficients_wanted, _, _ = ctx.needs_input_grad
        if not ctx.saved_tensors:
            if grad is not None:
                for_dense = in_derivative(_Product, ctx.matrix, not ctx.transposed, grad, None, None, None)[0]
            return None, None, for_dense, None, None, None
        coefficients, left, right, moments = ctx.saved_tensors
        if grad is not None and dense_wanted:
            arguments = ctx.matrix, not ctx.transposed, grad, coefficients, right, left
            for_dense, found = in_derivative(_Product, *arguments)
            for_dense = _sum_to(for_dense, ctx.batch, 1)
        elif grad is not None:
            found = _moments(left, grad)
        if grad is not None and coefficients_wanted:
            for_coefficients = _sum_to(-(found * moments).sum(-1).T, len(coefficients), 0)
        if grad_moments is not None and dense_wanted:
            through = _expand(right, grad_moments)
            for_dense = through if for_dense is None else for_dense + through
        return None, None, for_dense, for_coefficients, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Tensor, ...]:
        dense, coefficients = tangents[2:4]
        if not ctx.saved_tensors:
            return _differentiable(ctx.matrix, ctx.transposed, dense, None, None, None)
        constant, left, right, moments = ctx.saved_tensors
        part = None if coefficients is None else -_expand(left, _weighted(coefficients, moments))
        if dense is None:
            return cast("Tensor", part), torch.zeros_like(moments)
        result, found = _differentiable(ctx.matrix, ctx.transposed, dense, constant, left, right)
        return result if part is None else result + part, found

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """The mapped dimension joins the batch, in front."""
        matrix, transposed, dense, coefficients, left, right = arguments
        if in_dims[4] is not None or in_dims[5] is not None:
            raise InputError("The basis is a constant of the operator: vmap over it is not possible.")
        size = info.batch_size
        dense = _mapped_first(dense, in_dims[2], size)  # (V, n, B, d)
        batch = dense.shape[2]
        if coefficients is not None:
            coefficients = _mapped_first(coefficients, in_dims[3], size)  # (V, B, k)
            batch = max(batch, coefficients.shape[1])
            coefficients = coefficients.expand(size, batch, -1).reshape(size * batch, -1)
        rows, columns = dense.shape[1], dense.shape[3]
        wide = dense.movedim(0, 1).expand(rows, size, batch, columns).reshape(rows, size * batch, columns)
        out = _differentiable(matrix, transposed, wide, coefficients, left, right)
        return tuple(each.view(-1, size, batch, columns) for each in out), (1,) * len(out)


def _mapped_first(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _sum_to(tensor: Tensor, size: int, dim: int) -> Tensor:
    """Add up a batch whose entries came from one."""
    return tensor if tensor.shape[dim] == size else tensor.sum(dim, keepdim=True)


def _moments(basis: Tensor, dense: Tensor) -> Tensor:
    """Return Uᵀ Z, shape (k, B, d)."""
    return (basis.T @ dense.reshape(len(dense), -1)).view(-1, *dense.shape[1:])


def _expand(basis: Tensor, moments: Tensor) -> Tensor:
    """Return U M, shape (n, B, d)."""
    return (basis @ moments.reshape(len(moments), -1)).view(-1, *moments.shape[1:])


def _weighted(coefficients: Tensor, moments: Tensor) -> Tensor:
    return coefficients.T.unsqueeze(-1) * moments


def _forward(
    matrix: SparseMatrix,
    transposed: bool,
    dense: Tensor,
    coefficients: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
) -> tuple[Tensor, ...]:
    if coefficients is None or left is None or right is None:
        return (_multiply(matrix, transposed, dense),)
    if backend_of(dense) == "triton" and right.shape[1] <= FEW_DIRECTIONS:
        from fishergcn._kernels import cuda

        moments = cuda.moments(right, dense.detach().contiguous())
    else:
        moments = _moments(right, dense)
    return _multiply(matrix, transposed, dense, left, _weighted(coefficients, moments)), moments


def on_cpu(
    out: AnyArray,
    matrix: SparseMatrix,
    transposed: bool,
    dense: AnyArray,
    left: AnyArray | None = None,
    weighted: AnyArray | None = None,
) -> None:
    """Set out = S Z - L V, or Sᵀ Z - L V, in compiled code without derivatives.

    Z has shape (n, B, d), V (k, B, d), L (p, k) and out (p, B, d).
    """
    rows, nodes = matrix.shape[::-1] if transposed else matrix.shape
    batch, size = dense.shape[1:]
    indptr, indices, values = matrix.arrays(transposed)
    _check_array("activations", dense, (nodes, batch, size), values)
    _check_array("out", out, (rows, batch, size), values)
    width = batch * size
    flat = out.reshape(rows, width)
    if left is None or weighted is None:
        left, weighted = np.empty((rows, 0), dtype=values.dtype), np.empty((0, width), dtype=values.dtype)
    rank = len(weighted)
    _check_array("left", left, (rows, rank), values)
    _check_array("weighted", weighted, weighted.shape[:1] + ((width,) if weighted.ndim == 2 else (batch, size)), values)
    if has_full_rows(len(values), rows):
        from fishergcn._kernels import cpu_tiles

        if cpu_tiles.finite(dense):
            cpu_tiles.times(out, matrix.paired_rows(transposed), dense)
            if rank:
                into = torch.from_numpy(flat)
                torch.addmm(
                    into, torch.from_numpy(left), torch.from_numpy(weighted).view(rank, width), alpha=-1, out=into
                )
            return
    from fishergcn._kernels import cpu

    table, middle = dense.reshape(nodes, width), weighted.reshape(rank, width)

    def run(first: int, last: int, _: int) -> None:
        pointers = indptr[first : last + 1]
        cpu.csr_times_dense(flat[first:last], pointers, indices, values, table, left[first:last], middle)

    on_rows(rows, run)


def has_full_rows(entries: int, rows: int) -> bool:
    """Whether rows are full enough for it to pay, on a CPU, to copy the activations into tiles."""
    return entries >= FULL_ROW * rows


def _check_array(name: str, array: AnyArray, shape: tuple[int, ...], values: AnyArray) -> None:
    """Raise unless an array is what compiled code takes it for: it checks neither bounds nor strides."""
    if array.shape != shape or array.dtype != values.dtype or not array.flags.c_contiguous:
        stored = "contiguous" if array.flags.c_contiguous else "with strides"
        wanted = f"contiguous {values.dtype} of shape {shape}"
        raise InputError(f"{name} must be {wanted}, got {array.dtype} of shape {array.shape}, {stored}.")


def _multiply(
    matrix: SparseMatrix, transposed: bool, dense: Tensor, left: Tensor | None = None, weighted: Tensor | None = None
) -> Tensor:
    """S Z - L V, or Sᵀ Z - L V, for Z of shape (n, B, d) or (n, 1, d) and V of shape (k, B, d)."""
    dense = dense.detach().contiguous()
    csr = matrix.backward if transposed else matrix.forward
    rows, (nodes, batch, width), backend = csr.shape[0], dense.shape, backend_of(dense)
    if backend == "numba":
        out = dense.new_empty(rows, batch, width)
        if weighted is not None and weighted.shape[1] == batch:
            parts = (dense, cast("Tensor", left).contiguous(), weighted.contiguous())
            on_cpu(out.numpy(), matrix, transposed, *(part.numpy() for part in parts))
            return out
        on_cpu(out.numpy(), matrix, transposed, dense.numpy())
    elif backend == "triton" and matrix.nearly_full:
        from fishergcn._kernels import cuda_half

        tiles, half = matrix.half_tiles(transposed), cuda_half.as_half(dense)
        if weighted is not None and weighted.shape[1] == batch and len(weighted) <= FEW_DIRECTIONS:
            return cuda_half.half_product(tiles, half, left, weighted)
        out = cuda_half.half_product(tiles, half)
    elif backend == "triton":
        from fishergcn._kernels import cuda

        out = dense.new_empty(rows, batch, width)
        if weighted is not None and weighted.shape[1] == batch:
            cuda.csr_times_dense(out, csr, dense, left, weighted)
            return out
        cuda.csr_times_dense(out, csr, dense)
    else:
        out = (csr @ dense.view(nodes, batch * width)).view(rows, batch, width)
    if left is None or weighted is None:
        return out
    if weighted.shape[1] > batch:
        out = out.expand(rows, *weighted.shape[1:]).contiguous()
    # In place, as one matrix product over the whole batch: the memory traffic is what these products cost.
    flat = out.view(rows, -1)
    torch.addmm(flat, left, weighted.reshape(len(weighted), -1), alpha=-1, out=flat)
    return out
