"""Many graphs at once: a folder of graph files, or one table of links with a column that names their graphs."""

from __future__ import annotations

import datetime
import itertools
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_choice
from fishergcn._base.npz import read_arrays
from fishergcn.errors import DataFileError, InputError, Notice, suggestion
from fishergcn.graph._formats._columns import Columns, names_a_link
from fishergcn.graph._formats._reading import Column
from fishergcn.graph._formats._records import Records, records_of
from fishergcn.graph._formats._source import suffix_of
from fishergcn.graph._formats._tables import links_of
from fishergcn.graph._formats._text import is_number, read_number
from fishergcn.graph._graph import Graph

# What to do with graphs without links, and what a time is rounded down to.
EmptyGraphs: TypeAlias = Literal["refuse", "skip"]
Every: TypeAlias = Literal["day", "week", "month", "year"]

_BY = re.compile(
    r"(time|date|datetime|day|week|month|quarter|year|hour|t|ts|step|snapshot|graph|network|session|subject|epoch|period|congress)"
    r"([ _]?(id|stamp|step|name|no|number|index))?|timestamp",
    re.I,
)
_TABLES = (".csv", ".tsv", ".tab", ".txt", ".edges", ".edgelist", ".el", ".graphml", ".parquet", ".pq", ".feather")
_HOUR = r"[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?(?:Z|([+-]\d{2}):?(\d{2}))?"
_DATE = re.compile(rf"(\d{{4}})([-/])(\d{{1,2}})(?:\2(\d{{1,2}})(?:{_HOUR})?)?")
_DATE_OF_FILE = re.compile(r"\d{4}-\d{2}(?:-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?)?")
_LIKE_A_DATE = re.compile(r"\d{1,4}[-/. ]\d{1,2}[-/. ]\d{1,4}\b.*")
_LAST_NUMBER = re.compile(r"(\d+)(?!.*\d)")
_FIRST_SECONDS = 10**8  # numbers from here on are seconds since 1970, if they are rounded to days
_DAY = 86_400.0
_MOST = 100_000  # graphs


@dataclass(frozen=True)
class ManyGraphs:
    """Graphs by name, in order, and their times if they have any; see :func:`read_graphs`."""

    graphs: Mapping[str, Graph]
    times: tuple[float, ...] | None


def read_graphs(
    path: str | os.PathLike[str],
    *,
    by: Column | None = None,
    source: Column | None = None,
    target: Column | None = None,
    weight: Column | None = None,
    every: Every | float | None = None,
    empty: EmptyGraphs = "refuse",
) -> ManyGraphs:
    r"""Read many graphs: a folder of graph files, or one table of links with a time or a graph in each row.

    Links are undirected: rows from a to b and from b to a are the same link, and the weights of rows that name one
    link of one graph are added up. Links of a node to itself are left out. Each graph has the nodes that its rows
    name; :class:`fishergcn.geometry.statistics.GraphCollection` matches them.

    Parameters
    ----------
    path
        A folder with one file a graph (``.npz`` graph files or tables of links, in the order of their names, numbers
        in names as numbers), a table (CSV, TSV, Parquet, …), or an ``.npz`` archive with the arrays ``a``, ``b`` and
        ``t``, maybe ``w`` (weights) and ``times`` (what each t is called).
    by
        The column, by name or number from 1, that says of which graph a link is: numbers or dates (year, month,
        day) are times, which sort the graphs; other texts are names, in the order in which they first occur. By default
        a column that is called time, date, year, graph or the like.
    source, target, weight
        The columns of a link's ends and weight, as :meth:`Graph.from_files` takes them.
    every
        Put times together: "day", "week", "month" or "year" of dates or of seconds since 1970, or a number for steps
        of that width in numbers.
    empty
        "refuse" graphs without links, or "skip" them with a notice: a day on which nothing happened has no density
        matrix, and is left out of the sequence.

    Examples
    --------
    >>> import pathlib, tempfile, warnings
    >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     table = pathlib.Path(folder, "calls.csv")
    ...     _ = table.write_text("day,from,to\n2024-01-02,a,b\n2024-01-02,b,c\n2024-01-01,a,c\n")
    ...     found = read_graphs(table)
    >>> list(found.graphs), found.times, found.graphs["2024-01-02"].num_links
    (['2024-01-01', '2024-01-02'], (19723.0, 19724.0), 2)
    """
    check_choice("empty", empty, get_args(EmptyGraphs))
    place = Path(path)
    choices = {"source": source, "target": target, "weight": weight}
    if os.path.isdir(place) and not os.path.isfile(place / "graph.json"):
        if by is not None or every is not None:
            raise InputError("by and every go with a table of links, and not with a folder of graph files.")
        return _of_folder(place, choices, empty)
    rows = _of_arrays(place) if place.suffix.lower() == ".npz" else _of_table(place, by, choices)
    return _divided(rows, every, empty)


