"""Links, features and labels from tables, with or without names of columns; errors give file and line."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.npz import read_arrays
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.graph._formats._columns import (
    COLUMN_NAME,
    Columns,
    is_weight,
    names_a_label,
    names_a_link,
    names_label_and_id,
    names_three,
)
from fishergcn.graph._formats._nodes import Nodes, read_nodes
from fishergcn.graph._formats._reading import MISSING, NO_WEIGHT
from fishergcn.graph._formats._records import Records, records_of
from fishergcn.graph._formats._splits import split_arguments
from fishergcn.graph._formats._targets import joined, label_arguments, number_arguments, task_of
from fishergcn.graph._formats._text import has_comma, is_number, may_be_thousands, read_comma
from fishergcn.graph._pairs import Directed, PairError, link_matrix

_WEIGHT_REMEDY = "; weight='none' leaves the column out"
_NO_CLASS = ("-1", "-1.0")  # unless that leaves one class only
# Whole numbers that are no weights: years, and seconds since 1970.
_YEARS, _FIRST_TIME, _MOST_DIGITS = (1800, 2100), 10**8, 20
_KINDS = ("edges", "features", "labels")
_DIGIT = re.compile(r"[0-9]")
_LIST = re.compile(r"[,;|]")
_MARK = re.compile(  # a class called so is perhaps none
    r"[-–—._*]+|n\.? ?a\.?|k\. ?a\.|nat|nil|unk|unknown|unspecified|undefined|unlabell?ed"
    r"|missing|not (known|available)|unbekannt|inconnue?|desconocid[oa]",
    re.IGNORECASE,
)


def table_arguments(
    sources: Sequence[Any], header: bool | Collection[str] | None, directed: Directed, columns: Columns
) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for tables of links, nodes and labels: paths of files, or rows of frames."""
    announced, trusted = _header_kinds(header)
    edges, features, labels = sources
    if [str(each) for each in sources if isinstance(each, Path)].count("-") > 1:
        raise InputError("- is standard input, which is read once: only one of edges, features and labels can be it.")
    links = _read_links(records_of(edges, "edges"), columns, "edges" in announced, "edges" in trusted)
    same = isinstance(labels, Path) and labels == features and str(labels) != "-"
    classes = None
    if labels is not None and not (same and columns.label is not None):
        table = records_of(labels, "labels")
        classes = _read_classes(table, columns, links.nodes(), "labels" in announced, "labels" in trusted)
    firsts = FirstLines(links, classes, trusted)
    nodes: Nodes | None = None
    if isinstance(features, Path) and features.suffix.lower() == ".npz":
        matrix = _read_feature_archive(features)
        table = Records(str(features), "row", ())
        nodes = Nodes(table, ids={str(row): row for row in range(matrix.shape[0])}, features=matrix)
    elif features is not None:
        nodes = read_nodes(
            records_of(features, "nodes"),
            columns,
            links.nodes(),
            announced="features" in announced,
            trusted="features" in trusted,
        )
        _note_header(columns, nodes.table, nodes.header, nodes.names or ())
    word = nodes.names[0] if nodes is not None and nodes.names else ""
    if firsts.links_named(None if nodes is None else nodes.ids, word):
        head = [column[0] for column in links.columns]
        _note_header(columns, links.table, links.lines[0], head)
        links = links.without_first()
        columns.remember(head, source=0, target=1)
    else:
        head = []
    links = links.settled(columns, head)
    node_ids = _ordered({*links.columns[0], *links.columns[1]}) if nodes is None else tuple(nodes.ids)
    if len(node_ids) < 2:
        columns.check_problems()
        name = links.table.name if nodes is None else nodes.table.name
        raise DataFileError(f"{name} must name at least 2 nodes, got {len(node_ids)}.")
    number = {node: index for index, node in enumerate(node_ids)}
    arguments: dict[str, Any] = {"node_ids": node_ids, "features": None, "feature_names": None}
    if nodes is not None:
        arguments |= {"features": nodes.features, "feature_names": nodes.feature_names}
    arguments["adjacency"] = links.known(number, nodes, columns).matrix(number, columns, directed)
    splits = {} if nodes is None else nodes.splits
    if classes is not None:
        if classes.rows and classes.rows[0][1] not in number and firsts.classes_named():
            line, *cells = classes.rows[0]
            if names_a_label(cells) or links.header or word or links.names is not None:
                _note_header(columns, classes.table, line, cells)
                classes = classes.without_first()
        classes = classes.turned(number, columns)
        splits = splits | classes.splits
    elif nodes is not None and nodes.classes is not None:
        classes = Classes(nodes.table, nodes.classes, "-", {})
    columns.check_met()
    if classes is not None:
        arguments |= classes.arguments(number, columns, suspected="labels" not in trusted)
    columns.check_problems()
    return arguments | split_arguments(columns, splits, number)


