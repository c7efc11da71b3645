"""``gcn``: the graph convolutional network of Kipf and Welling (2017), which is the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fishergcn.nn._family import Family
from fishergcn.nn._network import Look, Role, register

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig

# (high-order graph, consistency term) -> color and marker of each role: a hue for each graph.
_LOOKS: dict[tuple[bool, bool], dict[Role, Look]] = {
    (False, False): {"perturbed": ("#3091f2", "o"), "control": ("#2a5bd7", "s"), "plain": ("#808993", "^")},
    (True, False): {"perturbed": ("#e5722e", "D"), "control": ("#a15310", "P"), "plain": ("#bf30ba", "v")},
    (False, True): {"perturbed": ("#007347", "h"), "control": ("#40a16a", "X")},
    (True, True): {"perturbed": ("#bf6099", "*"), "control": ("#d0259c", "p")},
}


class GraphConvolution(Family):
    """σ(Ã H W): every layer averages over a node and its neighbors."""

    name = "gcn"
    title = "a graph convolutional network"
    summary = "a graph convolutional network"
    suffixes = "ftxc"
    matrix = "renormalized"
    without_links = "mlp"

    def look(self, *, high_order: bool, consistent: bool, role: Role) -> Look | None:
        """Return color and marker in figures."""
        return _LOOKS[high_order, consistent].get(role)

    def has_compiled_step(self, config: TrainConfig) -> bool:
        """Whether the compiled step knows these settings."""
        return self.is_plain(config)


register(GraphConvolution())
