"""Saved models on the same nodes: the score of each, and how it differs from that of the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fishergcn._base.types import BoolArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.studies._honest import Honest, on_nodes
from fishergcn.studies._planning import check_classified
from fishergcn.training import Score, find_score


@dataclass(frozen=True)
class ModelsCompared:
    """Models on nodes that none of them was trained on; ``tested``: that are test nodes of all of them."""

    score: Score
    nodes: int
    tested: bool
    values: Mapping[str, Honest]
    differences: Mapping[str, Honest]  # of each but the first, from the first

    @property
    def where(self) -> str:
        """On which nodes, in words."""
        if self.tested:
            return f"{self.nodes:,} nodes that are test nodes of all models"
        return f"{self.nodes:,} nodes that no model was trained on; some were stopped or chosen by them"

    @property
    def sentence(self) -> str:
        """The verdict, decided by the intervals of the differences alone."""
        first, sides = next(iter(self.values)), dict[str, list[str]]()
        for name, found in self.differences.items():
            above, below = (found.low > 0, found.high < 0) if self.score.better == "high" else (
                found.high < 0, found.low > 0)  # fmt: skip
            sides.setdefault("better" if above else "worse" if below else "", []).append(name)
        said = []
        for side, names in sorted(sides.items(), reverse=True):
            are = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"
            said.append(f"{are} clearly {side} than {first}" if side else f"{are} not clearly different from {first}")
        return f"By {self.score.title} on these nodes, {'; '.join(said)}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        models = [
            {"model": name, **vars(value), "difference": None if gap is None else vars(gap)}
            for name, value in self.values.items()
            for gap in [self.differences.get(name)]
        ]
        return {"score": self.score.name, "nodes": self.nodes, "test_nodes": self.tested, "models": models,
                "verdict": self.sentence}  # fmt: skip


def compare_models(models: Mapping[str, TrainedModel], score: str = "accuracy") -> ModelsCompared:
    """Compare two models or more of one graph, by their names, on the same nodes.

    These are the nodes that are test nodes of all, or else those that none was trained on: validation nodes, and test
    nodes of some. Graphs are of the same nodes and classes, by name; their links and features may differ.
    """
    measure = find_score(score).check_outputs()
    (first, model), *others = models.items()
    check_classified((each.graph for each in models.values()), "leaderboard")
    measure.check_classes(model.num_classes)
    places = {first: np.arange(len(model.node_names))}
    for name, other in others:
        if set(other.node_names) != set(model.node_names) or set(other.class_names) != set(model.class_names):
            what = "nodes" if set(other.node_names) != set(model.node_names) else "classes"
            raise InputError(f"the graphs of {first} and {name} have different {what}, so they cannot be compared.")
        known = {node: place for place, node in enumerate(other.node_names)}
        places[name] = np.array([known[node] for node in model.node_names])
    parts = {name: _parts(each, name)[:, places[name]] for name, each in models.items()}
    labels = _labels(models, places)
    free, tested = (
        np.flatnonzero(reduce(np.logical_and, (each[part] for each in parts.values())) & (labels >= 0))
        for part in (0, 1)
    )
    nodes = tested if len(tested) else free
    if not len(nodes):
        raise InputError("there is no labeled node that none of these models was trained on, so nothing to compare by.")
    found = {name: _probabilities(each, model)[places[name]][nodes] for name, each in models.items()}
    values = {name: on_nodes(measure, each, labels[nodes]) for name, each in found.items()}
    differences = {name: on_nodes(measure, found[name], labels[nodes], found[first]) for name, _ in others}
    return ModelsCompared(measure, len(nodes), bool(len(tested)), values, differences)


def _parts(model: TrainedModel, name: str) -> BoolArray:
    """Return which nodes are for validation or test, and which for test, as two rows."""
    if not model.runs:
        raise InputError(f"{name} does not say which nodes it was trained on, so it cannot be compared.")
    split, found = model.only().runs[0].split, np.zeros((2, model.graph.num_nodes), dtype=np.bool_)
    found[0, split.val] = found[:, split.test] = True
    found[:, split.train] = False
    return found


def _labels(models: Mapping[str, TrainedModel], places: Mapping[str, IntArray]) -> IntArray:
    """Return the classes of the nodes as the first model numbers them, -1 where none knows; raise where two differ."""
    (first, model), *_ = models.items()
    number, labels = {name: place for place, name in enumerate(model.class_names)}, np.full(model.graph.num_nodes, -1)
    for name, each in models.items():
        own = np.full(each.graph.num_nodes, -1) if each.graph.labels is None else np.asarray(each.graph.labels)
        own = np.append([number[label] for label in each.class_names], -1)[own][places[name]]
        differing = np.flatnonzero((own >= 0) & (labels >= 0) & (own != labels))
        if len(differing):
            node = model.node_names[differing[0]]
            raise InputError(f"{first} and {name} know node {node!r} by different classes, so they cannot be compared.")
        labels = np.where(own >= 0, own, labels)
    return labels


def _probabilities(model: TrainedModel, first: TrainedModel) -> FloatArray:
    """Return what a model says of its nodes, with the classes in the order of the first model."""
    place = {name: place for place, name in enumerate(model.class_names)}
    return model.probabilities()[:, [place[name] for name in first.class_names]]
