"""How large a training is: the numbers that its memory depends on, and nothing else of the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from fishergcn._base.types import FloatArray
from fishergcn._kernels.choice import FULL_ROW
from fishergcn.graph import Task as TaskName

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.graph import Graph
    from fishergcn.splits import Split
    from fishergcn.training._methods import Method


@dataclass(frozen=True)
class Sizes:
    """How large a graph is, as a method sees it.

    ``links`` are the entries of A: each link twice, a self-link once; ``entries`` those of Ã, of a high-order matrix an
    estimate; ``stored`` the numbers of X. Of several splits the largest counts. ``crowding`` is Σ d² / Σ d, the entries
    in the row that an entry of Ã leads to, on average: more than the mean row has where some nodes have many links.
    ``clustered``: entries stand together once the nodes are in a good order, as those of a high-order matrix do.
    """

    nodes: int
    links: int
    entries: float
    features: int
    stored: int
    classes: int
    train: int
    val: int
    test: int
    dense: bool = False
    crowding: float = 0.0
    clustered: bool = False
    task: TaskName = "classification"

    @classmethod
    def of(
        cls,
        graph: Graph,
        method: Method,
        config: TrainConfig,
        splits: Sequence[Split] | None = None,
        *,
        entries: float | None = None,
    ) -> Sizes:
        """Return the sizes of a graph for a method, and for splits of its nodes.

        Without splits all nodes count as nodes of each part. ``entries`` are those of Ã, where they are known already.
        """
        nodes, features = graph.num_nodes, graph.features
        counts: FloatArray = np.diff(graph.adjacency.indptr) + 1.0
        crowding = (counts**2).sum() / counts.sum()
        stored = nodes if features is None else features.nnz if sparse.issparse(features) else features.size
        matrix = method.matrix
        if entries is None:
            entries = matrix.entries(graph, config)
        if matrix.clustered or not matrix.linked:
            crowding = entries / nodes
        return cls(
            nodes=nodes,
            links=int(graph.adjacency.nnz),
            entries=float(entries),
            # One feature for each node where there are none.
            features=(graph.num_features or nodes) + nodes * config.links_as_features,
            stored=stored + int(graph.adjacency.nnz) * config.links_as_features,
            classes=graph.num_classes,
            task=graph.task,
            **{
                part: nodes if splits is None else max(len(getattr(split, part)) for split in splits)
                for part in ("train", "val", "test")
            },
            dense=features is not None and not sparse.issparse(features) and not config.links_as_features,
            crowding=float(crowding),
            clustered=matrix.clustered,
        )

    @property
    def full_rows(self) -> bool:
        """Whether rows of Ã are so full that another kernel multiplies with them."""
        return self.entries >= FULL_ROW * self.nodes

    @property
    def tile_share(self) -> float:
        """How many of all tiles of Ã hold an entry: all but for clustered ones, by a rule that was found by trying."""
        return float((self.entries / self.nodes**2) ** (1 / 3)) if self.clustered else 1.0

    def reached(self, nodes: int, depth: int) -> list[tuple[float, float]]:
        """Return about how many rows, and entries in them, each layer computes for some nodes, first layer first.

        From r random rows entries lead to n (1 - exp(-e/n)) others. What enters the first layer comes first, with its
        rows alone.
        """
        mean = self.entries / self.nodes
        rows, entries = float(min(nodes, self.nodes)), min(nodes, self.nodes) * mean
        found = [(rows, entries)]
        for _ in range(depth):
            new = (self.nodes - rows) * -math.expm1(-max(entries - rows, 0.0) / self.nodes)
            entries = min(entries + new * max(self.crowding, mean), self.entries)
            rows += new
            found.append((rows, entries))
        return found[::-1]