def node_arguments(nodes: Nodes, columns: Columns) -> dict[str, Any]:
    """Return the arguments of ``Graph`` that a table of all nodes, in their order, gives."""
    columns.check_met()
    number = {node: index for index, node in enumerate(nodes.ids)}
    arguments = {"features": nodes.features, "feature_names": nodes.feature_names}
    if nodes.classes is not None:
        arguments |= Classes(nodes.table, nodes.classes, "-", {}).arguments(number, columns, suspected=False)
    columns.check_problems()
    return arguments | split_arguments(columns, nodes.splits, number)


def _note_header(columns: Columns, table: Records, line: int | None, cells: Iterable[str]) -> None:
    if line is not None:
        names = list(cells)
        shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        columns.notes.append(f"{table.at(line)} names the columns ({shown}); use header=False if it is data.")


@dataclass(frozen=True)
class Links:
    """Columns of links: a list for each, since one for each row costs far more memory and time."""

    table: Records
    lines: list[int]
    columns: list[list[str]]
    places: list[int]
    names: list[str] | None  # those of columns, if they were read
    header: bool = False  # whether a header was found that nobody announced

    def nodes(self) -> set[str]:
        """Return the nodes of all links but the first, which may be a header."""
        skipped = 0 if self.names is not None else 1
        return {*self.columns[0][skipped:], *self.columns[1][skipped:]}

    def without_first(self) -> Links:
        """Return the links after a header."""
        return replace(self, lines=self.lines[1:], columns=[column[1:] for column in self.columns], header=True)

    def settled(self, columns: Columns, head: Sequence[str]) -> Links:
        """Return the links after deciding whether a third column that nobody chose is the weight.

        ``head`` are the names of columns, if they were found after reading.
        """
        found, names = self, head or self.names
        if len(self.columns) == 3 and columns.link_weight is None and self.names is None:
            no_weight = not is_weight(head[2]) if head else _no_weight(self.columns[2])
            if head and no_weight:
                columns.note_left_out(self.table, head, (0, 1), None)
            elif no_weight:
                columns.notes.append(
                    f"{self.table.name}: the third column is left out, since it holds {no_weight}; weight=3 reads it."
                )
            elif not head:
                columns.notes.append(f"{self.table.name}: the third column is the weight; weight='none' leaves it out.")
            if no_weight:
                found = replace(self, columns=self.columns[:2], places=self.places[:2])
        if len(found.columns) == 3:
            columns.remember(names, weight=found.places[2])
        else:
            columns.reading["weight"] = NO_WEIGHT
        return found

    def known(self, number: Mapping[str, int], nodes: Nodes | None, columns: Columns) -> Links:
        """Return the links of numbered nodes; others are left out, or a problem."""
        ends = self.columns[:2]
        if all(node in number for column in ends for node in column):
            return self
        fits = [first in number and second in number for first, second in zip(*ends, strict=True)]
        lost = dict.fromkeys(node for link in zip(*ends, strict=True) for node in link if node not in number)
        count = len(fits) - sum(fits)
        where = "the graph" if nodes is None else nodes.table.name
        if columns.unknown == "drop":
            columns.notes.append(f"{self.table.name}: {count} link(s) are left out: {_few(lost)} no row in {where}.")
        else:
            first = self.lines[fits.index(False)]
            more = f" (in all {len(lost)} nodes in {count} links)" if count > 1 else ""
            remedy = ", id= chooses the column of the ids" if nodes is not None and nodes.names else ""
            node = next(iter(lost))
            other = _alike(node, number)
            but = f", but {other!r} has, and ids must be spelled alike" if other else ""
            columns.problems.append(
                f"{self.table.at(first)}: node {node!r} has no row in {where}{but}{more}; unknown='drop' leaves such "
                f"links out{remedy}"
            )
        kept = [list(itertools.compress(column, fits)) for column in self.columns]
        return replace(self, lines=list(itertools.compress(self.lines, fits)), columns=kept)

    def matrix(self, number: Mapping[str, int], columns: Columns, directed: Directed) -> Any:
        """Return the adjacency matrix for numbered nodes."""
        weights = None if len(self.columns) == 2 else self.weights(columns)
        ends = [np.fromiter(map(number.__getitem__, ids), dtype=np.int64, count=len(ids)) for ids in self.columns[:2]]
        try:
            return link_matrix(np.stack(ends, axis=1), len(number), weights, directed)
        except PairError as error:
            lines = [str(self.lines[row]) for row in error.rows]
            unit = self.table.unit + ("s" if len(lines) > 1 else "")
            raise DataFileError(f"{self.table.name} {unit} {' and '.join(lines)} {error.problem}.") from None

    def weights(self, columns: Columns) -> FloatArray:
        """Return the weights of the links."""
        cells = self.columns[2]
        with_comma = [cell for cell in cells if has_comma(cell)]
        if (
            with_comma
            and not all(map(may_be_thousands, with_comma))
            and all(has_comma(cell) or cell.lstrip("+-").isdigit() for cell in cells)
        ):
            columns.notes.append(f"{self.table.name}: weights have decimal commas: {with_comma[0]!r} is "
                                 f"{read_comma(with_comma[0]):g}.")  # fmt: skip
            return np.array([read_comma(cell) for cell in cells])
        rows = zip(self.lines, cells, strict=True)
        return np.array([self.table.number(line, cell, self.places[2], _WEIGHT_REMEDY) for line, cell in rows])


