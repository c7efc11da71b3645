"""Which columns of tables are what: said by name or number, or understood from their names; and what was understood."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from fishergcn._base.checks import check_choice
from fishergcn._base.types import FloatArray
from fishergcn.errors import DataFileError, InputError, Notice, suggestion
from fishergcn.graph._formats._records import Records
from fishergcn.graph._formats._splits import is_archive
from fishergcn.graph._formats._text import is_number

if TYPE_CHECKING:
    from fishergcn.graph._graph import Graph

# What to do with columns of text, and with those that have empty cells.
Text: TypeAlias = Literal["refuse", "drop", "one-hot"]
Empty: TypeAlias = Literal["refuse", "drop", "fill"]
Column: TypeAlias = str | int

_SOURCE = re.compile(
    r"(source|src|from|head|start|left|u|citing|follower)([ _]?node)?([ _]?id)?|(node|id)[ _]?(1|a)", re.I
)
_TARGET = re.compile(r"(target|dst|to|tail|end|right|v|cited|followed)([ _]?node)?([ _]?id)?|(node|id)[ _]?(2|b)", re.I)
_WEIGHT = re.compile(r"weight|strength|w", re.I)
_ID = re.compile(r"(node|vertex)?[ _]?id|node|vertex", re.I)
_LABEL = re.compile(r"label|class|category|target|y", re.I)
COLUMN_NAME = re.compile(  # such as source, from_node, NodeId1
    "(source|target|src|dst|from|to|head|tail|start|end|left|right|u|v|weight|label|class|node|id|name"
    "|person|member|friend|user|author|paper|page|item|vertex|citing|cited|follower|followed)"
    "([ _]?node)?([ _]?id)?([ _]?[12ab])?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Means:
    """What fills empty cells: the means of another graph's columns, found by name if both have names, else by number.

    A column that was filled with its mean keeps that mean, so that the graph itself remembers what it was filled with.
    """

    names: tuple[str, ...] | None
    values: FloatArray

    @classmethod
    def of(cls, graph: Graph) -> Means:
        """Return the means of a graph's features."""
        features = np.zeros((1, 0)) if graph.features is None else graph.features
        return cls(graph.feature_names, np.asarray(features.mean(axis=0, dtype=np.float64)).ravel())

    def find(self, name: str | None, place: int) -> float | None:
        """Return the mean of a column, or None if there is no such column."""
        if name is not None and self.names is not None:
            place = self.names.index(name) if name in self.names else len(self.values)
        return float(self.values[place]) if place < len(self.values) else None


