"""Paired differences, as a table and in words that the interval alone decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fishergcn.drawing import Html, tag
from fishergcn.report._page import number, table
from fishergcn.studies import Comparison, Estimate
from fishergcn.training import Score, find_score, titled


def verdict(difference: Estimate) -> str:
    """Return ``"above"``, ``"below"`` or ``"zero"``, by where the interval lies, ``"equal"`` or ``"unknown"``."""
    if difference.mean == 0 and (difference.runs == 1 or difference.std == 0):
        return "equal"
    # NaN: a single run has no interval. Few runs that happen to differ by the same have none, either.
    if not difference.low <= difference.high or difference.standard_error < _ROUNDING:
        return "unknown"
    return "above" if difference.low > 0 else "below" if difference.high < 0 else "zero"


def judgment(difference: Estimate, score: Score) -> str:
    """Return ``"better"`` or ``"worse"``, by the side of zero on which the interval lies, else its verdict."""
    side = verdict(difference)
    return ("better" if (side == "above") == (score.better == "high") else "worse") if side in _SIDES else side


_SIDES = ("above", "below")
_KINDS = {"better": "above", "worse": "below"}  # the colors of a page
_ROUNDING = 1e-12
_SENTENCES = {
    "equal": "{method} and {reference} have equal results in all runs.",
    "above": "the interval lies above zero: {method} does {how} than {reference} on these runs.",
    "below": "the interval lies below zero: {method} does {how} than {reference} on these runs.",
    "zero": "the interval includes zero: these runs cannot tell {method} and {reference} apart.",
    "unknown": "there are too few runs for an interval, so no conclusion is possible.",
}
_WORDS = {
    "above": "above zero",
    "below": "below zero",
    "zero": "includes zero",
    "unknown": "no interval",
    "equal": "all equal",
}


def finding(comparison: Comparison) -> Html:
    """Return the difference with its interval and the sentence that follows from it."""
    gap, score = comparison.difference, find_score(comparison.metric)
    side, how = verdict(gap), judgment(gap, score)
    sentence = _SENTENCES[side].format(method=comparison.cell, reference=comparison.reference, how=how)
    interval = _interval(gap, score)
    number = f"{score.difference(gap.mean)}{score.unit}{f' [{interval}]' if interval else ''}"
    number = "no difference" if side == "equal" else number
    name = f"{comparison.cell} − {comparison.reference} on {comparison.dataset}: "
    return tag("li", name, tag("b", number, class_=_KINDS.get(how, side)), f"; {sentence}", class_="finding")


def sentence(one: Comparison) -> str:
    """Say how a method did against its control."""
    gain, score, what = one.difference, find_score(one.metric), titled(one.metric)
    how, mean = judgment(gain, score), f"{score.difference(gain.mean)}{score.unit} in {what}"
    names = f"{one.cell} and its control {one.reference} on {one.dataset}"
    if how == "unknown":
        return f"{names} differ by {mean}; there are too few runs to say more."
    if how == "equal":
        return f"{names} have equal results in all runs."
    interval = f"95% interval {score.difference(gain.low)} to {score.difference(gain.high)}"
    if how == "zero":
        return f"{names} cannot be told apart: {mean} ({interval})."
    return f"{one.cell} is {how} than its control {one.reference} on {one.dataset}: {mean} ({interval})."


def paired_table(comparisons: Sequence[Comparison]) -> Html:
    """Return all paired differences on one data set, with the full values in ``data-value``."""
    unit, score = comparisons[0].difference.unit, find_score(comparisons[0].metric)
    heads = (
        "difference",
        f"#{score.change}",
        "#95% interval",
        "#the interval",
        f"#{unit} won / tied / lost",
        "#Wilcoxon p",
    )
    dataset = comparisons[0].dataset
    return table("Paired differences", heads, map(_paired_row, comparisons), class_="paired", data_dataset=dataset)


def _paired_row(one: Comparison) -> list[str]:
    gap, side, score = one.difference, verdict(one.difference), find_score(one.metric)
    low, high = (None, None) if side in ("equal", "unknown") else (gap.low, gap.high)
    return [
        f"{one.cell} − {one.reference}",
        number(score.difference(gap.mean), gap.mean, "main"),
        number(_interval(gap, score) or "–", data_low=low, data_high=high),
        number(_WORDS[side], kind=_KINDS.get(judgment(gap, score), side)),
        number(f"{one.won} / {one.tied} / {one.lost}"),
        number(f"{one.p_value:.3f}" if one.p_value >= 0.001 else "< 0.001", one.p_value),
    ]


def _interval(difference: Estimate, score: Score) -> str:
    known = verdict(difference) not in ("equal", "unknown")
    return f"{score.difference(difference.low)}, {score.difference(difference.high)}" if known else ""


def difference_text(difference: Estimate, score: Score) -> str:
    """Return a difference of a score, without its unit, with its interval in brackets if it has one."""
    interval = _interval(difference, score)
    return score.difference(difference.mean) + (f" [{interval}]" if interval else "")


def controls_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Put what the perturbation is judged by before what the paper compares with."""
    return sorted(comparisons, key=lambda comparison: comparison.role != "control")
