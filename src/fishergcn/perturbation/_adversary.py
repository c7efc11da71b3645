"""Noise on the graph whose shape is learned to be as harmful as its radius allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fishergcn._base.checks import check_integer
from fishergcn.operators import SparsePlusLowRank
from fishergcn.perturbation._neighborhood import Neighborhood

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SpectralAdversary"]


class SpectralAdversary(nn.Module):
    """φ_j = exp(-θ̄/2) ∘ ϕ ∘ e_j, j = 1..M, with a learned shape ϕ = ε·sigmoid(ξ).

    The network minimizes the mean loss over the M graphs Ã(φ_j), ξ maximizes it; the gradient reaches ξ
    through the draws. Give :meth:`parameter_group` to the optimizer of the weights: one ``step()`` does both.

    Parameters
    ----------
    neighborhood : Neighborhood
        Where the graphs are drawn from; its ``radius`` is ε.
    samples : int
        M, the perturbed graphs of one step.
    seed : int
        Of the initial ξ (Glorot-uniform, as a k × 1 matrix) and of the draws.
    adversarial : bool
        False keeps ξ at its first value: the same noise, without an adversary.

    Attributes
    ----------
    xi : nn.Parameter of shape (k, 1)
        ξ, in float64 whatever the precision of the network.

    Notes
    -----
    In training mode a call returns M perturbed operators; in evaluation mode, as with dropout, the plain one.
    The loss is not monotone in the radius: a component of ϕ may move towards ε or towards 0.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> rng = np.random.default_rng(0)
    >>> links = np.triu(rng.random((30, 30)) < 0.2, 1)
    >>> neighborhood = Neighborhood(fishergcn.renormalized(links + links.T.astype(float)), rank=3)
    >>> adversary = SpectralAdversary(neighborhood, samples=4)
    >>> weights = torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
    >>> optimizer = torch.optim.Adam([{"params": [weights]}, adversary.parameter_group()], lr=0.01)
    >>> loss = (adversary() @ torch.ones(30, 2, dtype=torch.float64) @ weights).square().mean()
    >>> loss.backward()
    >>> optimizer.step()
    >>> adversary.eval()().batch_shape
    ()
    """

    def __init__(self, neighborhood: Neighborhood, samples: int = 5, seed: int = 0, adversarial: bool = True) -> None:
        super().__init__()
        self.neighborhood = neighborhood
        self.samples = check_integer("samples", samples, minimum=1)
        self.adversarial = bool(adversarial)
        self._generator = torch.Generator().manual_seed(check_integer("seed", seed, minimum=0))
        initial = torch.empty(neighborhood.rank, 1, dtype=torch.float64)
        nn.init.xavier_uniform_(initial, generator=self._generator)
        self.xi = nn.Parameter(initial.to(neighborhood.device), requires_grad=self.adversarial)

    @property
    def shape(self) -> Tensor:
        """ϕ = ε·sigmoid(ξ), shape (k,), strictly between 0 and ε; 0 for a radius of 0."""
        # Rounding takes the sigmoid of a large |ξ| to 0 or 1, where it could never leave.
        inside = torch.sigmoid(self.xi.double().squeeze(-1)).clamp(1e-100, 1 - 2**-52)
        return self.neighborhood.radius * inside

    def draw(self) -> Tensor:
        """Draw φ, shape (M, k), from the adversary's own generator; gradients flow to ξ."""
        return self.neighborhood.sample(self.samples, self._generator, self.shape)

    def forward(self) -> SparsePlusLowRank:
        """Return M perturbed graphs as one batched operator, or the plain one in evaluation mode."""
        return self.neighborhood.operator(self.draw() if self.training else None)

    def parameter_group(self, lr: float | None = None) -> dict[str, Any]:
        """Return the optimizer group that ascends in ξ, without weight decay.

        Parameters
        ----------
        lr : float, optional
            Learning rate of ξ; that of the optimizer if not given.

        Returns
        -------
        dict
            For any torch optimizer that knows ``maximize``.
        """
        group: dict[str, Any] = {"params": [self.xi], "maximize": True, "weight_decay": 0.0}
        return group if lr is None else {**group, "lr": lr}

    def get_generator_state(self) -> Tensor:
        """Return the state of the draws, to continue a run to the digit."""
        return self._generator.get_state()

    def set_generator_state(self, state: Tensor) -> None:
        """Continue the draws from a state that :meth:`get_generator_state` gave."""
        self._generator.set_state(state.cpu())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # The neighborhood is no module: it follows ξ to another device (not to another precision) by hand.
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.neighborhood = self.neighborhood.to(device=self.xi.device)
        return self

    def extra_repr(self) -> str:
        """What ``print(module)`` shows."""
        return f"{self.neighborhood!r}, samples={self.samples}, adversarial={self.adversarial}"
