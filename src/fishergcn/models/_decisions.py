"""What to answer: by a threshold, by the costs of errors, or not at all.

    answer(x) = argmin_j Σ_i p_i(x) c_ij

with c_ij the cost of answering j where i is true. For two classes, with the cost a of a false alarm and b of a miss,
that is the second class from p = a / (a + b) on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn._base.checks import check_real
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.models._sets import known_aside
from fishergcn.training import find_score, score_of

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.models._trained import TrainedModel

ABSTAINED = -1
_TRIED = 200  # thresholds
_BY_ANSWERS = ("accuracy", "balanced_accuracy", "macro_f1")  # scores that a threshold changes
_LEAST = 1e-12


def check_costs(costs: Any, classes: int) -> FloatArray:
    """Return c (C, C) from such a table, or from the costs of a false alarm and of a miss for two classes."""
    try:
        found = np.array(costs, dtype=np.float64)
    except (ValueError, TypeError):
        found = np.empty(0)
    if classes == 2 and found.shape == (2,):
        found = np.array([[0.0, found[0]], [found[1], 0.0]])
    if found.shape != (classes, classes) or not np.isfinite(found).all() or (found < 0).any():
        two = "two numbers, the cost of a false alarm and that of a miss, or " if classes == 2 else ""
        raise InputError(
            f"costs must be {two}a table of {classes} by {classes} numbers from 0 on, true class by answer, got "
            f"{costs!r:.80}."
        )
    if not (found > 0).any():
        raise InputError("costs must not all be 0.")
    return found


def best_threshold(model: TrainedModel, score: str) -> float:
    """Return from which probability of the second class on to answer it, for the best score on validation nodes.

    Of equal ones that nearest to 1/2.
    """
    entry = find_score(score)
    if entry.name not in _BY_ANSWERS:
        allowed = ", ".join(each.replace("_", "-") for each in _BY_ANSWERS)
        raise InputError(f"a threshold can be chosen by {allowed}, which depend on the answers, got {score!r}.")
    one, labels = model.only(), model.graph.labels
    nodes = one.runs[0].split.val if one.runs and labels is not None else np.empty(0, dtype=np.int64)
    nodes = nodes[np.asarray(labels)[nodes] >= 0] if len(nodes) else nodes
    if not len(nodes):
        raise InputError("a threshold is chosen by validation nodes, and the model knows none; give a number.")
    stated, truth = one.probabilities()[nodes], np.asarray(labels)[nodes]
    places = np.unique(stated[:, 1])
    tried = np.unique(np.quantile(np.concatenate([(places[1:] + places[:-1]) / 2, [0.5]]), np.linspace(0, 1, _TRIED)))
    logs = np.log(np.maximum(stated, _LEAST))

    def gain(limit: float) -> float:
        moved = logs + np.array([np.log(max(limit, _LEAST)), np.log(max(1 - limit, _LEAST))])
        return entry.gain(score_of(entry, moved, truth))

    return float(max(tried, key=lambda limit: (gain(float(limit)), -abs(limit - 0.5))))


def decide(
    model: TrainedModel,
    graph: Graph | None,
    *,
    threshold: float | str | None,
    costs: Any,
    abstain: float | str | None,
    coverage: float | None,
) -> IntArray:
    """Return the answer for each node, -1 where there is none: see :meth:`TrainedModel.decide`."""
    if threshold is not None and costs is not None:
        raise InputError("threshold and costs cannot be used together: costs give a threshold.")
    if isinstance(abstain, str) and abstain != "sets":
        raise InputError(f"abstain must be a probability between 0 and 1, or 'sets', got {abstain!r:.40}.")
    if threshold is not None and model.num_classes != 2:
        raise InputError(f"a threshold is for two classes, and the model has {model.num_classes}; costs are for any.")
    table = None if costs is None else check_costs(costs, model.num_classes)
    limit = best_threshold(model, threshold) if isinstance(threshold, str) else threshold
    if limit is not None:
        check_real("threshold", limit, minimum=0.0, maximum=1.0)
    least = (
        None if abstain is None or isinstance(abstain, str) else check_real("abstain", abstain, above=0.0, below=1.0)
    )
    found = model.probabilities(graph)
    answers = np.asarray(found.argmax(axis=1), dtype=np.int64)
    if table is not None:
        answers = np.asarray((found @ table).argmin(axis=1), dtype=np.int64)
    elif limit is not None:
        answers = np.asarray(found[:, 1] >= limit, dtype=np.int64)
    if least is not None:
        answers[found[np.arange(len(found)), answers] < least] = ABSTAINED
    elif abstain == "sets":
        sets = model.predict_sets(graph, coverage=coverage)
        doubtful = sets.sum(axis=1) > 1
        if not known_aside(model.only()).adaptive:  # where no class is likely enough the set is empty
            doubtful |= ~sets.any(axis=1)
        answers[doubtful] = ABSTAINED
    return answers
