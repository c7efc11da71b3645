"""Arguments of training functions: of the right type, or one sentence that says how to get there."""

from __future__ import annotations

from typing import Any

from fishergcn import datasets
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.splits import Split, parse
from fishergcn.training import RunRecord, TrainConfig

__all__ = ["as_split", "as_splits", "check_config", "check_graph", "check_record", "check_records"]


def check_graph(value: Any) -> Graph:
    """Return ``value`` if it is a graph."""
    if isinstance(value, Graph):
        return value
    if isinstance(value, str) and value in datasets.available():
        advice = f"fishergcn.datasets.load({value!r}) gives one"
    else:
        advice = "Graph.from_edges, from_files, from_networkx and from_pyg make one"
    raise InputError(f"graph must be a Graph, got {type(value).__name__}; {advice}.")


def check_config(value: Any) -> TrainConfig:
    """Return ``value`` if it is a configuration."""
    if isinstance(value, TrainConfig):
        return value
    advice = "; TrainConfig(**config) makes one" if isinstance(value, dict) else ""
    raise InputError(f"config must be a TrainConfig, got {type(value).__name__}{advice}.")


def check_record(value: Any) -> RunRecord:
    """Return ``value`` if it is the record of one run."""
    if isinstance(value, RunRecord):
        return value
    advice = "; best_run(records) chooses one" if isinstance(value, list | tuple) else ""
    raise InputError(f"record must be one RunRecord, got {type(value).__name__}{advice}.")


def check_records(values: Any) -> list[RunRecord]:
    """Return records as a list if there are any."""
    if isinstance(values, RunRecord) or not hasattr(values, "__iter__"):
        raise InputError(f"records must be a list of RunRecord, got {type(values).__name__}.")
    records = [check_record(value) for value in values]
    if not records:
        raise InputError("records must hold at least one RunRecord, got none.")
    return records


def as_split(graph: Graph, value: Any) -> Split:
    """Return a split, or the one that a name stands for on a graph.

    Examples
    --------
    >>> as_split(datasets.load("cora"), "public")
    Split('public', train=140, val=500, test=1000)
    """
    if isinstance(value, Split):
        return value
    if isinstance(value, str):
        return parse(graph, value)
    raise InputError(f"a split must be a Split or its name, such as 'public', got {type(value).__name__}.")


def as_splits(graph: Graph, values: Any) -> list[Split]:
    """Return a list of splits from one or several, each of them a split or a name."""
    several = hasattr(values, "__iter__") and not isinstance(values, str)
    return [as_split(graph, value) for value in (values if several else [values])]
