"""The neighborhood of a graph, graphs drawn from it, and an adversary that learns where to draw."""

from __future__ import annotations

from fishergcn.perturbation._adversary import Drawing, SpectralAdversary
from fishergcn.perturbation._block import BlockNeighborhood, graph_spectrum
from fishergcn.perturbation._congruence import CongruenceNeighborhood
from fishergcn.perturbation._directions import choose_directions
from fishergcn.perturbation._family_nodes import best_weights
from fishergcn.perturbation._link_noise import GraphPool, LinkNoise, pool_weights
from fishergcn.perturbation._neighborhood import Neighborhood, PerturbationWarning
from fishergcn.perturbation._perturbation import Coordinates, Perturbation

__all__ = [
    "CongruenceNeighborhood", "Coordinates", "Neighborhood", "Perturbation", "PerturbationWarning",
    "SpectralAdversary",
]  # fmt: skip

SHARED = (
    "BlockNeighborhood", "Drawing", "GraphPool", "LinkNoise", "best_weights", "choose_directions", "graph_spectrum",
    "pool_weights",
)  # fmt: skip
