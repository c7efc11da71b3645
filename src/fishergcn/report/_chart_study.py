"""Charts of studies: accuracies and differences with every run, curves with bands, the spectrum and its shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fishergcn._base.text import signed_points
from fishergcn._base.types import FloatArray
from fishergcn.drawing import Look
from fishergcn.report._chart import GRAY, Chart, Panel, Series, layer, spread
from fishergcn.report._outcome import Outcome
from fishergcn.studies import Cell, Comparison, Estimate

Looks = Mapping[str, Look]
# Single runs of a chart, in all: more dots than this hide each other.
_MOST_DOTS = 3000
_MANY = 40  # runs of a row; fewer are drawn over the interval
PAGE = "var(--page)"
DIRECTION = "direction, fastest-varying pattern first"


def accuracy_panel(title: str, cells: Sequence[Cell], outcome: Outcome, looks: Looks) -> Panel:
    """Draw the mean accuracy of each cell with its interval, over its single runs."""
    found = [(cell, outcome.summaries[cell].accuracy) for cell in cells if cell in outcome.summaries]
    rows = [(cell.name, accuracy, looks[cell.name]) for cell, accuracy in found if accuracy is not None]
    runs = [[record.test_accuracy for record in outcome.runs[cell]] for cell, each in found if each is not None]
    return interval_panel(title, "test accuracy", rows, runs, lambda value: f"{value:.2%}", percent="x")


def interval_panel(
    title: str,
    x: str,
    rows: Sequence[tuple[str, Estimate, Look]],
    runs: Sequence[Sequence[float]],
    shown: Callable[[float], str],
    *,
    percent: str = "",
    hollow: Sequence[bool] = (),
    zero: bool = False,
) -> Panel:
    """Draw rows of means with their intervals, over the single runs of each."""
    layers = [layer("rule", axis="x", at=0, opacity=0.7)] if zero else []
    shares = [thinned(each, max(20, _MOST_DOTS // len(rows))) for each in runs] or [[]] * len(rows)
    for place, ((name, found, look), dots) in enumerate(zip(rows, shares, strict=True)):
        text = f"{name}\nmean {shown(found.mean)}"
        mark: dict[str, Any] = {"series": name, "x": [found.mean], "y": [place]}
        ends: dict[str, Any] = {"y": [place], "low": [found.low], "high": [found.high]}
        over = [layer("rangeX", **ends, color=look.color, size=3)] if found.low <= found.high else []
        under = [single_runs(name, place, dots, look, shown)] if len(dots) > 1 else []
        if over:
            text += f"\n95% interval {shown(found.low)} to {shown(found.high)}"
        if len(dots) > _MANY:  # mean and interval get a ground of their own, to be seen among the runs
            over = [
                *(layer("rangeX", **ends, color=PAGE, size=7) for _ in over),
                *over,
                layer("dot", **mark, color=PAGE, size=8),
            ]
        else:
            under, over = over, under
        empty = bool(hollow) and hollow[place]
        layers += [*under, *over, layer("dot", **mark, color=look.color, size=5.5, hollow=empty, text=[text])]
    return Panel(title, x, "", layers, rows=[name for name, _, _ in rows], percent=percent)


def single_runs(
    name: str, place: int, values: Sequence[float], look: Look, shown: Callable[[float], str]
) -> dict[str, Any]:
    """Return the runs of a row as small dots, spread over its height, fainter where they are many."""
    height = [place + offset for offset in spread(len(values))]
    text = [f"{name}\none run: {shown(value)}" for value in values]
    opacity = 0.6 if len(values) <= 12 else 0.4 if len(values) <= 60 else 0.25
    return layer("dot", x=values, y=height, color=look.color, opacity=opacity, size=2.8, text=text)


def thinned(values: Sequence[float], most: int) -> list[float]:
    """Return at most so many of the values, evenly from all of them in their order."""
    if len(values) <= most:
        return list(values)
    return [values[place] for place in np.linspace(0, len(values) - 1, most).round().astype(int)]


def marks_of(panels: Iterable[Panel], looks: Looks) -> list[Series]:
    """Return the series that the layers of panels name, each once, with the marks of their looks."""
    names = dict.fromkeys(each["series"] for panel in panels for each in panel.layers if "series" in each)
    return [Series(name, looks[name]) for name in names if name in looks]


def difference_panel(title: str, comparisons: Sequence[Comparison], outcome: Outcome, looks: Looks) -> Panel:
    """Draw paired differences with their intervals, over those of single runs; hollow if not from the control."""
    rows = [(f"{one.cell} − {one.reference}", one.difference, looks[one.cell]) for one in comparisons]
    runs = [_paired(outcome, one) for one in comparisons]
    hollow = [one.role != "control" for one in comparisons]
    words = "difference in test accuracy (percentage points)"
    return interval_panel(title, words, _in_points(rows), [[100 * each for each in found] for found in runs],
                           lambda value: f"{signed_points(value / 100)} points", hollow=hollow, zero=True)  # fmt: skip


def _in_points(rows: Iterable[tuple[str, Estimate, Look]]) -> list[tuple[str, Estimate, Look]]:
    return [(name, scaled(found), look) for name, found, look in rows]


def scaled(found: Estimate) -> Estimate:
    """Return a fraction in percentage points."""
    names = ("mean", "low", "high", "standard_error", "std")
    return dataclasses.replace(found, **{name: 100 * getattr(found, name) for name in names})


def _paired(outcome: Outcome, one: Comparison) -> list[float]:
    cells = outcome.cells(one.dataset)
    ours, theirs = (
        {(run.split, run.seed): run.test_accuracy for run in outcome.runs[cells[name]]} if name in cells else {}
        for name in (one.cell, one.reference)
    )
    return [ours[key] - theirs[key] for key in ours if key in theirs]


def row_chart(name: str, label: str, panels: Sequence[Panel], looks: Looks, data: str = "") -> Chart:
    """Return a chart of panels with rows; their marks are those of the methods, and nothing is switched."""
    return Chart(name, label, panels, marks_of(panels, looks), data=data)


def estimates_panel(
    title: str,
    x: str,
    y: str,
    curves: Mapping[str, Sequence[tuple[float, Estimate]]],
    *,
    points: bool = False,
    zero: bool = False,
) -> Panel:
    """Draw curves of estimates with their intervals as bands: fractions in percent, or in percentage ``points``."""
    layers = [layer("rule", axis="y", at=0, opacity=0.7)] if zero else []
    form = "{:+.2f} points" if points else "{:.2%}"
    for curve, found in curves.items():
        values = [(place, scaled(each) if points else each) for place, each in found]
        columns = {"x": [place for place, _ in values], "y": [each.mean for _, each in values]}
        ends = {"low": [each.low for _, each in values], "high": [each.high for _, each in values]}
        text = [
            f"{curve}\n{x}: {place:g}\n{form.format(each.mean)}"
            + (f"\n95% interval {form.format(each.low)} to {form.format(each.high)}" if each.low <= each.high else "")
            for place, each in values
        ]
        layers += [
            layer("band", series=curve, x=columns["x"], **ends),
            layer("line", series=curve, **columns, text=text),
            layer("dot", series=curve, **columns, size=3.5),
        ]
    return Panel(title, x, y, layers, percent="" if points else "y", y_domain=_some_height(layers, points))


def _some_height(layers: Iterable[Mapping[str, Any]], points: bool) -> tuple[float, float] | None:
    """Return the ends of an axis for values that are all the same, which have no scale of their own."""
    columns = ("y", "low", "high")
    values = [value for each in layers for name in columns for value in each.get(name, ()) if value is not None]
    if not values or max(values) - min(values) > 1e-9:
        return None
    half = 0.5 if points else 0.05
    return values[0] - half, values[0] + half


def spectrum_panel(title: str, eigenvalues: FloatArray, perturbed: int, look: Look) -> Panel:
    """Draw the largest eigenvalues of L, what is perturbed of them in the method's color."""
    places = list(range(1, len(eigenvalues) + 1))
    layers = []
    for part, color, words in (
        (slice(perturbed), look.color, "perturbed"),
        (slice(perturbed, None), GRAY, "left as it is"),
    ):
        values = {"x": places[part], "y": eigenvalues[part].tolist(), "color": color}
        text = [f"direction {place}\neigenvalue {value:.4g}\n{words}" for place, value in
                zip(places[part], eigenvalues[part], strict=True)]  # fmt: skip
        layers += [layer("stem", **values, text=text), layer("dot", **values, size=4, text=text)]
    highest = 1.1 * float(eigenvalues[0])
    return Panel(title, DIRECTION, "eigenvalue of the Laplacian", layers, x_domain=(0.4, len(places) + 0.6),
                 y_domain=(0, highest), x_ticks=_ticks(places))  # fmt: skip