@dataclass(frozen=True)
class _Rows:
    """Links with what says of which graph they are."""

    name: str
    marks: Sequence[str]
    ends: tuple[Sequence[str], Sequence[str]]
    weights: Any
    order: Sequence[str] | None = None  # all marks in their order, where it is known


def _of_table(path: Path, by: Column | None, choices: Mapping[str, Any]) -> _Rows:
    table = records_of(path, "graphs")
    rows = iter(table.rows)
    first = next(rows, None)
    if first is None:
        raise DataFileError(f"{table.name} holds no links.")
    line, cells = first
    named = isinstance(by, str) and not by.isdigit()
    found = [at for at, cell in enumerate(cells) if (cell == by if named else _BY.fullmatch(cell))]
    header = line == 0 or named or bool(found) or names_a_link(cells)
    if not named and by is not None:
        at = int(by) - 1
        if not 0 <= at < len(cells):
            raise DataFileError(f"{table.name} has columns 1 to {len(cells)}, got by={by!r}.")
    elif len(found) == 1:
        at = found[0]
    elif named:
        raise DataFileError(
            f"{table.name} has no column {by!r}{suggestion(str(by), cells)}; there are {_quoted(cells)}."
        )
    else:
        several = (
            f"several columns may be it: {_quoted([cells[each] for each in found])}" if found else "none is called so"
        )
        raise DataFileError(
            f"{table.name} must have a column that says of which graph a link is, such as time or graph; {several}; "
            "choose it with by=, by name or number."
        )
    marks: list[str] = []

    def others() -> Iterator[tuple[int, list[str]]]:
        """Yield the rows without the column that says of which graph they are, which is kept apart."""
        if header:
            yield 0, cells[:at] + cells[at + 1 :]
        for where, row in rows if header else (first, *rows):
            table.require_width(where, row, len(cells))
            if not row[at]:
                raise DataFileError(
                    f"{table.at(where)}: the cell that says of which graph the link is must not be empty."
                )
            marks.append(row[at])
            yield where, row[:at] + row[at + 1 :]

    # Numbers of columns count the one that is taken out.
    moved: dict[str, Any] = {name: _without(value, at) for name, value in choices.items()}
    columns = Columns(**moved)
    links, weights = links_of(Records(table.name, table.unit, others(), at), columns)
    columns.check_met()
    columns.check_problems()
    columns.tell()
    if weights is not None and not (np.isfinite(weights) & (weights > 0)).all():
        bad = int(np.argmin(np.isfinite(weights) & (weights > 0)))
        raise DataFileError(
            f"{table.at(links.lines[bad])}: a weight must be positive and finite, got {weights[bad]:g}."
        )
    return _Rows(table.name, marks, (links.columns[0], links.columns[1]), weights)


def _tell(sentence: str) -> None:
    from fishergcn._base.warn import warn  # which waits for torch

    warn(sentence, Notice)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20]))


def _without(column: Column | None, at: int) -> Column | None:
    if isinstance(column, str) and column.isdigit():
        column = int(column)
    return column - (column > at + 1) if isinstance(column, int) and not isinstance(column, bool) else column


