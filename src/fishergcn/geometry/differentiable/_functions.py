"""Density matrices, entropy, fidelity, Bures distance and geodesics, in torch."""

from __future__ import annotations

import torch
from torch import Tensor

from fishergcn.errors import InputError
from fishergcn.geometry.differentiable._factor import Entropy, SquaredDistance, checked, checked_density, factor, polar

# Below this D²/4 sin(tϑ)/sin ϑ comes from its power series, which has derivatives at ϑ = 0 too.
_SERIES = 1 / 16
_TERMS = 16
_NOISE = 16


def density_matrix(laplacian: Tensor) -> Tensor:
    """Turn graph Laplacians into density matrices, ρ = L / tr L, exactly symmetric.

    ``laplacian`` is L, of shape (..., n, n), symmetric and p.s.d. with tr L > 0; p.s.d.-ness is checked by what uses ρ.

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

    ``rho`` has the shape (..., n, n): density matrices, singular or not.

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
    entropy: Tensor = Entropy.apply(root.mT @ root + torch.diag_embed(empty.to(root.dtype)))  # type: ignore[no-untyped-call]
    return entropy


def squared_bures_distance(a: Tensor, b: Tensor) -> Tensor:
    """Squared Bures distance D_B² = tr a + tr b - 2 F(a, b), of shape (...,), in [0, 2].

    It is smooth at a = b, where its gradient is 0 and its Hessian is that of ``2 bures_metric`` of
    :mod:`fishergcn.geometry.intrinsic`; take this one to minimize a distance. ``a`` and ``b``, of shape (..., n, n),
    are density matrices of one size, dtype and device; leading dimensions broadcast.

    Examples
    --------
    >>> import torch
    >>> a = torch.diag(torch.tensor([0.5, 0.5])).requires_grad_()
    >>> distance = squared_bures_distance(a, torch.diag(torch.tensor([0.5, 0.5])))
    >>> distance.backward()
    >>> distance.item(), a.grad.abs().max().item()
    (0.0, 0.0)
    """
    return _squared(*_factors(a, b)[2:])


def bures_distance(a: Tensor, b: Tensor) -> Tensor:
    """Bures distance D_B = sqrt(2 - 2 F(a, b)), of shape (...,), in [0, sqrt 2]; not squared.

    Like every distance it has a corner at 0: the derivatives returned where a = b are 0. Arguments are those of
    :func:`squared_bures_distance`.

    Examples
    --------
    >>> import torch
    >>> up, down = torch.diag(torch.tensor([1.0, 0.0])), torch.diag(torch.tensor([0.0, 1.0]))
    >>> bures_distance(torch.stack([up, down]), up)
    tensor([0.0000, 1.4142])
    """
    squared = squared_bures_distance(a, b)
    # Of equal matrices, rounding leaves up to some 10 n·eps, whose slope would be that of the noise.
    apart = (squared > (_NOISE * a.shape[-1] * torch.finfo(a.dtype).eps) ** 2) & ((a - b).detach() != 0).any(-1).any(-1)
    return torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)


def fidelity(a: Tensor, b: Tensor) -> Tensor:
    """Root fidelity F = tr sqrt(a^½ b a^½), (...,), in [0, 1] up to rounding; arguments as in :func:`bures_distance`.

    Examples
    --------
    >>> import torch
    >>> a, b = torch.diag(torch.tensor([0.5, 0.5])), torch.diag(torch.tensor([0.9, 0.1]))
    >>> round(fidelity(a, b).item(), 6)
    0.894427
    """
    one, other, *factors = _factors(a, b)
    traces = (one + other).diagonal(dim1=-2, dim2=-1).sum(-1)
    return (traces - _squared(*factors)) / 2


def geodesic(a: Tensor, b: Tensor, t: float | Tensor) -> Tensor:
    """Point at time t on the shortest Bures path of density matrices from a to b, of shape (..., n, n).

    ρ(t) = c₀² a + c₁² b + c₀c₁ (C + Cᵀ) with c₁ = sin(tϑ)/sin ϑ, c₀ = sin((1-t)ϑ)/sin ϑ, ϑ the Bures angle and
    C = ZQWᵀ, where a = WWᵀ, b = ZZᵀ and Q turns Z towards W. ``a`` and ``b`` are as in :func:`squared_bures_distance`;
    ``t``, a number or a tensor between 0 (a) and 1 (b), broadcasts with their leading dimensions.

    Examples
    --------
    >>> import torch
    >>> a, b = torch.diag(torch.tensor([1.0, 0.0])), torch.diag(torch.tensor([0.0, 1.0]))
    >>> geodesic(a, b, torch.tensor([0.0, 1 / 3])).diagonal(dim1=-2, dim2=-1)
    tensor([[1.0000, 0.0000],
            [0.7500, 0.2500]])
    """
    one, other, root, goal = _factors(a, b)
    time = torch.as_tensor(t, dtype=one.dtype, device=one.device)
    plain = time.detach()
    if not bool(((plain >= 0) & (plain <= 1)).all()):
        raise InputError("t must be between 0 and 1.")
    quarter = _squared(root, goal) / 4
    begin, end = (_sine_ratio(share, quarter)[..., None, None] for share in (1 - time, time))
    cross = goal @ polar(goal.mT @ root) @ root.mT
    point = begin**2 * one + end**2 * other + begin * end * (cross + cross.mT)
    return point / point.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]


def _factors(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return a, b, checked and symmetric, and their factors."""
    one, other = checked_density("a", a), checked_density("b", b)
    if one.shape[-1] != other.shape[-1]:
        raise InputError(f"a and b must be of one size, got {tuple(a.shape)} and {tuple(b.shape)}.")
    if one.dtype != other.dtype or one.device != other.device:
        raise InputError(
            f"a and b must have one dtype and one device, got {a.dtype} on {a.device} and {b.dtype} on {b.device}."
        )
    try:
        torch.broadcast_shapes(one.shape, other.shape)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise InputError(
            f"a and b must have leading dimensions that broadcast, got {tuple(a.shape)} and {tuple(b.shape)}."
        ) from error
    return one, other, factor("a", one), factor("b", other)


def _squared(one: Tensor, other: Tensor) -> Tensor:
    squared: Tensor = SquaredDistance.apply(*torch.broadcast_tensors(one, other))  # type: ignore[no-untyped-call]
    return squared


def _sine_ratio(share: Tensor, quarter: Tensor) -> Tensor:
    """Return sin(sϑ)/sin ϑ for D²/4 = sin²(ϑ/2): s times the hypergeometric function 2F1(1+s, 1-s; 3/2; D²/4)."""
    share, quarter = torch.broadcast_tensors(share, quarter)  # type: ignore[no-untyped-call]
    near = quarter < _SERIES
    small = torch.where(near, quarter, 0.0)
    term = share
    series = share
    for k in range(_TERMS):
        term = term * ((1 + share + k) * (1 - share + k) / ((1.5 + k) * (k + 1))) * small
        series = series + term
    # Rounding must not carry two orthogonal matrices beyond the diameter.
    far = torch.where(near, 0.25, quarter.clamp(max=0.5))
    angle = 2 * torch.arcsin(far.sqrt())
    return torch.where(near, series, torch.sin(share * angle) / torch.sin(angle))
