"""Columns of Parquet and Feather files, whose decoded size is bounded before anything is decoded.

A few hundred bytes may stand for gigabytes: a text in a dictionary that every row refers to, one value repeated a
billion times, a compressed buffer of zeros. Texts therefore stay in their dictionaries, each of them held once
however many rows have it, and what remains is counted from the file's own description, column by column.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, Any

from fishergcn._base.imports import require
from fishergcn._base.memory import check_memory
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.graph._formats._source import regular, suffix_of

_PARQUET = (".parquet", ".pq")
SUFFIXES = (*_PARQUET, ".feather", ".arrow", ".ipc")
_LARGEST = 1 << 32  # bytes of a file once decoded
_SMALL, _RATIO = 64 << 20, 1000  # what a file may hold whatever its size, and how many times its size
_LONGEST_CELL = 1 << 17  # characters, as in text files
_BYTES_PER_CELL = 64  # of Python's objects
_BATCH = 1 << 16  # rows that are decoded at once
_DAMAGED = (OSError, EOFError, ValueError, TypeError, OverflowError, NotImplementedError)  # what damage also ends in
_NO_CELLS = ("list", "struct", "map", "union", "binary", "extension", "view", "run_end", "dictionary<values=dictionary")
_SHARING = "DELTA_BYTE_ARRAY"  # an encoding in which each text may repeat the one before
_COMPRESSED_FIELD, _DICTIONARY_BATCH, _RECORD_BATCH = 3, 2, 3  # numbers in the format's own description


def read_columns(path: Path) -> tuple[list[str], list[list[Any]]]:
    """Return the names of a file's columns, and the values of each."""
    arrow = require("pyarrow", extra="report", purpose=f"reading {path}")
    with regular(path) as stream:
        try:
            bound = _Bound(path, stream.seek(0, 2))
            stream.seek(0)
            if suffix_of(path) in _PARQUET:
                return _parquet(arrow, path, stream, bound)
            return _feather(arrow, path, stream, bound)
        except (arrow.ArrowException, *_DAMAGED) as error:
            if isinstance(error, InputError):
                raise
            text = " ".join(reason(error).split())[:200].rstrip(".")
            raise DataFileError(f"{path} is not a {suffix_of(path)[1:]} file, or it is damaged ({text}).") from error


class _Bound:
    """How many bytes a file may still decode to."""

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._left = path, min(_LARGEST, max(_SMALL, _RATIO * size))
        self._most = self._left
        self._dictionaries: dict[str, tuple[Any, list[Any]]] = {}  # the last of each column, with its texts

    def take(self, size: int, what: str) -> None:
        """Count ``size`` bytes of ``what``, or raise if the file holds more than it may."""
        self._left -= max(size, 0)
        if self._left < 0:
            raise DataFileError(
                f"{self._path}: {what} decodes to too much: a file of this size may hold {self._most >> 20} MiB "
                "once decoded, and this holds more."
            )

    def take_cells(self, rows: int, columns: int) -> None:
        """Count the cells of a table: eight bytes for a number or a reference to a text."""
        self.take(8 * rows * columns, f"a table of {rows} rows and {columns} columns")
        check_memory(f"reading {self._path}", _BYTES_PER_CELL * rows * columns)

    def texts(self, name: str, dictionary: Any) -> list[Any]:
        """Return the texts of a column's dictionary, which the batches of a file usually share."""
        place = [None if each is None else each.address for each in dictionary.buffers()], dictionary.offset
        known = self._dictionaries.get(name)
        if known is None or known[0][1:] != (place, len(dictionary)):
            self.take(dictionary.nbytes, f"the dictionary of column {name!r}")
            found = dictionary.to_pylist()
            _check_cells(self._path, name, found)
            # Stripped once, and not for every row.
            found = [each.strip() if isinstance(each, str) else each for each in found]
            known = self._dictionaries[name] = (dictionary, place, len(dictionary)), found
        return known[1]


def _parquet(arrow: Any, path: Path, stream: IO[bytes], bound: _Bound) -> tuple[list[str], list[list[Any]]]:
    parquet = require("pyarrow.parquet", extra="report", purpose=f"reading {path}")
    about = parquet.read_metadata(stream)
    stream.seek(0)
    names = list(about.schema.to_arrow_schema().names)
    bound.take_cells(about.num_rows, about.num_columns)
    for group in map(about.row_group, range(about.num_row_groups)):
        for each in map(group.column, range(group.num_columns)):
            shared = each.num_values if _SHARING in each.encodings else 1
            bound.take(each.total_uncompressed_size * shared, f"column {each.path_in_schema!r}")
    for field in about.schema.to_arrow_schema():
        _check_type(path, field.name, field.type)
    if len({*names}) < len(names):
        raise DataFileError(f"{path} has several columns of the same name.")
    file = parquet.ParquetFile(stream, read_dictionary=names, memory_map=False, pre_buffer=False)
    columns = [_of_batches(path, name, file.iter_batches(_BATCH, columns=[name]), bound) for name in names]
    for name, values in zip(names, columns, strict=True):
        if len(values) != about.num_rows:
            raise ValueError(f"column {name!r} has {len(values)} of {about.num_rows} rows")
    return names, columns


