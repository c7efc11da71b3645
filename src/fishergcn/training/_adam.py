"""Adam, as one fused kernel for all parameters of a stack.

    m ← β₁ m + (1 - β₁) g,   v ← β₂ v + (1 - β₂) g²,   w ← w ∓ η m̂ / (√v̂ + ε)

with m̂ = m / (1 - β₁ᵗ) and v̂ = v / (1 - β₂ᵗ) at step t: down for what minimizes the loss, up for what maximizes it.
It is the kernel of ``torch.optim.Adam(fused=True)``, to the bit; that class imports torch's compiler, which takes
seconds in every process, and spends more time around the kernel than in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class Adam:
    """The moments of some parameters, which all go down or, with ``maximize``, all go up."""

    def __init__(self, parameters: Sequence[nn.Parameter], learning_rate: float, *, maximize: bool = False) -> None:
        self.parameters, self.learning_rate, self.maximize = list(parameters), learning_rate, maximize
        self.means = [torch.zeros_like(each, memory_format=torch.preserve_format) for each in parameters]
        self.squares = [torch.zeros_like(each, memory_format=torch.preserve_format) for each in parameters]
        self.steps = [torch.zeros((), dtype=torch.float32, device=each.device) for each in parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Move all parameters that have a gradient."""
        slopes = {at: each.grad for at, each in enumerate(self.parameters) if each.grad is not None}
        if not slopes:
            return
        steps = [self.steps[at] for at in slopes]
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            [self.parameters[at] for at in slopes],
            list(slopes.values()),
            [self.means[at] for at in slopes],
            [self.squares[at] for at in slopes],
            [],
            steps,
            lr=self.learning_rate,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=0.0,
            eps=_EPSILON,
            amsgrad=False,
            maximize=self.maximize,
        )

    def keep(self, parameters: Sequence[nn.Parameter], runs: Tensor) -> Adam:
        """Go on with the parameters of some runs."""
        other = Adam(parameters, self.learning_rate, maximize=self.maximize)
        other.means, other.squares = ([each[runs] for each in part] for part in (self.means, self.squares))
        other.steps = self.steps
        return other
