"""``mlp``: the network of ``gcn`` without the links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fishergcn.nn._family import Family
from fishergcn.nn._network import Look, Role, register

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig


class Perceptron(Family):
    """σ(H W): what the features say of a node by itself."""

    name = "mlp"
    title = "a network that uses features but no links"
    summary = "the same kind of network without the links"
    suffixes = "xc"
    matrix = "identity"

    def look(self, *, high_order: bool, consistent: bool, role: Role) -> Look | None:
        """Return color and marker in figures."""
        return "#b58d00", "<"

    def has_compiled_step(self, config: TrainConfig) -> bool:
        """Whether the compiled step knows these settings."""
        return self.is_plain(config)


register(Perceptron())