def links_of(table: Records, columns: Columns) -> tuple[Links, FloatArray | None]:
    """Return the links of a table whose header, if it has one, is row 0, and their weights."""
    links = _read_links(table, columns, announced=False, trusted=True).settled(columns, [])
    return links, None if len(links.columns) == 2 else links.weights(columns)


def _no_weight(cells: Sequence[str]) -> str:
    """Say what a column without a name holds that is no weight; nothing if it may be one."""
    if not any(is_number(cell) or has_comma(cell) for cell in cells):
        return f"text such as {cells[0]!r}"
    whole = [cell.removesuffix(".0") for cell in cells]
    if all(cell.isascii() and cell.isdigit() and len(cell) < _MOST_DIGITS for cell in whole):
        numbers = {*map(int, whole)}
        forms = {_form_of_date(number) for number in numbers}
        if (len(numbers) > 1 and len(forms) == 1 and "" not in forms) or min(numbers) >= _FIRST_TIME:
            return f"whole numbers from {min(numbers)} to {max(numbers)}, which look like years, dates or times"
    return ""


def _form_of_date(number: int) -> str:
    """Return as what a number could be read, year, month (199612) or day (19961224); nothing if it is none of them."""
    for form, unit in (("year", 1), ("month", 100), ("day", 10_000)):
        year, rest = divmod(number, unit)
        month, day = (rest, 1) if form == "month" else divmod(rest, 100) if form == "day" else (1, 1)
        if _YEARS[0] <= year <= _YEARS[1] and 1 <= month <= 12 and 1 <= day <= 31:
            return form
    return ""


def _alike(node: str, others: Iterable[str]) -> str:
    """Return another node that differs only in case, blanks, leading zeros or ``.0``; nothing if there is none."""
    wanted = _spelling(node)
    return next((other for other in others if _spelling(other) == wanted), "")


def _spelling(node: str) -> str:
    plain = " ".join(unicodedata.normalize("NFKC", node).split())
    return (plain.removesuffix(".0").lstrip("0") or "0").casefold()


def _few(nodes: Iterable[str]) -> str:
    names = list(nodes)
    shown = ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{shown} {'has' if len(names) == 1 else 'have'}"


