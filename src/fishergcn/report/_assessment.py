"""How good a model's predictions are on nodes of known class, and what its graph looks like.

    confusion[i, j] = number of nodes of class i that are predicted as j
    ECE             = Σ_b (n_b / n) |correct_b - stated_b|

over bins b of the probability that the model states for its prediction: the expected calibration error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fishergcn._base.types import FloatArray, IntArray
from fishergcn.graph import Graph, components

BINS = 15  # of equal width, as is usual
_NORMAL = 1.959963984540054  # standard errors in a 95% interval


@dataclass(frozen=True)
class Bin:
    """Predictions whose stated probability lies in one range."""

    count: int
    stated: float
    correct: float


@dataclass(frozen=True)
class ClassScores:
    """How one class was predicted: how many nodes it has, how many of them were found, and how many were named so."""

    nodes: int
    found: int
    named: int

    @property
    def recall(self) -> float:
        """The share of its nodes that were found; NaN without nodes."""
        return self.found / self.nodes if self.nodes else math.nan

    @property
    def precision(self) -> float:
        """The share of what was named so that is; NaN if nothing was."""
        return self.found / self.named if self.named else math.nan

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.found / (self.nodes + self.named) if self.nodes + self.named else math.nan


def confusion_matrix(labels: IntArray, predicted: IntArray, classes: int) -> IntArray:
    """Return how many nodes of each class (rows) were predicted as each class (columns).

    Examples
    --------
    >>> confusion_matrix(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    found = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(found, (labels, predicted), 1)
    return found


def class_scores(confusion: IntArray) -> list[ClassScores]:
    """Return the scores of each class."""
    nodes, named = confusion.sum(axis=1), confusion.sum(axis=0)
    return [
        ClassScores(int(nodes[each]), int(confusion[each, each]), int(named[each])) for each in range(len(confusion))
    ]


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Return the 95% interval of a share by Wilson's score, which stays within 0 and 1.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(9, 10)]
    [0.596, 0.982]
    """
    if count == 0:
        return math.nan, math.nan
    share, square = hits / count, _NORMAL**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = _NORMAL / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    # Rounding must not push an end past the share itself, which is an end at 0 and 1.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def calibration(probabilities: FloatArray, labels: IntArray, bins: int = BINS) -> tuple[list[Bin], float]:
    """Return the bins that hold predictions, and the expected calibration error.

    Examples
    --------
    >>> found, error = calibration(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))
    >>> len(found), round(error, 3)
    (1, 0.4)
    """
    stated, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    # (low, high], as Guo et al. (2017) have it; a probability of 0 is the first bin's.
    place = np.clip(np.ceil(stated * bins).astype(np.int64) - 1, 0, bins - 1)
    found, error = [], 0.0
    for each in range(bins):
        here = place == each
        if here.any():
            one = Bin(int(here.sum()), float(stated[here].mean()), float(right[here].mean()))
            found.append(one)
            error += one.count / len(labels) * abs(one.correct - one.stated)
    return found, error


def least_certain(probabilities: FloatArray, nodes: IntArray, count: int) -> IntArray:
    """Return the nodes whose prediction has the least probability, the least certain first."""
    stated = probabilities[nodes].max(axis=1)
    return np.asarray(nodes[np.argsort(stated, kind="stable")[:count]], dtype=np.int64)


@dataclass(frozen=True)
class GraphFacts:
    """Degrees, components and homophily of a graph.

    Attributes
    ----------
    degrees
        Number of neighbors of each node.
    sizes
        Number of nodes of each component, the largest first.
    homophily
        The share of links within a class, of links between labeled nodes; NaN without any.
    chance
        What that share would be if links met classes at random, given the degrees.
    told
        How many links join labeled nodes.
    of_class
        Of the links of each class's nodes, the share that stays within it.
    """

    degrees: IntArray
    sizes: Sequence[int]
    homophily: float
    chance: float
    told: int
    of_class: FloatArray


def graph_facts(graph: Graph) -> GraphFacts:
    """Return what a graph looks like; links of a node to itself are left out."""
    links = graph.adjacency.tocoo()
    apart = links.row != links.col
    row, column = links.row[apart], links.col[apart]
    degrees = np.bincount(row, minlength=graph.num_nodes).astype(np.int64)
    sizes = sorted(np.bincount(components(graph.adjacency)).tolist(), reverse=True)
    count = graph.num_classes
    labels = np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
    told = (labels[row] >= 0) & (labels[column] >= 0)
    ends, others = labels[row[told]], labels[column[told]]
    total = np.bincount(ends, minlength=count).astype(np.float64)
    inside = np.bincount(ends[ends == others], minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        of_class = inside / total
    pairs = len(ends)
    homophily = float(inside.sum() / pairs) if pairs else math.nan
    chance = float(((total / pairs) ** 2).sum()) if pairs else math.nan
    return GraphFacts(degrees, sizes, homophily, chance, pairs // 2, of_class)
