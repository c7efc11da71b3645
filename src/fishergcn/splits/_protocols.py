"""The ways to split a graph: as its data came, or at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fishergcn._base.checks import check_integer
from fishergcn._base.types import IntArray
from fishergcn.errors import InputError
from fishergcn.graph import strata
from fishergcn.splits._split import PARTS, Split

if TYPE_CHECKING:
    from fishergcn.graph import Graph

_MAX_SEED = 2**32 - 1


def public(graph: Graph) -> Split:
    """Return the fixed split that came with the data.

    On the Planetoid graphs: train = the first 140 / 120 / 60 nodes (Cora / CiteSeer / PubMed), val = the next
    500, test = the 1000 sorted indices of the file ``test.index``.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> public(datasets.load("cora"))
    Split('public', train=140, val=500, test=1000)
    """
    parts = _standard_split(graph, "public")
    return Split("public", parts["train"], parts["val"], parts["test"]).check(graph.num_nodes)


def shuffled(graph: Graph, seed: int) -> Split:
    """Deal the nodes of the public split again at random: the paper's random splits, index for index.

    The public train, val and test indices are concatenated in this order, shuffled in place by
    ``numpy.random.RandomState(seed)``, and cut at the same sizes. The result is not balanced by class, and
    nodes outside the public split are never used. The paper takes the seeds 2019 to 2038.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> split = shuffled(datasets.load("cora"), seed=2019)
    >>> split
    Split('shuffled:2019', train=140, val=500, test=1000)
    """
    seed = check_integer("seed", seed, minimum=0, maximum=_MAX_SEED)
    parts = _standard_split(graph, "shuffled")
    nodes = np.concatenate([parts[part] for part in PARTS])
    # The legacy generator on purpose: its stream is frozen by NumPy, and the published splits come from it.
    np.random.RandomState(seed).shuffle(nodes)
    cuts = np.cumsum([parts["train"].size, parts["val"].size])
    train, val, test = np.split(nodes, cuts)
    return Split(f"shuffled:{seed}", train, val, test).check(graph.num_nodes)


def per_class(graph: Graph, train: int = 20, val: int = 30, *, seed: int = 0) -> Split:
    """Draw ``train`` + ``val`` nodes of every class at random; all other labeled nodes are for testing.

    Parameters
    ----------
    graph
        A graph with labels; nodes with label -1 are in no part.
    train, val
        Nodes of each class for training (at least 1) and validation (at least 0).
    seed
        Seed of the draw. Each part is sorted.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> per_class(datasets.load("pubmed"), seed=1)
    Split('per-class:20+30:1', train=60, val=90, test=19567)
    """
    train = check_integer("train", train, minimum=1)
    val = check_integer("val", val, minimum=0)
    seed = check_integer("seed", seed, minimum=0, maximum=_MAX_SEED)
    if graph.targets is not None:
        raise InputError(f"A split per class needs classes, and the task is {graph.task!r}; use splits.held_out.")
    if graph.labels is None or graph.num_classes == 0:
        raise InputError(f"A split per class needs labels, and graph {graph.name or 'given'!r} has none.")
    generator = np.random.default_rng(seed)
    drawn: dict[str, list[IntArray]] = {part: [] for part in PARTS}
    for label in range(graph.num_classes):
        members = np.flatnonzero(graph.labels == label)
        if members.size < train + val:
            raise InputError(
                f"Every class must have at least train + val = {train + val} nodes, "
                f"but {_class_name(graph, label)} has {members.size}."
            )
        shares = np.split(generator.permutation(members), [train, train + val])
        for part, share in zip(PARTS, shares, strict=True):
            drawn[part].append(share)
    parts = {part: np.sort(np.concatenate(shares)) for part, shares in drawn.items()}
    return Split(f"per-class:{train}+{val}:{seed}", parts["train"], parts["val"], parts["test"])


def held_out(graph: Graph, percent: int = 20, *, seed: int = 0) -> Split:
    """Learn from all labeled nodes but ``percent`` of every class, which validate; none are for testing.

    A class keeps at least one training node, and with two members or more gives at least one away: a class
    with a single member is learned but not validated. Of several labels a node the rarest one counts as its class, and
    numbers are all of one class.

    Parameters
    ----------
    graph
        A graph with labels; nodes with label -1 are in no part.
    percent
        The share of each class to hold out, 1 to 99, rounded to whole nodes.
    seed
        Seed of the draw. Each part is sorted.

    Examples
    --------
    >>> from fishergcn import Graph
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4)], labels=[0, 0, 0, 1, -1])
    >>> held_out(path)
    Split('held-out:20%:0', train=3, val=1, test=0)
    """
    percent = check_integer("percent", percent, minimum=1, maximum=99)
    seed = check_integer("seed", seed, minimum=0, maximum=_MAX_SEED)
    groups = strata(graph)
    if groups.max() < 0:
        raise InputError(f"Holding out nodes needs labels, and graph {graph.name or 'given'!r} has none.")
    generator = np.random.default_rng(seed)
    train, val = [], []
    for label in range(int(groups.max()) + 1):
        members = generator.permutation(np.flatnonzero(groups == label))
        wanted = (members.size * percent + 50) // 100
        count = min(max(wanted, 1), max(members.size - 1, 0))
        val.append(members[:count])
        train.append(members[count:])
    held = np.sort(np.concatenate(val))
    if held.size == 0:
        raise InputError("Holding out validation nodes needs a class with two labeled nodes or more; each has one.")
    return Split(f"held-out:{percent}%:{seed}", np.sort(np.concatenate(train)), held, np.empty(0, dtype=np.int64))


def set_aside(graph: Graph, split: Split, percent: int = 20, least: int = 20) -> Split:
    """Take nodes out of training and validation of a split, so that they are in no part: for intervals of predictions.

    ``percent`` of them at random; at least ``least``, which is enough for a coverage of 0.95, but no more than a third.
    Nodes of known target that are in no part already count.
    """
    labeled = np.concatenate([split.train, split.val])
    free = strata(graph) >= 0
    free[np.concatenate([labeled, split.test])] = False
    wanted = max(min(least, len(labeled) // 3), len(labeled) * percent // 100) - int(free.sum())
    if wanted <= 0:
        return split
    of_val = max(min(round(wanted * len(split.val) / len(labeled)), len(split.val) - 2), 0)
    rng, kept = (
        np.random.default_rng(2019),
        {"train": len(split.train) - (wanted - of_val), "val": len(split.val) - of_val},
    )
    parts = {part: np.sort(rng.permutation(getattr(split, part))[: max(count, 1)]) for part, count in kept.items()}
    return Split(split.name, parts["train"], parts["val"], split.test, split.node_weight)


def masks(graph: Graph) -> list[Split]:
    """Return the splits that came with the data, ``mask:0``, ``mask:1``, ….

    Examples
    --------
    >>> from fishergcn import Graph
    >>> parts = {"train": [[1, 0, 0], [0, 1, 0]], "val": [[0, 1, 0], [1, 0, 0]], "test": [[0, 0, 1], [0, 0, 1]]}
    >>> arrays = {part: np.array(rows, dtype=bool) for part, rows in parts.items()}
    >>> masks(Graph.from_edges([(0, 1), (1, 2)], masks=arrays))
    [Split('mask:0', train=1, val=1, test=1), Split('mask:1', train=1, val=1, test=1)]
    """
    count = 1 if graph.masks is None else len(graph.masks["train"])  # a graph without masks is refused
    return [mask(graph, number) for number in range(count)]


def mask(graph: Graph, number: int) -> Split:
    """Return one of the splits that came with the data."""
    count = 0 if graph.masks is None else len(graph.masks["train"])
    if graph.masks is None or number >= count:
        known = f"the masks 0 to {count - 1}" if count else "no masks"
        raise InputError(f"Split 'mask:{number}' is not there: graph {graph.name or 'given'!r} comes with {known}.")
    train, val, test = (np.flatnonzero(graph.masks[part][number]) for part in PARTS)
    return Split(f"mask:{number}", train, val, test)


def _standard_split(graph: Graph, wanted: str) -> dict[str, IntArray]:
    if graph.standard_split is None:
        raise InputError(
            f"A {wanted} split needs a graph that comes with a standard split, and graph "
            f"{graph.name or 'given'!r} has none; use splits.per_class or splits.held_out, or by name for instance "
            "'per-class:20+30:0' (20 training and 30 validation nodes of each class, seed 0) or 'held-out:20%:0'."
        )
    return {part: graph.standard_split[part] for part in PARTS}


def _class_name(graph: Graph, label: int) -> str:
    return f"class {label}" if graph.class_names is None else f"class {label} ({graph.class_names[label]})"
