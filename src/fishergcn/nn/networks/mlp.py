"""``mlp``: the network of ``gcn`` without the links."""

from __future__ import annotations

from fishergcn.nn._family import Family
from fishergcn.nn._network import Look, Role, register


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


register(Perceptron())