def _of_batches(path: Path, name: str, batches: Any, bound: _Bound) -> list[Any]:
    """Return the values of a column, decoded a batch at a time."""
    values: list[Any] = []
    for batch in batches:
        batch.validate(full=True)
        values += _values(path, name, batch.column(0), bound)
    return values


def _feather(arrow: Any, path: Path, stream: IO[bytes], bound: _Bound) -> tuple[list[str], list[list[Any]]]:
    """Read the messages between the file's first and last bytes, each after the sizes that it declares were counted."""
    if stream.read(8) != b"ARROW1\0\0":
        raise DataFileError(f"{path} is not a {suffix_of(path)[1:]} file, or it is damaged (it begins otherwise).")
    source = arrow.PythonFile(stream, mode="r")
    schema = arrow.ipc.read_schema(_message(arrow, source))
    for field in schema:
        _check_type(path, field.name, field.type)
    while True:
        try:
            message = _message(arrow, source)
        except EOFError:
            break
        _count_message(message, len(schema), bound)
    stream.seek(8)
    columns: list[list[Any]] = [[] for _ in schema]
    for batch in arrow.ipc.open_stream(source):
        batch.validate(full=True)
        for at, values in enumerate(columns):
            values += _values(path, schema.names[at], batch.column(at), bound)
    return list(schema.names), columns


def _message(arrow: Any, source: Any) -> Any:
    try:
        return arrow.ipc.read_message(source)
    except MemoryError:  # for as many bytes as a damaged number says
        raise ValueError("a message is longer than memory") from None


def _count_message(message: Any, columns: int, bound: _Bound) -> None:
    """Count the rows of a batch, and its buffers as they are when unpacked."""
    table, body = _Table.root(message.metadata.to_pybytes()), message.body
    kind, batch = table.byte(1), table.table(2)
    if kind == _DICTIONARY_BATCH:
        batch, columns = batch.table(1), 1
    elif kind != _RECORD_BATCH:
        return
    bound.take_cells(batch.long(0), columns)
    packed = batch.has(_COMPRESSED_FIELD)
    for offset, length in batch.pairs(2):
        size = length
        if packed and length >= 8:
            if offset < 0 or offset + 8 > body.size:
                raise ValueError("a buffer lies outside of its message")
            [said] = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
            size = length if said == -1 else said  # which means that it is not compressed after all
        bound.take(size, "a batch of rows")


class _Table:
    """A table of a flatbuffer, as far as sizes of messages need it; places outside of it are a ValueError."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - self._number("<i", at)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, _unpack("<I", data, 0))

    def _number(self, form: str, at: int) -> int:
        return _unpack(form, self._data, at)

    def _place(self, field: int) -> int:
        """Return where a field is; 0 if it is left out."""
        entry = 4 + 2 * field
        inside = entry < self._number("<H", self._fields)
        offset = self._number("<H", self._fields + entry) if inside else 0
        return self._at + offset if offset else 0

    def has(self, field: int) -> bool:
        return self._place(field) > 0

    def byte(self, field: int) -> int:
        return self._number("<B", self._place(field)) if self.has(field) else 0

    def long(self, field: int) -> int:
        return self._number("<q", self._place(field)) if self.has(field) else 0

    def table(self, field: int) -> _Table:
        at = self._place(field)
        if not at:
            raise ValueError("a message lacks its batch")
        return _Table(self._data, at + self._number("<I", at))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of two whole numbers each."""
        at = self._place(field)
        if not at:
            return []
        first = at + self._number("<I", at) + 4
        count = self._number("<I", first - 4)
        if first + 16 * count > len(self._data):
            raise ValueError("a message ends early")
        return [struct.unpack_from("<qq", self._data, first + 16 * each) for each in range(count)]


def _unpack(form: str, data: bytes, at: int) -> int:
    if at < 0 or at + struct.calcsize(form) > len(data):
        raise ValueError("a message ends early")
    return int(struct.unpack_from(form, data, at)[0])


def _check_type(path: Path, name: str, kind: Any) -> None:
    text = str(kind)
    if any(word in text for word in _NO_CELLS):
        raise DataFileError(f"{path}: column {name!r} must hold a number or a text in each row, got {text}.")


def _values(path: Path, name: str, column: Any, bound: _Bound) -> list[Any]:
    """Return the values of a column of a batch; each text of a dictionary is held once."""
    if not hasattr(column, "dictionary"):
        values = list(column.to_pylist())
        _check_cells(path, name, values)
        return values
    texts = bound.texts(name, column.dictionary)
    return [None if each is None else texts[each] for each in column.indices.to_pylist()]


def _check_cells(path: Path, name: str, values: list[Any]) -> None:
    longest = max((len(each) for each in values if isinstance(each, str)), default=0)
    if longest > _LONGEST_CELL:
        raise DataFileError(
            f"{path}: a cell of column {name!r} must have at most {_LONGEST_CELL} characters, got {longest}."
        )
