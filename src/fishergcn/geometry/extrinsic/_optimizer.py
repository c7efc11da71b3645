"""The natural gradient as an optimizer for a whole network.

    w ← w - η (F + γI)⁻¹ ∇loss,   F = (1/N) Σ_i J_iᵀ (diag p_i - p_i p_iᵀ) J_i

with J_i the derivative of the logits of node i in all weights of all layers and p_i its predicted probabilities: F is
the Fisher information of the weights, and for the cross entropy also its Gauss-Newton matrix. It is never built: a
product with it is two passes through the network, and the system is solved by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from fishergcn._base.checks import check_integer, check_real
from fishergcn.errors import InputError

_TINY = 1e-300


class NaturalGradient(torch.optim.Optimizer):
    """Steps along the damped natural gradient of a network with softmax outputs.

    Parameters
    ----------
    params : iterable of Parameter
        All weights; one group.
    lr, damping : float
        η, 1 for a full step, and γ, above 0: the step is Newton's as γ goes to 0, and the plain gradient's as it grows.
    iterations, tolerance
        Most conjugate-gradient iterations, each as costly as two to three backward passes, and the residual, as a share
        of the gradient, at which they end.

    Notes
    -----
    ``step`` takes a closure that returns the loss and the logits of which it is made, shape (..., N, C), both with
    their graph; it does not call ``backward``. Weight decay belongs into the loss. Samples of one node (of dropout, or
    of perturbed graphs) in leading dimensions count as nodes of their own.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> path = fishergcn.renormalized(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> model = fishergcn.GCN(3, (4,), 2, dropout=0.0, generator=torch.Generator().manual_seed(0))
    >>> optimizer = NaturalGradient(model.parameters(), lr=1.0, damping=0.01)
    >>> def closure():
    ...     logits = model(np.eye(3), path)
    ...     return torch.nn.functional.cross_entropy(logits, torch.tensor([0, 0, 1])), logits
    >>> losses = [float(optimizer.step(closure)) for _ in range(5)]
    >>> losses[-1] < losses[0]
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        damping: float = 1e-3,
        iterations: int = 10,
        tolerance: float = 1e-3,
    ) -> None:
        defaults = {
            "lr": check_real("lr", lr, above=0.0),
            "damping": check_real("damping", damping, above=0.0),
            "iterations": check_integer("iterations", iterations, minimum=1),
            "tolerance": check_real("tolerance", tolerance, minimum=0.0),
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise InputError(f"the natural gradient takes one group of parameters, got {len(self.param_groups)}.")

    def step(self, closure: Callable[[], tuple[Tensor, Tensor]] | None = None) -> Tensor:  # type: ignore[override]
        """Take a step; return the loss before it."""
        if closure is None:
            raise InputError("step needs a closure that returns the loss and the logits, got None.")
        group = self.param_groups[0]
        weights = [each for each in group["params"] if each.requires_grad]
        with torch.enable_grad():
            loss, logits = closure()
            information = _Information(logits, weights)
            slope = torch.autograd.grad(loss, weights, retain_graph=True, materialize_grads=True)
        direction = _solve(information, slope, group["damping"], group["iterations"], group["tolerance"])
        with torch.no_grad():
            for weight, move in zip(weights, direction, strict=True):
                weight -= group["lr"] * move
        return loss.detach()


class _Information:
    """F as what it does to a vector of all weights."""

    def __init__(self, logits: Tensor, weights: Sequence[Tensor]) -> None:
        self.logits, self.weights = logits, weights
        self.shares = torch.softmax(logits.detach(), dim=-1)
        self.nodes = logits[..., 0].numel()
        # Jᵀu is linear in u, and its derivative in u along v is Jv.
        self.dual = torch.zeros_like(logits, requires_grad=True)
        pulled = torch.autograd.grad(logits, weights, self.dual, create_graph=True, allow_unused=True)
        self.pulled = [(each, weight) for each, weight in zip(pulled, weights, strict=True) if each is not None]

    def times(self, vector: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return F v."""
        of = dict(zip(map(id, self.weights), vector, strict=True))
        pulled = [each for each, _ in self.pulled]
        pushed = torch.autograd.grad(
            pulled, self.dual, [of[id(weight)] for _, weight in self.pulled], retain_graph=True
        )[0]
        weighted = self.shares * (pushed - (self.shares * pushed).sum(-1, keepdim=True)) / self.nodes
        return torch.autograd.grad(self.logits, self.weights, weighted, retain_graph=True, materialize_grads=True)


def _solve(
    information: _Information, slope: Sequence[Tensor], damping: float, iterations: int, tolerance: float
) -> list[Tensor]:
    """Return (F + γI)⁻¹ g by conjugate gradients, which descend from the first iteration on."""
    found = [torch.zeros_like(each) for each in slope]
    residual = [each.clone() for each in slope]
    direction = [each.clone() for each in slope]
    square = first = _inner(residual, residual)
    for _ in range(iterations):
        if float(square) <= tolerance**2 * float(first) or float(square) == 0:
            break
        image = torch._foreach_add(information.times(direction), direction, alpha=damping)
        length = float(square / _inner(direction, image).clamp(min=_TINY))
        torch._foreach_add_(found, direction, alpha=length)
        torch._foreach_add_(residual, list(image), alpha=-length)
        before, square = square, _inner(residual, residual)
        direction = list(torch._foreach_add(residual, direction, alpha=float(square / before)))
    return found


def _inner(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    return torch.stack([(a.double() * b.double()).sum() for a, b in zip(one, other, strict=True)]).sum()
