"""``sage``: separate weights for a node and for the mean of its neighbors (Hamilton, Ying and Leskovec, 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fishergcn.nn._family import Family
from fishergcn.nn._network import Look, Role, register

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig


class NodeAndNeighbors(Family):
    """σ(D⁻¹A H W + H V): a node can disagree with its neighbors, which helps where links join unlike nodes."""

    name = "sage"
    title = "a network that treats a node and its neighbors separately"
    summary = "a network with separate weights for a node and for the mean of its neighbors"
    suffixes = "xc"
    matrix = "mean"
    without_links = "mlp"

    def sees_itself(self, config: TrainConfig) -> bool:
        """Always: the matrix leaves out the node itself."""
        return True

    def look(self, *, high_order: bool, consistent: bool, role: Role) -> Look | None:
        """Return color and marker in figures."""
        return "#00838f", "H"


register(NodeAndNeighbors())
