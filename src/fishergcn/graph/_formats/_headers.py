"""Distinguish a first line of column names, announced or not, from data."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fishergcn.errors import InputError
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


def header_kinds(header: bool | Collection[str] | None) -> tuple[frozenset[str], frozenset[str]]:
    """Return which files are said to begin with a header, and whose first line is not to be looked at."""
    if header is None or isinstance(header, bool):
        announced = frozenset(KINDS if header else ())
        return announced, frozenset(() if header is None else KINDS)
    kinds = frozenset([header] if isinstance(header, str) else header)
    if not kinds <= set(KINDS):
        got = ", ".join(sorted(map(repr, kinds)))
        raise InputError(f"header must be all, none or some of {', '.join(KINDS)}, got {got}.")
    return kinds, kinds or frozenset(KINDS)


def names_features(cells: list[str]) -> bool:
    """Say whether a row holds column names: no number, or 'id' and the column numbers 0, 1, 2 and so on."""
    counted = cells[1:] == [str(column) for column in range(len(cells) - 1)]
    return not any(map(is_number, cells[1:])) or (counted and _COLUMN_NAME.fullmatch(cells[0]) is not None)


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
        if "edges" in self.trusted or self.links.named or any(map(is_number, first)) or not rest[0]:
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
        return self.classes.rows[0][1] if self.classes_named() else self.classes.header

    def classes_named(self) -> bool:
        """Say whether neither node nor class of the first label occurs again: a header, if others have one."""
        if self.classes is None or self.classes.header or "labels" in self.trusted or len(self.classes.rows) < 2:
            return False
        (_, node, name), *rest = self.classes.rows
        again = any(node == other or name == other_name for _, other, other_name in rest)
        return not again and not any(node in column[1:] for column in self.links.columns[:2])
