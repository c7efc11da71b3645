"""Links, features and labels from files, with errors that give file and line."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._edges import PairError, link_matrix
from fishergcn._npz import read_arrays
from fishergcn._text_table import is_number, number_cell, read_rows, require_width
from fishergcn._types import FloatArray, IntArray
from fishergcn.errors import DataFileError, InputError, reason

__all__ = ["file_arguments"]

_KINDS = ("edges", "features", "labels")
_COLUMN_NAME = re.compile(  # such as source, from_node, NodeId1
    "(source|target|src|dst|from|to|head|tail|start|end|left|right|u|v|weight|label|class|node|id)"
    "([ _]?node)?([ _]?id)?([ _]?[12ab])?",
    re.IGNORECASE,
)
_UNKNOWN_CLASS = ("", "-1")


def file_arguments(
    edges: str | os.PathLike[str],
    features: str | os.PathLike[str] | None,
    labels: str | os.PathLike[str] | None,
    header: bool | Collection[str],
    directed: str,
) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for text files; see ``Graph.from_files`` for their formats."""
    headers = _header_kinds(header)
    links = _read_links(Path(edges), "edges" in headers)
    node_ids, matrix = _read_nodes(links, features, "features" in headers)
    number = {node: index for index, node in enumerate(node_ids)}
    arguments = {"node_ids": node_ids, "features": matrix}
    arguments["adjacency"] = links.matrix(number, features, directed)
    if labels is not None:
        arguments |= _read_labels(Path(labels), "labels" in headers, number)
    return arguments


def _header_kinds(header: bool | Collection[str]) -> frozenset[str]:
    if isinstance(header, bool):
        return frozenset(_KINDS if header else ())
    kinds = frozenset([header] if isinstance(header, str) else header)
    if not kinds <= set(_KINDS):
        got = ", ".join(sorted(map(repr, kinds)))
        raise InputError(f"header must be all, none or some of {', '.join(_KINDS)}, got {got}.")
    return kinds


@dataclass(frozen=True)
class _Links:
    path: Path
    lines: list[int]
    sources: list[str]
    targets: list[str]
    weights: FloatArray | None

    def matrix(self, number: dict[str, int], features: str | os.PathLike[str] | None, directed: str) -> Any:
        """Return the adjacency matrix for numbered nodes; ``features`` is where the numbers come from."""
        try:
            ends = [
                np.fromiter(map(number.__getitem__, ids), dtype=np.int64, count=len(ids))
                for ids in (self.sources, self.targets)
            ]
        except KeyError:
            raise self._stranger(number, features) from None
        try:
            return link_matrix(np.stack(ends, axis=1), len(number), self.weights, directed)
        except PairError as error:
            raise DataFileError(f"{self._place(error.rows)} {error.problem}.") from None

    def _place(self, rows: Iterable[int]) -> str:
        lines = [str(self.lines[row]) for row in rows]
        return f"{self.path} {'line' if len(lines) == 1 else 'lines'} {' and '.join(lines)}"

    def _stranger(self, number: dict[str, int], features: str | os.PathLike[str] | None) -> DataFileError:
        rows = zip(self.lines, self.sources, self.targets, strict=True)
        line, node = next((line, node) for line, *ends in rows for node in ends if node not in number)
        return DataFileError(f"{self.path} line {line}: node {node!r} has no row in {features}.")


def _read_links(path: Path, has_header: bool) -> _Links:
    lines: list[int] = []
    columns: list[list[str]] = []  # a list per column, since one per row costs far more memory and time
    for line, cells in read_rows(path, skip_header=has_header):
        if not lines:
            if len(cells) not in (2, 3):
                raise DataFileError(
                    f"{path} line {line}: a link is two node ids, maybe a weight, not {len(cells)} cell(s)."
                )
            columns = [[] for _ in cells]
        require_width(path, line, cells, len(columns))
        if not cells[0] or not cells[1]:
            raise DataFileError(f"{path} line {line}: a node id is empty.")
        lines.append(line)
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    if not lines:
        raise DataFileError(f"{path} holds no links.")
    if not has_header and _begins_with_names(columns):
        raise _header_error(path, lines[0], [column[0] for column in columns], "edges")
    weights = None
    if len(columns) == 3:
        weights = np.array([number_cell(path, *place, 3) for place in zip(lines, columns[2], strict=True)])
    return _Links(path, lines, columns[0], columns[1], weights)


def _begins_with_names(columns: list[list[str]]) -> bool:
    """Say whether line 1 reads like column names: taken as a link it would quietly add two nodes."""
    first, rest = [column[0] for column in columns], [column[1:] for column in columns]
    if any(map(is_number, first)) or not rest[0]:
        return False
    names_weight = len(columns) == 3 and all(map(is_number, rest[2]))
    only_first_is_text = all(map(is_number, rest[0] + rest[1]))
    usual_words = all(map(_COLUMN_NAME.fullmatch, first))
    return names_weight or only_first_is_text or (usual_words and not {*first[:2]} & {*rest[0], *rest[1]})


