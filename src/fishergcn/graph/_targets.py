"""What is to be predicted of each node: one class, several labels, or a number; which of them, and checked.

| task           | what ``labels`` holds                    | unknown        | kept as                   |
|----------------|------------------------------------------|----------------|---------------------------|
| classification | n whole numbers from 0                   | -1             | ``labels``, int64 (n,)    |
| multilabel     | n x L of 0 and 1, or true and false      | a row of -1    | ``targets``, int8 (n, L)  |
| regression     | n numbers                                | NaN            | ``targets``, float64 (n,) |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from fishergcn._base.checks import check_choice
from fishergcn._base.types import AnyArray, BoolArray, FloatArray, IntArray
from fishergcn.errors import InputError, reason
from fishergcn.graph._node_data import check_labels, frozen

if TYPE_CHECKING:
    from fishergcn.graph._graph import Graph

Task: TypeAlias = Literal["classification", "multilabel", "regression"]
TASKS: tuple[Task, ...] = get_args(Task)


def check_targets(labels: Any, num_nodes: int, task: str | None) -> tuple[IntArray | None, AnyArray | None]:
    """Return the classes and None, or None and the targets of another task, frozen; the task is found out if None."""
    if task is not None:
        check_choice("task", task, TASKS)
    try:
        raw = np.asarray(labels)
    except (TypeError, ValueError) as error:
        raise InputError(f"labels must be a list of integers ({reason(error)}).") from error
    found = _task_of(raw, num_nodes) if task is None else task
    if found == "classification":
        return check_labels(raw, num_nodes), None
    return None, frozen(_several(raw, num_nodes) if found == "multilabel" else _numbers(raw, num_nodes))


def _task_of(raw: AnyArray, num_nodes: int) -> Task:
    """Find out what labels are for, or raise where two tasks would fit."""
    if raw.ndim == 2 and raw.shape[0] == num_nodes and raw.shape[1] > 1 and raw.dtype.kind in "buif":
        known = raw[_known_rows(raw)]
        if len(known) and np.isin(known, (0, 1)).all() and (known.sum(axis=1) == 1).all():
            raise InputError(
                f"labels have {raw.shape[1]} columns with a single 1 in each row, which fits two tasks: give their "
                "argmax for classes, or task='multilabel'."
            )
        return "multilabel"
    if raw.ndim == 1 and raw.dtype.kind == "f":
        some = raw[np.isfinite(raw)]
        if not np.array_equal(some, np.round(some)):
            return "regression"
    return "classification"


def _known_rows(raw: AnyArray) -> BoolArray:
    """Say which rows are not wholly -1 or NaN."""
    absent = raw == -1
    if raw.dtype.kind == "f":
        absent |= np.isnan(raw)
    found: BoolArray = ~absent.all(axis=1)
    return found


def _several(raw: AnyArray, num_nodes: int) -> AnyArray:
    if raw.ndim != 2 or raw.shape[0] != num_nodes or raw.shape[1] < 1 or raw.dtype.kind not in "buif":
        raise InputError(
            f"labels must have a row of 0 and 1 for each of the {num_nodes} nodes where the task is 'multilabel', got "
            f"{raw.dtype} of shape {raw.shape}."
        )
    known = _known_rows(raw)
    wrong = np.argwhere(~np.isin(raw, (0, 1)) & known[:, None])
    if len(wrong):
        node, column = wrong[0]
        raise InputError(
            f"labels must be 0 or 1, or -1 in a whole row of a node whose labels are unknown, where the task is "
            f"'multilabel', got {raw[node, column]} in row {node}, column {column}."
        )
    found = np.full(raw.shape, -1, dtype=np.int8)
    found[known] = raw[known]
    return found


def _numbers(raw: AnyArray, num_nodes: int) -> FloatArray:
    flat = raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
    if flat.shape != (num_nodes,) or flat.dtype.kind not in "uif":
        raise InputError(
            f"labels must hold a number for each of the {num_nodes} nodes (NaN for unknown) where the task is "
            f"'regression', got {raw.dtype} of shape {raw.shape}."
        )
    found: FloatArray = flat.astype(np.float64)
    if np.isinf(found).any():
        raise InputError("labels must be finite numbers (NaN for unknown) where the task is 'regression', got inf.")
    return found


def known_nodes(graph: Graph) -> BoolArray:
    """Say of which nodes the class, the labels or the number is known."""
    if graph.targets is None:
        none = np.zeros(graph.num_nodes, dtype=np.bool_)
        return none if graph.labels is None else np.asarray(graph.labels >= 0)
    return np.asarray(graph.targets[:, 0] >= 0 if graph.task == "multilabel" else np.isfinite(graph.targets))


def strata(graph: Graph) -> IntArray:
    """Return groups of nodes from each of which a split takes its share, -1 where nothing is known.

    The classes; of several labels the rarest that a node has, one more group for those that have none; of numbers one
    group for all.
    """
    if graph.targets is None:
        return np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
    known = known_nodes(graph)
    if graph.task == "regression":
        return np.where(known, 0, -1)
    counts = (graph.targets[known] > 0).sum(axis=0)
    rank: IntArray = np.argsort(np.argsort(counts, kind="stable"))
    ranks = np.where(graph.targets > 0, rank, len(counts))
    return np.where(known, ranks.min(axis=1), -1)


def target_words(graph: Graph) -> str:
    """Return what a graph says of its nodes, for its line at a prompt."""
    if graph.task == "regression":
        return "a number a node"
    return f"{graph.num_classes} {'labels' if graph.task == 'multilabel' else 'classes'}"


def check_target_names(names: Sequence[str] | None, targets: AnyArray) -> None:
    """Raise unless there is a name for each label, or one for the number."""
    count = targets.shape[1] if targets.ndim == 2 else 1
    if names is not None and len(names) != count:
        raise InputError(f"class_names must name each of the {count} targets, got {len(names)} names.")


def for_task(graph: Graph, task: str | None) -> Graph:
    """Return a graph for a task: as it is, or with classes that are numbers as numbers; refuse what does not fit."""
    if task is None or task == graph.task:
        return graph
    check_choice("task", task, TASKS)
    if task != "regression" or graph.labels is None:
        raise InputError(f"task {task!r} does not fit the labels of the graph, which are for {graph.task!r}.")
    try:
        names = np.array(graph.class_names or range(graph.num_classes), dtype=np.float64)
    except ValueError:
        shown = ", ".join(map(repr, (graph.class_names or ())[:3]))
        raise InputError(f"task 'regression' needs numbers, but the classes are called {shown}.") from None
    return graph.replace(labels=np.where(graph.labels >= 0, names[graph.labels], np.nan), task="regression")
