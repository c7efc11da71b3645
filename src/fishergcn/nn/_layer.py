"""What enters the next layer, from what the product with the graph made: ReLU, dropout, weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fishergcn._base.backend import backend_of
from fishergcn.nn._activation import check_activation, relu_dropout
from fishergcn.nn._linear import times_weight
from fishergcn.streams import keep_probability


def activated_times_weight(
    values: Tensor, rows: Tensor | None, words: Tensor | None, dropout: float, weight: Tensor, *, once: bool = False
) -> Tensor:
    """Return σ(V) W[r] with dropout as in :func:`relu_dropout`, for W (R, h, c): shape (p, R * M, c).

    With ``once``, no derivative of a derivative will be asked for, and the gradient takes one pass on a GPU.
    """
    if len(weight) == 1 or backend_of(values) != "triton":
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
