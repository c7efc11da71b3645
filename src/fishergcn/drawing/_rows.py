"""Charts of rows: means with their intervals over single runs, and paired differences as a forest plot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fishergcn._base.text import csv_text
from fishergcn.drawing._chart import Chart
from fishergcn.drawing._marks import ROLES, Layer, Panel, Series, spread
from fishergcn.drawing._palette import Look
from fishergcn.studies import Comparison
from fishergcn.training import Score, find_score, titled

# Single runs of a chart, in all: more dots than this hide each other.
_MOST_DOTS = 3000
_MANY = 40  # runs of a row; fewer are drawn over the interval


@dataclass(frozen=True)
class Row:
    """A row of a chart: a mark, its interval, and the single runs behind it."""

    name: str
    mean: float
    low: float = math.nan  # NaN: no interval
    high: float = math.nan
    look: Look | None = None  # its color; None for the color of most things
    runs: Sequence[float] = ()  # values of the single runs
    notes: Sequence[str] = ()  # what to say of each run when one points at it
    series: str | None = None  # whose mark it has; by default a circle
    hollow: bool = False
    size: float = 5.5
    tip: str = ""  # what to say when one points at the mark; by default the mean and the interval


def draw_rows(
    label: str,
    panels: Mapping[str, Sequence[Row]],
    name: str,
    *,
    x: str,
    score: str = "accuracy",
    differences: bool = False,
    x_domain: tuple[float, float] | None = None,
    least: float = 0.0,
    beside: float | Mapping[str, float] = math.nan,
    data: str = "",
) -> Chart:
    """Draw rows of values of a score, panel by panel, or of ``differences`` from zero.

    Shares are shown in percent, their differences in percentage points, other scores as they are.
    Axes go from where to where ``x_domain`` says, or show a range of at ``least`` this size, if these are given. A
    dashed line marks a value ``beside`` which all rows are seen, or those of each panel.
    """
    form, lines = Form(find_score(score), differences), beside if isinstance(beside, Mapping) else {}
    drawn = []
    for title, rows in panels.items():
        line = lines.get(title, math.nan) if isinstance(beside, Mapping) else beside
        domain = x_domain or (_domain(rows, least, line, form.score) if least else None)
        drawn.append(_panel(title, x, rows, form, domain, line))
    marks = {row.series: row.look for rows in panels.values() for row in rows if row.series and row.look}
    return Chart(name, label, drawn, [Series(each, look) for each, look in marks.items()], data=data)


@dataclass(frozen=True)
class Form:
    """How values of a score, or their differences, are drawn and said."""

    score: Score
    differences: bool

    @property
    def factor(self) -> int:
        """What values are multiplied by."""
        return 100 if self.differences and self.score.percent else 1

    def percent(self, axis: str) -> str:
        """Return the axis if its numbers are shown in percent."""
        return axis if self.score.percent and not self.differences else ""

    def text(self, value: float) -> str:
        """Return a value in words."""
        return self.score.difference(value) + self.score.unit if self.differences else self.score.text(value)


def _panel(
    title: str, x: str, rows: Sequence[Row], form: Form, domain: tuple[float, float] | None, beside: float
) -> Panel:
    layers = [Layer("rule", axis="x", at=0, opacity=0.7)] if form.differences else []
    layers += [Layer("rule", axis="x", at=beside, dash=[4, 3], color="rest")] if math.isfinite(beside) else []
    for place, row in enumerate(rows):
        layers += _layers(place, row, max(20, _MOST_DOTS // len(rows)), form)
    names = [row.name for row in rows]
    return Panel(title, x, "", layers, rows=names, percent=form.percent("x"), x_domain=domain)


def _domain(rows: Sequence[Row], least: float, beside: float, score: Score) -> tuple[float, float] | None:
    """Return the range of an axis that makes little of small differences."""
    every = [value for row in rows for value in (row.mean, row.low, row.high, *row.runs)]
    values = [value for value in (beside, *every) if math.isfinite(value)]
    if not values:
        return None
    middle, half = (max(values) + min(values)) / 2, max(0.55 * (max(values) - min(values)), least / 2)
    return max(middle - half, score.bounds[0]), min(middle + half, score.bounds[1])


def _layers(place: int, row: Row, most: int, form: Form) -> list[Layer]:
    color, factor = ROLES["main"] if row.look is None else row.look.color, form.factor
    low, high = factor * row.low, factor * row.high
    text = row.tip or f"{row.name}\nmean {form.text(row.mean)}"
    ranges, under, over = [], [], []
    if row.low <= row.high:
        ranges = [Layer("rangeX", y=[place], low=[low], high=[high], color=color, size=3)]
        text += "" if row.tip else f"\n95% interval {form.text(row.low)} to {form.text(row.high)}"
    if len(row.runs) > 1:
        kept = np.unique(np.linspace(0, len(row.runs) - 1, min(most, len(row.runs))).round().astype(int)).tolist()
        said = row.notes or [f"{row.name}\none run: {form.text(value)}" for value in row.runs]
        opacity = 0.6 if len(kept) <= 12 else 0.4 if len(kept) <= 60 else 0.25
        height = [place + offset for offset in spread(len(kept))]
        dots = [factor * row.runs[each] for each in kept]
        over = [Layer("dot", x=dots, y=height, color=color, opacity=opacity, size=2.8, text=[said[i] for i in kept])]
    if len(row.runs) > _MANY:  # mean and interval get a ground of their own, to be seen among the runs
        ground = [Layer("rangeX", y=[place], low=[low], high=[high], color="paper", size=7)] if ranges else []
        ground.append(Layer("dot", x=[factor * row.mean], y=[place], series=row.series, color="paper", size=8))
        under, over = [*over, *ground], ranges
    else:
        under = ranges
    mark = Layer("dot", series=row.series, x=[factor * row.mean], y=[place], color=color, size=row.size,
                 hollow=row.hollow, text=[text])  # fmt: skip
    return [*under, *over, mark] if math.isfinite(row.mean) else [*under, *over]


def draw_forest(
    title: str,
    comparisons: Sequence[Comparison],
    looks: Mapping[str, Look],
    name: str,
    runs: Sequence[Sequence[float]] = (),
) -> Chart:
    """Draw one row for each difference, in the color of its cell; filled against the control, else hollow.

    ``runs`` holds the differences of single runs, comparison by comparison.
    """
    rows = [
        Row(f"{one.cell} − {one.reference}", one.difference.mean, one.difference.low, one.difference.high,
            looks[one.cell], single, hollow=one.role != "control")
        for one, single in zip(comparisons, runs or [()] * len(comparisons), strict=True)
    ]  # fmt: skip
    metric = comparisons[0].metric
    score = find_score(metric)
    label = "; ".join(f"{row.name}: {Form(score, True).text(row.mean)}" for row in rows)
    x = f"difference in {titled(metric)} ({'percentage points, ' * score.percent}{score.direction})"
    return draw_rows(f"Paired differences in {titled(metric)}, {title}. {label}", {title: rows}, name, x=x,
                     score=metric, differences=True, data=_csv(comparisons))  # fmt: skip


def _csv(comparisons: Sequence[Comparison]) -> str:
    columns = ["dataset", "cell", "reference", "role", "difference", "low", "high", "p_value", "won", "tied",
               "lost", "runs"]  # fmt: skip
    rows = [
        [one.dataset, one.cell, one.reference, one.role, one.difference.mean, one.difference.low,
         one.difference.high, one.p_value, one.won, one.tied, one.lost, one.difference.runs]
        for one in comparisons
    ]  # fmt: skip
    return csv_text(columns, rows)
