"""Noise on the graph whose shape is learned to be as harmful as its radius allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fishergcn._base.checks import check_integer, check_real
from fishergcn.errors import InputError
from fishergcn.operators import Operator
from fishergcn.perturbation._perturbation import Coordinates
from fishergcn.streams import initial_xi

if TYPE_CHECKING:
    from typing_extensions import Self

_SMALLEST_SHARE, _LARGEST_SHARE = 1e-100, 1 - 2**-52
# Noise from streams is drawn for several steps at once, but for no more than a millisecond: a step on a GPU is short.
_STEPS_AT_ONCE, _NUMBERS_AT_ONCE = 50, 40_000


class Drawing:
    """What a module with draws of its own has before ``nn.Module``: their state, which is in ``state_dict()`` too."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(check_integer("seed", seed, minimum=0))

    def get_generator_state(self) -> Tensor:
        """Return the state of the draws, to continue a run to the digit."""
        return self._generator.get_state()

    def set_generator_state(self, state: Tensor) -> None:
        """Continue the draws from a state that :meth:`get_generator_state` gave."""
        self._generator.set_state(state if state.device.type == "cpu" else state.cpu())

    def get_extra_state(self) -> Tensor:
        """Return the state of the draws, for ``state_dict()``."""
        return self.get_generator_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Take the state of the draws from a ``state_dict()``."""
        self.set_generator_state(state)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # What earlier versions saved has no state of the draws: they go on from where they are.
        state_dict.setdefault(f"{prefix}_extra_state", self.get_generator_state())
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[misc]


class SpectralAdversary(Drawing, nn.Module):
    """φ_j = exp(-θ̄/2) ∘ ϕ ∘ e_j, j = 1..M, with a learned shape ϕ = ε·sigmoid(ξ).

    The network minimizes the mean loss over the M graphs Ã(φ_j), ξ maximizes it; the gradient reaches ξ
    through the draws. Give :meth:`parameter_group` to the optimizer of the weights: one ``step()`` does both.

    Parameters
    ----------
    neighborhood : Neighborhood or CongruenceNeighborhood
        Where the graphs are drawn from; its ``radius`` is ε. (The formula above is that of a ``Neighborhood``; the
        other draws x = ϕ ∘ unit ∘ √12 e.)
    samples : int
        M, the perturbed graphs of one step.
    seed : int
        Of the initial ξ (Glorot-uniform, as a k × 1 matrix) and of the draws, where no ``keys`` are given.
    adversarial : bool
        False makes the noise isotropic, ϕ = ε·1: the same noise, without an adversary. ξ has no effect then.
    keys : Tensor of shape (R,), int64, optional
        Random keys of R runs that train side by side, each with a ξ of its own; see
        :func:`fishergcn.streams.keys_of`. The first ξ and the noise of a step depend on a run's key alone.

    Notes
    -----
    In training mode a call returns M perturbed operators; in evaluation mode, as with dropout, the plain one.
    The loss is not monotone in the radius: a component of ϕ may move towards ε or towards 0. The parameter ``xi``, ξ of
    shape (k, 1), or (R, k) with keys, stays in float64: ``half()`` and ``to(dtype)`` do not round it.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> rng = np.random.default_rng(0)
    >>> links = np.triu(rng.random((30, 30)) < 0.2, 1)
    >>> neighborhood = fishergcn.Neighborhood(fishergcn.renormalized(links + links.T.astype(float)), rank=3)
    >>> adversary = SpectralAdversary(neighborhood, samples=4)
    >>> weights = torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
    >>> optimizer = torch.optim.Adam([{"params": [weights]}, adversary.parameter_group()], lr=0.01)
    >>> loss = (adversary() @ torch.ones(30, 2, dtype=torch.float64) @ weights).square().mean()
    >>> loss.backward()
    >>> optimizer.step()
    >>> adversary.eval()().batch_shape
    ()
    """

    def __init__(
        self,
        neighborhood: Coordinates,
        samples: int = 5,
        seed: int = 0,
        adversarial: bool = True,
        *,
        keys: Tensor | None = None,
    ) -> None:
        super().__init__(seed)
        self.neighborhood = neighborhood
        self.samples = check_integer("samples", samples, minimum=1)
        self.adversarial = bool(adversarial)
        self.keys = None if keys is None else keys.cpu()  # where noise is drawn
        self._drawn: tuple[range, Tensor] | None = None
        if keys is None:
            initial = torch.empty(neighborhood.rank, 1, dtype=torch.float64)
            nn.init.xavier_uniform_(initial, generator=self._generator)
        else:
            initial = initial_xi(keys, neighborhood.rank)
        self.xi = nn.Parameter(initial.to(neighborhood.device), requires_grad=self.adversarial)

    @property
    def radius(self) -> float:
        """ε of the neighborhood; it can be set, by a schedule for instance."""
        return self.neighborhood.radius

    @radius.setter
    def radius(self, value: float) -> None:
        self.neighborhood.radius = check_real("radius", value, minimum=0.0)

    @property
    def shape(self) -> Tensor:
        """ϕ, shape (k,) or (R, k): strictly between 0 and ε; ε itself without an adversary, 0 for a radius of 0."""
        xi = self.xi.double()
        xi = xi.squeeze(-1) if self.keys is None else xi
        if not self.adversarial:
            return torch.full_like(xi, self.neighborhood.radius, requires_grad=False)
        # Rounding takes the sigmoid of a large |ξ| to 0 or 1, where it could never leave.
        return self.neighborhood.radius * torch.sigmoid(xi).clamp(_SMALLEST_SHARE, _LARGEST_SHARE)

    def noise(self, step: int | None = None) -> Tensor:
        """Draw e, shape (M, k), from the adversary's own generator or, with keys, (R, M, k), that of step ``step``."""
        if self.keys is None:
            return self.neighborhood.noise(self.samples, self._generator)
        if step is None:
            raise InputError("an adversary of several runs needs the number of the step, got None.")
        if self.neighborhood.wide:
            return self.neighborhood.noise_of(self.keys, self.samples, range(step, step + 1))[0]
        steps, drawn = self._block(step, self.keys)
        return drawn[step - steps.start]

    def draw_ahead(self, step: int) -> None:
        """Draw the noise of a step that comes next, while a GPU has something else to do."""
        if self.keys is not None and not self.neighborhood.wide:
            self._block(step, self.keys)

    def _block(self, step: int, keys: Tensor) -> tuple[range, Tensor]:
        """Return some steps that begin at or before this one, and their noise: a GPU gets all of it at once."""
        if self._drawn is None or step not in self._drawn[0]:
            numbers = len(keys) * self.samples * self.neighborhood.rank
            steps = range(step, step + max(1, min(_STEPS_AT_ONCE, _NUMBERS_AT_ONCE // numbers)))
            self._drawn = steps, self.neighborhood.noise_of(keys, self.samples, steps)
        return self._drawn

    def draw(self, step: int | None = None, noise: Tensor | None = None) -> Tensor:
        """Draw φ, shaped like :meth:`noise`, or take the noise that is given; gradients flow to ξ."""
        noise = self.noise(step) if noise is None else noise
        return self.neighborhood.phi(noise * self.shape.unsqueeze(-2), 1.0)

    @torch.no_grad()
    def xi_gradient(self, gradient: Tensor, noise: Tensor, phi: Tensor) -> Tensor:
        """Return the gradient in ξ, (R, k), from that in c, (R, M, k), at φ of this noise, without autograd."""
        at_noise = self.neighborhood.noise_gradient(phi, gradient.double())
        at_shape, share = (at_noise * noise).sum(-2), torch.sigmoid(self.xi)
        inside = (share >= _SMALLEST_SHARE) & (share <= _LARGEST_SHARE)
        return self.neighborhood.radius * at_shape * share * (1 - share) * inside

    def forward(self, step: int | None = None, noise: Tensor | None = None) -> Operator:
        """Return M perturbed graphs (of each run) as one batched operator, or the plain one in evaluation mode."""
        return self.neighborhood.operator(self.draw(step, noise) if self.training else None)

    def keep(self, runs: Tensor) -> None:
        """Let the other runs leave, of an adversary with keys; ξ becomes a new parameter."""
        if self.keys is None:
            raise InputError("only an adversary with keys has runs to keep.")
        here = runs.cpu()
        self.keys = self.keys[here]
        self.xi = nn.Parameter(self.xi.detach()[runs], requires_grad=self.adversarial)
        if self._drawn is not None:
            self._drawn = self._drawn[0], self._drawn[1][:, runs]

    def parameter_group(self, lr: float | None = None) -> dict[str, Any]:
        """Return the group that ascends in ξ without weight decay, for any optimizer that knows ``maximize``."""
        group: dict[str, Any] = {"params": [self.xi], "maximize": True, "weight_decay": 0.0}
        return group if lr is None else {**group, "lr": lr}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Only to another device: k numbers need no half precision, in which Adam divides by zero. The neighborhood is
        # no module and follows by hand.
        kept = self.xi.data
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.xi.data = kept.to(self.xi.device)
        if self.xi.grad is not None:
            self.xi.grad = self.xi.grad.to(self.xi.dtype)
        self.neighborhood = self.neighborhood.to(device=self.xi.device)
        self._drawn = None  # drawn again where it is needed
        return self

    def extra_repr(self) -> str:
        """What ``print(module)`` shows."""
        return f"{self.neighborhood!r}, samples={self.samples}, adversarial={self.adversarial}"
