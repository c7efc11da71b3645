"""``linear``: a linear model of a node and of what is one and two steps away, solved and not trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fishergcn.nn._network import Look, Network, Parameter, Role, register

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.nn._dropout import Dropout
    from fishergcn.nn._view import View


class Linear(Network):
    """X W_0 + Ã X W_1 + Ã² X W_2 + b: the ridge solution for the training nodes, with b if ``bias`` is set.

    ``weight_decay`` is all else that it reads of the settings of networks and of training: it has no hidden units, no
    dropout and no epochs. See ``training/_solve.py`` for what is minimized.
    """

    name = "linear"
    title = "a linear model over two steps"
    summary = "a linear model of a node and of what is one and two steps away, solved without epochs"
    matrix = "renormalized"
    without_links = "mlp"
    linear = True

    def parameters(self, inputs: int, classes: int, config: TrainConfig) -> dict[str, Parameter]:
        """Return W_0, W_1, W_2 and b."""
        found = {f"weights.{steps}": Parameter((inputs, classes), stream=steps) for steps in range(3)}
        return found | ({"biases.0": Parameter((classes,), decayed=False, initial="zeros")} if config.bias else {})

    def widths(self, classes: int, config: TrainConfig) -> tuple[int, ...]:
        """Two products with the graph, both of C columns."""
        return classes, classes

    def sees_itself(self, config: TrainConfig) -> bool:
        """Always, through W_0 and W_1."""
        return True

    def look(self, *, high_order: bool, consistent: bool, role: Role) -> Look | None:
        """Return color and marker in figures."""
        return "#7a5cc9", "d"

    def logits(
        self,
        weights: Mapping[str, Tensor],
        view: View,
        config: TrainConfig,
        dropout: Dropout | None = None,
        *,
        once: bool = False,
    ) -> Tensor:
        """Return Ã (Ã X W_2 + X W_1) + X W_0 + b, so that only C columns are multiplied with the graph."""
        entering = view.enter(torch.cat([weights[f"weights.{steps}"] for steps in (2, 1, 0)], dim=2))
        classes = entering.shape[2] // 3
        inner, own = view.propagate(0, entering[..., : 2 * classes], own=True), entering[..., 2 * classes :]
        place = view.itself[0] if view.itself else None
        own = (own if place is None else own[place]).repeat_interleave(inner.shape[1] // own.shape[1], dim=1)
        out = view.propagate(1, torch.cat([inner, own], dim=2), own=True)
        bias = weights.get("biases.0")
        return out if bias is None else out + bias.repeat_interleave(out.shape[1] // len(bias), dim=0)


register(Linear())
