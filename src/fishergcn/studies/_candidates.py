"""The candidates of ``fit``: which there are on a graph, what they cost, and which of them is chosen."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fishergcn._base.choices import Scaling
from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.execution import find_device
from fishergcn.graph import Graph
from fishergcn.propagation import transition_matrix
from fishergcn.splits import Split
from fishergcn.training import Method, Run, TrainConfig, parse_method, prepare, samples_of, train_chunk

#: Settings that suit graphs other than the paper's: features as they are, a bias, the epoch with the best validation
#: loss, and a sparser high-order matrix.
GENERAL = TrainConfig(
    scaling="none", bias=True, stopping="patience", patience=40, test_at="best-val", max_epochs=200, threshold=1e-3
)
SCALINGS: tuple[Scaling, ...] = ("none", "rows", "columns")
#: The methods among which ``fit`` chooses, simplest first: of two that cannot be told apart the first is taken.
CANDIDATES = ("majority", "lp", "mlp", "gcn", "gcn-t", "mlp-x5-c", "gcn-x5-c", "gcn-t-x5-c")
_ROWS = 64  # sampled to estimate the size of the high-order matrix
_TIMED = 9  # epochs
_SLOW = 0.5  # seconds


@dataclass(frozen=True)
class Score:
    """How one run of a candidate did on its validation nodes."""

    accuracy: float
    cross_entropy: float


Scores = Mapping[object, Score]  # by (split, seed)
Name = TypeVar("Name", bound=str)


def best_candidate(scores: Mapping[Name, Scores]) -> Name:
    """Return the candidate that validation prefers; of those that cannot be told apart, the first.

    A candidate stays in the race while its mean accuracy is within one standard error of the best (of the difference,
    paired run by run). Those that stay are compared by cross entropy, which sees smaller differences: within a quarter
    of a standard error of the best, that is unless the best is better with a probability of 60 %, the first is chosen.

    Parameters
    ----------
    scores
        The runs of each candidate, simplest first.

    Examples
    --------
    >>> simple = {1: Score(0.80, 0.60), 2: Score(0.82, 0.58)}
    >>> best_candidate({"simple": simple, "costly": {1: Score(0.81, 0.60), 2: Score(0.81, 0.58)}})
    'simple'
    >>> best_candidate({"simple": simple, "costly": {1: Score(0.90, 0.40), 2: Score(0.91, 0.38)}})
    'costly'
    """
    staying = _near_the_best(scores, "accuracy", 1.0, errors=1.0)
    staying = _near_the_best({name: scores[name] for name in staying}, "cross_entropy", -1.0, errors=0.25)
    return staying[0]


def _near_the_best(scores: Mapping[Name, Scores], value: str, sign: float, *, errors: float) -> list[Name]:
    means = {
        name: sign * float(np.mean([getattr(each, value) for each in some.values()])) for name, some in scores.items()
    }
    best = max(means, key=lambda name: means[name])
    staying = []
    for name, some in scores.items():
        common = sorted(some.keys() & scores[best].keys(), key=str)
        gaps = np.array([sign * (getattr(scores[best][key], value) - getattr(some[key], value)) for key in common])
        error = gaps.std(ddof=1) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
        if name == best or (len(gaps) and gaps.mean() <= errors * error):
            staying.append(name)
    return staying


def scalings_of(graph: Graph) -> tuple[Scaling, ...]:
    """Return the scalings that make a difference on a graph: rows are not divided where features are negative.

    Examples
    --------
    >>> scalings_of(Graph.from_edges([(0, 1)], features=[[1.0], [-1.0]]))
    ('none', 'columns')
    """
    features = graph.features
    values = getattr(features, "data", features)
    if features is None or np.min(values, initial=0.0) < 0:
        return ("none", "columns")
    return SCALINGS


def high_order_entries(graph: Graph, config: TrainConfig, seed: int = 0) -> float:
    """Estimate how many entries the high-order matrix of a graph has, from a sample of its rows.

    Examples
    --------
    >>> ring = Graph.from_edges([(node, (node + 1) % 40) for node in range(40)])
    >>> high_order_entries(ring, TrainConfig())  # five steps to either side, and the node itself
    440.0
    """
    nodes = graph.num_nodes
    chosen = np.random.default_rng(seed).permutation(nodes)[:_ROWS]
    walk: CSRArray = transition_matrix(graph.adjacency)
    power = total = walk[chosen]
    for _ in range(config.order - 1):
        power = power @ walk
        total = total + power
    degrees: FloatArray = np.asarray(graph.adjacency.sum(axis=1)).ravel()
    found = total.tocoo()
    here, there = chosen[found.row], found.col
    # By detailed balance the walk back is s_ji = s_ij d_i / d_j; either of the two keeps the entry.
    share = found.data / config.order * np.maximum(1.0, degrees[here] / np.maximum(degrees[there], 1e-300))
    kept = ((share > config.threshold) & (here != there)).sum()
    return float(nodes * (kept / len(chosen) + 1.0))


def work_of(graph: Graph, method: Method, config: TrainConfig, entries: float) -> float:
    """Return the multiply-adds of an epoch of one run: products with features and with the graph, there and back.

    Parameters
    ----------
    graph, method, config
        What is trained.
    entries
        How many entries the propagation matrix has; 0 for a network without the links.
    """
    stored = getattr(graph.features, "nnz", None) or graph.num_nodes * graph.num_features
    widths = sum(config.hidden) + graph.num_classes
    once = stored * config.hidden[0] + entries * widths + 16 * graph.num_nodes * widths
    return float((2 * samples_of(method, config) + 1) * once)


@dataclass(frozen=True)
class Pace:
    """How long an epoch takes here: overhead + work * seconds, with the work of :func:`work_of`.

    Examples
    --------
    >>> Pace(overhead=0.001, seconds=2e-9).of(1e6)
    0.003
    """

    overhead: float
    seconds: float

    def of(self, work: float) -> float:
        """Return the seconds of an epoch with so much work."""
        return self.overhead + self.seconds * work


def measured_pace(graph: Graph, split: Split, device: str) -> Pace:
    """Measure a few epochs of a network with one sample and with five, which have the same overhead."""
    entries = graph.adjacency.nnz + graph.num_nodes
    small, large = (work_of(graph, parse_method(name), GENERAL, entries) for name in ("gcn", "gcn-x5"))
    first = _epoch_seconds(graph, split, device, "gcn")
    if first > _SLOW:  # a graph so large that overhead does not count, and more epochs would take long
        return Pace(0.0, first / small)
    slope = max((_epoch_seconds(graph, split, device, "gcn-x5") - first) / (large - small), 0.0)
    return Pace(max(first - slope * small, 0.0), slope)


def _epoch_seconds(graph: Graph, split: Split, device: str, method: str) -> float:
    """Return the median time of an epoch; the first of them compile kernels."""
    problem = prepare(graph, parse_method(method), dataclasses.replace(GENERAL, stopping="none", max_epochs=_TIMED))
    ends: list[float] = []
    train_chunk(problem, [Run(split, 0)], find_device(device), on_epoch=lambda _: ends.append(time.perf_counter()))
    return float(np.median(np.diff(ends)))
