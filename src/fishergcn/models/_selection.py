"""How a model was chosen: the candidates, their scores on validation nodes, and how much the links add."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fishergcn._base.json import plain
from fishergcn._base.reprs import one_line
from fishergcn.errors import DataFileError


@dataclass(frozen=True)
class Candidate:
    """A method with its settings, and how it did on validation nodes in the mean over inner splits.

    Attributes
    ----------
    name
        What it is called in tables.
    method, settings
        What was trained: the method, and the settings in which it differs from the other candidates.
    val_accuracy, val_cross_entropy
        Means over its runs, NaN if it was left out; the cross entropy at the temperature that suits the nodes best.
    runs
        How many runs these are means of.
    seconds
        Time of training, summed over its runs.
    left_out
        Why it was not trained; empty if it was.

    Examples
    --------
    >>> Candidate("gcn", "gcn", {"scaling": "none"}, val_accuracy=0.8, val_cross_entropy=0.6, runs=3).tried
    True
    """

    name: str
    method: str
    settings: Mapping[str, Any]
    val_accuracy: float = math.nan
    val_cross_entropy: float = math.nan
    runs: int = 0
    seconds: float = 0.0
    left_out: str = ""

    @property
    def tried(self) -> bool:
        """Whether it was trained."""
        return self.runs > 0


@dataclass(frozen=True)
class Selection:
    """What was chosen from what, by validation nodes alone.

    Attributes
    ----------
    candidates
        All of them, simplest first.
    chosen
        The name of the one that the model is.
    homophily
        The share of links that join nodes of one class; NaN without links to tell.
    gain, low, high
        Validation accuracy with the links minus that of the same network without them, with a 95% interval; NaN where
        there was nothing to compare.
    sentences
        What came out, in words.
    seconds
        Time that the choice took.

    Examples
    --------
    >>> plain = Candidate("majority", "majority", {}, val_accuracy=0.4, val_cross_entropy=1.0, runs=1)
    >>> found = Selection((plain,), "majority", sentences=("The most frequent class is as good as anything.",))
    >>> Selection.from_dict(found.to_dict()).chosen
    'majority'
    """

    candidates: tuple[Candidate, ...]
    chosen: str
    homophily: float = math.nan
    gain: float = math.nan
    low: float = math.nan
    high: float = math.nan
    sentences: tuple[str, ...] = ()
    seconds: float = 0.0

    __repr__ = one_line

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; NaN becomes None."""
        values: dict[str, Any] = plain(dataclasses.asdict(self))
        return values

    @classmethod
    def from_dict(cls, values: Any) -> Selection:
        """Undo :meth:`to_dict`, of values that may come from anywhere."""
        try:
            known = {each.name: values[each.name] for each in dataclasses.fields(cls)}
            known["candidates"] = tuple(_candidate(each) for each in known["candidates"])
            known["sentences"] = tuple(_text(each) for each in known["sentences"])
            for name in ("homophily", "gain", "low", "high", "seconds"):
                known[name] = _number(known[name])
            return cls(**known | {"chosen": _text(known["chosen"])})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DataFileError(f"the selection of a model has the wrong form ({error}).") from error


def _candidate(values: Any) -> Candidate:
    known = {each.name: values[each.name] for each in dataclasses.fields(Candidate)}
    for name in ("val_accuracy", "val_cross_entropy", "seconds"):
        known[name] = _number(known[name])
    for name in ("name", "method", "left_out"):
        known[name] = _text(known[name])
    return Candidate(**known | {"settings": dict(known["settings"]), "runs": int(known["runs"])})


def _number(value: Any) -> float:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"{value!r:.80} is not a number")
    return math.nan if value is None else float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is not a text")
    return value
