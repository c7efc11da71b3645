"""Predictions of several labels and of numbers: intervals, rows for tables, and what is for classes alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn._base.types import AnyArray, FloatArray
from fishergcn.errors import InputError
from fishergcn.models._conformal import check_coverage, conformal_quantile, nodes_needed
from fishergcn.models._matching import node_names_of

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.models._trained import TrainedModel

COVERAGE = 0.9  # of intervals in tables
BETWEEN = "|"  # labels of a node in a table, as tables are read


def check_classes(model: TrainedModel, what: str) -> None:
    """Raise where the task is not to classify, for what makes no sense elsewhere."""
    if model.graph.targets is not None:
        raise InputError(f"{what} is for one class a node, and the task of this model is {model.graph.task!r}.")


def interval_around(model: TrainedModel, found: AnyArray, coverage: float) -> FloatArray:
    """Return the ends (n, 2) of intervals around predicted numbers (n,), or raise where too few nodes are aside."""
    if model.graph.task != "regression":
        raise InputError(f"intervals are for numbers, and the task of this model is {model.graph.task!r}.")
    nodes, needed = model.nodes_aside, nodes_needed(check_coverage(coverage))
    if len(nodes) < needed:
        raise InputError(
            f"an interval with coverage {coverage:g} needs at least {needed} nodes of known target in no part of the "
            f"split, and there are {len(nodes)}; fishergcn.fit sets nodes aside."
        )
    half = conformal_quantile(errors_aside(model), coverage)
    return np.stack([found - half, found + half], axis=1)


def errors_aside(model: TrainedModel) -> FloatArray:
    """Return the errors |y - ŷ| of the nodes that were set aside."""
    nodes, known = model.nodes_aside, model.graph.targets
    if known is None:
        raise AssertionError("a model of numbers has a graph with numbers")
    return np.asarray(np.abs(known[nodes] - model.predict()[nodes]))


def task_rows(model: TrainedModel, graph: Graph | None, coverage: float | None = None) -> Iterator[dict[str, Any]]:
    """Yield a dictionary for each node: its labels and their probabilities, or its number and an interval.

    Without a ``coverage`` the interval is of 0.9, if enough nodes were set aside for it.
    """
    if model.graph.task == "multilabel":
        found, labels, threshold = model.probabilities(graph), model.class_names, model.threshold
        for node, row in zip(node_names_of(model.graph if graph is None else graph), found, strict=True):
            own = [name for name, p in zip(labels, row, strict=True) if p > threshold]
            yield {"node": node, "labels": own, "probabilities": dict(zip(labels, row.tolist(), strict=True))}
        return
    values = model.predict(graph)
    ends: Iterable[Mapping[str, float]] = itertools.repeat({})
    if coverage is not None or len(model.nodes_aside) >= nodes_needed(COVERAGE):
        both = interval_around(model, values, COVERAGE if coverage is None else coverage)
        ends = ({"low": low, "high": high} for low, high in both.tolist())
    for node, value, more in zip(node_names_of(model.graph if graph is None else graph), values.tolist(), ends):  # noqa: B905 (ends may have no end)
        yield {"node": node, "value": value, **more}