def shape_panel(title: str, shapes: FloatArray, radius: float, look: Look) -> Panel:
    """Draw the learned scale of each direction: its mean, the middle 80% of the runs, and the most allowed."""
    middle, (low, high) = shapes.mean(axis=0), np.quantile(shapes, (0.1, 0.9), axis=0)
    places = list(range(1, shapes.shape[1] + 1))
    text = [f"direction {place}\nmean scale {value:.4g} of at most {radius:g}" for place, value in
            zip(places, middle, strict=True)]  # fmt: skip
    layers = [
        layer("rule", axis="y", at=radius, dash=[4, 3]),
        layer("rule", axis="y", at=radius / 2, opacity=0.3),
        layer("rangeY", x=places, low=low, high=high, color=look.color, size=5, opacity=0.35),
        layer("dot", x=places, y=middle, color=look.color, size=5, text=text),
    ]
    return Panel(title, DIRECTION, "strength of the perturbation, ϕ", layers, x_domain=(0.4, len(places) + 0.6),
                 y_domain=(0, 1.12 * radius), x_ticks=_ticks(places))  # fmt: skip


def _ticks(places: Sequence[int]) -> Sequence[int]:
    """Return ticks at whole numbers, where the axis by itself might have others."""
    return places if len(places) <= 12 else places[:: -(-len(places) // 12)]


def sweep_panel(
    title: str,
    setting: str,
    points: Sequence[tuple[float, Estimate]],
    look: Look,
    control: tuple[str, Estimate, Look] | None,
) -> Panel:
    """Draw accuracy with its interval at each value of a setting, over the level of the control."""
    values = [value for value, _ in points]
    layers = []
    if control is not None:
        name, level, other = control
        ends = [min(values), max(values)]
        if level.low <= level.high:
            layers.append(layer("band", x=ends, low=[level.low] * 2, high=[level.high] * 2, color=other.color))
        text = [f"{name}, the control\nmean {level.mean:.2%}"] * 2
        layers.append(layer("line", x=ends, y=[level.mean] * 2, color=other.color, dash=[6, 3], text=text))
    columns: dict[str, Any] = {"x": values, "y": [found.mean for _, found in points], "color": look.color}
    text = [f"{setting} {value:g}\nmean {found.mean:.2%}" for value, found in points]
    known = [(value, found) for value, found in points if found.low <= found.high]
    layers += [
        layer("rangeY", x=[value for value, _ in known], low=[found.low for _, found in known],
              high=[found.high for _, found in known], color=look.color),
        layer("line", **columns, text=text),
        layer("dot", **columns, text=text),
    ]  # fmt: skip
    log = "x" if min(values) > 0 and max(values) > 8 * min(values) else ""
    return Panel(title, setting, "test accuracy", layers, percent="y", log=log, x_ticks=values)
