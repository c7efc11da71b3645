"""Hidden activations times each run's own weights: Z[p, r, m] = H[p, r, m] W[r]."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fishergcn._base.backend import backend_of

__all__ = ["times_weight"]


def times_weight(hidden: Tensor, weight: Tensor) -> Tensor:
    """Multiply (p, R * M, h) by weights (R, h, c), giving (p, R * M, c).

    Examples
    --------
    >>> import torch
    >>> times_weight(torch.ones(2, 1, 3), torch.ones(1, 3, 4)).shape
    torch.Size([2, 1, 4])
    """
    rows, batch, width = hidden.shape
    runs = len(weight)
    if runs == 1 and torch.is_inference_mode_enabled():
        return _tall_product(hidden.reshape(rows * batch, width), weight[0]).view(rows, batch, -1)
    if runs == 1:
        flat: Tensor = _TallProduct.apply(hidden.reshape(rows * batch, width), weight[0])  # type: ignore[no-untyped-call]
        return flat.view(rows, batch, -1)
    if backend_of(hidden) == "triton":
        result: Tensor = _StackedProduct.apply(hidden, weight)  # type: ignore[no-untyped-call]
        return result
    grouped = hidden.view(rows, runs, batch // runs, width)
    return torch.einsum("prmh,rhc->prmc", grouped, weight).reshape(rows, batch, -1)


def _tall_product(hidden: Tensor, weight: Tensor) -> Tensor:
    return (weight.T.contiguous() @ hidden.T).T.contiguous()


class _TallProduct(torch.autograd.Function):
    """H W for a tall H and a W of few columns.

    BLAS is up to ten times faster on (Wᵀ Hᵀ)ᵀ and (Gᵀ H)ᵀ than on H W and Hᵀ G, which are the same numbers.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        hidden, weight = hidden.detach(), weight.detach()
        ctx.save_for_backward(hidden, weight)
        ctx.save_for_forward(hidden, weight)
        return _tall_product(hidden, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        hidden, weight = ctx.saved_tensors
        grad_hidden = grad @ weight.T if ctx.needs_input_grad[0] else None
        grad_weight = (grad.T @ hidden).T if ctx.needs_input_grad[1] else None
        return grad_hidden, grad_weight

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None, weight_tangent: Tensor | None) -> Tensor:
        hidden, weight = ctx.saved_tensors
        terms: list[Tensor] = [] if tangent is None else [tangent @ weight]
        if weight_tangent is not None:
            terms.append(hidden @ weight_tangent)
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]


class _StackedProduct(torch.autograd.Function):
    """H W[r] for many runs at once on a GPU, without bringing each run's rows together first."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        from fishergcn._kernels import cuda

        hidden, weight = hidden.detach().contiguous(), weight.detach().contiguous()
        ctx.save_for_backward(hidden, weight)
        out = hidden.new_empty(*hidden.shape[:2], weight.shape[2])
        cuda.times_weight(out, hidden, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        from fishergcn._kernels import cuda

        hidden, weight = ctx.saved_tensors
        return cuda.times_weight_backward(hidden, weight, grad)
