"""What can be said about reading tables, and how it is kept with a graph so that other tables are read alike.

A *reading* is a dictionary of plain values: the choices that were made, by the names of their arguments; columns by
name wherever a table has names; what became of columns that are no plain numbers (``columns``), and the texts of those
that are one-hot (``categories``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

from fishergcn._base.types import AnyArray
from fishergcn.errors import InputError
from fishergcn.graph._pairs import Directed
from fishergcn.graph._targets import Task

if TYPE_CHECKING:
    from fishergcn.graph._graph import Graph

Column: TypeAlias = str | int
# What to do with columns of text, and with those that have empty cells.
Text: TypeAlias = Literal["refuse", "drop", "one-hot"]
Empty: TypeAlias = Literal["refuse", "drop", "fill"]
# What a single column is; of numbers, other cells count as empty.
Kind: TypeAlias = Literal["number", "decimal-comma", "one-hot", "drop"]
# Links and labels of nodes that have no row; further rows of a node that has one.
Unknown: TypeAlias = Literal["refuse", "drop"]
Repeated: TypeAlias = Literal["refuse", "first"]


class Choices(TypedDict, total=False):
    """What can be said about tables, and about the graph that is made of them."""

    source: Column | None
    target: Column | None
    weight: Column | None
    id: Column | None
    label: Column | Sequence[Column] | None
    parts: Column | Sequence[Column]
    drop: Column | Sequence[Column]
    columns: Mapping[str, Kind] | None
    text: Text | None
    empty: Empty | None
    missing: str | Sequence[str] | None
    unknown: Unknown | None
    repeated: Repeated | None
    fill_from: Graph | None
    like: Graph | None
    task: Task | None
    directed: Directed | None
    self_links: Literal["keep", "drop"]
    name: str | None
    class_names: Sequence[str] | None
    standard_split: Mapping[str, Sequence[int] | AnyArray] | None
    masks: Mapping[str, AnyArray] | None


MISSING = ("NA", "N/A", "#N/A", "#NV", "#N/D", "<NA>", "NaN", "null", "None", "?")  # in any case, beside an empty cell
NO_WEIGHT = "none"

WORDS: dict[str, tuple[str, ...]] = {
    "text": get_args(Text),
    "empty": get_args(Empty),
    "unknown": get_args(Unknown),
    "repeated": get_args(Repeated),
}


def _is_column(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _is_list(value: Any, of: type | tuple[type, ...] = str) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, of) for each in value)


def _is_table(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) and fits(each) for key, each in value.items())


_ENTRIES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("source", "target", "weight", "id"), _is_column),
    "label": lambda value: _is_column(value) or _is_list(value, (str, int)),
    **{name: words.__contains__ for name, words in WORDS.items()},
    "directed": get_args(Directed).__contains__,
    "self_links": ("keep", "drop").__contains__,
    "header": lambda value: isinstance(value, bool | str) or _is_list(value),
    "parts": lambda value: _is_list(value, (str, int)),
    "missing": _is_list,
    "columns": lambda value: _is_table(value, get_args(Kind).__contains__),
    "categories": lambda value: _is_table(value, _is_list),
}


def check_reading(value: Any) -> dict[str, Any] | None:
    """Return a reading, which may come from a file of anybody's, or raise."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InputError(f"reading must be a dictionary, got {type(value).__name__}.")
    for name, each in value.items():
        try:
            fits = name in _ENTRIES and _ENTRIES[name](each)
        except TypeError:  # what cannot be compared
            fits = False
        if not fits:
            raise InputError(
                f"reading must hold choices as Graph.from_files takes them, got {name!r:.40}: {each!r:.80}."
            )
    return dict(value)
