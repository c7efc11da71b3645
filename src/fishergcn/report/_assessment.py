"""A saved model as the report sees it: how good its predictions are where classes are known, and its graph.

    confusion[i, j] = number of nodes of class i that are predicted as j
    ECE             = Σ_b (n_b / n) |correct_b - stated_b|

over bins b of the probability that the model states for its prediction: the expected calibration error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.graph import Graph, components, known_nodes
from fishergcn.models import TrainedModel, load_model, load_runs
from fishergcn.splits import Split, parse
from fishergcn.training import RunRecord

BINS = 15  # of equal width, as is usual
_WORDS = {"test": "test nodes", "val": "validation nodes"}
_NORMAL = 1.959963984540054  # standard errors in a 95% interval


@dataclass(frozen=True)
class Bin:
    """Predictions whose stated probability lies in one range."""

    count: int
    stated: float
    correct: float


class ClassScores(NamedTuple):
    """How one class was predicted: how many nodes it has, were found and were named so; NaN where that is nothing."""

    nodes: int
    found: int
    named: int
    recall: float
    precision: float
    f1: float


def confusion_matrix(labels: IntArray, predicted: IntArray, classes: int) -> IntArray:
    """Return how many nodes of each class (rows) were predicted as each class (columns)."""
    found = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(found, (labels, predicted), 1)
    return found


def class_scores(confusion: IntArray) -> list[ClassScores]:
    """Return the scores of each class."""
    nodes, found, named = confusion.sum(axis=1), confusion.diagonal(), confusion.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (found / nodes, found / named, 2 * found / (nodes + named))
    columns = (part.tolist() for part in (nodes, found, named, *shares))
    return [ClassScores(*each) for each in zip(*columns, strict=True)]


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Return the 95% interval of a share by Wilson's score, which stays within 0 and 1."""
    if count == 0:
        return math.nan, math.nan
    share, square = hits / count, _NORMAL**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = _NORMAL / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    # Rounding must not push an end past the share itself, which is an end at 0 and 1.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def calibration(probabilities: FloatArray, labels: IntArray, bins: int = BINS) -> tuple[list[Bin], float]:
    """Return the bins that hold predictions, and the expected calibration error."""
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


def by_chance(bins: Sequence[Bin]) -> float:
    """Return about which calibration error a model has whose probabilities are right: Σ_b (n_b / n) E|N(0, σ_b²)|."""
    total = sum(each.count for each in bins)
    spread = [math.sqrt(2 / math.pi * each.stated * (1 - each.stated) / each.count) for each in bins]
    return sum(each.count / total * one for each, one in zip(bins, spread, strict=True))


def least_certain(probabilities: FloatArray, nodes: IntArray, count: int) -> IntArray:
    """Return the nodes whose prediction has the least probability, the least certain first."""
    stated = probabilities[nodes].max(axis=1)
    return np.asarray(nodes[np.argsort(stated, kind="stable")[:count]], dtype=np.int64)


@dataclass(frozen=True)
class GraphFacts:
    """Degrees, components and homophily of a graph."""

    degrees: IntArray
    sizes: Sequence[int]  # of the components, the largest first
    homophily: float  # share of links within a class, of links between labeled nodes; NaN without any
    chance: float  # what that share would be if links met classes at random, given the degrees
    labeled_links: int
    of_class: FloatArray  # of the links of each class's nodes, the share that stays within it


def graph_facts(graph: Graph) -> GraphFacts:
    """Return what a graph looks like; links of a node to itself are left out."""
    links = graph.adjacency.tocoo()
    apart = links.row != links.col
    row, column = links.row[apart], links.col[apart]
    degrees = np.bincount(row, minlength=graph.num_nodes).astype(np.int64)
    sizes = sorted(np.bincount(components(graph.adjacency)).tolist(), reverse=True)
    count = graph.num_classes
    labels = np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
    known = (labels[row] >= 0) & (labels[column] >= 0)
    ends, others = labels[row[known]], labels[column[known]]
    total = np.bincount(ends, minlength=count).astype(np.float64)
    inside = np.bincount(ends[ends == others], minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        of_class = inside / total
    pairs = len(ends)
    homophily = float(inside.sum() / pairs) if pairs else math.nan
    chance = float(((total / pairs) ** 2).sum()) if pairs else math.nan
    return GraphFacts(degrees, sizes, homophily, chance, pairs // 2, of_class)


@dataclass(frozen=True)
class Subject:
    """A model, its folder, and the runs from which it was chosen."""

    folder: Path
    model: TrainedModel
    runs: Sequence[RunRecord]

    @cached_property
    def split(self) -> Split | None:
        """Which nodes were trained on, validated with and tested on; None if neither folder nor name says so."""
        if self.model.runs:
            return self.model.runs[0].split
        try:  # a folder of an older version, of a split that its name describes
            found = parse(self.model.graph, self.model.record.split)
        except InputError:
            return None
        sizes = {part: len(getattr(found, part)) for part in ("train", "val", "test")}
        return found if sizes == dict(self.model.split_sizes) else None

    @cached_property
    def probabilities(self) -> FloatArray:
        """What the model states for every node, n x C."""
        return self.model.probabilities()

    @cached_property
    def part(self) -> str | None:
        """The part of the split that predictions are judged on: test nodes, else validation nodes, else nothing."""
        if self.split is None:
            return None
        known = known_nodes(self.model.graph)
        return next((part for part in _WORDS if known[getattr(self.split, part)].any()), None)

    @property
    def words(self) -> str:
        """What the judged nodes are called."""
        return _WORDS[self.part] if self.part else "nodes"

    @cached_property
    def judged(self) -> IntArray:
        """The labeled nodes that predictions are judged on."""
        if self.part is None:
            return np.empty(0, dtype=np.int64)
        nodes: IntArray = getattr(self.split, self.part)
        return nodes[known_nodes(self.model.graph)[nodes]]

    @cached_property
    def labels(self) -> AnyArray:
        """The classes of the judged nodes, or what is known of them in another task."""
        if self.part is None:
            return np.empty(0, dtype=np.int64)
        return np.asarray(self.model.task.known(self.model.graph)[self.judged])

    @cached_property
    def common(self) -> int:
        """The most frequent class among the training nodes."""
        known = self.model.graph.labels
        learned = np.empty(0, dtype=np.int64) if known is None or self.split is None else known[self.split.train]
        return int(np.bincount(learned[learned >= 0], minlength=self.model.num_classes).argmax())

    @property
    def always(self) -> float:
        """The share of the judged nodes that always answering this class gets right."""
        return float((self.labels == self.common).mean())

    @cached_property
    def answers(self) -> FloatArray:
        """What the model says of every node: probabilities (n, C), or numbers (n, 1)."""
        return self.model.predict()[:, None] if self.model.graph.task == "regression" else self.probabilities

    @cached_property
    def confusion(self) -> IntArray:
        """Classes of the judged nodes (rows) against predictions (columns)."""
        predicted = self.probabilities[self.judged].argmax(axis=1)
        return confusion_matrix(self.labels, predicted, self.model.num_classes)

    @cached_property
    def scores(self) -> list[ClassScores]:
        """How each class was predicted."""
        return class_scores(self.confusion)

    @cached_property
    def facts(self) -> GraphFacts:
        """What the graph looks like."""
        return graph_facts(self.model.graph)


def read_subject(folder: Path) -> Subject:
    """Read a model with the runs from which it was chosen, which may lie in the folder around it."""
    model = load_model(folder)
    runs = load_runs(folder) or [each for each in load_runs(folder.parent) if each.method == model.record.method]
    return Subject(folder, model, runs)
