"""A table of nodes: ids, features from numbers and text, and the classes and splits that stand beside them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fishergcn._base.types import FloatArray
from fishergcn.errors import DataFileError
from fishergcn.graph._formats._columns import Columns, names_features
from fishergcn.graph._formats._records import Records
from fishergcn.graph._formats._text import is_number

_EMPTY = ("", "nan", "na", "n/a", "null", "none")
_TRUTH = {"true": 1.0, "false": 0.0}
_MOST_VALUES = 1000  # of a text column, each of which becomes a feature
_FEW = 20
_TEXT_REMEDY = "; for text, text='drop' or --text drop leaves the column out, one-hot makes a feature of each value"
_EMPTY_REMEDY = "; empty='fill' or --empty fill takes the mean of the column, drop leaves the column out"


@dataclass
class Nodes:
    """What a table says about nodes, in its order."""

    table: Records
    ids: dict[str, int] = field(default_factory=dict)  # node: line
    names: list[str] | None = None
    header: int | None = None  # its line, if it was not announced
    features: Any = None
    feature_names: tuple[str, ...] | None = None
    classes: list[tuple[int, str, str]] | None = None  # line, node, class
    splits: dict[str, dict[str, str]] = field(default_factory=dict)  # column: node: part


def read_nodes(table: Records, columns: Columns, linked: Collection[str], *, announced: bool, trusted: bool) -> Nodes:
    """Read a table; a first row that holds names of columns, and no node that is ``linked``, is a header."""
    found = Nodes(table)
    reader: _Features | None = None
    place = width = label = 0
    first: list[str] = []
    split_places: dict[str, int] = {}
    chosen = [
        each for each in (columns.id, columns.label, *columns.split_columns, *columns.dropped) if each is not None
    ]
    for line, cells in table.rows:
        if reader is None and found.names is None and not first:
            by_choice = any(columns.needs_names(each) and each in cells for each in chosen)
            named = line == 0 or announced or by_choice
            if named or (not trusted and len(cells) > 1 and cells[0] not in linked and names_features(cells)):
                found.names, found.header = cells, None if named else line
                continue
        if reader is None:
            first, width = cells, len(cells)
            if width < 2 and found.names is None:
                raise DataFileError(
                    f"{table.at(line)}: a node needs its id and at least one number, got 1 cell; cells are separated "
                    "by commas, semicolons or tabs, in files not named .csv also by blanks."
                )
            names = _aligned(found.names, width)
            place, features = columns.of_nodes(table, names, width)
            columns.check_met()  # labels were read before
            reader = _Features(table, columns, features, names)
            label_place = None if columns.label is None else columns.place(table, names, width, columns.label)
            if label_place is not None:
                found.classes, label = [], label_place
            split_places = {
                str(each): at
                for each in columns.split_columns
                if (at := columns.place(table, names, width, each)) is not None
            }
            found.splits = {each: {} for each in split_places}
        table.require_width(line, cells, width)
        node = cells[place]
        if not node:
            raise DataFileError(f"{table.at(line)}: the node id is empty.")
        if node in found.ids:
            raise DataFileError(f"{table.at(line)}: node {node!r} has a row in {table.unit} {found.ids[node]} already.")
        found.ids[node] = line
        if found.classes is not None:
            found.classes.append((line, node, cells[label]))
        for each, at in split_places.items():
            found.splits[each][node] = cells[at]
        reader.add(line, cells)
    if reader is None or not found.ids:
        raise DataFileError(f"{table.name} holds no nodes.")
    ids = list(found.ids)
    suspected = not trusted and found.names is None and len(ids) > 1 and ids[0] not in linked
    if suspected and not is_number(ids[0]) and all(map(is_number, ids[1:])):  # a header of numbers, such as years
        found.names, found.header = first, found.ids.pop(ids[0])
        reader.forget_first(_aligned(first, width))
        found.classes = found.classes and found.classes[1:]
        for parts in found.splits.values():
            parts.pop(ids[0])
    found.features, found.feature_names = reader.matrix()
    return found


def _aligned(names: list[str] | None, width: int) -> list[str] | None:
    """Return a name for each column, or None: a header may leave out the cell above the node ids."""
    if names is not None and len(names) == width - 1:
        return ["", *names]
    return names if names is not None and len(names) == width else None


class _Features:
    """Rows of numbers, with notes of the cells that hold none."""

    def __init__(self, table: Records, columns: Columns, places: list[int], names: list[str] | None) -> None:
        self._table, self._columns, self._places, self._names = table, columns, places, names
        self._rows: list[Any] = []
        self._lines: list[int] = []
        self._texts: dict[int, str] = {}  # place: an example
        self._raw: list[list[str]] = []  # all cells, where text may become features
        self._empty: set[int] = set()

    def add(self, line: int, cells: list[str]) -> None:
        """Read the features of a row."""
        chosen = [cells[at] for at in self._places]
        self._rows.append(self._row(line, chosen))
        self._lines.append(line)
        if self._columns.text == "one-hot":
            self._raw.append(chosen)

    def forget_first(self, names: list[str] | None) -> None:
        """Take the first row for a header."""
        self._names = names
        self._rows, self._lines, self._raw = self._rows[1:], self._lines[1:], self._raw[1:]

    def _row(self, line: int, chosen: list[str]) -> Any:
        text = "".join(chosen)
        try:
            if not text.isascii() or any(map(text.__contains__, "_eE")) or max(map(len, chosen), default=0) > 300:
                raise ValueError("each cell is to be looked at")
            values = [float(cell) for cell in chosen]
            if any(value != value for value in values):
                raise ValueError("not a number")
        except ValueError:
            values = [self._value(line, cell, at) for at, cell in enumerate(chosen)]
        exact = np.array(values, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            row = exact.astype(np.float32)
        bad = np.flatnonzero(np.isinf(row) | ((row == 0) & (exact != 0)))
        if bad.size:
            at = int(bad[0])
            what = "finite in float32" if np.isinf(row[at]) else "0 or at least 1.4e-45, the least of float32"
            raise DataFileError(
                f"{self._table.at(line)}: cell {self._places[at] + 1} must be {what}, got {chosen[at]!r}."
            )
        return row

    def _value(self, line: int, cell: str, at: int) -> float:
        """Return the number of a cell; NaN where there is none and that was allowed."""
        if cell.lower() in _TRUTH:
            return _TRUTH[cell.lower()]
        if cell.lower() in _EMPTY:
            if self._columns.empty == "refuse":
                got = repr(cell) if cell else "an empty cell"
                raise DataFileError(
                    f"{self._table.at(line)}: cell {self._places[at] + 1} must be a number, got {got}{_EMPTY_REMEDY}."
                )
            self._empty.add(at)
            return float("nan")
        if self._columns.text == "refuse" or is_number(cell):
            return self._table.number(line, cell, self._places[at], _TEXT_REMEDY)
        self._texts.setdefault(at, cell)
        return float("nan")

    def matrix(self) -> tuple[Any, tuple[str, ...] | None]:
        """Return the features and their names; None without columns."""
        if not self._places:
            return None, None
        numbers = np.stack(self._rows)
        blocks: list[FloatArray] = []
        names: list[str] = []
        gaps: dict[int, str] = {}  # block: what its column is called
        for at, place in enumerate(self._places):
            called = self._called(place)
            if at in self._texts:
                if self._columns.text == "one-hot":
                    values = self._values(at, called)
                    column = np.array([row[at] for row in self._raw])
                    blocks += [(column == value).astype(np.float32)[:, None] for value in values]
                    names += [f"{called}={value}" for value in values]
                else:
                    self._columns.notes.append(
                        f"{self._table.name}: column {called!r} is left out, since it holds text such as "
                        f"{self._texts[at]!r}."
                    )
                continue
            column = numbers[:, at]
            if at in self._empty:
                missing = np.isnan(column)
                if self._columns.empty == "drop" or (missing.all() and self._columns.means is None):
                    what = "nothing else" if missing.all() else f"{missing.sum()} empty cell(s)"
                    self._columns.notes.append(f"{self._table.name}: column {called!r} is left out: {what}.")
                    continue
                gaps[len(blocks)] = called
            blocks.append(column[:, None])
            names.append(called)
        if not blocks:
            return None, None
        known = self._names is not None or self._texts or len(blocks) < len(self._places)
        found = tuple(names) if known and all(names) and len({*names}) == len(names) else None
        for block, called in gaps.items():
            blocks[block] = self._filled(blocks[block], called, None if found is None else found[block], block)
        if not self._texts and not self._empty:
            return numbers, found
        return np.concatenate(blocks, axis=1), found

    def _filled(self, column: FloatArray, called: str, name: str | None, place: int) -> FloatArray:
        """Return a column with its empty cells filled: with the mean of training where that is known."""
        missing = np.isnan(column)
        means = self._columns.means
        mean = None if means is None else means.find(name, place)
        whose = "its mean" if mean is None else "its mean in training"
        if mean is None:  # of a column that training did not have: it is left out later
            mean = 0.0 if missing.all() else float(column[~missing].astype(np.float64).mean())
        self._columns.notes.append(
            f"{self._table.name}: {missing.sum()} empty cell(s) of column {called!r} are filled with {whose}, {mean:g}."
        )
        return np.where(missing, np.float32(mean), column)

    def _called(self, place: int) -> str:
        return str(place + 1) if self._names is None else self._names[place]

    def _values(self, at: int, called: str) -> list[str]:
        """Return the values of a text column, each of which becomes a feature."""
        values = sorted({row[at] for row in self._raw if row[at].lower() not in _EMPTY})
        if len(values) > _MOST_VALUES or len(values) > max(_FEW, len(self._rows) // 2):
            raise DataFileError(
                f"{self._table.name}: column {called!r} has {len(values)} texts for {len(self._rows)} nodes, "
                f"too many for one-hot features; drop=[{called!r}] or --drop {called} leaves it out."
            )
        self._columns.notes.append(
            f"{self._table.name}: column {called!r} becomes {len(values)} features, one for each text."
        )
        return values
