"""What enters the next layer, from what the product with the graph made: ReLU, dropout, weights.

Z[p, r, m] = H[p, r, m] W[r],   H = σ(V)
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fishergcn._base.backend import backend_of
from fishergcn.nn._activation import check_activation, relu_dropout
from fishergcn.streams import keep_probability

_LARGEST_WEIGHT = 8192  # numbers, of which a few copies are held beside each other


def activated_times_weight(
    values: Tensor, rows: Tensor | None, words: Tensor | None, dropout: float, weight: Tensor, *, once: bool = False
) -> Tensor:
    """Return σ(V) W[r] with dropout as in :func:`relu_dropout`, for W (R, h, c): shape (p, R * M, c).

    With ``once``, no derivative of a derivative will be asked for, and the gradient takes one pass on a GPU.
    """
    if len(weight) == 1 or not _fits_kernel(values, weight):
        return times_weight(relu_dropout(values, rows, words, dropout), weight)
    if words is None and torch.is_inference_mode_enabled():
        from fishergcn._kernels import cuda

        out = values.new_empty(*values.shape[:2], weight.shape[2])
        cuda.times_weight(out, values.contiguous(), weight.contiguous(), cuda.Active())
        return out
    if words is None or not once:
        return times_weight(relu_dropout(values, rows, words, dropout), weight)
    check_activation(values, rows, words)
    if rows is None:
        rows = torch.arange(len(values), dtype=torch.int32, device=values.device)
    result: Tensor = _Layer.apply(values, weight, rows, words, dropout)  # type: ignore[no-untyped-call]
    return result


class _Layer(torch.autograd.Function):
    """One pass each way: what ReLU and dropout let through is found twice, which is faster than to keep it."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, rows: Tensor, words: Tensor, dropout: float) -> Tensor:
        from fishergcn._kernels import cuda

        values, weight = values.contiguous(), weight.contiguous()
        ctx.active = cuda.Active(rows, words, 1.0 / keep_probability(dropout))
        out = values.new_empty(*values.shape[:2], weight.shape[2])
        cuda.times_weight(out, values, weight, ctx.active)
        ctx.save_for_backward(values, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from fishergcn._kernels import cuda

        values, weight = ctx.saved_tensors
        slope = torch.empty_like(values)
        found = cuda.layer_gradients(slope, values, grad.contiguous(), weight, ctx.active)
        return slope, found, None, None, None


def times_weight(hidden: Tensor, weight: Tensor) -> Tensor:
    """Multiply (p, R * M, h) by weights (R, h, c), giving (p, R * M, c)."""
    rows, batch, width = hidden.shape
    runs = len(weight)
    if runs == 1:
        # BLAS is up to ten times faster on (Wᵀ Hᵀ)ᵀ than on H W for a tall H and a W of few columns: the same numbers.
        tall = hidden.reshape(rows * batch, width)
        return (weight[0].T.contiguous() @ tall.T).T.contiguous().view(rows, batch, -1)
    if _fits_kernel(hidden, weight):
        result: Tensor = _StackedProduct.apply(hidden, weight)  # type: ignore[no-untyped-call]
        return result
    grouped = hidden.view(rows, runs, batch // runs, width)
    return torch.einsum("prmh,rhc->prmc", grouped, weight).reshape(rows, batch, -1)


def _fits_kernel(values: Tensor, weight: Tensor) -> bool:
    """Whether Triton multiplies, and the weights of a run, padded, fit in the memory of one block of threads."""
    padded = math.prod(1 << max(4, (size - 1).bit_length()) for size in weight.shape[1:])
    return backend_of(values) == "triton" and padded <= _LARGEST_WEIGHT


class _StackedProduct(torch.autograd.Function):
    """H W[r] for many runs at once on a GPU, without bringing each run's rows together first."""

    @staticmethod
    def forward(hidden: Tensor, weight: Tensor) -> Tensor:
        from fishergcn._kernels import cuda

        out = hidden.new_empty(*hidden.shape[:2], weight.shape[2])
        cuda.times_weight(out, hidden.contiguous(), weight.contiguous())
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        hidden, weight = ctx.saved_tensors
        return times_weight(grad, weight.transpose(1, 2)), _weight_gradient(hidden, grad, len(weight))

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None, weight_tangent: Tensor | None) -> Tensor:
        hidden, weight = ctx.saved_tensors
        terms = [] if tangent is None else [times_weight(tangent, weight)]
        return sum(terms + ([] if weight_tangent is None else [times_weight(hidden, weight_tangent)]))  # type: ignore[return-value]


def _weight_gradient(hidden: Tensor, grad: Tensor, runs: int) -> Tensor:
    """Return Σ_{p, m} H[p, r, m]ᵀ G[p, r, m], shape (R, h, c)."""
    if torch.is_grad_enabled():  # a derivative of this one may be asked for
        grouped = [each.reshape(len(each), runs, -1, each.shape[2]) for each in (hidden, grad)]
        return torch.einsum("prmh,prmc->rhc", *grouped)
    from fishergcn._kernels import cuda

    return cuda.weight_gradient(hidden.contiguous(), grad.contiguous(), runs)
