"""Density matrices of Laplacians and their entropy, in torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fishergcn.errors import InputError
from fishergcn.geometry.differentiable._factor import checked, checked_density, factor


def density_matrix(laplacian: Tensor) -> Tensor:
    """Turn graph Laplacians into density matrices, ρ = L / tr L.

    Parameters
    ----------
    laplacian : (..., n, n) tensor
        L, symmetric and p.s.d. with tr L > 0, float32 or float64. P.s.d.-ness is checked by what uses ρ.

    Returns
    -------
    (..., n, n) tensor
        ρ, exactly symmetric.

    Examples
    --------
    >>> import torch
    >>> density_matrix(torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))
    tensor([[ 0.5000, -0.5000],
            [-0.5000,  0.5000]])
    """
    matrix = checked("laplacian", laplacian)
    trace = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
    if bool((trace.detach() <= 0).any()):
        raise InputError(
            f"laplacian must have a positive trace, got {float(trace.detach().min()):g}; a graph without links has no "
            "density matrix."
        )
    return matrix / trace[..., None, None]


def von_neumann_entropy(rho: Tensor) -> Tensor:
    """Von Neumann entropy H = -Σ λ_i log λ_i, in nats, of shape (...,); 0 log 0 = 0.

    Parameters
    ----------
    rho : (..., n, n) tensor
        Density matrices, singular or not.

    Examples
    --------
    >>> import torch
    >>> rho = torch.tensor([[0.5, -0.5], [-0.5, 0.5]], requires_grad=True)
    >>> entropy = von_neumann_entropy(torch.stack([rho, torch.eye(2) / 2]))
    >>> entropy.sum().backward()
    >>> entropy.detach().round(decimals=4), bool(rho.grad.isfinite().all())
    (tensor([0.0000, 0.6931]), True)
    """
    root = factor("rho", checked_density("rho", rho))
    # WᵀW has the spectrum of ρ, and the zero columns of W are filled up with ones, which have no entropy.
    empty = root.detach().square().sum(-2) == 0
    entropy: Tensor = _Entropy.apply(root.mT @ root + torch.diag_embed(empty.to(root.dtype)))  # type: ignore[no-untyped-call]
    return entropy


class _Entropy(torch.autograd.Function):
    """-tr A log A of positive definite matrices; the gradient is -log A - I."""

    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor) -> Tensor:
        values = torch.linalg.eigvalsh(matrix)
        entropy: Tensor = -torch.special.xlogy(values, values).sum(-1)
        # A pure state would give -0.0, and rounding a value of the order of -eps.
        return entropy.clamp(min=0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (matrix,) = ctx.saved_tensors
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        logarithm: Tensor = _Logarithm.apply(matrix)[0]  # type: ignore[no-untyped-call]
        return -gradient[..., None, None] * (logarithm + identity)


class _Logarithm(torch.autograd.Function):
    """log A of positive definite matrices, differentiated once by divided differences (Daleckii and Krein).

    The eigenvalues and eigenvectors come along for the derivative; they have none themselves.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(matrix)
        values = values.clamp(min=torch.finfo(matrix.dtype).tiny)
        return (vectors * values.log()[..., None, :]) @ vectors.mT, values, vectors

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*output[1:])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> Tensor:
        values, vectors = ctx.saved_tensors
        larger = torch.maximum(values[..., :, None], values[..., None, :])
        ratio = torch.minimum(values[..., :, None], values[..., None, :]) / larger - 1
        # (log a - log b)/(a - b) = log1p(r)/(r·a) with r = b/a - 1, which is 1/a where a = b.
        same = ratio == 0
        safe = torch.where(same, 1.0, ratio)
        slopes = torch.where(same, 1.0, torch.log1p(torch.where(same, 0.0, ratio)) / safe) / larger
        slope: Tensor = vectors @ (slopes * (vectors.mT @ gradient @ vectors)) @ vectors.mT
        return slope
