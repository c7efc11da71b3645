"""Which columns of tables are what: said by name or number, or understood from their names; and what was understood."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from fishergcn._base.checks import check_choice
from fishergcn._base.types import FloatArray
from fishergcn.errors import DataFileError, InputError, Notice, suggestion
from fishergcn.graph._formats._reading import MISSING, NO_WEIGHT, WORDS, Column, Empty, Kind, Repeated, Text, Unknown
from fishergcn.graph._formats._records import Records
from fishergcn.graph._formats._splits import is_archive
from fishergcn.graph._formats._text import is_number
from fishergcn.graph._targets import Task

if TYPE_CHECKING:
    from fishergcn.graph._graph import Graph

_SOURCE = re.compile(
    r"(source|src|from|head|start|left|u|citing|follower)([ _]?node)?([ _]?id)?|(node|id)[ _]?(1|a)", re.I
)
_TARGET = re.compile(r"(target|dst|to|tail|end|right|v|cited|followed)([ _]?node)?([ _]?id)?|(node|id)[ _]?(2|b)", re.I)
_PAIRS = (("source", "target"), ("src", "dst"), ("from", "to"), ("head", "tail"), ("left", "right"),
          ("citing", "cited"), ("follower", "followed"), ("sender", "receiver"), ("origin", "destination"),
          ("von", "nach"), ("a", "b"), ("1", "2"))  # fmt: skip
_MOST_PAIRED = 40  # columns
_FEWEST = 5  # rows that say which column holds ids
_PART = re.compile(r"[A-Za-z]+|[0-9]+")
_WEIGHT = re.compile(r"((edge|link)[ _]?)?weights?|strength|w", re.I)
_ID = re.compile(r"(node|vertex)?[ _]?id|node|vertex", re.I)
_INDEX = re.compile(  # of rows, as tables of data frames have it
    "(unnamed: ?0|index|rownames|row|(row|edge|link)[ _]?(id|index|number|num|nr|no))?", re.I
)
_ZEROS = re.compile("0[0-9]")  # begins a number of a person or place, not one to reckon with
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

    names: Mapping[str, int] | None
    values: FloatArray

    @classmethod
    def of(cls, graph: Graph) -> Means:
        """Return the means of a graph's features."""
        features = np.zeros((1, 0)) if graph.features is None else graph.features
        names = None if graph.feature_names is None else {name: at for at, name in enumerate(graph.feature_names)}
        return cls(names, np.asarray(features.mean(axis=0, dtype=np.float64)).ravel())

    def find(self, name: str | None, place: int) -> float | None:
        """Return the mean of a column, or None if there is no such column."""
        if name is not None and self.names is not None:
            place = self.names.get(name, len(self.values))
        return float(self.values[place]) if place < len(self.values) else None


