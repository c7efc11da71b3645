"""Rows of any table: of a text file, a Parquet or Feather file, a data frame, or the nodes of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fishergcn._base.imports import require
from fishergcn._base.memory import check_memory
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.graph._formats._source import regular, suffix_of, title
from fishergcn.graph._formats._text import Row, cell_of, read_number, read_rows

_PARQUET, _FEATHER = (".parquet", ".pq"), (".feather", ".arrow", ".ipc")
_LARGEST = 1 << 32  # bytes of a columnar file once unpacked
_BYTES_PER_CELL = 64  # of Python's objects


@dataclass(frozen=True)
class Records:
    """A table: what messages call it, and its rows; a row 0 holds the names of columns, which are known to be that."""

    name: str
    unit: str  # what messages call a row
    rows: Iterable[Row]

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
            raise DataFileError(f"{self.at(line)}: cell {place + 1} must be a number, got {got}{remedy}.") from None


def records_of(source: Any, name: str) -> Records:
    """Return the rows of a file or of a data frame, which messages call ``name``."""
    if isinstance(source, Records):
        return source
    if not isinstance(source, Path):
        return _of_frame(source, name)
    if suffix_of(source) in _PARQUET + _FEATHER:
        return Records(title(source), "row", _columnar_rows(source))
    return Records(title(source), "line", read_rows(source))


def _columnar_rows(path: Path) -> Iterator[Row]:
    arrow = require("pyarrow", extra="report", purpose=f"reading {path}")
    with regular(path) as stream:
        try:
            if suffix_of(path) in _PARQUET:
                parquet = require("pyarrow.parquet", extra="report", purpose=f"reading {path}").ParquetFile(stream)
                groups = range(parquet.metadata.num_row_groups)
                _check_size(path, sum(parquet.metadata.row_group(each).total_byte_size for each in groups))
                # One value may stand for a billion rows.
                check_memory(
                    f"reading {path}", _BYTES_PER_CELL * parquet.metadata.num_rows * parquet.metadata.num_columns
                )
                table = parquet.read()
            else:
                table = arrow.ipc.open_file(arrow.PythonFile(stream, mode="r")).read_all()
            table.validate(full=True)
            _check_size(path, table.nbytes)
            check_memory(f"reading {path}", _BYTES_PER_CELL * table.num_rows * table.num_columns)
            names = list(table.column_names)
            columns = [_values(table.column(at), names[at], path) for at in range(len(names))]
        except (arrow.ArrowException, OSError, ValueError, TypeError, OverflowError, NotImplementedError) as error:
            if isinstance(error, InputError):
                raise
            text = " ".join(reason(error).split())[:200].rstrip(".")
            raise DataFileError(f"{path} is not a {suffix_of(path)[1:]} file, or it is damaged ({text}).") from error
    yield from _rows(names, columns)


def _check_size(path: Path, size: int) -> None:
    if size > _LARGEST:
        raise DataFileError(f"{path} must hold at most {_LARGEST >> 30} GiB, and holds more.")
    check_memory(f"reading {path}", 4 * size)


def _values(column: Any, name: str, path: Path) -> list[Any]:
    kind = str(column.type)
    if any(word in kind for word in ("list", "struct", "map", "union", "binary", "extension")):
        raise DataFileError(f"{path}: column {name!r} must hold a number or a text in each row, got {kind}.")
    return list(column.to_pylist())


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
