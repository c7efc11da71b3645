"""Inner splits: the labeled nodes of a split dealt anew, with nodes that judge and nothing else."""

from __future__ import annotations

import math

import numpy as np

from fishergcn._base.types import IntArray
from fishergcn.errors import InputError
from fishergcn.graph import Graph, strata
from fishergcn.splits import Split

_FEWEST_LINKS = 30  # between nodes of known class, below which their homophily says nothing


def inner_splits(graph: Graph, split: Split, count: int) -> list[Split]:
    """Deal the training and validation nodes of a split anew, class by class, ``count`` times.

    As many nodes of each class as in the split are for training. The others are for validation, which stops a training
    and sets its temperature, and for ``test``: these judge. They are half of the validation nodes of each class, or so
    few that no node judges in two inner splits; a class with hardly any nodes has one by turns.
    """
    labels = strata(graph)
    if labels.max() < 0:
        raise InputError("the graph has no labels to learn from.")
    known = np.concatenate([split.train, split.val])
    parts: list[dict[str, list[int]]] = [{"train": [], "val": [], "test": []} for _ in range(count)]
    unknown = known[labels[known] < 0]
    if len(unknown):
        raise InputError(f"split {split.name!r}: node {unknown[0]} has no label.")
    single = 0  # how many classes had a single node left so far
    for label in np.unique(labels[known]):
        members = np.random.default_rng([int(label), 2019]).permutation(known[labels[known] == label])
        learned = int((labels[split.train] == label).sum())
        left = len(members) - learned
        judging = min(left // 2, len(members) // count)
        for number, part in enumerate(parts):
            judges = members[number * judging : (number + 1) * judging]
            if judging == 0 and left > 0 and (left > 1 or (single + number) % 2):  # a single one serves by turns
                judges = members[[number % len(members)]]
            others = np.random.default_rng([int(label), number]).permutation(np.setdiff1d(members, judges))
            part["train"] += others[:learned].tolist()
            part["val"] += others[learned:].tolist()
            part["test"] += judges.tolist()
        single += left == 1
    made = [
        Split(
            f"{split.name} inner {number}",
            _sorted(part["train"]),
            _sorted(part["val"]),
            _sorted(part["test"]),
            split.node_weight,
        )
        for number, part in enumerate(parts, start=1)
    ]
    for each in made:
        if len(each.val) == 0 or len(each.test) == 0:
            raise InputError(
                f"split {split.name!r} has too few validation nodes to choose a model by: {len(split.val)}; two or "
                "more are needed, of which one stops a training and one judges it."
            )
    return made


def _sorted(nodes: list[int]) -> IntArray:
    return np.sort(np.array(nodes, dtype=np.int64))


def known_homophily(graph: Graph, split: Split) -> float:
    """Return the share of links within a class, among nodes whose class may be known: not those of the test.

    NaN if fewer than 30 links join such nodes, and in tasks without classes.
    """
    labels = np.full(graph.num_nodes, -1)
    known = np.concatenate([split.train, split.val])
    labels[known] = graph.labels[known] if graph.labels is not None else -1
    links = graph.adjacency.tocoo()
    known_pair = (links.row < links.col) & (labels[links.row] >= 0) & (labels[links.col] >= 0)
    if known_pair.sum() < _FEWEST_LINKS:
        return math.nan
    return float((labels[links.row[known_pair]] == labels[links.col[known_pair]]).mean())
