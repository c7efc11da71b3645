"""Paired differences: as a forest plot, and in words that the interval alone decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fishergcn._base.text import csv_text, signed_points
from fishergcn.drawing import INK, PAPER, Html, Look, Picture, new_axes, render, tag
from fishergcn.studies import Comparison, Estimate

__all__ = ["controls_first", "draw_forest", "finding", "forest_csv", "paired_table", "verdict"]

# In characters; rows with longer labels have them above instead of beside.
LONGEST_LABEL = 26


def verdict(difference: Estimate) -> str:
    """Return ``"above"``, ``"below"`` or ``"zero"``, by where the interval lies, or ``"unknown"``."""
    if not difference.low <= difference.high:  # NaN: a single run has no interval
        return "unknown"
    return "above" if difference.low > 0 else "below" if difference.high < 0 else "zero"


_SENTENCES = {
    "above": "the interval lies above zero: {method} does better than {reference} on these runs.",
    "below": "the interval lies below zero: {method} does worse than {reference} on these runs.",
    "zero": "the interval includes zero: these runs do not tell {method} and {reference} apart.",
    "unknown": "there are too few runs for an interval, so nothing can be said.",
}
_WORDS = {"above": "above zero", "below": "below zero", "zero": "includes zero", "unknown": "no interval"}


def finding(comparison: Comparison) -> Html:
    """Return the difference with its interval and the sentence that follows from it."""
    side = verdict(comparison.difference)
    sentence = _SENTENCES[side].format(method=comparison.cell, reference=comparison.reference)
    interval = _interval(comparison.difference)
    number = f"{signed_points(comparison.difference.mean)} points{f' [{interval}]' if interval else ''}"
    name = f"{comparison.cell} − {comparison.reference} on {comparison.dataset}: "
    return tag("li", name, tag("b", number, class_=side), f"; {sentence}", class_="finding")


def paired_table(comparisons: Sequence[Comparison]) -> Html:
    """Return all paired differences on one data set, with the full values in ``data-value``."""
    unit = comparisons[0].difference.unit
    heads = ("95 % interval", "the interval", f"{unit} won / tied / lost", "Wilcoxon p")
    head = tag(
        "tr",
        tag("th", "difference", scope="col"),
        *(tag("th", text, class_="number", scope="col") for text in heads),
    )
    rows = [_paired_row(comparison) for comparison in comparisons]
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="paired", data_dataset=comparisons[0].dataset)
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Paired differences")


def _paired_row(comparison: Comparison) -> Html:
    difference, side = comparison.difference, verdict(comparison.difference)
    known = side != "unknown"
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
    return (
        f"{signed_points(difference.low)}, {signed_points(difference.high)}" if verdict(difference) != "unknown" else ""
    )


def _p_value(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def controls_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Put what the perturbation is judged by before what the paper compares with."""
    return sorted(comparisons, key=lambda comparison: comparison.role != "control")


def draw_forest(title: str, comparisons: Sequence[Comparison], looks: Mapping[str, Look], name: str) -> Picture:
    """Draw one row for each difference; filled against the control, hollow against the plain GCN."""
    labels = [f"{comparison.cell} − {comparison.reference}" for comparison in comparisons]
    long = max(map(len, labels)) > LONGEST_LABEL
    with new_axes(height=0.95 + (0.4 if long else 0.27) * len(labels)) as (figure, axes):
        axes.axvline(0, color=INK, linewidth=0.8)
        for place, comparison in enumerate(comparisons):
            _draw_row(axes, place, comparison, looks[comparison.cell].color)
        xlabel = "difference in test accuracy, percentage points"
        axes.set(title=title, xlabel=xlabel, ylim=(len(labels) - 0.4, -0.9 if long else -0.6))
        _label_rows(axes, labels, long)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        shown = zip(labels, comparisons, strict=True)
        label = "; ".join(f"{text}: {signed_points(comparison.difference.mean)} points" for text, comparison in shown)
        return render(figure, name, f"Paired differences, {title}. {label}", forest_csv(comparisons))


def _label_rows(axes: Any, labels: Sequence[str], long: bool) -> None:
    """Write labels beside the rows, or, where they would leave no room for the rows, above them."""
    axes.set_yticks(range(len(labels)), [""] * len(labels) if long else labels)
    axes.tick_params(axis="y", length=0)
    if long:
        for place, text in enumerate(labels):
            axes.text(0, place - 0.2, text, transform=axes.get_yaxis_transform(), va="bottom", fontsize=8)


def forest_csv(comparisons: Iterable[Comparison]) -> str:
    """Return paired differences as CSV; accuracies are fractions."""
    columns = ["dataset", "cell", "reference", "role", "difference", "low", "high", "p_value", "won", "tied",
               "lost", "runs"]  # fmt: skip
    rows = [
        [one.dataset, one.cell, one.reference, one.role, one.difference.mean, one.difference.low,
         one.difference.high, one.p_value, one.won, one.tied, one.lost, one.difference.runs]
        for one in comparisons
    ]  # fmt: skip
    return csv_text(columns, rows)


def _draw_row(axes: Any, place: int, comparison: Comparison, color: str) -> None:
    difference = comparison.difference
    if difference.low <= difference.high:
        axes.hlines(place, 100 * difference.low, 100 * difference.high, color=color, linewidth=2)
    filled = comparison.role == "control"
    face = color if filled else PAPER
    axes.plot(
        100 * difference.mean,
        place,
        "o",
        color=color,
        markersize=6.5,
        markerfacecolor=face,
        markeredgewidth=1.6,
    )