def _read_links(table: Records, columns: Columns, announced: bool, trusted: bool) -> Links:
    lines: list[int] = []
    found: list[list[str]] = []
    names: list[str] | None = None
    places: list[int] = []
    chosen = (columns.source, columns.target, None if columns.weight == NO_WEIGHT else columns.weight)
    width = 0
    for line, cells in table.rows:
        if names is None and not lines:
            known = line == 0 or announced or columns.needs_names(*chosen)
            known = known or columns.named_before(cells, "source", "target")
            named = names_three(cells) if len(cells) == 3 else len(cells) > 3 and names_a_link(cells)
            suspected = not trusted and (cells[0] == "" or named)
            if known or suspected:
                names = cells
                _note_header(columns, table, None if known else line, cells)
                continue
        if not lines:
            width = len(cells)
            names = names if names is not None and len(names) == width else None if names is None else [""] * width
            places = columns.of_links(table, names if names and any(names) else None, line, width)
            found = [[] for _ in places]
        table.require_width(line, cells, width)
        if not cells[places[0]] or not cells[places[1]]:
            raise DataFileError(f"{table.at(line)}: a node id is empty.")
        lines.append(line)
        for column, at in zip(found, places, strict=True):
            column.append(cells[at])
    if not lines:
        raise DataFileError(f"{table.name} holds no links.")
    _check_lists(table, lines, found)
    return Links(table, lines, found, places, names)


def _check_lists(table: Records, lines: Sequence[int], ends: Sequence[Sequence[str]]) -> None:
    """Raise if the second end of a link is a list of nodes."""
    known = {*ends[0]}
    for line, cell in zip(lines, ends[1], strict=True):
        parts = [each.strip() for each in _LIST.split(cell)] if _LIST.search(cell) else []
        if cell not in known and len(parts) > 1 and known.issuperset(parts):
            raise DataFileError(
                f"{table.at(line)}: {cell!r:.40} is a list of nodes; a line must hold one link, that is two node ids."
            )


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
    """Classes of nodes, as they were read."""

    table: Records
    rows: list[tuple[int, str, str]]  # line, node, class
    header: str  # the first cell of a header that is known
    splits: dict[str, dict[str, str]]  # column: node: part

    def without_first(self) -> Classes:
        """Return the classes after a header."""
        return replace(self, rows=self.rows[1:])

    def turned(self, number: Mapping[str, int], columns: Columns) -> Classes:
        """Return the classes with node and class exchanged where only that makes sense of them."""
        said = columns.id is not None or columns.label is not None
        if said or any(node in number for _, node, _ in self.rows) or not all(each in number for *_, each in self.rows):
            return self
        columns.notes.append(f"{self.table.name}: each line names the class before the node.")
        return replace(self, rows=[(line, node, name) for line, name, node in self.rows])

    def arguments(self, number: Mapping[str, int], columns: Columns, *, suspected: bool) -> dict[str, Any]:
        """Return labels and names of classes for numbered nodes; a header may be ``suspected`` in the first row."""
        known: dict[str, list[tuple[int, str]]] = {}
        absent = self._absent(columns)
        strangers: dict[str, int] = {}
        for line, node, name in self.rows:
            if node not in number:
                strangers.setdefault(node, line)
            elif name not in absent:
                known.setdefault(node, []).append((line, name))
        if strangers and columns.unknown == "drop":
            columns.notes.append(f"{self.table.name}: {len(strangers)} label(s) are left out, of nodes that are not in "
                                 f"the graph, such as {next(iter(strangers))!r}.")  # fmt: skip
        elif strangers:
            (node, line), *others = strangers.items()
            first = suspected and not self.header and line == self.rows[0][0]
            hint = "; if the line is a header, say so with header=['labels']" if first else ""
            more = f", and {len(others)} more are not either; unknown='drop' leaves their labels out" if others else ""
            columns.problems.append(f"{self.table.at(line)}: node {node!r} is not in the graph{more}{hint}")
        if not known and not columns.problems:
            raise DataFileError(f"{self.table.name} holds no labels.")
        task = task_of([name for some in known.values() for _, name in some], columns, self.table)
        if task == "multilabel":
            return label_arguments({node: [name for _, name in some] for node, some in known.items()}, number, columns)
        for own, cells in known.items():
            for line, name in cells[1:]:
                if name != cells[0][1]:
                    raise DataFileError(
                        f"{self.table.at(line)}: node {own!r} has two classes, {cells[0][1]!r} and {name!r}; "
                        "task='multilabel' takes them for several labels."
                    )
        single = {node: some[0] for node, some in known.items()}
        if task == "regression":  # where -1 is a number like any other
            single |= {
                node: (line, name) for line, node, name in self.rows
                if node in number and node not in single and not columns.is_missing(name)
            }  # fmt: skip
            return number_arguments(single, number, columns, self.table)
        class_names = _ordered(name for _, name in single.values())
        _note_twins(columns, self.table, class_names)
        _note_marks(columns, self.table, Counter(name for _, name in single.values()), sorted(absent))
        code = {name: index for index, name in enumerate(class_names)}
        labels: IntArray = np.full(len(number), -1, dtype=np.int64)
        for node, (_, name) in single.items():
            labels[number[node]] = code[name]
        told = {} if columns.task is None else {"task": columns.task}
        return {"labels": labels, "class_names": class_names, **told}

    def _absent(self, columns: Columns) -> set[str]:
        """Return the texts that stand for an unknown class, with a note of those that could be names of classes."""
        counts = Counter(name for _, _, name in self.rows)
        absent = {name for name in counts if columns.is_missing(name)}
        minus = [name for name in _NO_CLASS if name in counts]
        if columns.missing is None and minus and columns.task != "regression":
            others = [name for name in counts if name not in absent and name not in minus]
            if len(others) == 1:
                columns.notes.append(
                    f"{self.table.name}: {minus[0]!r} is a class, since {others[0]!r} would be the only one; an empty "
                    "cell is an unknown class."
                )
            else:
                absent.update(minus)
        told = [name for name, _ in counts.most_common() if name and name in absent]
        if told:
            shown = ", ".join(f"{name!r} ({counts[name]})" for name in told)
            columns.notes.append(
                f"{self.table.name}: {sum(counts[name] for name in told)} label(s) are read as unknown: {shown}; "
                "missing= says which texts mean that."
            )
        return absent


