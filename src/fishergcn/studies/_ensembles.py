"""The choice between candidates and means of them, by nodes that no candidate has learned from or was stopped by.

An ensemble is a mean of probabilities, p = Σ_k s_k p_k, or of numbers, with squared errors in place of the cross
entropy. Two kinds are tried: the mean of the k candidates with the least cross entropy, and greedy selection with
replacement (Caruana et al., ICML 2004), which adds in each of 25 rounds the candidate that lowers the cross entropy of
the mean most; it needs enough validation nodes, since with few of them it follows their noise. An ensemble is one
contender among the candidates: where it is compared with them, its members were chosen on the other inner splits. By a
score that looks at the order of the nodes alone, such as ROC AUC, candidates are ordered by that score instead of the
cross entropy, which also depends on how sure they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fishergcn._base.types import AnyArray, FloatArray
from fishergcn.training import Score, Task, find_task, score_of

_ROUNDS = 25
_MEANS = (3, 5)
_FEWEST_NODES = 100  # of an inner split, from which on members get shares of their own
_FEWEST_SHARE = 0.05  # of a member; smaller ones cost a prediction and change nothing

Shares: TypeAlias = "dict[str, float]"  # of each member, adding up to 1


@dataclass(frozen=True)
class Judged:
    """What candidates say of the nodes that they did not learn from, inner split by inner split.

    ``probabilities`` has for each candidate P of shape (N_s, C) for each inner split s; ``labels`` the classes (N_s,).
    The first ``stopping[s]`` nodes of an inner split also stopped the trainings there: they help to choose, since they
    do so for all candidates, but are not used to estimate how good a choice is.
    """

    probabilities: Mapping[str, Sequence[FloatArray]]
    labels: Sequence[AnyArray]
    stopping: Sequence[int]
    score: Score
    task: Task = find_task("classification")  # noqa: RUF009 (a task has no state)

    def without(self, split: int) -> Judged:
        """Leave out an inner split."""
        kept = [at for at in range(len(self.labels)) if at != split]
        some = {name: [each[at] for at in kept] for name, each in self.probabilities.items()}
        return Judged(some, [self.labels[at] for at in kept], [self.stopping[at] for at in kept], self.score, self.task)

    def aside(self, shares: Mapping[str, float], split: int) -> FloatArray:
        """Return the probabilities of a mean on the nodes of an inner split that were set aside.

        Where labels are said above a threshold, they are moved so that it is ½: the other nodes of the split choose it.
        """
        found, count = self.mixed(shares, split), self.stopping[split]
        threshold = self.task.threshold(found[:count], self.labels[split][:count])
        return self.task.moved(self.score.name, found[count:], threshold)

    @property
    def labels_aside(self) -> list[AnyArray]:
        """The classes of the nodes that were set aside, inner split by inner split."""
        return [own[count:] for own, count in zip(self.labels, self.stopping, strict=True)]

    def mixed(self, shares: Mapping[str, float], split: int) -> FloatArray:
        """Return the probabilities of a mean on an inner split."""
        total: FloatArray = sum(share * self.probabilities[name][split] for name, share in shares.items())  # type: ignore[assignment]
        return total

    def values(self, shares: Mapping[str, float], split: int) -> tuple[float, float]:
        """Return the score, such that higher is better, and the loss of a mean on an inner split.

        The loss, of which less is better, is the cross entropy, or follows from the score if that ranks.
        """
        found, labels = self.mixed(shares, split), self.labels[split]
        threshold = self.task.threshold(found, labels)
        value = self.score.gain(score_of(self.score, self.task.scored(found), labels, self.task, threshold))
        if self.score.ranks and math.isfinite(value):
            return value, -value
        return value, _loss([self.task.evidence(found, labels)], self.task)

    def hits(self, shares: Mapping[str, float], split: int) -> FloatArray:
        """Return 1 for each node of an inner split whose class a mean finds, else 0; nothing for other tasks."""
        found, labels = self.mixed(shares, split), self.labels[split]
        return np.asarray(found.argmax(1) == labels, dtype=float) if self.task.name == "classification" else np.empty(0)

    def right(self, name: str) -> list[FloatArray]:
        """Return the probability of the true class, or what the cost of another task depends on, split by split."""
        found = zip(self.probabilities[name], self.labels, strict=True)
        return [self.task.evidence(each, own) for each, own in found]


def choose(judged: Judged, *, ensembles: bool = True) -> tuple[str, Shares]:
    """Return the name of the best contender, a candidate or a kind of ensemble, and its members with their shares."""
    splits = range(len(judged.labels))
    alone = {name: {name: 1.0} for name in judged.probabilities}
    contenders = {name: [shares] * len(splits) for name, shares in alone.items()}
    kinds = kinds_of(judged) if ensembles and len(splits) > 1 else []
    for kind in kinds:
        contenders[kind] = [members(judged.without(at), kind) for at in splits]
    values = {name: [judged.values(each[at], at) for at in splits] for name, each in contenders.items()}
    hits = {name: [judged.hits(each[at], at) for at in splits] for name, each in contenders.items()}
    best = best_of(values, hits)
    shares = alone[best] if best in alone else members(judged, best)
    return (best if len(shares) > 1 else next(iter(shares))), shares


def kinds_of(judged: Judged) -> list[str]:
    """Return which ensembles there can be."""
    count = len(judged.probabilities)
    kinds = [f"mean of the {number} best" for number in _MEANS if number <= count]
    enough = count > 1 and (max(map(len, judged.labels)) >= _FEWEST_NODES or not kinds)
    return [*kinds, "weighted mean"] if enough else kinds


def members(judged: Judged, kind: str) -> Shares:
    """Return the members of an ensemble, chosen on all inner splits."""
    if kind == "weighted mean":
        return _greedy({name: judged.right(name) for name in judged.probabilities}, judged.task)
    splits = range(len(judged.labels))
    losses = {name: np.mean([judged.values({name: 1.0}, at)[1] for at in splits]) for name in judged.probabilities}
    number = int(kind.split()[3])
    best = sorted(losses, key=lambda name: losses[name])[:number]
    return dict.fromkeys(best, 1.0 / number)


def _loss(right: Iterable[FloatArray], task: Task) -> float:
    """Return the mean over inner splits of the cross entropy, from the probabilities of the true class."""
    return float(np.mean([task.costs(each).mean() for each in right]))


def _greedy(right: Mapping[str, Sequence[FloatArray]], task: Task) -> Shares:
    drawn = dict.fromkeys(right, 0)
    total = [np.zeros_like(each) for each in next(iter(right.values()))]
    for count in range(1, _ROUNDS + 1):
        losses = {
            name: _loss(((old + new) / count for old, new in zip(total, each, strict=True)), task)
            for name, each in right.items()
        }
        best = min(losses, key=lambda name: losses[name])
        drawn[best] += 1
        total = [old + new for old, new in zip(total, right[best], strict=True)]
    kept = {name: count for name, count in drawn.items() if count >= _FEWEST_SHARE * _ROUNDS}
    return {name: count / sum(kept.values()) for name, count in kept.items()}


def best_of(
    values: Mapping[str, Sequence[tuple[float, float]]], hits: Mapping[str, Sequence[FloatArray]] | None = None
) -> str:
    """Return the contender with the least loss among those whose score may be the best.

    Its mean score is not clearly below the best: by two standard errors of the difference node by node, of which
    ``hits`` say which were found, or by one split by split if that is larger; two or three splits may agree by chance.
    Cross entropy sees smaller differences than most scores; of equal ones the first is taken. Where a score is not
    defined on an inner split, for lack of a class, that split is left out.
    """
    splits = range(min(map(len, values.values())))
    defined = [at for at in splits if all(math.isfinite(each[at][0]) for each in values.values())]
    if defined:
        values = {name: [each[at] for at in defined] for name, each in values.items()}
    else:
        values = {name: [(0.0, loss) for _, loss in each] for name, each in values.items()}
    means = {name: float(np.mean([value for value, _ in each])) for name, each in values.items()}
    best = max(means, key=lambda name: means[name])
    staying = []
    for name, each in values.items():
        gaps = np.array([top - own for (top, _), (own, _) in zip(values[best], each, strict=True)])
        error = gaps.std(ddof=1) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
        if gaps.mean() <= max(error, 2 * _error_of_nodes(hits[best], hits[name]) if hits else 0.0):
            staying.append(name)
    return min(staying, key=lambda name: float(np.mean([loss for _, loss in values[name]])))


def _error_of_nodes(first: Sequence[FloatArray], second: Sequence[FloatArray]) -> float:
    """Return the standard error of a difference in accuracy, from the nodes that one finds and the other does not."""
    squares = [np.square(one - other).sum() / max(len(one), 1) ** 2 for one, other in zip(first, second, strict=True)]
    return math.sqrt(sum(squares)) / len(squares)


def nested(judged: Judged, *, ensembles: bool = True) -> list[FloatArray]:
    """Return what is said of the nodes set aside in each inner split by what the other inner splits choose.

    With a single inner split there is nothing to leave out.
    """
    splits = range(len(judged.labels))
    if len(splits) == 1:
        return [judged.aside(choose(judged, ensembles=ensembles)[1], 0)]
    return [judged.aside(choose(judged.without(at), ensembles=ensembles)[1], at) for at in splits]