@dataclass
class Columns:
    """What was said about columns, notes of what was understood beyond that, and problems, reported together.

    ``like`` is a graph of other tables: what is not said is as it was with them.
    """

    source: Column | None = None
    target: Column | None = None
    weight: Column | None = None
    id: Column | None = None
    label: Column | Sequence[Column] | None = None
    parts: Column | Sequence[Column] = ()
    drop: Column | Sequence[Column] = ()
    columns: Mapping[str, Kind] | None = None
    text: Text | None = None
    empty: Empty | None = None
    missing: str | Sequence[str] | None = None
    unknown: Unknown | None = None
    repeated: Repeated | None = None
    fill_from: Graph | None = None  # whose means fill empty cells: those of the table itself if there is none
    like: Graph | None = None
    task: Task | None = None
    notes: list[str] = field(init=False, default_factory=list)
    problems: list[str] = field(init=False, default_factory=list)
    met: set[str] = field(init=False, default_factory=set)
    unmet: dict[str, list[str]] = field(init=False, default_factory=dict)  # what a table did not have, and what it had
    kinds: dict[int, Kind] = field(init=False, default_factory=dict)  # by their places in the table of nodes
    reading: dict[str, Any] = field(init=False, default_factory=dict)  # how tables were read
    label_name: str = field(init=False, default="")  # of the column of labels, if it has one

    def __post_init__(self) -> None:
        for name in ("fill_from", "like"):
            other: Any = getattr(self, name)
            if other is not None and not hasattr(other, "reading"):
                raise InputError(f"{name} must be a Graph, got {type(other).__name__}.")
        self.past: Mapping[str, Any] = (self.like and self.like.reading) or {}
        given: dict[str, Any] = {name: getattr(self, name) for name in WORDS}
        for name, value in given.items():
            value = self.past.get(name, "refuse") if value is None else check_choice(name, value, WORDS[name])
            setattr(self, name, value)
            self.reading[name] = value
        if (self.source is None) != (self.target is None):
            raise InputError("source and target must be given together, got one of them.")
        for one in (self.source, self.target, self.weight, self.id, *self.label_columns, *self.splits, *self.dropped):
            if isinstance(one, bool) or not (one is None or isinstance(one, str | int)):
                raise InputError(f"a column must be a name or a number from 1, got {one!r}.")
        if self.task is not None:
            check_choice("task", self.task, get_args(Task))
        for column, kind in (self.columns or {}).items():
            check_choice(f"columns[{column!r}]", kind, get_args(Kind))
        if self.missing is None and "missing" in self.past:
            self.missing = tuple(self.past["missing"])
        if isinstance(self.missing, str):
            self.missing = (self.missing,)
        if self.missing is not None:
            self.reading["missing"] = list(self.missing)

    @cached_property
    def means(self) -> Means | None:
        """What fills empty cells, if that is not the mean of the column itself."""
        graph = self.fill_from or self.like
        return None if graph is None or self.empty != "fill" else Means.of(graph)

    @cached_property
    def known(self) -> dict[str, None] | None:
        """The columns that became features of the graph to read alike, if they have names."""
        if self.like is None or self.like.feature_names is None:
            return None
        texts: Mapping[str, Sequence[str]] = self.past.get("categories", {})
        encoded = {f"{column}={text}" for column, values in texts.items() for text in values}
        return dict.fromkeys([*(name for name in self.like.feature_names if name not in encoded), *texts])

    @cached_property
    def _absent(self) -> frozenset[str]:
        return frozenset(each.lower() for each in ("", *(MISSING if self.missing is None else self.missing)))

    @cached_property
    def marks(self) -> list[float]:
        """Numbers that stand for no value."""
        return [float(each) for each in self._absent if is_number(each)]

    def is_missing(self, cell: str) -> bool:
        """Say whether a cell holds no value: the one rule for features, classes and splits of all formats."""
        return cell.lower() in self._absent

    @property
    def splits(self) -> list[Column]:
        """Where splits come from: columns, or an archive."""
        return [self.parts] if isinstance(self.parts, str | int) else list(self.parts)

    @property
    def label_columns(self) -> list[Column]:
        """The columns of classes, or of labels if they are several."""
        return _listed(self.label)

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

    def _as_before(self, role: str, names: Sequence[str] | None, width: int) -> int | None:
        """Return where a column is that had a role in the tables to read alike; None if it is not there."""
        return self._found_before(self.past.get(role), names, width)

    @staticmethod
    def _found_before(column: Column | None, names: Sequence[str] | None, width: int) -> int | None:
        if isinstance(column, int):
            return column - 1 if 1 <= column <= width else None
        return names.index(column) if names is not None and column in names else None

    def named_before(self, cells: Sequence[str], *roles: str) -> bool:
        """Say whether a first row has the names that some roles had in the tables to read alike."""
        names = [self.past.get(role) for role in roles]
        return all(isinstance(name, str) and name in cells for name in names)

    def remember(self, names: Sequence[str] | None, **places: int) -> None:
        """Keep which columns had a role: by name if they have one."""
        for role, at in places.items():
            self.reading[role] = names[at] if names is not None and names[at] else at + 1

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

    def check_problems(self) -> None:
        """Raise one sentence for all problems, if there are any."""
        if self.problems:
            raise DataFileError("; ".join(self.problems) + ".")

    def tell(self) -> None:
        """Give notice of what was understood."""
        from fishergcn._base.warn import warn  # which waits for torch

        for each in self.notes:
            warn(each, Notice)

    def of_links(self, table: Records, names: Sequence[str] | None, line: int, width: int) -> list[int]:
        """Return where a link's source, target and, if it has one, weight are."""
        if self.source is not None and self.target is not None:
            places = [self.required(table, names, width, each) for each in (self.source, self.target)]
        else:
            before = [self._as_before(role, names, width) for role in ("source", "target")]
            places = [at for at in before if at is not None]
            places = places if len(places) == 2 else self._ends(names, width)
        if len(places) != 2:
            remedy = "; cells are separated by commas, semicolons or tabs, in files not named .csv also by blanks"
            if width > 3:
                remedy = "; choose them, by name or number: source= and target="
                if names is not None:
                    remedy += f" (there are {_some(names)})"
            raise DataFileError(
                f"{table.at(line)}: a link is two node ids, maybe a weight, not {width} cell(s){remedy}."
            )
        weight = self._weight(table, names, width, places)
        if names is not None or self.source is not None or width > 3:
            self.remember(names, source=places[0], target=places[1])
        if names is not None and (self.source is None or self.weight is None) and not self.past:
            self.note_left_out(table, names, places, weight)
        return places if weight is None else [*places, weight]

    def note_left_out(self, table: Records, names: Sequence[str], ends: Sequence[int], weight: int | None) -> None:
        """Keep a note of the columns of links that are not read, if there are any."""
        rest = [at for at in range(len(names)) if at not in (*ends, weight)]
        if not rest:
            return
        found = [*ends, *([] if weight is None else [weight])]
        roles = zip(("source", "target", "weight"), found, strict=False)
        said = ", ".join(f"{role} {names[at] or at + 1!r}" for role, at in roles)
        left = [repr(names[at]) if names[at] else f"column {at + 1}" if at else "the index" for at in rest]
        free = [names[at] for at in rest if not _INDEX.fullmatch(names[at])]
        free = free if weight is None and self.weight is None else []
        remedy = f"; weight={free[0]!r} makes it the weight" if len(free) == 1 else ""
        self.notes.append(f"{table.name}: {said}; left out: {_few(left)}{remedy}.")

    def _weight(self, table: Records, names: Sequence[str] | None, width: int, ends: Sequence[int]) -> int | None:
        """Return where the weight is: said, as before, or called so; without names maybe the third of three columns."""
        chosen = self.link_weight
        if chosen == NO_WEIGHT and not (names is not None and NO_WEIGHT in names):
            if self.weight is None and width > 2 and (names is None or any(map(_WEIGHT.fullmatch, names))):
                self.notes.append(f"{table.name}: links have no weights, since those in training had none.")
            return None
        if chosen is not None:
            if self.weight is None and self._found_before(chosen, names, width) is None:
                raise DataFileError(
                    f"{table.name} has no column {chosen!r}, the weight of the links in training; weight='none' reads "
                    "links without weights."
                )
            return self.required(table, names, width, chosen)
        if names is None:
            return 2 if width == 3 and self.source is None else None
        found = [at for at, name in enumerate(names) if is_weight(name) and at not in ends]
        return found[0] if len(found) == 1 else None

    @property
    def link_weight(self) -> Column | None:
        """The column of weights that was said, or the one of before."""
        return self.past.get("weight") if self.weight is None else self.weight

    def _ends(self, names: Sequence[str] | None, width: int) -> list[int]:
        """Return the places of a link's ends: those that names tell, else the first two but for an index."""
        if names is not None and width > 2:
            found = _named_ends(names)
            if found:
                return found
        places = list(range(width))
        if names is not None and width > 2 and _INDEX.fullmatch(names[0]):
            places = places[1:]
        return places[:2] if len(places) <= 3 or self.weight is not None else []

    def of_nodes(
        self, table: Records, names: Sequence[str] | None, rows: Sequence[Sequence[str]], linked: Collection[str]
    ) -> tuple[int, list[int]]:
        """Return where the node ids are, and the features: all columns that nothing else was said about.

        ``rows`` are the cells of the first rows, ``linked`` the nodes of the links.
        """
        width = len(rows[0])
        others = [*self.dropped, *self.split_columns, *self.label_columns]
        taken = {self.place(table, names, width, each) for each in others}
        taken |= {self._found_before(each, names, width) for each in self.past.get("parts", ())}
        taken |= {self._found_before(each, names, width) for each in _listed(self.past.get("label"))}
        self._place_kinds(table, names, width)
        taken |= {at for at, kind in self.kinds.items() if kind == "drop"}
        chosen = self._ids(table, names, rows, linked, {at for at in taken if at is not None})
        if chosen > 0 and names is not None and self._is_index(names[0], rows[0][0]):
            taken.add(0)  # which is no feature
            if names[0] and self.id is not None:
                self.notes.append(
                    f"{table.name}: column {names[0]!r} is left out, since it looks like an index; "
                    f"columns={{{names[0]!r}: 'number'}} reads it."
                )
        features = [at for at in range(width) if at != chosen and at not in taken]
        if names is None or self.label is not None or self.past:
            return chosen, self._as_known(table, names, features)
        for at in features:
            # One letter may be a coordinate.
            if len(names[at]) > 1 and _LABEL.fullmatch(names[at]) and at not in self.kinds:
                self.notes.append(
                    f"{table.name}: column {names[at]!r} is taken for a feature; if it holds the classes, say so with "
                    f"label={names[at]!r}."
                )
        return chosen, features

    def _place_kinds(self, table: Records, names: Sequence[str] | None, width: int) -> None:
        """Find the columns whose kind was said, or is known from before."""
        for column, kind in self.past.get("columns", {}).items():
            at = self._found_before(int(column) if names is None and column.isdigit() else column, names, width)
            if at is not None:
                self.kinds[at] = kind
        for column, kind in (self.columns or {}).items():
            at = self.place(table, names, width, column)
            if at is not None:
                self.kinds[at] = kind

    def _is_index(self, name: str, cell: str) -> bool:
        """Say whether a first column that is not that of the ids numbers the rows, and nobody wants it."""
        if 0 in self.kinds or name in (self.known or ()):
            return False
        return not name or (_INDEX.fullmatch(name) is not None and cell.isdigit())

    def _ids(
        self,
        table: Records,
        names: Sequence[str] | None,
        rows: Sequence[Sequence[str]],
        linked: Collection[str],
        taken: Collection[int],
    ) -> int:
        """Return where the node ids are: in a column that is not ``taken`` for something else."""
        width = len(rows[0])
        if self.id is not None:
            found = self.place(table, names, width, self.id)
        else:
            found, before = self._as_before("id", names, width), self.past.get("id")
            if found is None and names is not None and isinstance(before, str):
                raise DataFileError(
                    f"{table.name} has no column {before!r}, the node ids in training; there are {_some(names)}; id= "
                    "chooses another."
                )
        if found is None:
            found = min({*range(width)} - {*taken}, default=0)
            beside = _beside_index(names, rows, linked)
            if names is not None and found == 0 and beside is not None and beside not in taken:
                found = beside
                self.notes.append(f"{table.name}: node ids are in column {names[found]!r}; left out: the index.")
            elif names is not None and width > 1 and _INDEX.fullmatch(names[found]) and table.unit != "node":
                # An index that numbers the rows may well look like the ids, which are in another column.
                where = f"column {names[found]!r}" if names[found] else "the first column, which has no name"
                self.notes.append(f"{table.name}: node ids are in {where}; id= chooses another.")
        if found > 0 or self.id is not None or (names is not None and names[0]):
            self.remember(names, id=found)
        return found

    def _as_known(self, table: Records, names: Sequence[str] | None, features: list[int]) -> list[int]:
        """Return the places of features that the graph to read alike has; raise if one is missing."""
        if names is None or self.known is None:
            return features
        present = {names[at] for at in features}
        lost = [name for name in self.known if name not in present]
        if lost:
            many = f"columns {_some(lost)}" if len(lost) > 1 else f"column {lost[0]!r}"
            raise DataFileError(f"{table.name} has no {many}, which training had.")
        new = [names[at] for at in features if names[at] not in self.known]
        if new:
            self.notes.append(f"{table.name}: left out, since training did not have {_it(new)}: {_some(new)}.")
        return [at for at in features if names[at] in self.known]

    def of_labels(self, table: Records, names: Sequence[str] | None, line: int, width: int) -> tuple[int, list[int]]:
        """Return where the node ids and the classes are in a table of labels."""
        node = None if self.id is None else self.place(table, names, width, self.id)
        several = [self.required(table, names, width, each) for each in self.label_columns[1:]]
        label = self.place(table, names, width, self.label_columns[0]) if self.label_columns else None
        index = int(names is not None and width > 2 and _has_index(names))
        if node is None and label is None and names is not None and names_label_and_id(names):
            label = 0
        if node is None:
            node = index + 1 if label == index and width > index + 1 else index
        if label is None and width - index == 2:
            label = index + 1 if node == index else index
        if label is None and names is not None:
            found = [at for at, name in enumerate(names) if _LABEL.fullmatch(name) and at != node]
            if len(found) == 1:
                label = found[0]
                self.notes.append(f"{table.name}: node ids are in column {names[node]!r}, classes in {names[label]!r}.")
        if label is None or width < 2:
            remedy = "; choose them, by name or number: id= and label="
            if width == 1:
                remedy = "; cells are separated by commas, semicolons or tabs, in files not named .csv also by blanks"
            raise DataFileError(f"{table.at(line)}: a label is a node id and a class, got {width} cell(s){remedy}.")
        if names is not None and names[label]:
            self.label_name = names[label]
        return node, [label, *several]


