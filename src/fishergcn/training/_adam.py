"""Adam, as one fused kernel for all parameters of a stack.

    m ← β₁ m + (1 - β₁) g,   v ← β₂ v + (1 - β₂) g²,   w ← (1 - ηλ) w ∓ η m̂ / (√v̂ + ε)

with m̂ = m / (1 - β₁ᵗ) and v̂ = v / (1 - β₂ᵗ) at step t: down for what minimizes the loss, up for what maximizes it. The
decay λ is 0 but for networks on large graphs. These are the kernels of ``torch.optim.Adam(fused=True)`` and ``AdamW``,
to the bit; those classes import torch's compiler, which takes seconds in every process and leaves a folder among
temporary files, and spend more time around the kernel than in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class Adam:
    """The moments of some parameters, which all go down or, with ``maximize``, all go up."""

    def __init__(
        self, parameters: Sequence[Tensor], learning_rate: float, *, maximize: bool = False, decay: float = 0.0
    ) -> None:
        self.parameters, self.learning_rate = list(parameters), learning_rate
        self.maximize, self.decay = maximize, decay
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
        kernel = torch._fused_adamw_ if self.decay else torch._fused_adam_
        kernel(
            [self.parameters[at] for at in slopes],
            list(slopes.values()),
            [self.means[at] for at in slopes],
            [self.squares[at] for at in slopes],
            [],
            steps,
            lr=self.learning_rate,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=self.decay,
            eps=_EPSILON,
            amsgrad=False,
            maximize=self.maximize,
        )

    def keep(self, parameters: Sequence[Tensor], runs: Tensor) -> Adam:
        """Go on with the parameters of some runs."""
        other = Adam(parameters, self.learning_rate, maximize=self.maximize, decay=self.decay)
        other.means, other.squares = ([each[runs] for each in part] for part in (self.means, self.squares))
        other.steps = self.steps
        return other
