"""First lines of text files: names of columns, announced or not, told from data."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fishergcn.errors import DataFileError, InputError
from fishergcn.graph._formats._text import is_number

if TYPE_CHECKING:
    from fishergcn.graph._formats._tables import Classes, Links

KINDS = ("edges", "features", "labels")
_COLUMN_NAME = re.compile(  # such as source, from_node, NodeId1
    "(source|target|src|dst|from|to|head|tail|start|end|left|right|u|v|weight|label|class|node|id|name"
    "|person|member|friend|user|author|paper|page|item|vertex|citing|cited|follower|followed)"
    "([ _]?node)?([ _]?id)?([ _]?[12ab])?",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"[0-9]")


def header_kinds(header: bool | Collection[str]) -> frozenset[str]:
    """Return which files are said to begin with a header."""
    if isinstance(header, bool):
        return frozenset(KINDS if header else ())
    kinds = frozenset([header] if isinstance(header, str) else header)
    if not kinds <= set(KINDS):
        got = ", ".join(sorted(map(repr, kinds)))
        raise InputError(f"header must be all, none or some of {', '.join(KINDS)}, got {got}.")
    return kinds


def names_features(cells: list[str]) -> bool:
    """Say whether a row holds column names: no number, or 'id' and the column numbers 0, 1, 2 and so on."""
    counted = cells[1:] == [str(column) for column in range(len(cells) - 1)]
    return not any(map(is_number, cells[1:])) or (counted and _COLUMN_NAME.fullmatch(cells[0]) is not None)


_Line = tuple[Path, int, Sequence[str]]  # file, line number, cells


@dataclass(frozen=True)
class FirstLines:
    """The first lines of all files, to tell names of columns from data: taken for data, they quietly add nodes."""

    links: Links
    classes: Classes | None
    has_features: bool
    announced: frozenset[str]  # files said to begin with a header
    trusted: frozenset[str]  # files whose first line is not to be suspected

    def links_named(self, known: Collection[str] | None = None, word: str = "") -> bool:
        """Say whether the links begin with names of columns: words that are nodes nowhere else.

        ``known`` are the nodes of the features, which must hold all; ``word`` begins the header of the features.
        """
        first = [column[0] for column in self.links.columns]
        rest = [column[1:] for column in self.links.columns]
        if "edges" in self.trusted or any(map(is_number, first)) or not rest[0]:
            return False
        if len(first) == 3 and all(map(is_number, rest[2])):
            return True
        labeled = [node for _, node, _ in self.classes.rows[1:]] if self.classes else []
        if any(name in place for name in first[:2] for place in (rest[0], rest[1], labeled, known or ())):
            return False
        # Two nodes may well be linked to each other alone, so that more must speak for a header:
        return (
            known is not None
            or all(map(_COLUMN_NAME.fullmatch, first))
            or not {word, self._word_of_labels()}.isdisjoint(first[:2])
            or all(map(is_number, itertools.chain(rest[0], rest[1])))
            or (not any(map(_DIGIT.search, first)) and all(map(_DIGIT.search, itertools.chain(rest[0], rest[1]))))
        )

    def _word_of_labels(self) -> str:
        if self.classes is None:
            return ""
        return self.classes.rows[0][1] if self._classes_named() else self.classes.header

    def _classes_named(self) -> bool:
        """Say whether neither node nor class of the first label occurs again: a header, if others have one."""
        if self.classes is None or "labels" in self.trusted or len(self.classes.rows) < 2:
            return False
        (_, node, name), *rest = self.classes.rows
        again = any(node == other or name == other_name for _, other, other_name in rest)
        return not again and not any(node in column[1:] for column in self.links.columns[:2])

    def error(self, features: _Line | None = None, known: Collection[str] | None = None) -> DataFileError:
        """Return the refusal of a header of the links or of ``features``, which names the other files as well."""
        found: dict[str, _Line] = {}
        if self.links_named(known, features[2][0] if features else ""):
            found["edges"] = self.links.path, self.links.lines[0], [column[0] for column in self.links.columns]
        if features:
            found["features"] = features
        if self.classes and self._classes_named():
            line, node, name = self.classes.rows[0]
            found["labels"] = self.classes.path, line, [node, name]
        (path, line, cells), *more = found.values()
        shown = ",".join(cells[:4]) + (",…" if len(cells) > 4 else "")
        others = " and ".join(f"{path} line {line}" for path, line, _ in more)
        also, them = (f", as {others} {'does' if len(more) == 1 else 'do'}", "them") if more else ("", "it")
        return DataFileError(
            f"{path} line {line}: {shown!r} looks like a header{also}; announce {them} with {self.option(found)} "
            f"to skip {them}, or say with header=[] or --header none that all lines are data."
        )

    def option(self, found: Iterable[str]) -> str:
        """Return how to announce the headers of ``found`` beside those that were announced."""
        kinds = [kind for kind in KINDS if kind in {*found, *self.announced}]
        if len(kinds) == 1 + self.has_features + (self.classes is not None) > 1:
            return "header=True or --header all"
        return f"header={kinds!r} or --header {','.join(kinds)}"