def _beside_index(names: Sequence[str] | None, rows: Sequence[Sequence[str]], linked: Collection[str]) -> int | None:
    """Return where the ids are beside a first column without a name that numbers the rows; None if that is no index.

    They are where the name says so, where a node of the links stands that no number of rows or feature can be, or in
    the only other column of different nodes of the links.
    """
    cells = rows[0]
    if names is None or len(cells) < 3 or not _INDEX.fullmatch(names[0]):
        return None
    if _ID.fullmatch(names[1]) and (not names[0] or cells[0].isdigit()):
        return 1
    if not cells[0].isdigit():
        return None
    if cells[0] in linked:
        columns = enumerate(zip(*(row for row in rows if len(row) == len(cells)), strict=True))
        several = [at for at, column in columns if len(rows) >= _FEWEST and _are_nodes(column, linked)]
        return several[1] if len(several) == 2 and several[0] == 0 and names[several[1]] else None
    found = [at for at, cell in enumerate(cells) if cell in linked and (not is_number(cell) or _ZEROS.match(cell))]
    return found[0] if len(found) == 1 and names[found[0]] else None


def _are_nodes(column: Sequence[str], linked: Collection[str]) -> bool:
    """Say whether the cells of a column are different and most of them nodes of the links."""
    return len({*column}) == len(column) and sum(cell in linked for cell in column) > 0.8 * len(column)


