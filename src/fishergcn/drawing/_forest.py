"""Paired differences as a forest plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fishergcn._base.text import csv_text, signed_points
from fishergcn.drawing._palette import Look
from fishergcn.drawing._picture import INK, PAPER, Picture, new_axes
from fishergcn.studies import Comparison

# In characters; rows with longer labels have them above instead of beside.
_LONGEST_LABEL = 26


def draw_forest(title: str, comparisons: Sequence[Comparison], looks: Mapping[str, Look], name: str) -> Picture:
    """Draw one row for each difference, in the color of its cell; filled against the control, else hollow.

    Examples
    --------
    >>> from fishergcn.drawing import looks
    >>> from fishergcn.studies import Comparison, paired_difference
    >>> ours, theirs = {("a", 1): 0.82, ("b", 1): 0.80}, {("a", 1): 0.81, ("b", 1): 0.80}
    >>> difference, p_value, counts = paired_difference(ours, theirs)
    >>> names = ("cora", "fishergcn", "gcn-x5", "control", "test_accuracy")
    >>> row = Comparison(*names, difference, p_value, *counts)
    >>> draw_forest("Cora", [row], looks(["fishergcn"]), "forest-cora").label
    'Paired differences, Cora. fishergcn − gcn-x5: +0.50 points'
    """
    labels = [f"{comparison.cell} − {comparison.reference}" for comparison in comparisons]
    long = max(map(len, labels)) > _LONGEST_LABEL
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
    return Picture(name, f"Paired differences, {title}. {label}", figure, _csv(comparisons))


def _draw_row(axes: Any, place: int, comparison: Comparison, color: str) -> None:
    difference = comparison.difference
    if difference.low <= difference.high:
        axes.hlines(place, 100 * difference.low, 100 * difference.high, color=color, linewidth=2)
    face = color if comparison.role == "control" else PAPER
    style = {"markersize": 6.5, "markerfacecolor": face, "markeredgewidth": 1.6}
    axes.plot(100 * difference.mean, place, "o", color=color, **style)


def _label_rows(axes: Any, labels: Sequence[str], long: bool) -> None:
    """Write labels beside the rows, or, where they would leave no room for the rows, above them."""
    axes.set_yticks(range(len(labels)), [""] * len(labels) if long else labels)
    axes.tick_params(axis="y", length=0)
    if long:
        for place, text in enumerate(labels):
            axes.text(0, place - 0.2, text, transform=axes.get_yaxis_transform(), va="bottom", fontsize=8)


def _csv(comparisons: Iterable[Comparison]) -> str:
    columns = ["dataset", "cell", "reference", "role", "difference", "low", "high", "p_value", "won", "tied",
               "lost", "runs"]  # fmt: skip
    rows = [
        [one.dataset, one.cell, one.reference, one.role, one.difference.mean, one.difference.low,
         one.difference.high, one.p_value, one.won, one.tied, one.lost, one.difference.runs]
        for one in comparisons
    ]  # fmt: skip
    return csv_text(columns, rows)