def _of_arrays(path: Path) -> _Rows:
    arrays = read_arrays(path)
    if not {"a", "b", "t"} <= arrays.keys():
        raise DataFileError(
            f"{path} must hold the arrays a, b and t of links, got {', '.join(sorted(arrays)) or 'none'}."
        )
    ends, steps = [arrays[name] for name in "ab"], arrays["t"]
    sizes = {each.shape for each in (*ends, steps, arrays.get("w", steps))}
    if len(sizes) > 1 or steps.ndim != 1 or any(each.dtype.kind not in "iu" for each in (*ends, steps)):
        raise DataFileError(f"{path}: a, b and t must be whole numbers, and w numbers, as many of each.")
    weights = np.asarray(arrays["w"], dtype=np.float64) if "w" in arrays else None
    if weights is not None and not (np.isfinite(weights) & (weights >= 0)).all():
        raise DataFileError(f"{path}: w must be finite and not negative.")
    names = arrays.get("times")
    known = None if names is None else [str(each) for each in names.tolist()]
    if known is not None and (steps.min() < 0 or steps.max() >= len(known)):
        raise DataFileError(f"{path}: t must be from 0 to {len(known) - 1}, as many as there are times.")
    marks = [str(each) if known is None else known[each] for each in steps.tolist()]
    first, second = ([str(each) for each in side.tolist()] for side in ends)
    return _Rows(str(path), marks, (first, second), weights, known)


def _divided(rows: _Rows, every: Every | float | None, empty: EmptyGraphs) -> ManyGraphs:
    """Return a graph for each mark, in order."""
    distinct = list(dict.fromkeys(rows.marks if rows.order is None else rows.order))
    times = _times(distinct)
    label = {mark: mark for mark in distinct}
    if times is None:
        _tell_of_names(rows.name, distinct)
    if every is not None:
        if times is None:
            raise InputError(f"every must go with times, and {rows.name} has names such as {distinct[0]!r}.")
        label, times, distinct = _rounded(dict(zip(distinct, times, strict=True)), every)
    if times is not None:
        order = np.argsort(times, kind="stable")
        if every is None and (np.diff(times) < 0).any():
            _tell(f"{rows.name}: rows are not in the order of time; the graphs are sorted.")
        distinct, times = [distinct[at] for at in order], [times[at] for at in order]
    if len(distinct) > _MOST:
        raise InputError(f"{rows.name} holds {len(distinct)} graphs, more than {_MOST}; every= puts times together.")
    where: dict[str, list[int]] = {name: [] for name in distinct}
    for at, mark in enumerate(rows.marks):
        where[label[mark]].append(at)
    ends = [np.array(side, dtype=object) for side in rows.ends]
    weights = np.ones(len(rows.marks)) if rows.weights is None else rows.weights
    graphs: dict[str, Graph] = {}
    merged = selves = 0
    for name, places in where.items():
        graph, again, own = _graph_of(name, ends[0][places], ends[1][places], weights[places])
        merged, selves = merged + again, selves + own
        if graph is not None:
            graphs[name] = graph
    if merged:
        _tell(f"{rows.name}: {merged} row(s) name a link of their graph again, in either order; weights are added up.")
    if selves:
        _tell(f"{rows.name}: {selves} link(s) of a node to itself are left out.")
    kept = _without_empty(rows.name, distinct, graphs, empty)
    return ManyGraphs(graphs, None if times is None else tuple(times[at] for at in kept))


