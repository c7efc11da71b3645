"""Prediction sets: for each node the classes that it may have, so that a promised share of the sets is right.

    s̃ = (1 - c) s + c D⁻¹A s,   set(x) = {y: s̃(x, y) ≤ q_y}

where s is 1 - p (Sadinle et al., JASA 2019) or the adaptive score of :mod:`fishergcn.models._conformal`, and the
thresholds q come from nodes of known class that were set aside: they have not trained, stopped, chosen or calibrated
the model. A node without links keeps s̃ = s. Which score, whether it is of the softmax or of calibrated probabilities,
and c are chosen by validation nodes: what gives the smallest sets there (Zargarbashi et al., ICML 2023). As the numbers
u of nodes are drawn from their names, and all else treats the nodes set aside and those to predict alike, their scores
are exchangeable wherever the nodes are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse, special, stats

from fishergcn._base.arrays import check_indices
from fishergcn._base.entries import Entries
from fishergcn._base.types import BoolArray, FloatArray, IntArray
from fishergcn._base.warn import warn
from fishergcn.errors import DataFileError, InputError
from fishergcn.graph import known_nodes
from fishergcn.models._class_shares import class_shares, class_weights, differs
from fishergcn.models._conformal import (
    adaptive_scores,
    check_coverage,
    conformal_quantile,
    nodes_needed,
    weighted_quantile,
)
from fishergcn.models._matching import node_names_of
from fishergcn.splits import Split, set_aside
from fishergcn.training import temperature_of

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.models._trained import TrainedModel

_SMOOTHINGS = (0.0, 0.1, 0.25, 0.5, 0.75)
_MUCH = 0.8  # how small adaptive sets must be beside the others: few nodes tell their size badly
_VALIDATION = 2  # nodes that must stay: one stops a training and one judges it


@dataclass(frozen=True, eq=False)
class Aside:
    """Nodes that were set aside for prediction sets, and how scores are made of probabilities.

    ``coverage`` is what was asked for in training, ``smoothing`` is c, ``calibrated`` says whether scores are of
    calibrated probabilities, ``adaptive`` whether they add up those of likelier classes. ``weights`` are how much a
    node set aside counts by its class, where labels were drawn class by class; else there are none.
    """

    nodes: IntArray
    coverage: float
    smoothing: float = 0.0
    calibrated: bool = True
    weights: tuple[float, ...] = ()
    adaptive: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON: of the nodes their number."""
        return {**vars(self), "nodes": len(self.nodes), "weights": list(self.weights)}


def aside_from_dict(values: Any, nodes: IntArray, graph: Graph) -> Aside:
    """Undo ``to_dict``, of values and nodes that may come from anywhere."""
    found, classes = Entries(values, "the prediction sets of a model"), graph.num_classes
    if not np.isin(nodes, np.flatnonzero(np.asarray(graph.labels) >= 0)).all():
        raise DataFileError("aside must hold labeled nodes of the graph.")
    weights = found.reals("weights")
    if len(weights) not in (0, classes) or any(not 0 <= each < math.inf for each in weights):
        raise DataFileError(f"the weights of prediction sets must be one for each of {classes} classes.")
    flags = {name: found.values.get(name) for name in ("calibrated", "adaptive")}
    for name, each in flags.items():
        if not isinstance(each, bool):
            raise DataFileError(f"{name!r} of the prediction sets must be true or false, got {each!r:.40}.")
    coverage, smoothing = check_coverage(found.real("coverage")), found.real("smoothing", maximum=1.0)
    return Aside(nodes, coverage, smoothing, bool(flags["calibrated"]), weights, bool(flags["adaptive"]))


