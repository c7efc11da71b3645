"""How well a model does on nodes that nobody has labeled: an estimate with its interval, from nodes set aside.

Labeled nodes may be chosen class by class, so that their classes are not as frequent as those of the other nodes: they
count by the shares of :func:`fishergcn.models.class_shares`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from fishergcn._base.types import AnyArray, FloatArray
from fishergcn.models import class_weights
from fishergcn.training import Score, Task, score_of

_DRAWS = 200
_LEAST = 1e-12


@dataclass(frozen=True)
class Honest:
    """A score of nodes that nobody has labeled: its estimate and an interval of 95%."""

    value: float
    low: float
    high: float


def _node_weights(labels: Sequence[AnyArray], shares: FloatArray | None) -> list[FloatArray]:
    """Return how much each node counts: by its class, or all the same in tasks without classes."""
    if shares is None:
        return [np.ones(len(own)) for own in labels]
    weights = class_weights(labels, shares)
    return [weights[own] for own in labels]


def estimated(
    score: Score,
    probabilities: Sequence[FloatArray],
    labels: Sequence[AnyArray],
    shares: FloatArray | None,
    unlabeled: int,
    other: Sequence[FloatArray] | None = None,
    labeled: int = 0,
    task: Task | None = None,
) -> Honest:
    """Estimate a score on unlabeled nodes, or by how much it exceeds that of another model.

    ``probabilities`` (N_s, C) and ``labels`` (N_s,) are of nodes set aside in each inner split s; ``other`` are those
    of the other model on the same nodes; ``labeled`` nodes are dealt in each. The variance adds up what is due to the
    nodes set aside (from draws of as many as they are worth, with the weights of their classes), to the finite number
    of unlabeled nodes, and to trainings: with S inner splits, whose scores have the variance s², of which s_n² is due
    to their nodes,

        (1 + 1/S) max(s² - s_n², s² n_judges / n_others).

    Inner splits share most of their training nodes, so that their scores differ by less than those of independent
    trainings. Nadeau and Bengio (2003) put the share of s² that is hidden so at n_judges / n_others, the nodes of a
    split that judge and those that do not; s² - s_n² alone, which few splits often leave at 0, is too sure. Other tasks
    than classification have no ``shares``: all nodes count the same, and labeled ones are taken for as good as drawn
    from all.
    """
    several = zip(probabilities, labels, other or probabilities, _node_weights(labels, shares), strict=True)
    drawn = [_measured(score, found, own, count, than if other else None, task) for found, own, than, count in several]
    known = [each for each in drawn if math.isfinite(each[0])]
    if not known:
        return Honest(math.nan, math.nan, math.nan)
    values, spreads, sizes = (np.array(each) for each in zip(*known, strict=True))
    shares_of_splits = sizes / sizes.sum()
    value = float((shares_of_splits * values).sum())
    of_nodes = float((shares_of_splits**2 * spreads**2).sum())
    count = len(values)
    between = float(values.var(ddof=1)) if count > 1 else 0.0
    judges = sum(map(len, labels)) / len(labels)
    hidden = between * judges / (labeled - judges) if labeled > judges else 0.0
    apart = max(between - float((spreads**2).mean()), hidden)
    one_node = of_nodes * float(sizes.sum())  # the variance of the score of one node, about
    variance = of_nodes + one_node / max(unlabeled, 1) * (unlabeled > 0) + apart * (1 + 1 / count)
    half = float(special.stdtrit(max(2 * count, 4), 0.975)) * math.sqrt(variance)  # wider where few inner splits tell
    low, high = score.bounds if other is None else (-math.inf, math.inf)
    return Honest(value, max(value - half, low), min(value + half, high))


def on_nodes(
    score: Score, found: FloatArray, labels: AnyArray, other: FloatArray | None = None, task: Task | None = None
) -> Honest:
    """Measure a score on nodes of known class, or by how much it exceeds that of another model on the same nodes.

    Probabilities are (N, C), labels (N,). The 95% interval is normal, with the variance over the nodes: of accuracy as
    in McNemar's test, of other scores from draws of nodes.
    """
    both = [_scored(each, task) for each in (found, other) if each is not None]
    values = [score_of(score, each, labels, task) for each in both]
    value = values[0] - (0.0 if other is None else values[1])
    _, spread, _ = _measured(score, found, labels, np.ones(len(labels)), other, task)
    half = float(special.ndtri(0.975)) * spread
    low, high = score.bounds if other is None else (-math.inf, math.inf)
    return Honest(value, max(value - half, low), min(value + half, high))


def _scored(found: FloatArray, task: Task | None) -> FloatArray:
    return np.log(np.maximum(found, _LEAST)) if task is None else task.scored(found)


def _measured(
    score: Score, found: FloatArray, labels: AnyArray, weights: FloatArray, other: FloatArray | None, task: Task | None
) -> tuple[float, float, float]:
    """Return a score, or by how much it exceeds that of another model, its spread, and how many nodes count."""
    worth = float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 1.0
    both = [_scored(each, task) for each in (found, other) if each is not None]
    shares = weights / weights.sum() if weights.any() else np.full(len(labels), 1 / len(labels))
    if score.name == "accuracy":
        hits = [(each.argmax(axis=1) == labels).astype(float) for each in both]
        gap = hits[0] - hits[1] if other is not None else hits[0]
        value = float(shares @ gap)
        # One more hit and one more miss: a spread of 0 would be too sure of few nodes.
        around = float(shares @ (gap - value) ** 2) * worth + 0.5
        return value, math.sqrt(around / (worth + 1) / worth), worth
    rng = np.random.default_rng(2019)
    drawn = rng.choice(len(labels), (_DRAWS, max(round(worth), 2)), p=shares)
    values = np.array([[score_of(score, each[at], labels[at], task) for each in both] for at in drawn])
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) < 2:
        return math.nan, math.nan, worth
    gaps = values[:, 0] - values[:, 1] if other is not None else values[:, 0]
    return float(gaps.mean()), float(gaps.std(ddof=1)), worth