def _has_index(names: Sequence[str]) -> bool:
    """Say whether an index stands before the ids: without a name, or before a column that is called as ids are."""
    return not names[0] or (_INDEX.fullmatch(names[0]) is not None and _ID.fullmatch(names[1]) is not None)


def _listed(column: Column | Sequence[Column] | None) -> list[Column]:
    """Return one column or several as a list."""
    return [] if column is None else list(column) if isinstance(column, list | tuple) else [column]  # type: ignore[list-item]


def is_weight(name: str) -> bool:
    """Say whether a column of links is called as weights are."""
    return _WEIGHT.fullmatch(name) is not None


def names_a_link(cells: Iterable[str]) -> bool:
    """Say whether a first row of many cells names the ends of links."""
    cells = list(cells)
    if all(any(word.fullmatch(cell) for cell in cells) for word in (_SOURCE, _TARGET)):
        return True
    return bool(_pair_of_ends(cells)) and not any(map(is_number, cells))


def names_three(cells: Sequence[str]) -> bool:
    """Say whether a first row of three cells names columns whose first two are not the ends of links."""
    ends = _named_ends(cells)
    if ends == [0, 1] or any(map(is_number, cells)):
        return False
    if ends and not _ID.fullmatch(cells[0]):  # where n1, kin, n2 may be a link
        return not any(part.isdigit() for cell in cells[1:] for part in _PART.findall(cell))
    return bool(ends or _INDEX.fullmatch(cells[0]))


