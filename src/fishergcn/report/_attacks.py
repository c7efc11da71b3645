"""What a study of attacks found: curves with intervals, a table of their ends, and all of them as Markdown and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fishergcn._base.checks import check_choice, check_real
from fishergcn._base.foreign import markdown
from fishergcn._base.text import csv_text, markdown_table
from fishergcn.drawing import Html, Look, Picture, data_link, draw_panels, looks, tag
from fishergcn.report import _captions as captions
from fishergcn.report._chart import Chart, Series, chart_figure
from fishergcn.report._chart_study import estimates_panel
from fishergcn.report._forest import points_text
from fishergcn.report._markup import Section, number, slug, table
from fishergcn.report._outcome import Outcome
from fishergcn.studies import ATTACKS, UNITS, Estimate, interval_source, title_of
from fishergcn.training import METHODS

_HEADS = ("data set", "change", "method", "#level", "#accuracy %", "#95% interval", "#minus its control, points")


@dataclass(frozen=True)
class AttackPoint:
    """A method at one level of an attack: a point of a curve.

    Attributes
    ----------
    dataset, attack, panel, level, method
        Which; the panel is the attack in words, and what its levels are.
    size
        How much was changed, a mean over runs; NaN if no run ended well.
    accuracy
        With its interval, over splits.
    control, difference
        The method without the perturbation, and accuracy minus its accuracy, paired run by run; or None.
    """

    dataset: str
    attack: str
    panel: tuple[str, str]
    level: float
    method: str
    size: float
    accuracy: Estimate
    control: str | None
    difference: Estimate | None

    @property
    def curve(self) -> tuple[str, str, str]:
        """Which curve it is a point of."""
        return self.dataset, self.attack, self.method


def attack_points(outcome: Outcome) -> list[AttackPoint]:
    """Return one point for each cell that has runs, by data set, attack, level and method."""
    gaps = {(one.dataset, one.cell): one.difference for one in outcome.comparisons if one.role == "control"}
    points = []
    for cell, records in outcome.runs.items():
        attack = ATTACKS[ATTACKS.index(check_choice("an attack", cell.options.get("attack"), ATTACKS))]
        level = check_real("the level of an attack", cell.options.get("level"), minimum=0.0)
        sizes, found = [float(record.extra.get("size", "nan")) for record in records], outcome.summaries[cell].accuracy
        if found is not None:
            which = (cell.dataset, attack, (title_of(cell.options), UNITS[attack]), level, cell.method)
            gap = gaps.get((cell.dataset, cell.name))
            points.append(AttackPoint(*which, sum(sizes) / len(sizes), found, cell.control, gap))
    return sorted(points, key=lambda point: _order(point, outcome.datasets))


def _order(point: AttackPoint, datasets: Sequence[str]) -> tuple[int, int, float, int, str]:
    methods = {method: place for place, method in enumerate(METHODS)}
    place = methods.get(point.method, len(METHODS))
    return datasets.index(point.dataset), ATTACKS.index(point.attack), point.level, place, point.method


def ends_of(points: Iterable[AttackPoint]) -> list[AttackPoint]:
    """Return the last point of each curve: the strongest setting."""
    return list({point.curve: point for point in points}.values())  # levels ascend


def robustness(outcome: Outcome) -> Section:
    """The curves of each data set, and a table of their ends."""
    points = attack_points(outcome)
    drawn = attack_pictures(points)
    words = {"accuracy": captions.ATTACKED, "difference": captions.ATTACKED_DIFFERENCE}
    source = interval_source(point.accuracy for point in points)
    charts = [_chart(part, kind, picture) for kind, part, picture in drawn]
    body = [
        chart_figure(chart.label, words[kind].format(source=source), [chart])
        for (kind, _, _), chart in zip(drawn, charts, strict=True)
    ]
    link = data_link("all levels (CSV)", "tables.csv", attack_csv(points))
    body += [
        tag("h3", "Ends of the curves"),
        table("Robustness", _HEADS, map(_cells, ends_of(points)), class_="robustness"),
        tag("p", "At the strongest setting of each change. Data: ", link, class_="caption"),
    ]
    return Section("robustness", "When the graph changes", body, charts, [picture for _, _, picture in drawn])


def attack_pictures(points: Sequence[AttackPoint]) -> list[tuple[str, list[AttackPoint], Picture]]:
    """Draw the curves of each data set: first all of them as ``"accuracy"``, then each ``"difference"`` there is."""
    pictures = []
    for dataset in dict.fromkeys(point.dataset for point in points):
        for kind in ("accuracy", "difference"):
            here = [point for point in points if point.dataset == dataset and _value(point, kind)]
            if here:
                pictures.append((kind, here, _draw(here, kind)))
    return pictures


def _value(point: AttackPoint, kind: str) -> Estimate | None:
    return point.accuracy if kind == "accuracy" else point.difference


Panels = dict[tuple[str, str], dict[str, list[tuple[float, Estimate]]]]


def _curves(points: Sequence[AttackPoint], kind: str) -> tuple[Panels, dict[str, Look]]:
    """Return the curves by panel, and the looks of all of them."""
    panels: Panels = {}
    own = looks(point.method for point in points)
    chosen = {}
    for point in points:
        curve = point.method if kind == "accuracy" else f"{point.method} − {point.control}"
        chosen[curve] = own[point.method]
        place = point.size if point.attack == "bures-ball" else point.level
        value = _value(point, kind)
        if value is not None:
            panels.setdefault(point.panel, {}).setdefault(curve, []).append((place, value))
    return panels, chosen


def _draw(points: Sequence[AttackPoint], kind: str) -> Picture:
    panels, chosen = _curves(points, kind)
    dataset, against = points[0].dataset, "" if kind == "accuracy" else " against the control"
    ylabel = "test accuracy, %" if kind == "accuracy" else "difference, points"
    name = f"robustness-{slug(dataset)}-{kind}"
    return draw_panels(f"Robustness{against}, {dataset}", panels, chosen, name, ylabel=ylabel, zero=bool(against))


def _chart(points: Sequence[AttackPoint], kind: str, picture: Picture) -> Chart:
    panels, chosen = _curves(points, kind)
    apart = kind == "difference"
    drawn = [
        estimates_panel(
            title, unit, "difference, points" if apart else "test accuracy", curves, points=apart, zero=apart
        )
        for (title, unit), curves in panels.items()
    ]
    series = [Series(name, look) for name, look in chosen.items()]
    return Chart(picture.name, picture.label, drawn, series, switches=True, zoom=True, data=picture.data)


def _cells(point: AttackPoint) -> list[Html | str]:
    found, gap = point.accuracy, point.difference
    interval = f"{100 * found.low:.2f} – {100 * found.high:.2f}" if found.low <= found.high else "–"
    return [
        point.dataset,
        point.panel[0],
        point.method,
        number(f"{point.level:.0%}", point.level),
        number(f"{100 * found.mean:.2f}", found.mean, "main"),
        number(interval, found.low),
        number(points_text(gap) if gap else "–", gap.mean if gap else None),
    ]


def attack_csv(points: Iterable[AttackPoint]) -> str:
    """Return the points as CSV; accuracies are fractions, intervals of 95%."""
    columns = ["dataset", "attack", "level", "size", "method", "accuracy", "low", "high", "runs", "control",
               "difference", "difference_low", "difference_high"]  # fmt: skip
    rows = []
    for point in points:
        found, gap = point.accuracy, point.difference
        apart = [None] * 3 if gap is None else [gap.mean, gap.low, gap.high]
        rows.append([point.dataset, point.attack, point.level, point.size, point.method, found.mean, found.low,
                     found.high, found.runs, point.control, *apart])  # fmt: skip
    return csv_text(columns, rows)


def attack_markdown(points: Sequence[AttackPoint]) -> str:
    """Return tables in Markdown, one for each data set and attack: accuracies, then paired differences."""
    parts = []
    for dataset in dict.fromkeys(point.dataset for point in points):
        parts.append(f"### {markdown(dataset)}\n")
        here = [point for point in points if point.dataset == dataset]
        for attack in dict.fromkeys(point.attack for point in here):
            parts.append(_markdown_table([point for point in here if point.attack == attack]))
    return "\n".join(parts)


def _markdown_table(points: Sequence[AttackPoint]) -> str:
    """Return the table of one attack; intervals of 95% in brackets."""
    (title, unit), levels = points[0].panel, sorted({point.level for point in points})
    found = {(point.method, point.level): point for point in points}
    methods = list(dict.fromkeys(point.method for point in points))
    runs = sorted({point.accuracy.runs for point in points})
    unit = _reach(points) if points[0].attack == "bures-ball" else unit
    rows = [[markdown(method), *(_accuracy(found.get((method, level))) for level in levels)] for method in methods]
    for method in methods:
        here = [found.get((method, level)) for level in levels]
        if any(point and point.difference for point in here):
            control = next(point.control for point in here if point)
            row = [points_text(point.difference) if point and point.difference else "–" for point in here]
            rows.append([f"*{markdown(method)} − {markdown(control)}*", *row])
    made = f"**{title[0].upper() + title[1:]}** ({unit}; {'–'.join(map(str, runs))} runs a point)"
    head = ["", *(f"{level:.0%}" for level in levels)]
    return f"{made}\n\n{markdown_table(head, rows, right=range(1, len(head)), escape=False)}\n"


def _reach(points: Sequence[AttackPoint]) -> str:
    """Say what the levels of the Bures ball mean, for each propagation matrix."""
    reach = {point.method: f"{point.size / point.level:.4f}" for point in points if point.level > 0}
    words = [
        f"{value} for {', '.join(name for name in reach if reach[name] == value)}"
        for value in dict.fromkeys(reach.values())
    ]
    return f"share of the farthest distance, D_B = {'; '.join(words)}"


def _accuracy(point: AttackPoint | None) -> str:
    if point is None:
        return "–"
    found = point.accuracy
    text = f"{100 * found.mean:.2f}"
    return f"{text} [{100 * found.low:.1f}, {100 * found.high:.1f}]" if found.low <= found.high else text