def _note_twins(columns: Columns, table: Records, names: Sequence[str]) -> None:
    """Keep a note of classes that are the same but for case, blanks or the way a number is written."""
    alike: dict[object, list[str]] = {}
    for name in names:
        key = float(name) if is_number(name) else " ".join(name.split()).casefold()
        alike.setdefault(key, []).append(name)
    twins = [f"{' and '.join(map(repr, found))}" for found in alike.values() if len(found) > 1]
    if twins:
        columns.notes.append(
            f"{table.name}: classes that differ only in case, blanks or the way a number is written are kept apart: "
            f"{'; '.join(twins[:3])}{f' and {len(twins) - 3} more' if len(twins) > 3 else ''}."
        )


def _note_marks(columns: Columns, table: Records, counts: Counter[str], absent: Collection[str]) -> None:
    """Keep a note of classes that may mean that the class is unknown, also of those that no longer do.

    What to say instead begins with what is ``absent`` now, since it takes the place of that.
    """
    usual = {each.lower() for each in MISSING}
    marks = [name for name in counts if name.lower() in usual or (columns.missing is None and _MARK.fullmatch(name))]
    if not marks:
        return
    said = [*(filter(None, absent) if columns.missing is None else columns.missing), *marks]
    shown = ", ".join(f"{name!r} ({counts[name]})" for name in marks)
    what = f"{marks[0]!r} is taken for a class, of {counts[marks[0]]} node(s)"
    what = what if len(marks) == 1 else f"{shown} are taken for classes"
    columns.notes.append(
        f"{table.name}: {what}; missing={(said if len(said) > 1 else said[0])!r} says that such nodes have none."
    )


