"""Inner splits: the training and validation nodes of a split, dealt anew."""

from __future__ import annotations

import numpy as np

from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.splits import Split


def inner_splits(graph: Graph, split: Split, count: int) -> list[Split]:
    """Return the split itself and others that deal its training and validation nodes anew, class by class.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1)], num_nodes=6, labels=[0, 0, 0, 1, 1, 1])
    >>> given = Split("mine", train=[0, 1, 3], val=[2, 4, 5], test=[])
    >>> [len(each.train) for each in inner_splits(graph, given, 3)]
    [3, 3, 3]
    """
    labels = graph.labels
    if labels is None:
        raise InputError("the graph has no labels to learn from.")
    found = [split]
    known = np.concatenate([split.train, split.val])
    for number in range(1, count):
        rng = np.random.default_rng(number)
        dealt: dict[str, list[int]] = {"train": [], "val": []}
        for label in np.unique(labels[known]):
            members = rng.permutation(known[labels[known] == label])
            learned = int((labels[split.train] == label).sum())
            dealt["train"] += members[:learned].tolist()
            dealt["val"] += members[learned:].tolist()
        parts = {part: np.sort(np.array(nodes, dtype=np.int64)) for part, nodes in dealt.items()}
        none = np.empty(0, dtype=np.int64)
        found.append(Split(f"{split.name} inner {number}", parts["train"], parts["val"], none, split.node_weight))
    return found
