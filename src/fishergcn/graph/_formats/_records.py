"""Rows of any table: of a text file, a Parquet or Feather file, a data frame, or the nodes of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fishergcn.errors import DataFileError, InputError
from fishergcn.graph._formats._columnar import SUFFIXES, read_columns
from fishergcn.graph._formats._source import suffix_of, title
from fishergcn.graph._formats._text import Row, cell_of, read_number, read_rows


@dataclass(frozen=True)
class Records:
    """A table: what messages call it, and its rows; a row 0 holds the names of columns, which are known to be that."""

    name: str
    unit: str  # what messages call a row
    rows: Iterable[Row]
    taken: int | None = None  # place of a column that rows are without, which counts in messages

    def at(self, line: int) -> str:
        """Return where a row is, for a message."""
        return f"{self.name} {self.unit} {line}"

    def require_width(self, line: int, cells: list[str], width: int) -> None:
        """Raise if a row is shorter or longer than the first one."""
        if len(cells) != width:
            raise DataFileError(f"{self.at(line)}: expected {width} cells as in the lines before, got {len(cells)}.")

    def number(self, line: int, cell: str, place: int, remedy: str = "") -> float:
        """Return a cell as a number, or raise with its place, from 1 on."""
        try:
            return read_number(cell)
        except ValueError:
            got = repr(cell) if cell else "an empty cell"
            cell_number = place + 1 + (self.taken is not None and place >= self.taken)
            raise DataFileError(f"{self.at(line)}: cell {cell_number} must be a number, got {got}{remedy}.") from None


def records_of(source: Any, name: str) -> Records:
    """Return the rows of a file or of a data frame, which messages call ``name``."""
    if isinstance(source, Records):
        return source
    if not isinstance(source, Path):
        return _of_frame(source, name)
    if suffix_of(source) in SUFFIXES:
        return Records(title(source), "row", _file_rows(source))
    return Records(title(source), "line", read_rows(source))


def _file_rows(path: Path) -> Iterator[Row]:
    names, columns = read_columns(path)  # which is not done before the first row is asked for
    yield from _rows(names, columns)


def _of_frame(frame: Any, name: str) -> Records:
    """Return the rows of a pandas or polars frame or a pyarrow table; an index with names of its own is a column."""
    if hasattr(frame, "column_names"):  # pyarrow
        names, columns = list(frame.column_names), [each.to_pylist() for each in frame.columns]
    elif hasattr(frame, "columns") and hasattr(frame, "to_numpy"):
        names = [str(column) for column in frame.columns]
        columns = [
            (frame.iloc[:, at] if hasattr(frame, "iloc") else frame.to_series(at)).to_list() for at in range(len(names))
        ]
        index = getattr(frame, "index", None)
        if index is not None and not (type(index).__name__ == "RangeIndex" and index.name is None):
            names, columns = [str(index.name or ""), *names], [list(index), *columns]
    else:
        raise InputError(
            f"{name} must be a data frame of pandas or polars, got {type(frame).__name__}; Graph.from_files reads "
            "files and Graph.from_edges takes pairs."
        )
    return Records(name, "row", list(_rows(names, columns)))


def _rows(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> Iterator[Row]:
    """Yield the names, then the rows, which are counted from 1; nothing without columns."""
    if not names:
        return
    yield 0, [name.strip() for name in names]
    for number, values in enumerate(zip(*columns, strict=True), 1):
        yield number, [cell_of(value) for value in values]


def records_of_nodes(name: str, nodes: Iterable[tuple[Any, dict[Any, Any]]], wanted: Sequence[str] | None) -> Records:
    """Return nodes with attributes as rows: of a list of numbers each is a cell of its own."""
    table = []
    names: dict[str, None] = {}
    for node, attributes in nodes:
        cells: dict[str, str] = {}
        for key, value in attributes.items():
            if wanted is not None and str(key) not in wanted:
                continue
            many = value.tolist() if hasattr(value, "tolist") else value
            if isinstance(many, list | tuple):
                cells |= {f"{key}.{at}": cell_of(each) for at, each in enumerate(many)}
            else:
                cells[str(key)] = cell_of(many)
        names |= dict.fromkeys(cells)
        table.append((str(node), cells))
    rows = [(at, [node, *(cells.get(key, "") for key in names)]) for at, (node, cells) in enumerate(table, 1)]
    return Records(name, "node", [(0, ["", *names]), *rows])
