"""How good a model is on a graph whose classes are known, by any score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fishergcn._base.types import AnyArray, BoolArray, IntArray
from fishergcn.errors import InputError
from fishergcn.execution import check_graph
from fishergcn.models._matching import node_names_of
from fishergcn.training import find_score, score_of

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.models._trained import TrainedModel

_LEAST = 1e-300  # log p is finite


def score_on(
    model: TrainedModel, graph: Graph | None, score: str | None, nodes: Sequence[int] | AnyArray | None
) -> float:
    """Return a score of a model: see :meth:`fishergcn.TrainedModel.score`."""
    task = model.task
    measure = find_score(score or task.score).check_outputs().check_classes(model.num_classes, task.name)
    place = model.graph if graph is None else check_graph(graph)
    labels = _labels(model, place)
    chosen = _unseen(model, place) if nodes is None else _checked(nodes, place.num_nodes)
    chosen = chosen[_known(labels)[chosen]]
    if not len(chosen):
        what = "labeled node that the model was neither trained nor validated on" if nodes is None else "labeled node"
        raise InputError(f"there is no {what}, so there is nothing to score by; nodes= chooses others.")
    if task.name != "classification":
        answers = model.answered(model.raw_logits(graph))[chosen]
        return score_of(measure, task.scored(answers), labels[chosen], task, model.threshold)
    found = np.log(np.maximum(model.probabilities(graph)[chosen], _LEAST))
    return score_of(measure, found, labels[chosen])


def _known(labels: AnyArray) -> BoolArray:
    """Say of which nodes the class, the labels or the number is known."""
    return np.asarray(np.isfinite(labels) if labels.dtype.kind == "f" else labels.reshape(len(labels), -1)[:, 0] >= 0)


def _labels(model: TrainedModel, graph: Graph) -> AnyArray:
    """Return the classes of a graph's nodes as the model numbers them: by name where both have names."""
    if graph.task != model.graph.task and (graph.targets is not None or graph.labels is not None):
        raise InputError(f"the labels of the graph are for {graph.task!r}, and the model is for {model.graph.task!r}.")
    if graph.targets is not None:
        if graph.num_classes != model.num_classes:
            raise InputError(f"the graph has {graph.num_classes} labels a node, and the model {model.num_classes}.")
        return graph.targets
    if graph.labels is None:
        raise InputError("the graph has no labels to score by.")
    names = graph.class_names
    if graph is model.graph or names is None or model.graph.class_names is None:
        number = np.arange(graph.num_classes)
    else:
        known = {name: place for place, name in enumerate(model.class_names)}
        number = np.array([known.get(name, model.num_classes) for name in names], dtype=np.int64)
    found = np.append(number, -1)[graph.labels]
    if len(beyond := graph.labels[found >= model.num_classes]):
        unknown = beyond[0] if names is None else names[beyond[0]]
        raise InputError(f"the graph has nodes of class {str(unknown)!r}, which the model does not know.")
    return np.asarray(found, dtype=np.int64)


def _unseen(model: TrainedModel, graph: Graph) -> IntArray:
    """Return the nodes of a graph that the model was neither trained on nor stopped by, found by name."""
    if not model.runs and graph is model.graph:
        raise InputError("the model does not know its training nodes: nodes= says which to score.")
    names = model.node_names
    seen = {names[node] for run in model.runs for part in ("train", "val") for node in getattr(run.split, part)}
    found = [place for place, name in enumerate(node_names_of(graph)) if name not in seen]
    return np.array(found, dtype=np.int64)


def _checked(nodes: Sequence[int] | AnyArray, count: int) -> IntArray:
    found = np.asarray(nodes)
    if found.shape == (0,):
        return found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not 0 <= found.min() <= found.max() < count:
        raise InputError(f"nodes must be a list of numbers from 0 to {count - 1}.")
    return found.astype(np.int64)
