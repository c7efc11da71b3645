"""The graphs that ``perturbation="spatial"`` draws from: nodes of an embedding, moved."""

from __future__ import annotations

import math
from functools import cached_property

from fishergcn._base.types import FloatArray
from fishergcn.geometry.embedding import moved_graphs, spectral_embedding
from fishergcn.graph import Graph
from fishergcn.perturbation import pool_weights

#: How many graphs there are to draw from.
POOL = 16


class MovedGraphs:
    """Makes them from one embedding of a graph, the spectral one in two dimensions, which takes minutes on PubMed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._weights: dict[float, FloatArray] = {}

    @cached_property
    def _positions(self) -> FloatArray:
        return spectral_embedding(self.graph.adjacency)

    def weights(self, radius: float) -> FloatArray:
        """Return the link weights of moved graphs, shape (16, m).

        A motion has the Fisher length radius · √n, so that the distribution of each node over the others moves by a
        divergence of radius²/2 in the mean.
        """
        if radius not in self._weights:
            links, distance = self.graph.adjacency, radius * math.sqrt(self.graph.num_nodes)
            self._weights[radius] = pool_weights(links, moved_graphs(links, self._positions, distance, samples=POOL))
        return self._weights[radius]
