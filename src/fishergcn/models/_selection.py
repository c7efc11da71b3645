"""How a model was chosen: the candidates, how they did on nodes set aside, and what to expect of the model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from fishergcn._base.checks import check_choice
from fishergcn._base.entries import Entries
from fishergcn._base.imports import require
from fishergcn._base.json import plain
from fishergcn._base.reprs import one_line
from fishergcn.errors import DataFileError, InputError
from fishergcn.graph import TASKS
from fishergcn.graph import Task as TaskName
from fishergcn.training import Score, find_score

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

CALIBRATED = "cross entropy, calibrated"  # of probabilities at the best temperature on validation nodes


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
        Mean over its runs, of probabilities at the temperature that suits their validation nodes; NaN if left out. Of
        numbers it is the root mean squared error.
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; NaN becomes None."""
        values: dict[str, Any] = plain(dataclasses.asdict(self))
        return values

    @property
    def tried(self) -> bool:
        """Whether it was trained."""
        return self.runs > 0

    @property
    def said(self) -> str:
        """What it is, in words; those of version 0.2 have the method alone."""
        return self.words or self.method


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
        set aside in each inner split, for a model about which everything was decided without them.
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
    task
        What the model predicts of a node, as :attr:`fishergcn.Graph.task` has it.

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
    task: TaskName = "classification"

    __repr__ = one_line

    @property
    def entry(self) -> Score:
        """What is known of the score."""
        return find_score(self.score)

    @property
    def title(self) -> str:
        """What the score is called in heads: candidates are judged by calibrated probabilities."""
        return CALIBRATED if self.score == "cross_entropy" else self.entry.title

    @property
    def loss_title(self) -> str:
        """What is shown beside the score, and called ``cross_entropy`` in candidates: of numbers the RMSE."""
        return find_score("rmse").title if self.task == "regression" else CALIBRATED

    @property
    def useful(self) -> bool | None:
        """Whether the model is clearly better than always answering the most frequent class; None if not measured."""
        return self.majority_low > 0 if math.isfinite(self.value) else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; NaN becomes None."""
        values: dict[str, Any] = plain(dataclasses.asdict(self))
        if self.task == TASKS[0]:  # as it was before there were others
            del values["task"]
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

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of texts for people to read, best first and those left out last."""
        score, more = self.entry, [] if self.title == self.loss_title else [self.loss_title]
        heads = ["candidate", "what it is", self.title, "95% interval", *more, "runs", "seconds", "share"]
        rows = [
            [
                each.name,
                "; ".join(part for part in (each.said, each.left_out and f"left out: {each.left_out}") if part),
                score.text(each.value, 1),
                f"{score.text(each.low, 1)} to {score.text(each.high, 1)}" if each.low <= each.high else "-",
                *([f"{each.cross_entropy:.4f}" if math.isfinite(each.cross_entropy) else "-"] if more else []),
                str(each.runs),
                f"{each.seconds:.1f}",
                f"{each.share:.0%}" if each.share else "",
            ]
            for each in self.ranked()
        ]
        return heads, rows

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
            chosen = found.text("chosen")
            return cls(
                candidates=tuple(_candidate(each, chosen) for each in found.tables("candidates")),
                chosen=chosen,
                score="accuracy" if older else find_score(found.text("score")).name,
                sentences=found.texts("sentences"),
                task=_task(found.text("task")) if "task" in found.values else "classification",
                judges=0 if older else found.whole("judges"),
                splits=0 if older else found.whole("splits"),
                **{name: found.number(links.get(name, name)) for name in numbers},
            )
        except DataFileError:
            raise
        except InputError as error:
            raise DataFileError(str(error)) from None


def _candidate(values: Mapping[str, Any], chosen: str) -> Candidate:
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
            share=float(known["name"] == chosen),
        )  # fmt: skip
    known |= {name: found.number(name) for name in ("value", "low", "high", "cross_entropy", "share")}
    return Candidate(**known, words=found.text("words"))


def _task(name: str) -> TaskName:
    check_choice("task", name, TASKS)
    return cast("TaskName", name)
