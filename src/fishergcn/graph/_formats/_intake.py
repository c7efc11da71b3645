"""From files and data frames to the arguments of a graph, with notice of what was understood."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from fishergcn.errors import InputError
from fishergcn.graph._formats._columns import Columns
from fishergcn.graph._formats._records import records_of
from fishergcn.graph._formats._source import suffix_of
from fishergcn.graph._formats._tables import table_arguments


def file_arguments(
    files: dict[str, Any], header: bool | Collection[str] | None, choices: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for the paths of edges, features and labels."""
    for argument, value in files.items():
        if not isinstance(value, str | os.PathLike) and (value is not None or argument == "edges"):
            raise InputError(
                f"{argument} must be the path of a file, got {type(value).__name__}; "
                "Graph.from_edges takes pairs, features and labels themselves, Graph.from_frames data frames."
            )
    paths: list[Any] = [None if each is None else Path(each) for each in files.values()]
    columns, others = _divided(choices)
    header = columns.past.get("header") if header is None else header
    if header is not None:
        columns.reading["header"] = header if isinstance(header, bool | str) else list(header)
    directed = columns.reading["directed"]
    if suffix_of(paths[0]) == ".graphml":
        from fishergcn.graph._formats._libraries import graphml_records

        if paths[1] is not None:
            raise InputError("features must not be given with a GraphML file, whose nodes have theirs.")
        *paths[:2], arcs = graphml_records(paths[0], columns.link_weight)
        directed = "refuse" if arcs and directed == "undirected" else directed
    found = table_arguments(paths, header, directed, columns)
    columns.tell()
    return {**found, "reading": columns.reading, **others}


def frame_arguments(frames: dict[str, Any], choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for data frames of edges, nodes and labels."""
    tables = [None if frame is None and name != "edges" else records_of(frame, name) for name, frame in frames.items()]
    columns, others = _divided(choices)
    found = table_arguments(tables, None, columns.reading["directed"], columns)
    columns.tell()
    return {**found, "reading": columns.reading, **others}


def _divided(choices: Mapping[str, Any]) -> tuple[Columns, dict[str, Any]]:
    """Return what was said about columns, and the arguments of ``Graph`` that are none of tables."""
    names = [each.name for each in fields(Columns) if each.init]
    columns = Columns(**{name: value for name, value in choices.items() if name in names})
    others = {name: value for name, value in choices.items() if name not in names and name != "directed"}
    others.setdefault("self_links", columns.past.get("self_links", "keep"))
    columns.reading["directed"] = choices.get("directed") or columns.past.get("directed", "undirected")
    columns.reading["self_links"] = others["self_links"]
    return columns, others
