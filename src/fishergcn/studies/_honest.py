"""How well a model does on nodes that nobody has labeled: an estimate with its interval, from nodes set aside.

Labeled nodes may be chosen class by class, so that their classes are not as frequent as those of the other nodes. The
shares π of the classes among unlabeled nodes are found from what the model says of them: with M_cd the mean probability
of class c for nodes of class d that were set aside, and b_c that of unlabeled nodes,

    π = argmin_{π ≥ 0} ‖M π - b‖² + λ² ‖π - ρ‖²,

normalized, where ρ are the shares among labeled nodes (Lipton et al., ICML 2018, with a ridge λ that weakens as the N
nodes set aside say more: 2/√N, at most 0.3). Nodes of class c then count π_c / ρ_c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from fishergcn._base.types import FloatArray, IntArray
from fishergcn.training import Score, score_of

_RIDGE, _LARGEST_RIDGE = 2.0, 0.3
_DRAWS = 200
_LEAST = 1e-12


@dataclass(frozen=True)
class Honest:
    """A score of nodes that nobody has labeled: its estimate and an interval of 95%."""

    value: float
    low: float
    high: float


def class_shares(judged: FloatArray, labels: IntArray, others: FloatArray) -> FloatArray:
    """Return π (C,) among nodes of which only probabilities (U, C) are known, from nodes (N, C) of known class (N,)."""
    classes = judged.shape[1]
    known = np.bincount(labels, minlength=classes) / len(labels)
    if len(others) == 0:
        return known
    there = [judged[labels == each].mean(axis=0) if known[each] else np.eye(classes)[each] for each in range(classes)]
    matrix, target = np.array(there).T, others.mean(axis=0)
    ridge = min(_RIDGE / math.sqrt(len(labels)), _LARGEST_RIDGE)
    both = np.vstack([matrix, ridge * np.eye(classes)])
    found, _ = optimize.nnls(both, np.concatenate([target, ridge * known]))
    found = np.where(known > 0, found, 0.0)
    return np.asarray(found / found.sum()) if found.sum() > 0 else known


def class_weights(labels: Sequence[IntArray], shares: FloatArray) -> FloatArray:
    """Return how much a node of each class counts, so that classes count as their shares and not as they are there."""
    known = np.bincount(np.concatenate(labels), minlength=len(shares)) / sum(map(len, labels))
    return np.divide(shares, known, out=np.zeros_like(shares), where=known > 0)


def estimated(
    score: Score,
    probabilities: Sequence[FloatArray],
    labels: Sequence[IntArray],
    shares: FloatArray,
    unlabeled: int,
    other: Sequence[FloatArray] | None = None,
) -> Honest:
    """Estimate a score on unlabeled nodes, or by how much it exceeds that of another model.

    ``probabilities`` (N_s, C) and ``labels`` (N_s,) are of nodes set aside in each inner split s; ``other`` are those
    of the other model on the same nodes. The variance adds up what is due to these nodes (from draws of as many as they
    are worth, with the weights of their classes), to the finite number of unlabeled nodes, and to trainings that differ
    between inner splits by more than that.
    """
    weights, pairs = class_weights(labels, shares), zip(probabilities, labels, other or probabilities, strict=True)
    drawn = [_measured(score, found, own, weights[own], than if other else None) for found, own, than in pairs]
    known = [each for each in drawn if math.isfinite(each[0])]
    if not known:
        return Honest(math.nan, math.nan, math.nan)
    values, spreads, sizes = (np.array(each) for each in zip(*known, strict=True))
    shares_of_splits = sizes / sizes.sum()
    value = float((shares_of_splits * values).sum())
    of_nodes = float((shares_of_splits**2 * spreads**2).sum())
    count = len(values)
    apart = float(values.var(ddof=1) - (spreads**2).mean()) if count > 1 else 0.0
    one_node = of_nodes * float(sizes.sum())  # the variance of the score of one node, about
    variance = of_nodes + one_node / max(unlabeled, 1) * (unlabeled > 0) + max(apart, 0.0) * (1 + 1 / count)
    half = float(special.stdtrit(max(2 * count, 4), 0.975)) * math.sqrt(variance)  # wider where few inner splits tell
    low, high = score.bounds if other is None else (-math.inf, math.inf)
    return Honest(value, max(value - half, low), min(value + half, high))


def on_nodes(score: Score, found: FloatArray, labels: IntArray, other: FloatArray | None = None) -> Honest:
    """Measure a score on nodes of known class, or by how much it exceeds that of another model on the same nodes.

    Probabilities are (N, C), labels (N,). The 95% interval is normal, with the variance over the nodes: of accuracy as
    in McNemar's test, of other scores from draws of nodes.
    """
    both = [np.log(np.maximum(each, _LEAST)) for each in (found, other) if each is not None]
    values = [score_of(score, each, labels) for each in both]
    value = values[0] - (0.0 if other is None else values[1])
    _, spread, _ = _measured(score, found, labels, np.ones(len(labels)), other)
    half = float(special.ndtri(0.975)) * spread
    low, high = score.bounds if other is None else (-math.inf, math.inf)
    return Honest(value, max(value - half, low), min(value + half, high))


def _measured(
    score: Score, found: FloatArray, labels: IntArray, weights: FloatArray, other: FloatArray | None
) -> tuple[float, float, float]:
    """Return a score, or by how much it exceeds that of another model, its spread, and how many nodes count."""
    worth = float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 1.0
    both = [np.log(np.maximum(each, _LEAST)) for each in (found, other) if each is not None]
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
    values = np.array([[score_of(score, each[at], labels[at]) for each in both] for at in drawn])
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) < 2:
        return math.nan, math.nan, worth
    gaps = values[:, 0] - values[:, 1] if other is not None else values[:, 0]
    return float(gaps.mean()), float(gaps.std(ddof=1)), worth
