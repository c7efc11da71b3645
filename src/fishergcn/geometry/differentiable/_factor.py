"""Factors ρ = WWᵀ of singular matrices that can be differentiated twice, the turn between two of them, and entropy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fishergcn.errors import InputError

# How far an input may be from symmetry, trace 1 and p.s.d.-ness, relatively: what float32 and finite differences need.
TOLERANCE = 1e-3


def checked(name: str, value: Tensor) -> Tensor:
    """Return a batch of square, finite, symmetric matrices, exactly symmetric, or say what is wrong with them."""
    if not isinstance(value, Tensor) or value.dtype not in (torch.float32, torch.float64):
        got = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"{name} must be a float32 or float64 tensor, got {got}.")
    if value.layout != torch.strided:
        raise InputError(f"{name} must be a dense tensor, got layout {value.layout}.")
    if value.ndim < 2 or value.shape[-1] != value.shape[-2] or value.shape[-1] == 0:
        raise InputError(f"{name} must have the shape (..., n, n) with n at least 1, got {tuple(value.shape)}.")
    plain = value.detach()
    if not bool(torch.isfinite(plain).all()):
        raise InputError(f"{name} must be finite, but it holds a NaN or an infinite entry.")
    asymmetry = (plain - plain.mT).abs().amax(dim=(-2, -1))
    if bool((asymmetry > TOLERANCE * plain.abs().amax(dim=(-2, -1))).any()):
        raise InputError(
            f"{name} must be symmetric, but mirrored entries differ by up to {float(asymmetry.max()):.3g}."
        )
    return _symmetric(value)


def checked_density(name: str, value: Tensor) -> Tensor:
    """Return a batch of matrices with trace 1; p.s.d.-ness is left to :func:`factor`."""
    matrix = checked(name, value)
    error = (matrix.detach().diagonal(dim1=-2, dim2=-1).sum(-1) - 1).abs().max() if matrix.numel() else torch.zeros(())
    if float(error) > TOLERANCE:
        raise InputError(
            f"{name} must have trace 1, but one is off by {float(error):.3g}; density_matrix normalizes a Laplacian."
        )
    return matrix


def factor(name: str, matrix: Tensor) -> Tensor:
    """Return W of shape (..., n, n) with ρ = WWᵀ; columns beyond the rank are zero.

    With U the eigenvectors of the support at this point, held fixed, ρ = ρU(UᵀρU)⁻¹Uᵀρ for every matrix of the same
    rank nearby. So W = ρU·ℓ⁻ᵀ, with ℓ the Cholesky factor of UᵀρU, is a factor along all curves of constant rank, and
    its derivatives of any order need no eigenvector, where equal eigenvalues would divide by zero.
    """
    eigenvalues, basis = torch.linalg.eigh(matrix.detach())
    largest = eigenvalues.abs().amax(-1, keepdim=True)
    if bool((eigenvalues[..., :1] < -TOLERANCE * largest).any()):
        raise InputError(
            f"{name} must be positive semi-definite, but it has an eigenvalue of {float(eigenvalues.min()):.6g}."
        )
    noise = matrix.shape[-1] * torch.finfo(matrix.dtype).eps * largest
    kept = eigenvalues > noise
    values = torch.where(kept, eigenvalues, 0.0)
    basis = basis * kept[..., None, :]
    image = matrix @ basis
    inner = basis.mT @ image
    # The values are known better than the products give them; the products carry the derivatives.
    image = basis * values[..., None, :] + (image - image.detach())
    inner = torch.diag_embed(torch.where(kept, eigenvalues, 1.0)) + (inner - inner.detach())
    lower = torch.linalg.cholesky(_symmetric(inner))
    root: Tensor = torch.linalg.solve_triangular(lower, image.mT, upper=False).mT
    return root


class _Kept(torch.autograd.Function):
    """A function whose derivative is made of its first argument and its value."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)


