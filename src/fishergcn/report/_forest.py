"""Paired differences, as a table and in words that the interval alone decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fishergcn._base.text import signed_points
from fishergcn.drawing import Html, tag
from fishergcn.report._page import number, table
from fishergcn.studies import Comparison, Estimate


def verdict(difference: Estimate) -> str:
    """Return ``"above"``, ``"below"`` or ``"zero"``, by where the interval lies, ``"equal"`` or ``"unknown"``."""
    if difference.mean == 0 and (difference.runs == 1 or difference.std == 0):
        return "equal"
    # NaN: a single run has no interval. Few runs that happen to differ by the same have none, either.
    if not difference.low <= difference.high or difference.standard_error < _ROUNDING:
        return "unknown"
    return "above" if difference.low > 0 else "below" if difference.high < 0 else "zero"


_ROUNDING = 1e-12
_SENTENCES = {
    "equal": "{method} and {reference} have equal results in all runs.",
    "above": "the interval lies above zero: {method} does better than {reference} on these runs.",
    "below": "the interval lies below zero: {method} does worse than {reference} on these runs.",
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
    side = verdict(comparison.difference)
    sentence = _SENTENCES[side].format(method=comparison.cell, reference=comparison.reference)
    interval = _interval(comparison.difference)
    number = f"{signed_points(comparison.difference.mean)} points{f' [{interval}]' if interval else ''}"
    number = "no difference" if side == "equal" else number
    name = f"{comparison.cell} − {comparison.reference} on {comparison.dataset}: "
    return tag("li", name, tag("b", number, class_=side), f"; {sentence}", class_="finding")


def sentence(one: Comparison) -> str:
    """Say how a method did against its control."""
    side, gain = verdict(one.difference), one.difference
    names = f"{one.cell} and its control {one.reference} on {one.dataset}"
    if side == "unknown":
        return f"{names} differ by {signed_points(gain.mean)} points; there are too few runs to say more."
    if side == "equal":
        return f"{names} have equal results in all runs."
    interval = f"95% interval {signed_points(gain.low)} to {signed_points(gain.high)}"
    if side == "zero":
        return f"{names} cannot be told apart: {signed_points(gain.mean)} points ({interval})."
    better = "better" if side == "above" else "worse"
    said = f"{one.cell} is {better} than its control {one.reference} on {one.dataset}"
    return f"{said}: {signed_points(gain.mean)} points ({interval})."


def paired_table(comparisons: Sequence[Comparison]) -> Html:
    """Return all paired differences on one data set, with the full values in ``data-value``."""
    unit = comparisons[0].difference.unit
    heads = ("difference", "#points", "#95% interval", "#the interval", f"#{unit} won / tied / lost", "#Wilcoxon p")
    dataset = comparisons[0].dataset
    return table("Paired differences", heads, map(_paired_row, comparisons), class_="paired", data_dataset=dataset)


def _paired_row(one: Comparison) -> list[str]:
    gap, side = one.difference, verdict(one.difference)
    low, high = (None, None) if side in ("equal", "unknown") else (gap.low, gap.high)
    return [
        f"{one.cell} − {one.reference}",
        number(signed_points(gap.mean), gap.mean, "main"),
        number(_interval(gap) or "–", data_low=low, data_high=high),
        number(_WORDS[side], kind=side),
        number(f"{one.won} / {one.tied} / {one.lost}"),
        number(f"{one.p_value:.3f}" if one.p_value >= 0.001 else "< 0.001", one.p_value),
    ]


def _interval(difference: Estimate) -> str:
    known = verdict(difference) not in ("equal", "unknown")
    return f"{signed_points(difference.low)}, {signed_points(difference.high)}" if known else ""


def points_text(difference: Estimate) -> str:
    """Return a difference in points, with its interval in brackets if it has one."""
    interval = _interval(difference)
    return signed_points(difference.mean) + (f" [{interval}]" if interval else "")


def controls_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Put what the perturbation is judged by before what the paper compares with."""
    return sorted(comparisons, key=lambda comparison: comparison.role != "control")
