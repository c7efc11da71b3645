"""A table of nodes: ids, features from numbers and text, and the classes and splits that stand beside them."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from fishergcn.errors import DataFileError
from fishergcn.graph._formats._cells import Features
from fishergcn.graph._formats._columns import Columns, names_features
from fishergcn.graph._formats._records import Records
from fishergcn.graph._formats._targets import joined
from fishergcn.graph._formats._text import is_number

_SAMPLE = 50  # rows by which a column of ids is told from an index


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
    reader: Features | None = None
    place = width = 0
    labels: list[int] = []
    first: list[str] = []
    split_places: dict[str, int] = {}
    again: dict[str, int] = {}  # nodes that have another row: its line
    given = (columns.id, *columns.label_columns, *columns.split_columns, *columns.dropped, *(columns.columns or ()))
    chosen = [each for each in given if each is not None]
    rows = iter(table.rows)
    sample = [*itertools.islice(rows, _SAMPLE)]
    for line, cells in itertools.chain(sample, rows):
        if reader is None and found.names is None and not first:
            by_choice = any(columns.needs_names(each) and each in cells for each in chosen)
            by_choice = by_choice or columns.named_before(cells, "id")
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
            place, features = columns.of_nodes(
                table, names, [row for _, row in sample if row is not found.names], linked
            )
            columns.check_met()  # labels were read before
            reader = Features(table, columns, features, names)
            places = [columns.place(table, names, width, each) for each in columns.label_columns]
            labels = [at for at in places if at is not None]
            if labels and len(labels) == len(places):
                found.classes = []
                columns.remember(names, label=labels[0])
                columns.label_name = "" if names is None else names[labels[0]]
                if len(labels) > 1:
                    columns.reading["label"] = [names[at] if names is not None else at + 1 for at in labels]
            split_places = {
                str(each): at
                for each in columns.split_columns
                if (at := columns.place(table, names, width, each)) is not None
            }
            found.splits = {each: {} for each in split_places}
            if split_places:
                columns.reading["parts"] = [(names and names[at]) or at + 1 for at in split_places.values()]
        table.require_width(line, cells, width)
        node = cells[place]
        if not node:
            raise DataFileError(f"{table.at(line)}: the node id is empty.")
        if node in found.ids:
            again.setdefault(node, line)
            continue
        found.ids[node] = line
        if found.classes is not None:
            found.classes.append((line, node, joined(table, line, cells, labels, columns)))
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
    _settle_repeated(table, columns, found, again)
    found.features, found.feature_names = reader.matrix()
    return found


def _settle_repeated(table: Records, columns: Columns, found: Nodes, again: dict[str, int]) -> None:
    """Tell of nodes that have more than one row, of which the first was read."""
    if not again:
        return
    (node, line), *others = again.items()
    if columns.repeated == "first":
        columns.notes.append(f"{table.name}: {len(again)} node(s), such as {node!r}, have more rows; the first counts.")
        return
    more = f", and {len(others)} more nodes have several" if others else ""
    columns.problems.append(
        f"{table.at(line)}: node {node!r} has a row in {table.unit} {found.ids[node]} already{more}; repeated='first' "
        "keeps the first row of each"
    )


def _aligned(names: list[str] | None, width: int) -> list[str] | None:
    """Return a name for each column, or None: a header may leave out the cell above the node ids."""
    if names is not None and len(names) == width - 1:
        return ["", *names]
    return names if names is not None and len(names) == width else None
