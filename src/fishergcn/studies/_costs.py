"""What a candidate costs before it is trained: entries of the high-order matrix, work of an epoch, measured pace."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

import numpy as np

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.execution import find_device
from fishergcn.graph import Graph
from fishergcn.propagation import transition_matrix
from fishergcn.splits import Split
from fishergcn.training import Method, Run, TrainConfig, parse_method, prepare, samples_of, train_chunk

_ROWS = 64  # sampled to estimate the size of the high-order matrix
_TIMED = 9  # epochs
_SLOW = 0.5  # seconds


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


def work_of(graph: Graph, method: Method, config: TrainConfig, entries: float, known: int) -> float:
    """Return the multiply-adds of an epoch of one run: products with features and with the graph, there and back.

    Parameters
    ----------
    graph, method, config
        What is trained.
    entries
        How many entries the propagation matrix has; 0 for a network without the links.
    known
        How many nodes take part in the loss and in stopping; a network without the links reads no others, unless it
        has a term on all of them.
    """
    stored = getattr(graph.features, "nnz", None) or graph.num_nodes * graph.num_features
    widths = sum(config.hidden) + graph.num_classes
    read = known / graph.num_nodes if not (method.uses_graph or method.consistent) else 1.0
    # An entry of the matrix costs about twice as much as one of the features: its rows lie far apart.
    once = read * (stored * config.hidden[0] + 16 * graph.num_nodes * widths) + 2 * entries * widths
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


def measured_pace(graph: Graph, split: Split, config: TrainConfig, device: str) -> Pace:
    """Measure a few epochs of a network with one sample and with three, which have the same overhead."""
    entries, known = graph.adjacency.nnz + graph.num_nodes, len(split.train) + len(split.val)
    small, large = (work_of(graph, parse_method(name), config, entries, known) for name in ("gcn", "gcn-x3"))
    first = _epoch_seconds(graph, split, config, device, "gcn")
    if first > _SLOW:  # a graph so large that overhead does not count, and more epochs would take long
        return Pace(0.0, first / small)
    slope = max((_epoch_seconds(graph, split, config, device, "gcn-x3") - first) / (large - small), 0.0)
    return Pace(max(first - slope * small, 0.0), slope)


def _epoch_seconds(graph: Graph, split: Split, config: TrainConfig, device: str, method: str) -> float:
    """Return the least time of an epoch: the first compile kernels, and others may have waited for other programs."""
    problem = prepare(graph, parse_method(method), dataclasses.replace(config, stopping="none", max_epochs=_TIMED))
    ends: list[float] = []
    train_chunk(problem, [Run(split, 0)], find_device(device), on_epoch=lambda _: ends.append(time.perf_counter()))
    return float(np.diff(ends).min())
