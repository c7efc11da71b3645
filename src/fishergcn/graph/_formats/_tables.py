"""Links, features and labels from files, with errors that give file and line."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.npz import read_arrays
from fishergcn._base.types import IntArray
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.graph._formats._headers import KINDS, FirstLines, header_kinds, names_features
from fishergcn.graph._formats._source import title
from fishergcn.graph._formats._text import is_number, number_cell, read_rows, require_width
from fishergcn.graph._links import Directed, PairError, link_matrix

_UNKNOWN_CLASS = ("", "-1")
_SEPARATORS = "cells are separated by commas, semicolons or tabs, in files not named .csv also by blanks"


def file_arguments(
    edges: str | os.PathLike[str],
    features: str | os.PathLike[str] | None,
    labels: str | os.PathLike[str] | None,
    header: bool | Collection[str],
    directed: Directed,
) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for text files; see ``Graph.from_files`` for their formats.

    A first line that looks like a header is refused unless it was announced or ``header`` is an empty collection,
    which says outright that all lines are data.
    """
    announced = header_kinds(header)
    if [str(path) for path in (edges, features, labels)].count("-") > 1:
        raise InputError("- is standard input, which is read once: only one of edges, features and labels can be it.")
    links = _read_links(Path(edges), "edges" in announced)
    classes = None if labels is None else _read_classes(Path(labels), "labels" in announced)
    trusted = frozenset(KINDS) if not announced and not isinstance(header, bool) else announced
    firsts = FirstLines(links, classes, features is not None, announced, trusted)
    node_ids, matrix, columns = _read_nodes(links, features, firsts)
    number = {node: index for index, node in enumerate(node_ids)}
    known = None if features is None else number
    if firsts.links_named(known):
        raise firsts.error(known=known)
    arguments = {"node_ids": node_ids, "features": matrix, "feature_names": columns}
    arguments["adjacency"] = links.matrix(number, features, directed)
    if classes is not None:
        arguments |= classes.arguments(number, firsts)
    return arguments


@dataclass(frozen=True)
class Links:
    path: Path
    lines: list[int]
    columns: list[list[str]]  # a list per column, since one per row costs far more memory and time

    def matrix(self, number: dict[str, int], features: str | os.PathLike[str] | None, directed: Directed) -> Any:
        """Return the adjacency matrix for numbered nodes; ``features`` is where the numbers come from."""
        weights = None
        if len(self.columns) == 3:
            places = zip(self.lines, self.columns[2], strict=True)
            weights = np.array([number_cell(self.path, *place, 3) for place in places])
        try:
            ends = [
                np.fromiter(map(number.__getitem__, ids), dtype=np.int64, count=len(ids)) for ids in self.columns[:2]
            ]
        except KeyError:
            raise self._stranger(number, features) from None
        try:
            return link_matrix(np.stack(ends, axis=1), len(number), weights, directed)
        except PairError as error:
            raise DataFileError(f"{self._place(error.rows)} {error.problem}.") from None

    def _place(self, rows: Iterable[int]) -> str:
        lines = [str(self.lines[row]) for row in rows]
        return f"{title(self.path)} {'line' if len(lines) == 1 else 'lines'} {' and '.join(lines)}"

    def _stranger(self, number: dict[str, int], features: str | os.PathLike[str] | None) -> DataFileError:
        rows = zip(self.lines, *self.columns[:2], strict=True)
        line, node = next((line, node) for line, *ends in rows for node in ends if node not in number)
        return DataFileError(f"{title(self.path)} line {line}: node {node!r} has no row in {features}.")


def _read_links(path: Path, has_header: bool) -> Links:
    lines: list[int] = []
    columns: list[list[str]] = []
    for line, cells in read_rows(path, skip_header=has_header):
        if not lines:
            if len(cells) not in (2, 3):
                hint = f"; {_SEPARATORS}" if len(cells) == 1 else ""
                raise DataFileError(
                    f"{title(path)} line {line}: a link is two node ids, maybe a weight, "
                    f"not {len(cells)} cell(s){hint}."
                )
            columns = [[] for _ in cells]
        require_width(path, line, cells, len(columns))
        if not cells[0] or not cells[1]:
            raise DataFileError(f"{title(path)} line {line}: a node id is empty.")
        lines.append(line)
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    if not lines:
        raise DataFileError(f"{title(path)} holds no links.")
    return Links(path, lines, columns)


def _read_nodes(
    links: Links, features: str | os.PathLike[str] | None, firsts: FirstLines
) -> tuple[tuple[str, ...], Any, tuple[str, ...] | None]:
    """Return all node ids, the features and their names: ids come from the features where there are any."""
    columns = None
    if features is None:
        node_ids, matrix = _ordered({*links.columns[0], *links.columns[1]}), None
    elif Path(features).suffix.lower() == ".npz":
        matrix = _read_feature_archive(Path(features))
        node_ids = tuple(str(row) for row in range(matrix.shape[0]))
    else:
        node_ids, matrix, columns = _read_feature_table(Path(features), firsts)
    if len(node_ids) < 2:
        raise DataFileError(f"{features or links.path} must name at least 2 nodes, got {len(node_ids)}.")
    return node_ids, matrix, columns


