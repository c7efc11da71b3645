"""The top of the page of a robustness study: which change hurts most, and whether perturbed training protects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fishergcn.drawing import looks, tag
from fishergcn.report import _captions as captions
from fishergcn.report._attacks import AttackPoint, attack_points, ends_of
from fishergcn.report._chart import Chart, Panel, Series, chart_figure, layer
from fishergcn.report._forest import verdict
from fishergcn.report._markup import Section
from fishergcn.report._outcome import Outcome


def robustness_headline(outcome: Outcome) -> Section | None:
    """Say which change hurts most and whether the perturbation protects; draw the accuracy under each change."""
    points = attack_points(outcome)
    if not points:
        return None
    chart = _ends_chart(points)
    words = [tag("p", each, class_="verdict") for each in (_worst(points), _protected(points)) if each]
    return Section("headline", "In short", [*words, chart_figure("Accuracy at the strongest setting of each change",
                                                                 captions.ENDS, [chart])], [chart])  # fmt: skip


def _worst(points: Sequence[AttackPoint]) -> str:
    starts = {point.curve: point for point in reversed(points)}
    falls = {end: starts[end.curve].accuracy.mean - end.accuracy.mean for end in ends_of(points)}
    worst = max(falls, key=lambda end: falls[end])
    before = starts[worst.curve].accuracy.mean
    if falls[worst] <= 0:
        return "None of the changes lowered the accuracy of any method."
    return (
        f"The most harmful change is “{worst.panel[0]}”: at its strongest setting ({worst.level:.0%}) the accuracy of "
        f"{worst.method} on {worst.dataset} falls from {before:.1%} to {worst.accuracy.mean:.1%}."
    )


def _protected(points: Iterable[AttackPoint]) -> str:
    gaps = [point.difference for point in ends_of(points) if point.difference]
    if not gaps:
        return ""
    sides = [verdict(gap) for gap in gaps]
    return (
        "Training on perturbed graphs, compared with a control trained without: at the strongest setting it is better "
        f"in {sides.count('above')}, worse in {sides.count('below')} and not measurably different in "
        f"{len(sides) - sides.count('above') - sides.count('below')} of {len(sides)} comparisons."
    )


def _ends_chart(points: Sequence[AttackPoint]) -> Chart:
    own = looks(point.method for point in points)
    panels = []
    for dataset in dict.fromkeys(point.dataset for point in points):
        here = [point for point in ends_of(points) if point.dataset == dataset]
        rows = list(dict.fromkeys(point.panel[0] for point in here))
        layers = []
        methods = list(dict.fromkeys(point.method for point in here))
        for place, method in enumerate(methods):
            shift = 0.6 * ((place + 0.5) / len(methods) - 0.5)
            some = [point for point in here if point.method == method]
            height = [rows.index(point.panel[0]) + shift for point in some]
            known = [(y, point.accuracy) for y, point in zip(height, some, strict=True)
                     if point.accuracy.low <= point.accuracy.high]  # fmt: skip
            text = [
                f"{method}\n{point.panel[0]}, {point.level:.0%}\naccuracy {point.accuracy.mean:.2%}" for point in some
            ]
            layers += [
                layer("rangeX", series=method, y=[y for y, _ in known], low=[each.low for _, each in known],
                      high=[each.high for _, each in known], dash=[]),
                layer("dot", series=method, x=[point.accuracy.mean for point in some], y=height, text=text),
            ]  # fmt: skip
        panels.append(Panel(dataset, "test accuracy", "", layers, rows=rows, percent="x",
                            row_height=14 + 12 * len(methods)))  # fmt: skip
    series = [Series(name, look) for name, look in own.items()]
    return Chart("headline", "Accuracy at the strongest setting of each change", panels, series, switches=True)
