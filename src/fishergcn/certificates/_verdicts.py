"""What every certificate says of its nodes: certified, broken or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fishergcn._base.reprs import one_line
from fishergcn._base.text import csv_text
from fishergcn._base.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Decisions:
    """For N nodes: bounds of the smallest margin over a family of graphs, and what follows.

    Attributes
    ----------
    nodes, classes : ndarray of int, shape (N,)
        The nodes, and the class of each on the graph itself.
    lower, upper : ndarray, shape (N,)
        Bounds of the smallest margin over the family: the score of the class less the largest of the others.
    certified, broken, undecided : ndarray of bool, shape (N,)
        No graph of the family changes the class; one was found that does; neither is known.
    others : ndarray of int, shape (N,)
        The class to which the worst graph that was found changes a node, or comes closest to.
    """

    nodes: IntArray
    classes: IntArray
    lower: FloatArray
    upper: FloatArray
    certified: BoolArray
    broken: BoolArray
    others: IntArray

    __repr__ = one_line

    @property
    def undecided(self) -> BoolArray:
        """Neither certified nor broken."""
        return ~(self.certified | self.broken)

    @property
    def words(self) -> list[str]:
        """Return "certified", "broken" or "undecided" for each node."""
        return np.where(self.certified, "certified", np.where(self.broken, "broken", "undecided")).tolist()  # type: ignore[no-any-return]

    def words_of(self, predicted: IntArray) -> list[str]:
        """Return :attr:`words` of classes that were predicted: undecided where rounding made it another than here."""
        same = self.classes == predicted
        return [word if each else "undecided" for word, each in zip(self.words, same, strict=True)]

    def counts(self) -> dict[str, int]:
        """Return how many nodes are certified, broken and undecided."""
        return {name: int(getattr(self, name).sum()) for name in ("certified", "broken", "undecided")}

    def csv(self, names: Sequence[str], classes: Sequence[str]) -> str:
        """Return a table as CSV: node, class, certificate, bounds of the margin, and the class it comes closest to."""
        rows = [
            [names[node], classes[own], word, f"{low:.9g}", f"{high:.9g}", classes[other]]
            for node, own, word, low, high, other in zip(
                self.nodes, self.classes, self.words, self.lower, self.upper, self.others, strict=True
            )
        ]
        return csv_text(["node", "class", "certificate", "lower", "upper", "closest"], rows)