def _graph_of(name: str, first: Any, second: Any, weights: Any) -> tuple[Graph | None, int, int]:
    """Return the graph of some links, how many of them were named again, and how many are of a node to itself."""
    ids = sorted({*first.tolist(), *second.tolist()}, key=_natural)
    number = {node: at for at, node in enumerate(ids)}
    pairs = np.array([[number[one], number[other]] for one, other in zip(first, second, strict=True)]).reshape(-1, 2)
    kept = (pairs[:, 0] != pairs[:, 1]) & (weights > 0)
    low, high = pairs[kept].min(axis=1, initial=len(ids)), pairs[kept].max(axis=1, initial=0)
    selves = int((pairs[:, 0] == pairs[:, 1]).sum())
    if not kept.any():
        return None, 0, selves
    upper = sparse.coo_array((weights[kept], (low, high)), shape=(len(ids), len(ids))).tocsr()
    upper.sum_duplicates()
    return Graph(upper + upper.T, name=name, node_ids=ids), int(kept.sum()) - upper.nnz, selves


def _without_empty(source: str, names: Sequence[str], graphs: Mapping[str, Graph], empty: EmptyGraphs) -> list[int]:
    """Return the places of graphs with links; without such a graph, or without leave to skip, raise."""
    missing = [name for name in names if name not in graphs]
    if len(missing) == len(names):
        raise DataFileError(f"{source} holds no graph with links.")
    if missing and empty == "refuse":
        raise DataFileError(
            f"{source}: {len(missing)} of {len(names)} graphs have no links between two nodes, such as {missing[0]!r}, "
            "and so no density matrix; empty='skip' leaves them out."
        )
    if missing:
        _tell(f"{source}: {len(missing)} of {len(names)} graphs have no links and are left out.")
    return [at for at, name in enumerate(names) if name in graphs]


def _of_folder(folder: Path, choices: Mapping[str, Any], empty: EmptyGraphs) -> ManyGraphs:
    files = sorted((each for each in folder.iterdir() if _is_graph(each)), key=lambda each: _natural(each.name))
    if not files:
        raise DataFileError(
            f"{folder} holds no graph files (.npz) and no tables of links ({', '.join(_TABLES[:3])}, …)."
        )
    names = [each.name.removesuffix(".gz").rpartition(".")[0] for each in files]
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise DataFileError(f"{folder} holds two files of the graph {twice!r}; every graph needs a name of its own.")
    chosen = {name: value for name, value in choices.items() if value is not None}
    graphs: dict[str, Graph] = {}
    for at, (name, file) in enumerate(zip(names, files, strict=True)):
        with warnings.catch_warnings():
            if at:  # what is said of the first holds for all
                warnings.simplefilter("ignore", Notice)
            graph = _load(file, chosen)
        if graph is not None and graph.num_links:
            graphs[name] = (
                graph.replace(name=name, self_links="drop") if graph.has_self_links else graph.replace(name=name)
            )
    kept = _without_empty(str(folder), names, graphs, empty)
    times = _times(names) or _numbered(names)
    return ManyGraphs(graphs, None if times is None else tuple(times[at] for at in kept))


def _load(file: Path, chosen: Mapping[str, Any]) -> Graph | None:
    if file.suffix.lower() == ".npz":
        return Graph.load(file)
    if not file.stat().st_size:
        return None
    return Graph.from_files(file, directed="symmetrize", **chosen)


