"""Whether the optimizer moves ξ up, as ``maximize=True`` asks it to."""

from __future__ import annotations

from torch import Tensor, equal

from fishergcn._base.warn import warn
from fishergcn.perturbation import PerturbationWarning


class Ascent:
    """Adds up the gradients of ξ until the first step moves it, and says so if that went against all of them.

    Only the first step is judged: later ones may go against their gradient by momentum.
    """

    def __init__(self) -> None:
        self._last: tuple[Tensor, Tensor] | None = None
        self._judged = False

    def remember(self, xi: Tensor, gradient: Tensor) -> None:
        """Note the gradient that was found at ξ."""
        now = xi.detach().clone()
        if self._last is not None and equal(self._last[0], now):
            gradient = self._last[1] + gradient
        self._last = now, gradient

    def judge(self, xi: Tensor) -> None:
        """Compare where ξ is now with where its gradient pointed."""
        if self._last is None or self._judged:
            return
        before, gradient = self._last
        moved, there = xi.detach() - before, gradient != 0
        if not bool(moved.any()):
            return
        self._judged = True
        if bool(there.any()) and bool((moved[there].sign() == -gradient[there].sign()).all()):
            warn(
                "the optimizer moved ξ down: it does not know the option maximize=True of parameter_group(). Give ξ an "
                "optimizer of its own that does: torch.optim.Adam([adversary.parameter_group()], lr=0.01).",
                PerturbationWarning,
            )