@dataclass
class Columns:
    """What was said about columns, and notes of what was understood beyond that."""

    source: Column | None = None
    target: Column | None = None
    weight: Column | None = None
    id: Column | None = None
    label: Column | None = None
    parts: Column | Sequence[Column] = ()
    drop: Column | Sequence[Column] = ()
    text: Text = "refuse"
    empty: Empty = "refuse"
    means: Means | None = None  # those of the table itself if there are no others
    notes: list[str] = field(default_factory=list)
    met: set[str] = field(default_factory=set)
    unmet: dict[str, list[str]] = field(default_factory=dict)  # what a table did not have, and what it had

    def __post_init__(self) -> None:
        check_choice("text", self.text, get_args(Text))
        check_choice("empty", self.empty, get_args(Empty))
        if (self.source is None) != (self.target is None):
            raise InputError("source and target must be given together, got one of them.")
        for one in (self.source, self.target, self.weight, self.id, self.label, *self.splits, *self.dropped):
            if isinstance(one, bool) or not (one is None or isinstance(one, str | int)):
                raise InputError(f"a column must be a name or a number from 1, got {one!r}.")

    @property
    def splits(self) -> list[Column]:
        """Where splits come from: columns, or an archive."""
        return [self.parts] if isinstance(self.parts, str | int) else list(self.parts)

    @property
    def dropped(self) -> list[Column]:
        """The columns of features that are left out."""
        return [self.drop] if isinstance(self.drop, str | int) else list(self.drop)

    @property
    def split_columns(self) -> list[Column]:
        """The columns that hold splits: none if they come from an archive."""
        return [each for each in self.splits if not is_archive(each)]

    def needs_names(self, *chosen: Column | None) -> bool:
        """Say whether a column was chosen by its name, so that the table must begin with names."""
        return any(isinstance(each, str) and not each.isdigit() for each in chosen)

    def place(self, table: Records, names: Sequence[str] | None, width: int, column: Column) -> int | None:
        """Return where a column is; None if the table has no such name. Names come first, then numbers from 1."""
        if names is not None and str(column) in names:
            self.met.add(str(column))
            found = [at for at, name in enumerate(names) if name == str(column)]
            if len(found) > 1:
                raise DataFileError(
                    f"{table.name} has {len(found)} columns called {column!r}; choose by number: "
                    f"{' or '.join(str(at + 1) for at in found)}."
                )
            return found[0]
        if isinstance(column, int) or column.isdigit():
            if 1 <= int(column) <= width:
                return int(column) - 1
            raise DataFileError(f"{table.name} has columns 1 to {width}, got {column}.")
        self.unmet.setdefault(str(column), []).extend(names or ())
        return None

    def required(self, table: Records, names: Sequence[str] | None, width: int, column: Column) -> int:
        """Return where a column is, or raise if the table does not have it."""
        found = self.place(table, names, width, column)
        if found is None:
            self.check_met()
            raise DataFileError(f"{table.name} has no column {column!r}.")
        return found

    def check_met(self) -> None:
        """Raise if a column was chosen that no table has."""
        for column in [each for each in self.unmet if each not in self.met]:
            names = self.unmet[column]
            shown = ", ".join(repr(name) for name in dict.fromkeys(names[:20])) or "no names"
            raise DataFileError(f"no file has a column {column!r}{suggestion(column, names)}; there are {shown}.")

    def tell(self) -> None:
        """Give notice of what was understood."""
        from fishergcn._base.warn import warn  # which waits for torch

        for each in self.notes:
            warn(each, Notice)

    def of_links(self, table: Records, names: Sequence[str] | None, line: int, width: int) -> list[int]:
        """Return where a link's source, target and, if it has one, weight are."""
        if self.source is not None and self.target is not None:
            chosen = [self.source, self.target, *([] if self.weight is None else [self.weight])]
            return [self.required(table, names, width, each) for each in chosen]
        places = self._understood(names, width)
        if self.weight is not None and len(places) >= 2:
            places = [*places[:2], self.required(table, names, width, self.weight)]
        if len(places) not in (2, 3):
            remedy = "; cells are separated by commas, semicolons or tabs, in files not named .csv also by blanks"
            if width > 3:
                remedy = "; choose them, by name or number: source= and target=, or --source and --target"
            raise DataFileError(
                f"{table.at(line)}: a link is two node ids, maybe a weight, not {width} cell(s){remedy}."
            )
        if names is not None and (
            width > len(places) or (len(places) == 3 and not _WEIGHT.fullmatch(names[places[2]]))
        ):
            roles = zip(("source", "target", "weight"), places, strict=False)
            said = ", ".join(f"{role} {names[at] or at + 1!r}" for role, at in roles)
            rest = [names[at] or "the index" for at in range(width) if at not in places]
            self.notes.append(f"{table.name}: {said}{f'; left out: {_some(rest)}' if rest else ''}.")
        return places

    def _understood(self, names: Sequence[str] | None, width: int) -> list[int]:
        """Return the places of a link that names tell; those of all columns but an index if they do not."""
        if names is not None and width > 2:
            found = [
                [at for at, name in enumerate(names) if word.fullmatch(name)] for word in (_SOURCE, _TARGET, _WEIGHT)
            ]
            if len(found[0]) == len(found[1]) == 1:
                rest = [at for at in range(width) if at not in (found[0][0], found[1][0]) and names[at]]
                # A third column alone is the weight, whatever it is called.
                third = found[2] if len(found[2]) == 1 else rest if len(rest) == 1 and not found[2] else []
                return [found[0][0], found[1][0], *third]
        places = list(range(width))
        return places[1:] if names is not None and names[0] == "" and width > 2 else places

    def of_nodes(self, table: Records, names: Sequence[str] | None, width: int) -> tuple[int, list[int]]:
        """Return where the node ids are, and the features: all columns that nothing else was said about."""
        others = [*self.dropped, *self.split_columns, *([] if self.label is None else [self.label])]
        taken = {self.place(table, names, width, each) for each in others}
        chosen = None if self.id is None else self.place(table, names, width, self.id)
        if chosen is None:
            chosen = 0
            if names is not None and width > 2 and names[0] == "" and _ID.fullmatch(names[1]):
                chosen = 1
                self.notes.append(f"{table.name}: node ids are in column {names[1]!r}; left out: the index.")
            elif names is not None and width > 1 and names[0] == "" and table.unit != "node":
                # An index that numbers the rows may well look like the ids, which are in another column.
                self.notes.append(
                    f"{table.name}: node ids are in the first column, which has no name; id= or --id chooses another."
                )
        first = 1 if chosen > 0 and names is not None and names[0] == "" else 0  # an index is no feature
        features = [at for at in range(first, width) if at != chosen and at not in taken]
        for at in features:
            # One letter may be a coordinate.
            if names is not None and self.label is None and len(names[at]) > 1 and _LABEL.fullmatch(names[at]):
                self.notes.append(
                    f"{table.name}: column {names[at]!r} is taken for a feature; if it holds the classes, say so with "
                    f"label={names[at]!r} or --label {names[at]}."
                )
        return chosen, features

    def of_labels(self, table: Records, names: Sequence[str] | None, line: int, width: int) -> tuple[int, int]:
        """Return where the node ids and the classes are in a table of labels."""
        node = None if self.id is None else self.place(table, names, width, self.id)
        label = None if self.label is None else self.place(table, names, width, self.label)
        index = int(names is not None and width > 2 and names[0] == "")
        node = index if node is None else node
        if label is None and width - index == 2:
            label = index + 1 if node == index else index
        if label is None and names is not None:
            found = [at for at, name in enumerate(names) if _LABEL.fullmatch(name) and at != node]
            if len(found) == 1:
                label = found[0]
                self.notes.append(f"{table.name}: node ids are in column {names[node]!r}, classes in {names[label]!r}.")
        if label is None or width < 2:
            remedy = "; choose them, by name or number: id= and label=, or --id and --label"
            if width == 1:
                remedy = "; cells are separated by commas, semicolons or tabs, in files not named .csv also by blanks"
            raise DataFileError(f"{table.at(line)}: a label is a node id and a class, got {width} cell(s){remedy}.")
        return node, label


def names_a_link(cells: Iterable[str]) -> bool:
    """Say whether a first row of many cells names the ends of links."""
    cells = list(cells)
    return all(any(word.fullmatch(cell) for cell in cells) for word in (_SOURCE, _TARGET))


def names_a_label(cells: Iterable[str]) -> bool:
    """Say whether a cell of a first row is a usual name for the classes or the nodes."""
    return any(word.fullmatch(cell) for cell in cells if len(cell) > 1 for word in (_LABEL, _ID))


def names_features(cells: list[str]) -> bool:
    """Say whether a row holds column names: no number, or 'id' and the column numbers 0, 1, 2 and so on."""
    counted = cells[1:] == [str(column) for column in range(len(cells) - 1)]
    return not any(map(is_number, cells[1:])) or (counted and COLUMN_NAME.fullmatch(cells[0]) is not None)


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
