"""Paired differences, as a table and in words that the interval alone decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fishergcn._base.text import signed_points
from fishergcn.drawing import Html, tag
from fishergcn.report._markup import table
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


def paired_table(comparisons: Sequence[Comparison]) -> Html:
    """Return all paired differences on one data set, with the full values in ``data-value``."""
    unit = comparisons[0].difference.unit
    heads = ("points", "95% interval", "the interval", f"{unit} won / tied / lost", "Wilcoxon p")
    numbers = (tag("th", text, class_="number", scope="col") for text in heads)
    rows = (_paired_row(comparison) for comparison in comparisons)
    names = {"class_": "paired", "data_dataset": comparisons[0].dataset}
    return table("Paired differences", ("difference", *numbers), rows, **names)


def _paired_row(comparison: Comparison) -> Html:
    difference, side = comparison.difference, verdict(comparison.difference)
    known = side not in ("equal", "unknown")
    counts = f"{comparison.won} / {comparison.tied} / {comparison.lost}"
    return tag(
        "tr",
        tag("th", f"{comparison.cell} − {comparison.reference}", scope="row"),
        tag("td", signed_points(difference.mean), class_="number main", data_value=difference.mean),
        tag(
            "td",
            _interval(difference) or "–",
            class_="number",
            data_low=difference.low if known else None,
            data_high=difference.high if known else None,
        ),
        tag("td", _WORDS[side], class_=f"number {side}"),
        tag("td", counts, class_="number"),
        tag("td", _p_value(comparison.p_value), class_="number", data_value=comparison.p_value),
    )


def _interval(difference: Estimate) -> str:
    known = verdict(difference) not in ("equal", "unknown")
    return f"{signed_points(difference.low)}, {signed_points(difference.high)}" if known else ""


def points_text(difference: Estimate) -> str:
    """Return a difference in points, with its interval in brackets if it has one."""
    interval = _interval(difference)
    return signed_points(difference.mean) + (f" [{interval}]" if interval else "")


def _p_value(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def controls_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Put what the perturbation is judged by before what the paper compares with."""
    return sorted(comparisons, key=lambda comparison: comparison.role != "control")
