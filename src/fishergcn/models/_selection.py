"""How a model was chosen: the candidates, how they did on nodes set aside, and what to expect of the model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fishergcn._base.entries import Entries
from fishergcn._base.imports import require
from fishergcn._base.json import plain
from fishergcn._base.reprs import one_line
from fishergcn.errors import DataFileError, InputError
from fishergcn.training import Score, find_score

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Candidate:
    """A method with its settings, and how it did on nodes set aside, over inner splits.

    Attributes
    ----------
    name, words
        What it is called in tables, and what it is.
    method, settings
        What was trained: the method, and the settings in which it differs from the other candidates.
    value, low, high
        The score that was chosen by, estimated for unlabeled nodes, with a 95% interval; NaN if it was left out.
    cross_entropy
        Mean over its runs, of probabilities at the temperature that suits their validation nodes; NaN if left out.
    runs
        On how many inner splits it was trained.
    seconds
        Time of training, summed over its runs.
    share
        Of it in the chosen model: 1 for the model itself, less for a member of an ensemble.
    left_out
        Why it was not trained; empty if it was.

    Examples
    --------
    >>> Candidate("gcn", "gcn", {"scaling": "none"}, value=0.8, runs=3).tried
    True
    """

    name: str
    method: str
    settings: Mapping[str, Any]
    words: str = ""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    cross_entropy: float = math.nan
    runs: int = 0
    seconds: float = 0.0
    share: float = 0.0
    left_out: str = ""

    @property
    def tried(self) -> bool:
        """Whether it was trained."""
        return self.runs > 0


@dataclass(frozen=True)
class Selection:
    """What was chosen from what, and what to expect of it.

    Attributes
    ----------
    candidates
        All of them, cheapest first.
    chosen
        The name of the one that the model is, or of the kind of ensemble.
    score
        The score by which it was chosen.
    value, low, high
        This score on nodes that nobody has labeled: an estimate with a 95% interval. It is measured on nodes that were
        set aside in each inner split, for a model that was chosen, stopped and calibrated without them.
    majority, majority_low
        The same for always answering the most frequent class; and the lower end of the 95% interval of how much better
        the model is.
    without_links
        The same for the best candidate that does not read the links; NaN if there is none.
    gain, gain_low, gain_high
        How much better the best candidate with links is than the best without them, with a 95% interval; NaN where
        there was nothing to compare.
    homophily
        The share of links that join nodes of one class; NaN without links to tell.
    judges, splits
        How many nodes judged, in how many inner splits.
    sentences
        What came out, in words.
    seconds
        Time that the choice took.

    Examples
    --------
    >>> plain = Candidate("mlp", "mlp", {}, words="features alone", value=0.4, runs=1, share=1.0)
    >>> found = Selection((plain,), "mlp", sentences=("The features say little.",))
    >>> Selection.from_dict(found.to_dict()).chosen
    'mlp'
    """

    candidates: tuple[Candidate, ...]
    chosen: str
    score: str = "accuracy"
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    majority: float = math.nan
    majority_low: float = math.nan
    without_links: float = math.nan
    gain: float = math.nan
    gain_low: float = math.nan
    gain_high: float = math.nan
    homophily: float = math.nan
    judges: int = 0
    splits: int = 0
    sentences: tuple[str, ...] = field(default=())
    seconds: float = 0.0

    __repr__ = one_line

    @property
    def entry(self) -> Score:
        """What is known of the score."""
        return find_score(self.score)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; NaN becomes None."""
        values: dict[str, Any] = plain(dataclasses.asdict(self))
        return values

    def to_frame(self) -> pd.DataFrame:
        """Return the candidates as a table, best first and those left out last."""
        require("pandas", extra="report", purpose="A table of the candidates")
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(each) for each in self.ranked()])

    def ranked(self) -> list[Candidate]:
        """Return the candidates, best first and those left out last."""
        gain = self.entry.gain
        return sorted(
            self.candidates, key=lambda each: (each.tried, gain(each.value) if each.tried else 0.0), reverse=True
        )

    @classmethod
    def from_dict(cls, values: Any) -> Selection:
        """Undo :meth:`to_dict`, of values that may come from anywhere; those of version 0.2 have no estimate."""
        try:
            found = Entries(values, "the selection of a model")
            older = "score" not in found.values
            links = {"gain": "gain", "gain_low": "low", "gain_high": "high"} if older else {}
            numbers = (
                ("gain", "gain_low", "gain_high", "homophily", "seconds")
                if older
                else ("value", "low", "high", "majority", "majority_low", "without_links", "gain", "gain_low",
                      "gain_high", "homophily", "seconds")
            )  # fmt: skip
            return cls(
                candidates=tuple(_candidate(each) for each in found.tables("candidates")),
                chosen=found.text("chosen"),
                score="accuracy" if older else find_score(found.text("score")).name,
                sentences=found.texts("sentences"),
                judges=0 if older else found.whole("judges"),
                splits=0 if older else found.whole("splits"),
                **{name: found.number(links.get(name, name)) for name in numbers},
            )
        except DataFileError:
            raise
        except InputError as error:
            raise DataFileError(str(error)) from None


def _candidate(values: Mapping[str, Any]) -> Candidate:
    found = Entries(values, "a candidate")
    known: dict[str, Any] = {
        "name": found.text("name"),
        "method": found.text("method"),
        "settings": dict(found.table("settings")),
        "runs": found.whole("runs"),
        "seconds": found.number("seconds"),
        "left_out": found.text("left_out"),
    }
    if "val_accuracy" in found.values:  # of version 0.2
        return Candidate(
            **known, value=found.number("val_accuracy"), cross_entropy=found.number("val_cross_entropy"),
        )  # fmt: skip
    numbers = ("value", "low", "high", "cross_entropy", "share")
    return Candidate(**known, words=found.text("words"), **{name: found.number(name) for name in numbers})