def _is_graph(path: Path) -> bool:
    return not path.name.startswith(".") and os.path.isfile(path) and suffix_of(path) in (".npz", *_TABLES)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key by which numbers within texts are in the order of numbers."""
    parts = re.split(r"([0-9]+)", text)
    return [(0, int(part), "") if at % 2 else (1, 0, part) for at, part in enumerate(parts)]


def _times(marks: Sequence[str]) -> list[float] | None:
    """Return numbers as they are, dates as days since 1970, or None if these are names."""
    if all(map(is_number, marks)):
        found = [read_number(mark) for mark in marks]
        return found if all(map(math.isfinite, found)) and len(set(found)) == len(found) else None
    if all(_DATE.fullmatch(mark) for mark in marks):
        found = [_days(mark) for mark in marks]
        return found if len(set(found)) == len(found) else None
    return None


def _tell_of_names(source: str, marks: Sequence[str]) -> None:
    """Say so where names look like times and are none."""
    known = [math.isfinite(read_number(mark)) if is_number(mark) else bool(_DATE.fullmatch(mark)) for mark in marks]
    odd = next((mark for mark, time in zip(marks, known, strict=True) if not time), None)
    if odd is not None and (any(known) or _LIKE_A_DATE.fullmatch(odd)):
        why = f"{odd!r} is neither a number nor a date such as 2024-03-31"
    elif all(known):
        why = "its times are of several kinds, or some are equal"
    else:
        return
    _tell(f"{source}: {why}, so that graphs have names and no times; they are in the order of rows.")


def _numbered(names: Sequence[str]) -> list[float] | None:
    """Return the dates or the last numbers of names of files, if these increase."""
    for pattern in (_DATE_OF_FILE, _LAST_NUMBER):
        found = [pattern.search(name) for name in names]
        if all(found):
            times = [_days(each[0]) if pattern is _DATE_OF_FILE else float(each[0]) for each in found if each]
            if all(one < other for one, other in itertools.pairwise(times)):
                return times
    return None


def _days(text: str) -> float:
    """Return the days from 1970 on, in universal time."""
    match = _DATE.fullmatch(text)
    parts = list(match.groups()) if match else [None] * 9
    year, month, day, hour, minute, second, ahead, more = (int(each or 0) for each in (parts[0], *parts[2:]))
    try:
        date = datetime.date(year, month, day if parts[3] else 1)
        time = datetime.time(hour, minute, second)
    except ValueError:
        raise DataFileError(
            f"{text!r} is no date: a date is written as year, month and day, such as 2024-03-31."
        ) from None
    minutes = time.hour * 60 + time.minute - 60 * ahead - (-more if str(parts[7]).startswith("-") else more)
    return date.toordinal() - _EPOCH + (minutes * 60 + time.second) / _DAY


_EPOCH = datetime.date(1970, 1, 1).toordinal()


def _rounded(times: Mapping[str, float], every: Every | float) -> tuple[dict[str, str], list[float], list[str]]:
    """Return the label of each mark, and the times and labels of all steps from the first to the last."""
    if isinstance(every, str) and is_number(every):
        every = read_number(every)
    if not isinstance(every, str):
        width = float(every)
        if isinstance(every, bool) or not (math.isfinite(width) and width > 0):
            raise InputError(f"every must be a positive number or one of {', '.join(get_args(Every))}, got {every!r}.")
        step = {mark: math.floor(time / width) for mark, time in times.items()}
        low, high = min(step.values()), max(step.values())
        if high - low >= _MOST:
            raise InputError(f"every must be larger: steps of {width:g} make {high - low + 1} graphs.")
        label = {at: f"{at * width:g}" for at in range(low, high + 1)}
        return {mark: label[at] for mark, at in step.items()}, [at * width for at in label], list(label.values())
    check_choice("every", every, get_args(Every))
    first = next(iter(times))
    seconds = is_number(first)
    if seconds and min(times.values()) < _FIRST_SECONDS:
        raise InputError(f"every must be a number for times such as {first}, got {every!r}.")
    days = {mark: math.floor(time / _DAY) if seconds else math.floor(time) for mark, time in times.items()}
    every_day = range(min(days.values()), max(days.values()) + 1)
    starts = sorted({_start(day, every) for day in every_day})
    return (
        {mark: _shown(_start(day, every)) for mark, day in days.items()},
        [float(at) for at in starts],
        [*map(_shown, starts)],
    )


def _start(day: int, every: str) -> int:
    """Return the first day of the week, month or year of a day."""
    date = datetime.date.fromordinal(day + _EPOCH)
    first = {"day": date, "week": date - datetime.timedelta(days=date.weekday()), "month": date.replace(day=1),
             "year": date.replace(month=1, day=1)}[every]  # fmt: skip
    return first.toordinal() - _EPOCH


def _shown(day: int) -> str:
    return datetime.date.fromordinal(day + _EPOCH).isoformat()
