"""Arguments of training functions: of the right type, or one sentence that says how to get there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fishergcn import datasets
from fishergcn._settings.choices import Settings
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.training import RunRecord, TrainConfig


def check_graph(value: Any) -> Graph:
    """Return ``value`` if it is a graph."""
    if isinstance(value, Graph):
        return value
    if isinstance(value, str) and value in datasets.available():
        advice = f"fishergcn.datasets.load({value!r}) gives one"
    else:
        advice = "Graph.from_edges, from_files, from_frames, from_networkx and from_pyg make one"
    raise InputError(f"graph must be a Graph, got {type(value).__name__}; {advice}.")


def check_config(value: Any) -> TrainConfig:
    """Return ``value`` if it is a configuration."""
    if isinstance(value, TrainConfig):
        return value
    advice = "; TrainConfig(**config) makes one" if isinstance(value, dict) else ""
    raise InputError(f"config must be a TrainConfig, got {type(value).__name__}{advice}.")


def chosen_config(config: TrainConfig | None, settings: Settings | Mapping[str, Any] | None) -> TrainConfig:
    """Return the configuration that was given, or the settings of a name, by default the general ones.

    Settings are a name that :meth:`fishergcn.TrainConfig.named` knows, or those that differ from the general ones.
    """
    if config is not None and settings is not None:
        raise InputError("config holds all settings: give config or settings, not both.")
    if config is not None:
        return check_config(config)
    if isinstance(settings, Mapping):
        return TrainConfig.named("general", **settings)
    return TrainConfig.named("general" if settings is None else settings)


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
