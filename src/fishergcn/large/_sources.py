"""Where a large graph comes from: a mapped folder, or Parquet files. Both are read a block of nodes at a time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.imports import require
from fishergcn._base.mapped import read_mapped
from fishergcn._base.npz import unpack_json
from fishergcn._base.types import AnyArray, IntArray
from fishergcn.errors import DataFileError, FisherGCNError, InputError, reason, suggestion

PARTS = ("train", "val", "test")  # 1, 2 and 3 of a node's part; 0 is none
MOST_COLUMNS = 2048
_PIECE = 1 << 22  # nodes at a time
_STRANGE = -2  # a word that is none of those known
_SMALL, _RATIO = 64 << 20, 1000  # bytes that a group of rows may hold whatever the file's size, and how many times it


class MappedSource:
    """A graph as :meth:`fishergcn.Graph.save` writes it with ``mapped=True``.

    What is read is copied and the file let go at once: pages of files that stay mapped would count as memory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shapes = {name: array.shape for name, array in read_mapped(folder).items()}
        self.files = sorted(path for path in folder.iterdir() if path.suffix == ".npy")
        wanted = ("description", "labels", "adjacency_indptr", "adjacency_indices", "adjacency_data")
        missing = [name for name in wanted if name not in shapes]
        if missing:
            raise DataFileError(
                f"{folder} is not a mapped graph with classes: {missing[0]}.npy is missing; Graph.save(folder, "
                "mapped=True) writes one."
            )
        self._names = frozenset(shapes)
        described = unpack_json(self._read("description"))
        names = described.get("class_names") if isinstance(described, dict) else None
        self.class_names = None if names is None else [str(each) for each in names]
        self.nodes = int(shapes["adjacency_indptr"][0]) - 1
        self.links = int(shapes["adjacency_indices"][0])
        if "features" in shapes:
            self.columns = int(shapes["features"][1])
        else:
            self.columns = int(self._read("features_shape")[1]) if "features_shape" in shapes else 0
        self._check_lengths({name: shape[0] for name, shape in shapes.items() if shape})
        ranges = ((at, min(at + _PIECE, self.nodes)) for at in range(0, self.nodes, _PIECE))
        largest = max(int(self._read("labels", *each).max()) for each in ranges)
        self.classes = largest + 1 if self.class_names is None else len(self.class_names)

    def _check_lengths(self, lengths: Mapping[str, int]) -> None:
        """Raise if arrays do not fit together, as after files of several graphs were mixed."""
        stored = lengths.get("features_indices", 0)
        wanted = {"labels": self.nodes, "adjacency_data": self.links, "features": self.nodes}
        wanted |= {"features_indptr": self.nodes + 1, "features_data": stored}
        for name, length in wanted.items():
            if lengths.get(name, length) != length:
                raise InputError(
                    f"{name}.npy in {self._folder} must have the length {length}, as the other files say, got "
                    f"{lengths[name]}."
                )

    def _read(self, name: str, first: int = 0, last: int | None = None) -> AnyArray:
        try:
            mapped = np.load(self._folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DataFileError(f"{self._folder / name}.npy cannot be read ({reason(error)}).") from error
        return np.array(mapped[first:last])

    def rows(self, first: int, last: int) -> tuple[IntArray, AnyArray, AnyArray]:
        """Return row pointers, columns and weights of rows of A; no weights where all are 1."""
        indptr = self._read("adjacency_indptr", first, last + 1).astype(np.int64)
        if (np.diff(indptr) < 0).any() or not 0 <= indptr[0] <= indptr[-1] <= self.links:
            raise InputError("adjacency must have row pointers that begin with 0, ascend, and end with the entries.")
        span = int(indptr[0]), int(indptr[-1])
        weights = self._read("adjacency_data", *span)
        known = np.empty(0) if (weights == 1).all() else weights.astype(np.float64)
        return indptr - indptr[0], self._read("adjacency_indices", *span), known

    def features(self, first: int, last: int) -> AnyArray:
        """Return rows of X, dense in single precision."""
        if "features" in self._names:
            return self._read("features", first, last).astype(np.float32, copy=False)
        indptr = self._read("features_indptr", first, last + 1).astype(np.int64)
        span = int(indptr[0]), int(indptr[-1])
        indices = self._read("features_indices", *span)
        if (np.diff(indptr) < 0).any() or (len(indices) and not 0 <= indices.min() <= indices.max() < self.columns):
            raise InputError(f"features must have {self.columns} columns in all rows, got others.")
        stored = self._read("features_data", *span), indices, indptr - indptr[0]
        found: AnyArray = sparse.csr_array(stored, shape=(last - first, self.columns)).toarray()
        return found

    def labels(self, first: int, last: int) -> IntArray:
        """Return classes, -1 where unknown."""
        return self._read("labels", first, last)

    def parts(self, first: int, last: int) -> AnyArray | None:
        """Return the numbers of parts of the published split, or None without one."""
        found = np.zeros(last - first, dtype=np.uint8)
        for number, part in enumerate(PARTS, start=1):
            if f"split_{part}" in self._names:
                nodes = self._read(f"split_{part}")
                found[nodes[(nodes >= first) & (nodes < last)] - first] = number
        return found if "split_train" in self._names else None


class ParquetSource:
    """Tables of links and of nodes: Parquet files, or folders of such files, read in the order of their names.

    Nodes have numbers, the place of their row in the table of nodes. The ends of links are such numbers.
    """

    def __init__(self, edges: Path, nodes: Path, label: str = "label") -> None:
        self._label, self._lock = label, threading.Lock()  # a file is read by one thread at a time
        self._edges, self._nodes = (
            [opened(file, (label, "part")) for file in _files(place)] for place in (edges, nodes)
        )
        self.files = [*_files(edges), *_files(nodes)]
        for file, table in zip(_files(edges), self._edges, strict=True):
            if len(table.schema_arrow.names) < 2:
                raise InputError(f"{file} must have two columns with the numbers of nodes, and has fewer.")
        self._counts = np.cumsum([0, *(table.metadata.num_rows for table in self._nodes)])
        self.nodes, self.links = int(self._counts[-1]), 2 * sum(each.metadata.num_rows for each in self._edges)
        self._names = self._check_columns(_files(nodes))
        self.columns = len(self._names)
        self.class_names = self._classes()
        self.classes = len(self.class_names)

    def _check_columns(self, files: Sequence[Path]) -> list[str]:
        """Return the columns of features, which all files must have."""
        first, *others = [table.schema_arrow.names for table in self._nodes]
        if self._label not in first:
            raise InputError(
                f"{files[0]} must have a column {self._label!r} of classes{suggestion(self._label, first)}; "
                f"it has {', '.join(first[:8])}."
            )
        for file, names in zip(files[1:], others, strict=True):
            if names != first:
                raise InputError(
                    f"features must have the same columns in all files: {files[0]} has {len(first)} and {file} has "
                    f"{len(names)}, or others."
                )
        return [name for name in first if name not in (self._label, "node", "part")]

    def _classes(self) -> list[str]:
        found: set[str] = set()
        for table in self._nodes:
            for group in range(table.num_row_groups):
                for chunk in _group(table, group, [self._label]).column(0).chunks:
                    found |= {str(each) for each in chunk.unique().to_pylist() if each is not None}
        try:
            return [str(each) for each in sorted(map(int, found))]
        except ValueError:
            return sorted(found)

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """Pieces of the links that are read at once: a file and a group of rows."""
        return [(file, group) for file, table in enumerate(self._edges) for group in range(table.num_row_groups)]

    def pairs(self, piece: int) -> tuple[IntArray, IntArray]:
        """Return the ends of the links of a piece."""
        file, group = self.pieces[piece]
        with self._lock:
            table = _group(self._edges[file], group, self._edges[file].schema_arrow.names[:2])
        ends = [_numbers(table.column(at), table.column_names[at]) for at in range(2)]
        for end in ends:
            if len(end) and not 0 <= end.min() <= end.max() < self.nodes:
                raise InputError(
                    f"links must join nodes from 0 to {self.nodes - 1}, the rows of the table of nodes; got "
                    f"{end.min() if end.min() < 0 else end.max()}."
                )
        return ends[0], ends[1]

    def features(self, first: int, last: int) -> AnyArray:
        """Return rows of X, dense in single precision."""
        found = np.empty((last - first, self.columns), dtype=np.float32)
        for place, table in self._read(first, last, self._names):
            for at, name in enumerate(self._names):
                try:
                    found[place : place + len(table), at] = table.column(name).to_numpy()
                except (TypeError, ValueError) as error:
                    raise InputError(f"column {name!r} of the nodes must hold numbers ({reason(error)}).") from error
        return found

    def labels(self, first: int, last: int) -> IntArray:
        """Return classes, -1 where unknown."""
        known = {name: at for at, name in enumerate(self.class_names)}
        return self._coded(first, last, self._label, known, -1, np.int32)

    def parts(self, first: int, last: int) -> AnyArray | None:
        """Return the numbers of parts, by the column "part", or None without one."""
        if "part" not in self._nodes[0].schema_arrow.names:
            return None
        return self._coded(first, last, "part", {part: at for at, part in enumerate(PARTS, start=1)}, 0, np.uint8)

    def check_numbers(self, first: int, last: int) -> None:
        """Raise if the table of nodes numbers them itself, and otherwise than by their rows."""
        if "node" in self._nodes[0].schema_arrow.names:
            for place, table in self._read(first, last, ["node"]):
                got = _numbers(table.column(0), "node")
                wrong = np.flatnonzero(got != first + place + np.arange(len(got)))
                if wrong.size:
                    at = first + place + int(wrong[0])
                    raise InputError(f"column 'node' must number the rows from 0 on; row {at} has {got[wrong[0]]}.")

    def _coded(self, first: int, last: int, name: str, known: dict[str, int], other: int, kind: Any) -> AnyArray:
        found = np.full(last - first, other, dtype=kind)
        for place, table in self._read(first, last, [name]):
            for chunk in table.column(0).chunks:
                coded = chunk.dictionary_encode()
                words = [None if each is None else str(each) for each in coded.dictionary.to_pylist()]
                numbers = np.array([*(known.get(str(each), _STRANGE) for each in words), other])
                numbers = numbers[coded.indices.fill_null(len(words)).to_numpy()]
                if (strange := np.flatnonzero(numbers == _STRANGE)).size:
                    raise InputError(
                        f"column {name!r} must hold {', '.join(list(known)[:8])} or nothing, got "
                        f"{str(chunk[int(strange[0])].as_py())!r:.80}."
                    )
                found[place : place + len(chunk)] = numbers
                place += len(chunk)
        return found

    def _read(self, first: int, last: int, names: Sequence[str]) -> Any:
        """Yield tables of these rows with their place from the first one on."""
        for file, table in enumerate(self._nodes):
            begin = int(self._counts[file])
            for group in range(table.num_row_groups):
                end = begin + table.metadata.row_group(group).num_rows
                if begin < last and first < end:
                    with self._lock:
                        found = _group(table, group, names)
                    low, high = max(begin, first), min(end, last)
                    yield low - first, found.slice(low - begin, high - low)
                begin = end


def _files(place: Path) -> list[Path]:
    found = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    if not found:
        raise DataFileError(f"{place} holds no .parquet files.")
    for file in found:
        if not file.is_file():  # a pipe would have us wait for ever
            raise DataFileError(f"{file} is not a file.")
    return found


def opened(file: Path, texts: Sequence[str]) -> Any:
    """Open a Parquet file, some of whose columns may hold ``texts``, if what it declares is in proportion to its size.

    Texts stay in their dictionaries, each of them held once however many rows have it.
    """
    parquet = require("pyarrow.parquet", extra="report", purpose="reading Parquet")
    try:
        names = parquet.read_schema(file).names
        found = parquet.ParquetFile(file, read_dictionary=[each for each in texts if each in names])
        most = max(_SMALL, _RATIO * file.stat().st_size)
        for group in map(found.metadata.row_group, range(found.metadata.num_row_groups)):
            columns = [group.column(at) for at in range(group.num_columns)]
            if sum(8 * each.num_values + each.total_uncompressed_size * _shared(each) for each in columns) > most:
                raise DataFileError(
                    f"{file}: a group of rows decodes to too much: one of a file of this size may hold {most >> 20} "
                    "MiB once decoded, and this holds more."
                )
        return found
    except (OSError, ValueError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{file} is not a readable Parquet file ({reason(error)}).") from error


def _shared(column: Any) -> int:
    """Return how often a byte of a column may come again: with this encoding a text may repeat the one before."""
    return int(column.num_values) if "DELTA_BYTE_ARRAY" in column.encodings else 1


def _group(table: Any, group: int, names: Sequence[str]) -> Any:
    """Return columns of a group of rows."""
    try:
        found = table.read_row_group(group, columns=list(names))
        found.validate(full=True)
        return found
    except (OSError, ValueError, NotImplementedError) as error:
        raise DataFileError(f"a Parquet file is damaged in its group {group} of rows ({reason(error)}).") from error


def _numbers(column: Any, name: str) -> IntArray:
    values = column.to_numpy()
    if values.dtype.kind not in "iu":
        raise InputError(f"column {name!r} must hold whole numbers, the numbers of nodes, got {column.type}.")
    found: IntArray = values.astype(np.int64)
    return found


def source_of(stored: dict[str, Any], *, anew: bool = False) -> MappedSource | ParquetSource:
    """Return the source that plain values tell; processes keep the last one, unless its files may be others now."""
    if anew:
        _source.cache_clear()
    return _source(tuple(sorted(stored.items())))


@functools.lru_cache(maxsize=1)
def _source(stored: tuple[tuple[str, str], ...]) -> MappedSource | ParquetSource:
    paths = dict(stored)
    try:
        if "folder" in paths:
            return MappedSource(Path(paths["folder"]))
        return ParquetSource(Path(paths["edges"]), Path(paths["nodes"]), paths["label"])
    except FisherGCNError:
        raise
    except (ValueError, TypeError, IndexError, OverflowError) as error:  # arrays and tables that do not fit together
        raise DataFileError(
            f"{paths.get('folder', paths.get('nodes'))} is not a valid graph: {reason(error)}."
        ) from error