def split_aside(graph: Graph, split: Split, coverage: float, seed: int = 0) -> tuple[Split, IntArray]:
    """Set aside a random half of the labeled validation nodes, or as many as a coverage needs if that is more.

    Returns the split without them, and them.
    """
    needed, labels = nodes_needed(check_coverage(coverage)), graph.labels
    if labels is None:
        raise InputError("the graph has no labels to learn from.")
    known = split.val[labels[split.val] >= 0]
    count = max(len(known) // 2, needed)
    if count + _VALIDATION > len(known):
        raise InputError(
            f"prediction sets of coverage {coverage:g} need at least {needed + _VALIDATION} labeled validation nodes, "
            f"{needed} of them set aside, but split {split.name!r} has {len(known)}: label more nodes"
            f"{_reached(len(known) - _VALIDATION)}."
        )
    nodes = np.sort(np.random.default_rng([seed, 2019]).permutation(known)[:count])
    return dataclasses.replace(split, val=np.setdiff1d(split.val, nodes)), nodes


def split_for(graph: Graph, split: Split, coverage: float | None, seed: int = 0) -> tuple[Split, IntArray | None]:
    """Return a split without nodes that are to be set aside, and those of prediction sets, if there are any.

    Intervals of numbers always need some: they are what is known and in no part of the split.
    """
    if graph.task == "regression":
        least = 0 if coverage is None else nodes_needed(check_coverage(coverage))
        found = set_aside(graph, split, least=max(least, 20))
        count = int(known_nodes(graph).sum()) - sum(len(getattr(found, part)) for part in ("train", "val", "test"))
        if count < least:
            raise InputError(
                f"intervals of coverage {coverage:g} need at least {least} nodes set aside, and only {count} of the "
                f"known ones can be: give more numbers{_reached(count)}."
            )
        return found, None
    if coverage is None:
        return split, None
    if graph.task == "multilabel":
        raise InputError("coverage is for one class or one number a node, and here nodes have several labels.")
    return split_aside(graph, split, coverage, seed)


def _reached(count: int) -> str:
    """Say which coverage can be asked for with a number of nodes, if any can."""
    return f", or ask for a coverage of at most {math.floor(1000 * count / (count + 1)) / 1000:g}" if count > 0 else ""


def with_aside(model: TrainedModel, nodes: Any, coverage: float) -> TrainedModel:
    """Return the only network of a model with nodes of known class set aside for its prediction sets."""
    one, coverage = model.only(), check_coverage(coverage)
    graph, found = one.graph, np.unique(check_indices("nodes", nodes))
    if len(found) and found.max() >= graph.num_nodes:
        raise InputError(f"nodes must be below {graph.num_nodes}, got {found.max()}.")
    if graph.labels is None or (graph.labels[found] < 0).any():
        raise InputError("nodes that are set aside must have labels, and some have none.")
    used = [part for run in one.runs for part in (run.split.train, run.split.val)] or [found[:0]]
    if (both := np.intersect1d(found, np.concatenate(used))).size:
        raise InputError(
            f"nodes that are set aside must not be training or validation nodes, but {node_names_of(graph)[both[0]]!r} "
            f"is one."
        )
    _check_enough(len(found), coverage)
    return dataclasses.replace(one, aside=_chosen(one, Aside(found, coverage)))


def _check_enough(count: int, coverage: float) -> None:
    if count < nodes_needed(coverage):
        raise InputError(
            f"coverage {coverage:g} needs at least {nodes_needed(coverage)} labeled nodes set aside, and there are "
            f"{count}: label more nodes{_reached(count)}."
        )


def _chosen(model: TrainedModel, plain: Aside) -> Aside:
    """Choose the score, its probabilities, c, and weights of classes, by validation nodes alone."""
    graph, labels = model.graph, np.asarray(model.graph.labels)
    if not model.runs:
        return plain
    split = model.runs[0].split
    val = split.val[labels[split.val] >= 0]
    others = np.setdiff1d(np.arange(graph.num_nodes), np.concatenate([split.train, split.val]))
    if len(val) == 0 or len(others) == 0:
        return plain
    logits = model.raw_logits()
    stated = special.softmax(logits / temperature_of(logits[val], labels[val]), axis=1)  # too even ones tell no shares
    if differs(stated[val], stated[others]):  # labels were drawn class by class, say
        shares = class_shares(stated[val], labels[val], stated[others])
        plain = dataclasses.replace(plain, weights=tuple(class_weights([labels[plain.nodes]], shares).tolist()))
    if len(val) < nodes_needed(plain.coverage):
        return plain
    sizes: dict[Aside, float] = {}
    stated_as = (True, False) if model.calibration.name != "none" else (True,)
    for adaptive, calibrated in itertools.product((False, True), stated_as):
        plain = dataclasses.replace(plain, calibrated=calibrated, adaptive=adaptive)
        base = _scores(model, None, plain)
        for smoothing in _SMOOTHINGS:
            found = _smoothed(graph, base, smoothing)
            limits = _thresholds(found[val, labels[val]], labels[val], plain, graph.num_classes, by_class=False)
            size = float((found[others] <= limits).sum(axis=1).mean())
            sizes[dataclasses.replace(plain, smoothing=smoothing)] = size / _MUCH if adaptive else size
    return min(sizes, key=lambda each: sizes[each])  # of equal ones the first: calibrated and not smoothed


def node_draws(names: Sequence[str]) -> FloatArray:
    """Return u of each node, from its name: the same node has the same set wherever it stands."""
    words = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    found: FloatArray = np.frombuffer(words, dtype="<u8") / 2.0**64
    return found


def _scores(model: TrainedModel, graph: Graph | None, aside: Aside) -> FloatArray:
    """Return s̃ of all classes at all nodes."""
    place, stated = model.graph if graph is None else graph, model.probabilities(graph, raw=not aside.calibrated)
    found: FloatArray = adaptive_scores(stated, node_draws(node_names_of(place))) if aside.adaptive else 1.0 - stated
    return _smoothed(place, found, aside.smoothing)


def _smoothed(graph: Graph, scores: FloatArray, smoothing: float) -> FloatArray:
    """Return s̃."""
    if smoothing == 0:
        return scores
    sums = np.asarray(graph.adjacency.sum(axis=1), dtype=np.float64).ravel()
    linked = sums > 0
    mean = sparse.diags_array(np.divide(1.0, sums, out=np.zeros(len(sums)), where=linked)) @ graph.adjacency @ scores
    weight = np.where(linked, smoothing, 0.0)[:, None]
    found: FloatArray = (1 - weight) * scores + weight * mean
    return found


def _thresholds(own: FloatArray, labels: IntArray, aside: Aside, classes: int, *, by_class: bool) -> FloatArray:
    """Return q of each class, from the scores (m,) and classes (m,) of nodes that were set aside."""
    if by_class:
        return np.array([conformal_quantile(own[labels == each], aside.coverage) for each in range(classes)])
    if not aside.weights:
        return np.full(classes, conformal_quantile(own, aside.coverage))
    weights = np.array(aside.weights)
    return np.array([weighted_quantile(own, weights[labels], each, aside.coverage) for each in weights])


def predict_sets(
    model: TrainedModel, graph: Graph | None, coverage: float | None, *, by_class: bool, never_empty: bool
) -> BoolArray:
    """Return which classes are in the set of each node, n x C: see :meth:`TrainedModel.predict_sets`."""
    one = model.only()
    aside = known_aside(one)
    aside = aside if coverage is None else dataclasses.replace(aside, coverage=check_coverage(coverage))
    _check_enough(len(aside.nodes), aside.coverage)
    own = _scores(one, None, aside)
    labels = np.asarray(one.graph.labels)[aside.nodes]
    limits = _thresholds(own[aside.nodes, labels], labels, aside, one.num_classes, by_class=by_class)
    if by_class and np.isinf(limits).any():
        few = ", ".join(one.class_names[each] for each in np.flatnonzero(np.isinf(limits))[:5])
        needed = nodes_needed(aside.coverage)
        warn(f"these classes are in every set, as fewer than {needed} of their nodes were set aside: {few}.")
    inside = (own if graph is None else _scores(one, graph, aside)) <= limits
    if never_empty:
        best = one.probabilities(graph).argmax(axis=1)
        inside[np.arange(len(inside)), best] |= ~inside.any(axis=1)
    return inside


def known_aside(model: TrainedModel) -> Aside:
    """Return what is known of the nodes set aside, or raise."""
    if model.aside is None:
        raise InputError(
            "no nodes were set aside for prediction sets: train with coverage=0.9, or give model.set_aside(nodes) some "
            "of known class that it has not seen."
        )
    return model.aside


def spread_of_coverage(count: int, coverage: float) -> tuple[float, float]:
    """Return between which shares 95 of 100 draws of m nodes set aside put the coverage: Beta(k, m + 1 - k)."""
    place = math.ceil((count + 1) * coverage - 1e-9)
    low, high = (float(stats.beta.ppf(each, place, count + 1 - place)) for each in (0.025, 0.975))
    return low, high


def guarantee(aside: Aside) -> list[str]:
    """Say in words what is promised, of which nodes, and what is not."""
    count = len(aside.nodes)
    low, high = spread_of_coverage(count, aside.coverage)
    said = [
        f"The set of a node contains its true class for {aside.coverage:.0%} of nodes, on average over draws of the "
        f"{count:,} labeled nodes that were set aside for this and not used otherwise; with these nodes the share may "
        f"lie between {low:.0%} and {high:.0%} (95 of 100 draws).",
        "This holds for nodes drawn like those set aside. It is not promised for a single node or class, for new nodes "
        "that were not in the graph of training, or for nodes unlike the labeled ones.",
    ]
    if aside.weights:
        said.append(
            "The labeled nodes have other shares of classes than the others; they are weighted accordingly, with "
            "shares that are estimated, so that the promise is approximate."
        )
    return said
