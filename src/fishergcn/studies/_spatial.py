"""The graphs that ``perturbation="spatial"`` draws from: nodes of an embedding, moved."""

from __future__ import annotations

import math

from fishergcn._base.types import FloatArray
from fishergcn.geometry.embedding import moved_graphs, spectral_embedding
from fishergcn.graph import Graph
from fishergcn.perturbation import pool_weights

#: How many graphs there are to draw from.
POOL = 16


def moved_weights(graph: Graph, radius: float) -> FloatArray:
    """Return the link weights of moved graphs, shape (16, m).

    The embedding is the spectral one, in two dimensions; a motion has the Fisher length radius · √n, so that the
    distribution of each node over the others moves by a divergence of radius²/2 in the mean.
    """
    positions = spectral_embedding(graph.adjacency)
    distance = radius * math.sqrt(graph.num_nodes)
    return pool_weights(graph.adjacency, moved_graphs(graph.adjacency, positions, distance, samples=POOL))
