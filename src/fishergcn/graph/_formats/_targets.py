"""Several labels a node and numbers from tables: in one column, in several, or in a line for each label.

One column: the labels of a node are separated by ``|`` or ``;``, or by commas if no cell has either and the task is
said to be this; a cell that holds a separator alone is a node without any label, an empty one a node whose labels are
unknown. Several columns: 1 or 0 (yes or no, true or false) in each, with the column's name for the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn.errors import DataFileError
from fishergcn.graph._formats._text import has_comma, is_number, read_comma

if TYPE_CHECKING:
    from fishergcn.graph._formats._columns import Columns
    from fishergcn.graph._formats._records import Records

_BETWEEN = "\x1f"  # labels of several columns, in the one text that is made of them
_SEPARATORS = "|;"
_YES, _NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")
_FEW = 20  # numbers, of which no more may well be classes


def joined(table: Records, line: int, cells: Sequence[str], places: Sequence[int], columns: Columns) -> str:
    """Return the cell of the only column of labels, or one text for those of several."""
    if len(places) == 1:
        return cells[places[0]]
    found, absent = [], [columns.is_missing(cells[at]) for at in places]
    if all(absent):
        return ""
    for at, name in zip(places, columns.label_columns, strict=True):
        if cells[at].lower() not in (*_YES, *_NO):
            raise DataFileError(
                f"{table.at(line)}: columns of labels must hold 1 or 0, or nothing in all of them, got {cells[at]!r} "
                f"in {name!r}."
            )
        found += [str(name)] if cells[at].lower() in _YES else []
    return _BETWEEN.join([*found, ""]) or _BETWEEN


def task_of(texts: Sequence[str], columns: Columns, table: Records) -> str:
    """Return what known cells are for: as was said, or found out, with a note."""
    if len(columns.label_columns) > 1:
        if columns.task not in (None, "multilabel"):
            raise DataFileError(f"several columns of labels are for task='multilabel', got task={columns.task!r}.")
        return "multilabel"
    if columns.task is not None:
        return columns.task
    distinct = set(texts)
    numbers = {text: read_comma(text) for text in distinct if is_number(text) or has_comma(text)}
    many = len(numbers) > max(_FEW, 0.1 * len(texts))
    if many and any(value != round(value) for value in numbers.values() if abs(value) < 2**53):
        others = sorted(distinct.difference(numbers))
        if others:
            raise DataFileError(
                f"{table.name}: labels are mixed, {others[0]!r} beside {len(numbers)} different numbers; missing= says "
                "which texts mean unknown, task='classification' takes all of them for classes."
            )
        columns.notes.append(
            f"{table.name}: labels are {len(numbers)} different numbers, which are predicted as numbers "
            "(task='regression'); task='classification' takes them for classes."
        )
        return "regression"
    if many and len(numbers) == len(distinct):
        columns.notes.append(
            f"{table.name}: labels are {len(numbers)} different whole numbers, which are taken for classes; "
            "task='regression' predicts them as numbers."
        )
    for separator in _SEPARATORS:
        several = [text for text in distinct if separator in text.strip(separator)]
        parts = [part.strip() for text in distinct for part in text.split(separator)]
        if several and len(set(parts)) < len(parts):
            columns.notes.append(
                f"{table.name}: {min(several)!r} is read as several labels (task='multilabel'); task='classification' "
                "takes it for the name of a class."
            )
            return "multilabel"
    return "classification"


def label_arguments(known: Mapping[str, Sequence[str]], number: Mapping[str, int], columns: Columns) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for several labels a node, from its cells."""
    between = _BETWEEN if len(columns.label_columns) > 1 else _SEPARATORS
    if between == _SEPARATORS and not any(
        each in cell for cells in known.values() for cell in cells for each in between
    ):
        between = ","
    own: dict[str, set[str]] = {}
    for node, cells in known.items():
        texts = "\n".join(cells)
        for separator in between:
            texts = texts.replace(separator, "\n")
        own[node] = {part.strip() for part in texts.split("\n")} - {""}
    names = list(map(str, columns.label_columns)) if between == _BETWEEN else sorted(set().union(*own.values()))
    if not names:
        raise DataFileError("no node has a label.")
    targets = np.full((len(number), len(names)), -1, dtype=np.int8)
    for node, labels in own.items():
        targets[number[node]] = [name in labels for name in names]
    return {"labels": targets, "class_names": names, "task": "multilabel"}


def number_arguments(
    known: Mapping[str, tuple[int, str]], number: Mapping[str, int], columns: Columns, table: Records
) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for a number a node, from its line and its cell."""
    targets = np.full(len(number), np.nan)
    for node, (line, cell) in known.items():
        if not is_number(cell) and not has_comma(cell):
            raise DataFileError(
                f"{table.at(line)}: {cell!r} is not a number, which task='regression' needs; missing= says which texts "
                "mean unknown."
            )
        targets[number[node]] = float(cell) if is_number(cell) else read_comma(cell)
    return {
        "labels": targets,
        "class_names": [columns.label_name] if columns.label_name else None,
        "task": "regression",
    }
