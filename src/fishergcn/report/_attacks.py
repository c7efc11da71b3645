"""The page of a robustness study: which change hurts most, curves with intervals, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fishergcn._base.checks import check_choice, check_real
from fishergcn._base.foreign import markdown
from fishergcn._base.text import csv_text, markdown_table
from fishergcn.drawing import Chart, Html, Layer, Panel, Series, data_link, draw_panels, looks, tag
from fishergcn.report import _captions as captions
from fishergcn.report._forest import difference_text, judgment
from fishergcn.report._outcome import Outcome
from fishergcn.report._page import Figure, Section, in_short, number, slug, table
from fishergcn.studies import ATTACKS, UNITS, Estimate, interval_source, title_of
from fishergcn.training import METHODS, Score


@dataclass(frozen=True)
class AttackPoint:
    """A method at one level of an attack: a point of a curve."""

    dataset: str
    attack: str
    panel: tuple[str, str]  # the attack in words, and what its levels are
    level: float
    method: str
    size: float  # how much was changed, a mean over runs; NaN if no run ended well
    score: Score
    value: Estimate
    control: str | None
    difference: Estimate | None  # from the control, paired run by run

    @property
    def curve(self) -> tuple[str, str, str]:
        """Which curve it is a point of."""
        return self.dataset, self.attack, self.method


def attack_points(outcome: Outcome) -> list[AttackPoint]:
    """Return one point for each cell that has runs, by data set, attack, level and method."""
    gaps = {(one.dataset, one.cell): one.difference for one in outcome.comparisons if one.role == "control"}
    points = []
    for cell in outcome.summaries:
        attack = ATTACKS[ATTACKS.index(check_choice("an attack", cell.options.get("attack"), ATTACKS))]
        level = check_real("the level of an attack", cell.options.get("level"), minimum=0.0)
        sizes = [float(record.extra.get("size", "nan")) for record in outcome.runs[cell]]
        which = (cell.dataset, attack, (title_of(cell.options), UNITS[attack]), level, cell.method)
        found, gap = (outcome.score, outcome.estimate(cell)), gaps.get((cell.dataset, cell.name))
        points.append(AttackPoint(*which, sum(sizes) / len(sizes), *found, cell.control, gap))
    return sorted(points, key=lambda point: _order(point, outcome.datasets))


def _order(point: AttackPoint, datasets: Sequence[str]) -> tuple[int, int, float, int, str]:
    methods = {method: place for place, method in enumerate(METHODS)}
    place = methods.get(point.method, len(METHODS))
    return datasets.index(point.dataset), ATTACKS.index(point.attack), point.level, place, point.method


def ends_of(points: Iterable[AttackPoint]) -> list[AttackPoint]:
    """Return the last point of each curve: the strongest setting."""
    return list({point.curve: point for point in points}.values())  # levels ascend


def robustness_headline(points: Sequence[AttackPoint]) -> Section | None:
    """Say which change hurts most and whether the perturbation protects; draw the score under each change."""
    if not points:
        return None
    chart = _draw_ends(points)
    said = [each for each in (_worst(points), _protected(points)) if each]
    caption = captions.ENDS.format(**captions.about(points[0].score))
    return in_short(said, Figure(chart.label, caption, [chart], files=()))


def _worst(points: Sequence[AttackPoint]) -> str:
    starts, score = {point.curve: point for point in reversed(points)}, points[0].score
    falls = {end: score.gain(starts[end.curve].value.mean - end.value.mean) for end in ends_of(points)}
    worst = max(falls, key=lambda end: falls[end])
    before = starts[worst.curve].value.mean
    if falls[worst] <= 0:
        return f"None of the changes made the {score.title} of any method worse."
    return (
        f"The most harmful change is “{worst.panel[0]}”: at its strongest setting ({worst.level:.0%}) the "
        f"{score.title} of {worst.method} on {worst.dataset} {'falls' if score.better == 'high' else 'rises'} from "
        f"{score.text(before, 1)} to {score.text(worst.value.mean, 1)}."
    )


def _protected(points: Iterable[AttackPoint]) -> str:
    sides = [judgment(point.difference, point.score) for point in ends_of(points) if point.difference]
    if not sides:
        return ""
    better, worse = sides.count("better"), sides.count("worse")
    return (
        "Training on perturbed graphs, compared with a control trained without: at the strongest setting it is better "
        f"in {better}, worse in {worse} and not measurably different in {len(sides) - better - worse} of {len(sides)} "
        "comparisons."
    )


def _draw_ends(points: Sequence[AttackPoint]) -> Chart:
    own, score, percent = looks(point.method for point in points), points[0].score, "x" * points[0].score.percent
    panels = []
    for dataset in dict.fromkeys(point.dataset for point in points):
        here = [point for point in ends_of(points) if point.dataset == dataset]
        rows = list(dict.fromkeys(point.panel[0] for point in here))
        methods = list(dict.fromkeys(point.method for point in here))
        layers = []
        for point in sorted(here, key=lambda point: methods.index(point.method)):
            method, found = point.method, point.value
            shift = 0.6 * ((methods.index(method) + 0.5) / len(methods) - 0.5)
            y = [rows.index(point.panel[0]) + shift]
            text = [f"{method}\n{point.panel[0]}, {point.level:.0%}\n{score.title} {score.text(found.mean)}"]
            if found.low <= found.high:
                layers.append(Layer("rangeX", series=method, y=y, low=[found.low], high=[found.high], dash=[]))
            layers.append(Layer("dot", series=method, x=[found.mean], y=y, text=text))
        height = 14 + 12 * len(methods)
        panels.append(Panel(dataset, f"test {score.title}", "", layers, rows=rows, percent=percent, row_height=height))
    series = [Series(name, look) for name, look in own.items()]
    label = f"Test {score.title} at the strongest setting of each change"
    return Chart("headline", label, panels, series, switches=True)


def robustness(points: Sequence[AttackPoint]) -> Section:
    """The curves of each data set, and a table of their ends."""
    score, words = points[0].score, captions.about(points[0].score)
    words["source"] = interval_source(point.value for point in points)
    drawn = [
        Figure(chart.label, (captions.ATTACKED_DIFFERENCE if chart.name.endswith("-difference") else captions.ATTACKED)
               .format(**words), [chart])
        for chart in draw_attacks(points)
    ]  # fmt: skip
    heads = ("data set", "change", "method", "#level", f"#{score.head}", "#95% interval",
             f"#minus its control: {score.change}")  # fmt: skip
    link = data_link("all levels (CSV)", "tables.csv", attack_csv(points))
    ends = [
        tag("h3", "Ends of the curves"),
        table("Robustness", heads, map(_cells, ends_of(points)), class_="robustness"),
        tag("p", "At the strongest setting of each change. Data: ", link, class_="caption"),
    ]
    return Section("robustness", "When the graph changes", [*drawn, *ends])


def draw_attacks(points: Sequence[AttackPoint]) -> list[Chart]:
    """Draw the curves of each data set: first all scores, then the differences from controls there are."""
    charts = []
    for dataset in dict.fromkeys(point.dataset for point in points):
        here = [point for point in points if point.dataset == dataset]
        gaps = [point for point in here if point.difference]
        own, score = looks(point.method for point in here), here[0].score
        for kind, some in ((score.name.replace("_", "-"), here), ("difference", gaps)):
            panels: dict[tuple[str, str], dict[str, list[tuple[float, Estimate]]]] = {}
            chosen = {}
            for point in some:
                apart = kind == "difference" and point.difference
                curve = f"{point.method} − {point.control}" if apart else point.method
                chosen[curve] = own[point.method]
                place = point.size if point.attack == "bures-ball" else point.level
                panels.setdefault(point.panel, {}).setdefault(curve, []).append((place, apart or point.value))
            against, ylabel = "", f"test {score.title}"
            if some is gaps:
                against, ylabel = " against the control", f"difference in {score.change}"
            label, name = f"Robustness{against}, {dataset}", f"robustness-{slug(dataset)}-{kind}"
            if panels:
                zero = some is gaps
                charts.append(draw_panels(label, panels, chosen, name, ylabel=ylabel, zero=zero, score=score.name))
    return charts


def _cells(point: AttackPoint) -> list[Html | str]:
    found, gap, score = point.value, point.difference, point.score
    interval = f"{score.number(found.low)} – {score.number(found.high)}" if found.low <= found.high else "–"
    return [
        point.dataset,
        point.panel[0],
        point.method,
        number(f"{point.level:.0%}", point.level),
        number(score.number(found.mean), found.mean, "main"),
        number(interval, found.low),
        number(difference_text(gap, score) if gap else "–", gap.mean if gap else None),
    ]


def attack_csv(points: Sequence[AttackPoint]) -> str:
    """Return the points as CSV; shares are fractions, intervals of 95%."""
    name = points[0].score.name if points else "accuracy"
    columns = ["dataset", "attack", "level", "size", "method", name, "low", "high", "runs", "control",
               "difference", "difference_low", "difference_high"]  # fmt: skip
    rows = []
    for point in points:
        found, gap = point.value, point.difference
        apart = [None] * 3 if gap is None else [gap.mean, gap.low, gap.high]
        rows.append([point.dataset, point.attack, point.level, point.size, point.method, found.mean, found.low,
                     found.high, found.runs, point.control, *apart])  # fmt: skip
    return csv_text(columns, rows)


def attack_markdown(points: Sequence[AttackPoint]) -> str:
    """Return tables in Markdown, one for each data set and attack: scores, then paired differences."""
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
    runs = sorted({point.value.runs for point in points})
    unit = _reach(points) if points[0].attack == "bures-ball" else unit
    rows = [[markdown(method), *(_value(found.get((method, level))) for level in levels)] for method in methods]
    for method in methods:
        here = [found.get((method, level)) for level in levels]
        if any(point and point.difference for point in here):
            control = next(point.control for point in here if point)
            row = [
                difference_text(point.difference, point.score) if point and point.difference else "–" for point in here
            ]
            rows.append([f"*{markdown(method)} − {markdown(control)}*", *row])
    made = (
        f"**{title[0].upper() + title[1:]}**, {points[0].score.head} ({unit}; {'–'.join(map(str, runs))} runs a point)"
    )
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


def _value(point: AttackPoint | None) -> str:
    if point is None:
        return "–"
    found, score = point.value, point.score
    text = score.number(found.mean)
    return f"{text} [{score.number(found.low, 1)}, {score.number(found.high, 1)}]" if found.low <= found.high else text
