"""A generated graph of any size with planted classes: links mostly within a class, features that hint at it."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fishergcn import Graph
from fishergcn.splits import Split

CLASSES, COLUMNS, ENTRIES = 10, 100, 10
_WITHIN, _INFORMATIVE = 0.7, 0.3


def planted_graph(nodes: int, links: int, seed: int = 0, *, degrees: str = "uniform") -> Graph:
    """Return a graph with exactly ``links`` links; node i is of class i mod 10.

    A link's second end is of the class of the first with probability 0.7 (and by chance). Each of 10 feature entries a
    node lies in one of the 10 columns of its class with probability 0.3, else in any of the 100. With
    ``degrees="power"`` one end of each link prefers nodes of low number, with a tail of exponent 3.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes) % CLASSES
    features = _features(rng, labels)
    keys = _links(rng, nodes, links, degrees)
    adjacency = _adjacency(keys, nodes)
    del keys
    name = f"planted-{nodes}-{links}-{degrees}-{seed}"
    return Graph(adjacency, features, labels, name=name)


def planted_split(nodes: int, seed: int = 0) -> Split:
    """Return 1 % of the nodes for training, 0.5 % each for validation and test."""
    order = np.random.default_rng([seed, 1]).permutation(nodes)
    train, part = max(nodes // 100, 20), max(nodes // 200, 20)
    return Split("planted", *np.split(order[: train + 2 * part], [train, train + part]))


def _links(rng: np.random.Generator, nodes: int, links: int, degrees: str) -> np.ndarray:
    """Return distinct pairs as smaller * nodes + larger."""
    found = np.empty(0, dtype=np.int64)
    while len(found) < links:
        count = links - len(found) + links // 50
        spread = rng.random(count)
        one = (nodes * (spread**2 if degrees == "power" else spread)).astype(np.int64)
        same = rng.integers(0, nodes // CLASSES, count) * CLASSES + one % CLASSES
        other = np.where(rng.random(count) < _WITHIN, same, rng.integers(0, nodes, count))
        pairs = np.minimum(one, other) * nodes + np.maximum(one, other)
        found = np.unique(np.concatenate([found, pairs[one != other]]))
    if len(found) > links:
        found = np.delete(found, rng.choice(len(found), len(found) - links, replace=False))
    return found


def _adjacency(keys: np.ndarray, nodes: int) -> sparse.csr_array:
    rows, columns = (part.astype(np.int32) for part in np.divmod(keys, nodes))
    half = sparse.csr_array((np.ones(len(keys), dtype=np.float32), (rows, columns)), shape=(nodes, nodes))
    return half + half.T


def _features(rng: np.random.Generator, labels: np.ndarray) -> sparse.csr_array:
    own = labels[:, None] * (COLUMNS // CLASSES) + rng.integers(0, COLUMNS // CLASSES, (len(labels), ENTRIES))
    anywhere = rng.integers(0, COLUMNS, own.shape)
    columns = np.where(rng.random(own.shape) < _INFORMATIVE, own, anywhere).astype(np.int32)
    pointers = np.arange(0, columns.size + 1, ENTRIES)
    stored = (np.ones(columns.size, dtype=np.float32), columns.ravel(), pointers)
    return sparse.csr_array(stored, shape=(len(labels), COLUMNS))