def _read_feature_table(path: Path, firsts: FirstLines) -> tuple[tuple[str, ...], Any, tuple[str, ...] | None]:
    seen: dict[str, int] = {}
    rows: list[Any] = []
    first: list[str] = []
    header: list[str] | None = None
    announced, suspected = "features" in firsts.announced, "features" not in firsts.trusted
    for line, cells in read_rows(path, skip_header=False):
        if announced and header is None:
            header = cells
            continue
        if not first:
            first = cells
            if len(cells) < 2:
                raise DataFileError(
                    f"{title(path)} line {line}: a node needs its id and at least one number, "
                    f"got 1 cell; {_SEPARATORS}."
                )
            if suspected and names_features(cells):
                raise firsts.error((path, line, cells))
        require_width(path, line, cells, len(first))
        if not cells[0]:
            raise DataFileError(f"{title(path)} line {line}: the node id is empty.")
        if cells[0] in seen:
            raise DataFileError(
                f"{title(path)} line {line}: node {cells[0]!r} has a row in line {seen[cells[0]]} already."
            )
        seen[cells[0]] = line
        rows.append(_feature_row(path, line, cells))
    if not rows:
        raise DataFileError(f"{title(path)} holds no nodes.")
    node_ids = tuple(seen)
    if suspected and len(rows) > 1 and not is_number(first[0]) and all(map(is_number, node_ids[1:])):
        raise firsts.error((path, seen[node_ids[0]], first))
    return node_ids, np.stack(rows), _column_names(header, len(first))


def _column_names(header: list[str] | None, width: int) -> tuple[str, ...] | None:
    """Return what a header calls the features; None if it does not name each of them, or two alike."""
    # A header may leave out the cell above the node ids, as that of a data frame does.
    names = () if header is None else tuple(header[len(header) - width + 1 :] if len(header) >= width - 1 else ())
    return names if len(names) == width - 1 == len(set(names)) and all(names) else None


def _feature_row(path: Path, line: int, cells: list[str]) -> Any:
    text = "".join(cells[1:])
    try:
        if "_" in text or "e" in text or "E" in text or not text.isascii() or max(map(len, cells)) > 300:
            raise ValueError("each cell is to be looked at")
        values = [float(cell) for cell in cells[1:]]
    except ValueError:
        values = [number_cell(path, line, cell, position) for position, cell in enumerate(cells[1:], 2)]
    exact = np.array(values)
    with np.errstate(over="ignore", under="ignore"):
        row = exact.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(row) | ((row == 0) & (exact != 0)))
    if bad.size:
        index = int(bad[0]) + 1
        what = "finite in float32" if not np.isfinite(row[index - 1]) else "0 or at least 1.4e-45, the least of float32"
        raise DataFileError(f"{title(path)} line {line}: cell {index + 1} must be {what}, got {cells[index]!r}.")
    return row


def _read_feature_archive(path: Path) -> Any:
    arrays = read_arrays(path)
    if not {"format", "shape", "data", "indices", "indptr"} <= set(arrays):
        dense = [array for array in arrays.values() if array.ndim == 2]
        if len(dense) != 1:
            got = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise DataFileError(f"{path} must hold a SciPy sparse matrix or one 2-d array, got {got or 'nothing'}.")
        return dense[0]
    try:
        form = arrays["format"].item()
        kinds: dict[Any, Any] = {b"csr": sparse.csr_array, b"csc": sparse.csc_array}
        kind = kinds[form.encode() if isinstance(form, str) else form]
        matrix = kind((arrays["data"], arrays["indices"], arrays["indptr"]), shape=arrays["shape"].tolist())
        matrix.check_format(full_check=True)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise DataFileError(f"{path} is not a valid SciPy CSR or CSC matrix ({reason(error)}).") from error
    return matrix.tocsr()


@dataclass(frozen=True)
class Classes:
    path: Path
    rows: list[tuple[int, str, str]]  # line, node, class
    header: str  # the first cell of a header that was announced

    def arguments(self, number: dict[str, int], firsts: FirstLines) -> dict[str, Any]:
        """Return labels and names of classes for numbered nodes."""
        known: dict[str, str] = {}
        for row, (line, node, name) in enumerate(self.rows):
            if node not in number:
                suspected = row == 0 and "labels" not in firsts.trusted
                hint = f"; if the line is a header, announce it with {firsts.option(['labels'])}" if suspected else ""
                raise DataFileError(f"{title(self.path)} line {line}: node {node!r} is not in the graph{hint}.")
            if name in _UNKNOWN_CLASS:
                continue
            if known.setdefault(node, name) != name:
                raise DataFileError(
                    f"{title(self.path)} line {line}: node {node!r} has two classes, {known[node]!r} and {name!r}."
                )
        if not known:
            raise DataFileError(f"{title(self.path)} holds no labels.")
        class_names = _ordered(known.values())
        code = {name: index for index, name in enumerate(class_names)}
        labels: IntArray = np.full(len(number), -1, dtype=np.int64)
        for node, name in known.items():
            labels[number[node]] = code[name]
        return {"labels": labels, "class_names": class_names}


def _read_classes(path: Path, has_header: bool) -> Classes:
    header = ""
    rows: list[tuple[int, str, str]] = []
    for line, cells in read_rows(path, skip_header=False):
        if has_header:
            header, has_header = cells[0], False
            continue
        if len(cells) != 2:
            hint = f"; {_SEPARATORS}" if len(cells) == 1 else ""
            raise DataFileError(
                f"{title(path)} line {line}: a label is a node id and a class, got {len(cells)} cell(s){hint}."
            )
        rows.append((line, cells[0], cells[1]))
    return Classes(path, rows, header)


def _ordered(texts: Iterable[str]) -> tuple[str, ...]:
    """Return distinct texts: whole numbers by value, otherwise alphabetically."""
    distinct = sorted(set(texts))
    if all(text.isascii() and text.isdigit() and (text[0] != "0" or text == "0") for text in distinct):
        distinct.sort(key=len)  # after the alphabetical order, this is the order by value
    return tuple(distinct)