class _Lyapunov(_Kept):
    """X with HX + XH = R for positive definite H; every derivative is another such equation."""

    @staticmethod
    def forward(matrix: Tensor, right: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(matrix)
        inner = vectors.mT @ right @ vectors
        solution: Tensor = vectors @ (inner / (values[..., :, None] + values[..., None, :])) @ vectors.mT
        return solution

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        matrix, solution = ctx.saved_tensors
        adjoint: Tensor = _Lyapunov.apply(matrix, gradient)  # type: ignore[no-untyped-call]
        return -(adjoint @ solution.mT + solution.mT @ adjoint), adjoint


class _Polar(_Kept):
    """Q = UVᵀ of K = USVᵀ, over the singular values that are not noise: the isometry closest to K.

    With H = QᵀK = VSVᵀ, between the two supports dQ = QΩ, where HΩ + ΩH = QᵀdK - dKᵀQ; from a support to the other
    side's complement it is dK divided by the singular values; between the complements it is 0, as on every curve of
    constant rank. The map is its own adjoint, and is written in Q and K, so that it can be differentiated again.
    """

    @staticmethod
    def forward(overlap: Tensor) -> Tensor:
        left, values, right = torch.linalg.svd(overlap)
        kept = values > overlap.shape[-1] * torch.finfo(overlap.dtype).eps * values[..., :1]
        turn: Tensor = (left * kept[..., None, :]) @ right
        return turn

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        overlap, turn = ctx.saved_tensors
        identity = torch.eye(turn.shape[-1], dtype=turn.dtype, device=turn.device)
        within_left, within_right = turn @ turn.mT, turn.mT @ turn
        # The complements are filled up with ones, so that both are positive definite.
        size_left = _symmetric(overlap @ turn.mT) + identity - within_left
        size_right = _symmetric(turn.mT @ overlap) + identity - within_right
        inner = turn.mT @ gradient @ within_right
        rotation: Tensor = _Lyapunov.apply(size_right, inner - inner.mT)  # type: ignore[no-untyped-call]
        off_left = (identity - within_left) @ gradient @ within_right
        off_right = within_left @ gradient @ (identity - within_right)
        across = torch.linalg.solve(size_right, off_left, left=False) + torch.linalg.solve(size_left, off_right)
        slope: Tensor = turn @ rotation + across
        return slope


def polar(overlap: Tensor) -> Tensor:
    """Return the partial isometry Q of the polar decomposition K = QH."""
    turn: Tensor = _Polar.apply(overlap)  # type: ignore[no-untyped-call]
    return turn


def _symmetric(matrix: Tensor) -> Tensor:
    return (matrix + matrix.mT) / 2


class SquaredDistance(torch.autograd.Function):
    """D² = min over Q of ‖W - ZQ‖² for two factors, without the cancellation of ‖W‖² + ‖Z‖² - 2‖ZᵀW‖_*.

    At the best Q, the polar factor of ZᵀW, what Q contributes to the slope vanishes.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(one: Tensor, other: Tensor) -> Tensor:
        turn = polar(other.mT @ one)
        turned = other @ turn
        # If the ranks differ, part of the larger factor has no partner.
        return (one - turned).square().sum((-2, -1)) + (other - turned @ turn.mT).square().sum((-2, -1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        one, other = ctx.saved_tensors
        turn = polar(other.mT @ one)
        scale = 2 * gradient[..., None, None]
        return scale * (one - other @ turn), scale * (other - one @ turn.mT)


class Entropy(_Kept):
    """-tr A log A of positive definite matrices; the gradient is -log A - I."""

    @staticmethod
    def forward(matrix: Tensor) -> Tensor:
        values = torch.linalg.eigvalsh(matrix)
        entropy: Tensor = -torch.special.xlogy(values, values).sum(-1)
        # A pure state would give -0.0, and rounding a value of the order of -eps.
        return entropy.clamp(min=0.0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        matrix, _ = ctx.saved_tensors
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