def _read_classes(table: Records, columns: Columns, linked: Collection[str], announced: bool, trusted: bool) -> Classes:
    names: list[str] | None = None
    rows: list[tuple[int, str, str]] = []
    node = width = 0
    labels: list[int] = []
    splits: dict[str, dict[str, str]] = {}
    places: dict[str, int] = {}
    chosen = [each for each in (columns.id, *columns.label_columns, *columns.split_columns) if each is not None]
    for line, cells in table.rows:
        if names is None and not rows:
            known = line == 0 or announced or any(columns.needs_names(each) and each in cells for each in chosen)
            named = cells[0] == "" or (cells[0] not in linked and names_a_label(cells))
            if known or (named and not trusted and (len(cells) > 2 or names_label_and_id(cells))):
                names = cells
                _note_header(columns, table, None if known else line, cells)
                continue
        if not rows:
            width = len(cells)
            same = names if names is not None and len(names) == width else None
            node, labels = columns.of_labels(table, same, line, width)
            found = {str(each): columns.place(table, same, width, each) for each in columns.split_columns}
            places = {each: at for each, at in found.items() if at is not None}
            splits = {each: {} for each in places}
        if len(cells) != width:
            raise DataFileError(f"{table.at(line)}: a label is a node id and a class, got {len(cells)} cell(s).")
        rows.append((line, cells[node], joined(table, line, cells, labels, columns)))
        for each, at in places.items():
            splits[each][cells[node]] = cells[at]
    return Classes(table, rows, "" if names is None else names[0] or "-", splits)


def _header_kinds(header: bool | Collection[str] | None) -> tuple[frozenset[str], frozenset[str]]:
    """Return which files are said to begin with a header, and whose first line is not to be looked at."""
    if header is None or isinstance(header, bool):
        announced = frozenset(_KINDS if header else ())
        return announced, frozenset(() if header is None else _KINDS)
    kinds = frozenset([header] if isinstance(header, str) else header)
    if not kinds <= set(_KINDS):
        got = ", ".join(sorted(map(repr, kinds)))
        raise InputError(f"header must be all, none or some of {', '.join(_KINDS)}, got {got}.")
    return kinds, kinds or frozenset(_KINDS)


@dataclass(frozen=True)
class FirstLines:
    """The first lines of links and labels, to tell names of columns from data: taken for data, they add nodes."""

    links: Links
    classes: Classes | None
    trusted: frozenset[str]  # files whose first line is not to be suspected

    def links_named(self, known: Collection[str] | None = None, word: str = "") -> bool:
        """Say whether the links begin with names of columns: words that are nodes nowhere else.

        ``known`` are the nodes of the features, which must hold all; ``word`` begins the header of the features.
        """
        first = [column[0] for column in self.links.columns]
        rest = [column[1:] for column in self.links.columns]
        if "edges" in self.trusted or self.links.names is not None or any(map(is_number, first)) or not rest[0]:
            return False
        if len(first) == 3 and all(map(is_number, rest[2])):
            return True
        labeled = [node for _, node, _ in self.classes.rows[1:]] if self.classes else []
        if any(name in place for name in first[:2] for place in (rest[0], rest[1], labeled, known or ())):
            return False
        # Two nodes may well be linked to each other alone, so that more must speak for a header:
        return (
            known is not None
            or all(map(COLUMN_NAME.fullmatch, first[:2]))
            or not {word, self._word_of_labels()}.isdisjoint(first[:2])
            or all(map(is_number, itertools.chain(rest[0], rest[1])))
            or (not any(map(_DIGIT.search, first)) and all(map(_DIGIT.search, itertools.chain(rest[0], rest[1]))))
        )

    def _word_of_labels(self) -> str:
        if self.classes is None:
            return ""
        return self.classes.rows[0][1] if self.classes_named() else self.classes.header

    def classes_named(self) -> bool:
        """Say whether neither node nor class of the first label occurs again: a header, if others have one."""
        if self.classes is None or self.classes.header or "labels" in self.trusted or len(self.classes.rows) < 2:
            return False
        (_, node, name), *rest = self.classes.rows
        again = any(node == other or name == other_name for _, other, other_name in rest)
        return not again and not any(node in column[1:] for column in self.links.columns[:2])


def _ordered(texts: Iterable[str]) -> tuple[str, ...]:
    """Return distinct texts: whole numbers by value, otherwise alphabetically."""
    distinct = sorted(set(texts))
    if all(text.isascii() and text.isdigit() and (text[0] != "0" or text == "0") for text in distinct):
        distinct.sort(key=len)  # after the alphabetical order, this is the order by value
    return tuple(distinct)
