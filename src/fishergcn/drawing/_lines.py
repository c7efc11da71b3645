"""Lines with bands: learning curves over epochs, a score as one setting changes, estimates in several panels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fishergcn._base.text import csv_text
from fishergcn.certificates import CertifiedCurve
from fishergcn.drawing._chart import Chart
from fishergcn.drawing._marks import Layer, Panel, Series
from fishergcn.drawing._palette import Look
from fishergcn.drawing._rows import Form
from fishergcn.studies import Band, Estimate
from fishergcn.training import find_score

# (place, value) of each point, by the name of the curve.
Curves: TypeAlias = Mapping[str, Sequence[tuple[float, Estimate]]]
# Curves that are drawn at all; the data hold all of them.
_MOST_CURVES = 24


def draw_curves(
    title: str,
    bands: Mapping[str, Band],
    looks: Mapping[str, Look],
    name: str,
    *,
    percent: bool = False,
    most: int | None = None,
) -> Chart:
    """Draw the learning curves of several methods, each by its name in ``bands`` and ``looks``.

    Fractions are shown in ``percent``. Files show the first ``most`` curves, pages let readers switch on others.
    """
    drawn = dict(list(bands.items())[:_MOST_CURVES])
    epochs = {method: range(1, band.mean.size + 1) for method, band in drawn.items()}
    layers = [
        Layer("band", series=method, x=epochs[method], low=band.low, high=band.high) for method, band in drawn.items()
    ]
    # Solid lines first: where curves coincide, dashes on top leave both to be seen.
    for method in sorted(drawn, key=lambda method: bool(looks[method].dash)):
        layers.append(Layer("line", series=method, x=epochs[method], y=drawn[method].mean))
    panel = Panel(title, "epoch", "", layers, percent="y" if percent else "", height=250)
    series = [Series(method, looks[method], most is None or place < most) for place, method in enumerate(drawn)]
    rows = [
        [method, epoch + 1, *(float(part[epoch]) for part in (band.mean, band.low, band.high))]
        for method, band in bands.items()
        for epoch in range(band.mean.size)
    ]
    data = csv_text(["method", "epoch", "mean", "low", "high"], rows)
    return Chart(name, title, [panel], series, switches=True, zoom=True, readout=True, data=data)


def draw_sweep(
    title: str,
    setting: str,
    points: Sequence[tuple[float, Estimate]],
    look: Look,
    control: tuple[str, Estimate, Look] | None,
    name: str,
    score: str = "accuracy",
) -> Chart:
    """Draw a score with its interval at each value of a setting, as ``points`` have them.

    The ``control`` (its name, score and look) is a level with its own interval: it has one score for all values.
    """
    shown = find_score(score)
    values = [value for value, _ in points]
    rows: list[list[object]] = [[setting, value, found.mean, found.low, found.high] for value, found in points]
    own = f"{setting} changes"
    layers, series = [], [Series(own, dataclasses.replace(look, dash=()))]
    if control is not None:
        other, level, _ = control
        ends, words = [min(values), max(values)], f"{other}, the control"
        if level.low <= level.high:
            layers.append(Layer("band", series=words, x=ends, low=[level.low] * 2, high=[level.high] * 2))
        text = [f"{words}\nmean {shown.text(level.mean)}"] * 2
        layers.append(Layer("line", series=words, x=ends, y=[level.mean] * 2, dash=[6, 3], text=text))
        series.append(Series(words, dataclasses.replace(control[2], dash=(6.0, 3.0))))
        rows.append([other, None, level.mean, level.low, level.high])
    means = [found.mean for _, found in points]
    text = [f"{setting} {value:g}\nmean {shown.text(found.mean)}" for value, found in points]
    known = [(value, found.low, found.high) for value, found in points if found.low <= found.high]
    x, low, high = ([each[place] for each in known] for place in range(3))
    layers += [
        Layer("rangeY", series=own, x=x, low=low, high=high),
        Layer("line", series=own, x=values, y=means, text=text),
        Layer("dot", series=own, x=values, y=means, text=text),
    ]
    log = "x" if min(values) > 0 and max(values) > 8 * min(values) else ""
    percent = "y" if shown.percent else ""
    panel = Panel(title, setting, f"test {shown.title}", layers, percent=percent, log=log, x_ticks=values)
    data = csv_text(["setting", "value", shown.name, "low", "high"], rows)
    label = f"{title}: {shown.title} for {len(points)} values of {setting}"
    return Chart(name, label, [panel], series, switches=True, data=data)


def draw_panels(
    label: str,
    panels: Mapping[tuple[str, str], Curves],
    looks: Mapping[str, Look],
    name: str,
    *,
    ylabel: str,
    zero: bool = False,
    score: str = "accuracy",
) -> Chart:
    """Draw curves of a score with their intervals as bands, or of its differences around a line at ``zero``.

    Shares are shown in percent, their differences in percentage points, other scores as they are.

    Each panel has a title and a label for its axis, and curves by name, with (place, value) of each point.
    """
    form = Form(find_score(score), zero)
    drawn = [_estimates((*words, ylabel), curves, looks, form) for words, curves in panels.items()]
    data = [
        [title, curve, place, each.mean, each.low, each.high]
        for (title, _), curves in panels.items()
        for curve, points in curves.items()
        for place, each in points
    ]
    named = dict.fromkeys(curve for curves in panels.values() for curve in curves)
    series = [Series(curve, looks[curve]) for curve in looks if curve in named]
    text = csv_text(["panel", "curve", "place", "value", "low", "high"], data)
    return Chart(name, label, drawn, series, switches=True, zoom=True, data=text)


def _estimates(words: tuple[str, str, str], curves: Curves, looks: Mapping[str, Look], form: Form) -> Panel:
    """Draw the curves of one panel; ``words`` are its title and those at its axes."""
    layers = [Layer("rule", axis="y", at=0, opacity=0.7)] if form.differences else []
    factor, said, every = form.factor, form.text, []
    for curve, points in curves.items():
        places = [place for place, _ in points]
        mean, low, high = ([factor * getattr(each, part) for _, each in points] for part in ("mean", "low", "high"))
        text = [
            f"{curve}\n{words[1]}: {place:g}\n{said(each.mean)}"
            + (f"\n95% interval {said(each.low)} to {said(each.high)}" if each.low <= each.high else "")
            for place, each in points
        ]
        layers.append(Layer("band", series=curve, x=places, low=low, high=high))
        layers.append(Layer("line", series=curve, x=places, y=mean, text=text))
        if looks[curve].marker:
            layers.append(Layer("dot", series=curve, x=places, y=mean, size=3.5))
        every += [value for value in (*mean, *low, *high) if value == value]
    # Values that are all the same have no scale of their own.
    half = 0.5 if form.differences else 0.05
    flat = bool(every) and max(every) - min(every) <= 1e-9
    domain = (every[0] - half, every[0] + half) if flat else None
    return Panel(*words, layers, percent=form.percent("y"), y_domain=domain)


def draw_certified(curve: CertifiedCurve, name: str) -> Chart:
    """Draw which share of predictions is certified and which a graph was found to change, and shade what is between."""
    certified = [each / curve.nodes for each in curve.certified]
    kept = [1 - each / curve.nodes for each in curve.broken]
    radii, log = curve.radii, "x" if curve.radii[-1] > 8 * curve.radii[0] else ""
    rows = list(zip(radii, certified, kept, strict=True))
    text = [f"radius {radius:.4g}\ncertified {low:.1%}\nnot broken {high:.1%}" for radius, low, high in rows]
    layers = [Layer("band", x=radii, low=certified, high=kept, color="rest", opacity=0.3)]
    series = [Series("not broken", Look("#c44f00", (6.0, 3.0), "s")), Series("certified", Look("#1a6fb0", (), "o"))]
    for each, values in zip(series, (kept, certified), strict=True):
        layers.append(Layer("line", series=each.name, x=radii, y=values, text=text, dash=list(each.look.dash) or None))
        layers.append(Layer("dot", series=each.name, x=radii, y=values, text=text))
    panel = Panel(curve.title, "radius, in Bures distance", "share of predictions", layers, percent="y", log=log)
    data = csv_text(["radius", "certified", "not broken"], rows)
    return Chart(name, f"{curve.title}: certified predictions by radius", [panel], series, switches=True, data=data)
