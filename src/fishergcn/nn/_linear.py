"""Hidden activations times each run's own weights: Z[p, r, m] = H[p, r, m] W[r]."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fishergcn._base.backend import backend_of


def times_weight(hidden: Tensor, weight: Tensor) -> Tensor:
    """Multiply (p, R * M, h) by weights (R, h, c), giving (p, R * M, c)."""
    rows, batch, width = hidden.shape
    runs = len(weight)
    if runs == 1:
        # BLAS is up to ten times faster on (Wᵀ Hᵀ)ᵀ than on H W for a tall H and a W of few columns: the same numbers.
        tall = hidden.reshape(rows * batch, width)
        return (weight[0].T.contiguous() @ tall.T).T.contiguous().view(rows, batch, -1)
    if backend_of(hidden) == "triton":
        result: Tensor = _StackedProduct.apply(hidden, weight)  # type: ignore[no-untyped-call]
        return result
    grouped = hidden.view(rows, runs, batch // runs, width)
    return torch.einsum("prmh,rhc->prmc", grouped, weight).reshape(rows, batch, -1)


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
