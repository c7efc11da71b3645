"""From files and data frames to the arguments of a graph, with notice of what was understood."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from fishergcn.errors import InputError
from fishergcn.graph._formats._columns import Columns
from fishergcn.graph._formats._records import records_of
from fishergcn.graph._formats._source import suffix_of
from fishergcn.graph._formats._tables import table_arguments
from fishergcn.graph._pairs import Directed


def file_arguments(
    files: dict[str, Any],
    header: bool | Collection[str] | None,
    directed: Directed | None,
    columns: Columns,
    arguments: dict[str, Any],
) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for the paths of edges, features and labels, and others that were given."""
    for argument, value in files.items():
        if not isinstance(value, str | os.PathLike) and (value is not None or argument == "edges"):
            raise InputError(
                f"{argument} must be the path of a file, got {type(value).__name__}; "
                "Graph.from_edges takes pairs, features and labels themselves, Graph.from_frames data frames."
            )
    paths: list[Any] = [None if each is None else Path(each) for each in files.values()]
    header = columns.past.get("header") if header is None else header
    if header is not None:
        columns.reading["header"] = header if isinstance(header, bool | str) else list(header)
    kept = directed = directed or columns.past.get("directed", "undirected")
    if suffix_of(paths[0]) == ".graphml":
        from fishergcn.graph._formats._libraries import graphml_records

        if paths[1] is not None:
            raise InputError("features must not be given with a GraphML file, whose nodes have theirs.")
        *paths[:2], arcs = graphml_records(paths[0], columns.link_weight)
        directed = "refuse" if arcs and directed == "undirected" else directed
    return _told(table_arguments(paths, header, directed, columns), kept, columns, arguments)


def frame_arguments(
    frames: dict[str, Any], directed: Directed | None, columns: Columns, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for data frames of edges, nodes and labels, and others that were given."""
    tables = [None if frame is None and name != "edges" else records_of(frame, name) for name, frame in frames.items()]
    directed = directed or columns.past.get("directed", "undirected")
    return _told(table_arguments(tables, None, directed, columns), directed, columns, arguments)


def _told(found: dict[str, Any], directed: Directed, columns: Columns, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments, with the way that tables were read, after giving notice of it."""
    columns.tell()
    self_links = arguments.get("self_links", columns.past.get("self_links", "keep"))
    reading = {**columns.reading, "directed": directed, "self_links": self_links}
    plain = {name: value for name, value in reading.items() if value not in ({}, None)}
    return {**found, "reading": plain, "self_links": self_links, **arguments}