def _header_error(path: Path, line: int, cells: list[str], kind: str) -> DataFileError:
    shown = ",".join(cells[:4]) + (",…" if len(cells) > 4 else "")
    return DataFileError(
        f"{path} line {line}: {shown!r} looks like a header; announce it with header=[{kind!r}] "
        f"or --header {kind} to skip it."
    )


def _read_nodes(
    links: _Links, features: str | os.PathLike[str] | None, has_header: bool
) -> tuple[tuple[str, ...], Any]:
    """Return all node ids and the feature matrix: ids come from the features where there are any."""
    if features is None:
        node_ids, matrix = _ordered({*links.sources, *links.targets}), None
    elif Path(features).suffix.lower() == ".npz":
        matrix = _read_feature_archive(Path(features))
        node_ids = tuple(str(row) for row in range(matrix.shape[0]))
    else:
        node_ids, matrix = _read_feature_table(Path(features), has_header)
    if len(node_ids) < 2:
        raise DataFileError(f"{features or links.path} must name at least 2 nodes, got {len(node_ids)}.")
    return node_ids, matrix


def _read_feature_table(path: Path, has_header: bool) -> tuple[tuple[str, ...], Any]:
    seen: dict[str, int] = {}
    rows: list[Any] = []
    first: list[str] = []
    for line, cells in read_rows(path, skip_header=has_header):
        if not first:
            first = cells
            if len(cells) < 2:
                raise DataFileError(f"{path} line {line}: a node needs its id and at least one number, got 1 cell.")
            if not has_header and _names_features(cells):
                raise _header_error(path, line, cells, "features")
        require_width(path, line, cells, len(first))
        if not cells[0]:
            raise DataFileError(f"{path} line {line}: the node id is empty.")
        if cells[0] in seen:
            raise DataFileError(f"{path} line {line}: node {cells[0]!r} has a row in line {seen[cells[0]]} already.")
        seen[cells[0]] = line
        rows.append(_feature_row(path, line, cells))
    if not rows:
        raise DataFileError(f"{path} holds no nodes.")
    node_ids = tuple(seen)
    if not has_header and len(rows) > 1 and not is_number(first[0]) and all(map(is_number, node_ids[1:])):
        raise _header_error(path, seen[node_ids[0]], first, "features")
    return node_ids, np.stack(rows)


def _names_features(cells: list[str]) -> bool:
    """Say whether a row holds column names: no number, or 'id' and the column numbers 0, 1, 2 and so on."""
    counted = cells[1:] == [str(column) for column in range(len(cells) - 1)]
    return not any(map(is_number, cells[1:])) or (counted and _COLUMN_NAME.fullmatch(cells[0]) is not None)


def _feature_row(path: Path, line: int, cells: list[str]) -> Any:
    try:
        values = [float(cell) for cell in cells[1:]]
    except ValueError:
        values = [number_cell(path, line, cell, position) for position, cell in enumerate(cells[1:], 2)]
    with np.errstate(over="ignore"):
        row = np.array(values).astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(row))
    if bad.size:
        index = int(bad[0]) + 1
        raise DataFileError(f"{path} line {line}: cell {index + 1} must be finite in float32, got {cells[index]!r}.")
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


def _read_labels(path: Path, has_header: bool, number: dict[str, int]) -> dict[str, Any]:
    known: dict[str, str] = {}
    for row, (line, cells) in enumerate(read_rows(path, skip_header=has_header)):
        if len(cells) != 2:
            raise DataFileError(f"{path} line {line}: a label is a node id and a class, got {len(cells)} cell(s).")
        node, name = cells
        if node not in number:
            hint = "" if row or has_header else "; if the line is a header, announce it with --header labels"
            raise DataFileError(f"{path} line {line}: node {node!r} is not in the graph{hint}.")
        if name in _UNKNOWN_CLASS:
            continue
        if known.setdefault(node, name) != name:
            raise DataFileError(f"{path} line {line}: node {node!r} has two classes, {known[node]!r} and {name!r}.")
    if not known:
        raise DataFileError(f"{path} holds no labels.")
    class_names = _ordered(known.values())
    code = {name: index for index, name in enumerate(class_names)}
    labels: IntArray = np.full(len(number), -1, dtype=np.int64)
    for node, name in known.items():
        labels[number[node]] = code[name]
    return {"labels": labels, "class_names": class_names}


def _ordered(texts: Iterable[str]) -> tuple[str, ...]:
    """Return distinct texts: whole numbers by value, otherwise alphabetically."""
    distinct = sorted(set(texts))
    if all(text.isascii() and text.isdigit() and (text[0] != "0" or text == "0") for text in distinct):
        distinct.sort(key=len)  # after the alphabetical order, this is the order by value
    return tuple(distinct)
