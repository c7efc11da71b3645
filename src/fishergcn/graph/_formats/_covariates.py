"""What is known about each of many graphs, from a table: a group, an age, a year."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fishergcn.errors import DataFileError, suggestion
from fishergcn.graph._formats._reading import Column
from fishergcn.graph._formats._records import records_of
from fishergcn.graph._formats._text import is_number, read_number


def read_covariate(
    path: str | os.PathLike[str], names: Sequence[str], column: Column | None = None
) -> list[str] | list[float]:
    r"""Return a value for each graph, in the order of ``names``: numbers, if all are, or texts.

    The first column of the table holds the names of graphs. The value is in ``column``, by name or number from 1; by
    default in the second. A first line whose first cell is no graph names the columns.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pathlib.Path(folder, "people.csv")
    ...     _ = table.write_text("graph,group,age\nb,young,23\na,old,71\n")
    ...     read_covariate(table, ["a", "b"]), read_covariate(table, ["a", "b"], "age")
    (['old', 'young'], [71.0, 23.0])
    """
    table = records_of(Path(path), "covariate")
    rows = list(table.rows)
    if not rows:
        raise DataFileError(f"{table.name} holds no rows.")
    known, width = set(names), len(rows[0][1])
    head = rows[0][1] if rows[0][0] == 0 or rows[0][1][0] not in known else None
    at = _place(table.name, head, width, column)
    found: dict[str, str] = {}
    for line, cells in rows[1:] if head is not None else rows:
        table.require_width(line, cells, width)
        if cells[0] in found:
            raise DataFileError(f"{table.at(line)}: graph {cells[0]!r} comes twice.")
        found[cells[0]] = cells[at]
    missing = [name for name in names if not found.get(name)]
    if missing:
        hint = suggestion(missing[0], found)
        raise DataFileError(f"{table.name} must have a value for each graph, but {missing[0]!r} has none{hint}.")
    values = [found[name] for name in names]
    return [read_number(value) for value in values] if all(map(is_number, values)) else values


def _place(name: str, head: Sequence[str] | None, width: int, column: Column | None) -> int:
    if head is not None and str(column) in head:
        return head.index(str(column))
    number = 2 if column is None else column
    if isinstance(number, str) and not number.isdigit():
        there = ", ".join(map(repr, head[:20])) if head else "no names"
        raise DataFileError(f"{name} has no column {number!r}{suggestion(number, head or ())}; there are {there}.")
    if not 2 <= int(number) <= width:
        raise DataFileError(f"{name} must have a graph in its first column and values in column {number}, got {width}.")
    return int(number) - 1