def names_label_and_id(cells: Sequence[str]) -> bool:
    """Say whether a first row of two cells names the class before the node."""
    return len(cells) == 2 and bool(_LABEL.fullmatch(cells[0]) and _ID.fullmatch(cells[1]))


def names_a_label(cells: Iterable[str]) -> bool:
    """Say whether a cell of a first row is a usual name for the classes or the nodes."""
    return any(word.fullmatch(cell) for cell in cells if len(cell) > 1 for word in (_LABEL, _ID))


def names_features(cells: list[str]) -> bool:
    """Say whether a row holds column names: no number, or 'id' and the column numbers 0, 1, 2 and so on."""
    counted = cells[1:] == [str(column) for column in range(len(cells) - 1)]
    return not any(map(is_number, cells[1:])) or (counted and COLUMN_NAME.fullmatch(cells[0]) is not None)


def _named_ends(names: Sequence[str]) -> list[int]:
    """Return where the ends of links are that names tell; nothing if they do not."""
    found = [[at for at, name in enumerate(names) if word.fullmatch(name)] for word in (_SOURCE, _TARGET)]
    if len(found[0]) == len(found[1]) == 1:
        return [found[0][0], found[1][0]]
    return _pair_of_ends(names)


def _pair_of_ends(names: Sequence[str]) -> list[int]:
    """Return where the only two names are that are those of a link's ends; nothing if there are more, or none."""
    pairs = itertools.permutations(range(min(len(names), _MOST_PAIRED)), 2)
    found = [[*pair] for pair in pairs if _is_pair(names[pair[0]], names[pair[1]])]
    return found[0] if len(found) == 1 else []


def _is_pair(first: str, second: str) -> bool:
    """Say whether two names are those of a link's ends, such as from_station and to_station, or user1 and user2."""
    parts = [_PART.findall(name.lower()) for name in (first, second)]
    if len(parts[0]) != len(parts[1]):
        return False
    differ = [pair for pair in zip(*parts, strict=True) if pair[0] != pair[1]]
    return len(differ) == 1 and differ[0] in _PAIRS


def _some(names: Sequence[str]) -> str:
    return _few([*map(repr, names)])


def _few(words: Sequence[str]) -> str:
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")


def _it(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"
