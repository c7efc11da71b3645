"""How a model does on each class: accuracy, which are confused, and how far stated probabilities can be trusted."""

from __future__ import annotations

import math

from fishergcn.drawing import Html, tag
from fishergcn.report._assessment import BINS, Bin, calibration, wilson
from fishergcn.report._chart import BLUE, GRAY, Chart, Panel, chart_figure, layer
from fishergcn.report._markup import Section, breakable, number, pieces, region, table
from fishergcn.report._subject import Subject

CAPTION = (
    "The share of the {nodes} of each class that the model finds; bars are 95% intervals (Wilson), wide where a "
    "class has few nodes."
)
_CALIBRATION = (
    "Predictions are grouped by the probability that the model states for them (up to {bins} groups of equal width). "
    "A point on the diagonal means that such predictions are right as often as stated; below it the model is too sure "
    "of itself, above it too careful. Bars are 95% intervals; larger points hold more nodes. The expected "
    "calibration error (ECE) is the mean distance from the diagonal, weighted by the number of nodes."
)
_LARGEST_MATRIX = 20
_MOST_ROWS = 40


def class_chart(subject: Subject, name: str) -> Chart | None:
    """Draw the share of each class's nodes that is found."""
    known = [
        (each, found) for each, found in zip(subject.model.class_names, subject.scores, strict=True) if found.nodes
    ]
    if not known:
        return None
    shown = sorted(known, key=lambda each: each[1].recall)[:_MOST_ROWS] if len(known) > _MOST_ROWS else known
    ends = [wilson(found.found, found.nodes) for _, found in shown]
    places = list(range(len(shown)))
    text = [
        f"{label}\n{found.found} of {found.nodes} found: {found.recall:.1%}\n95% interval {low:.1%} to {high:.1%}"
        for (label, found), (low, high) in zip(shown, ends, strict=True)
    ]
    layers = [
        layer("rangeX", y=places, low=[low for low, _ in ends], high=[high for _, high in ends], color=BLUE, size=3),
        layer("dot", x=[found.recall for _, found in shown], y=places, color=BLUE, size=5, text=text),
    ]
    words = f"share of its {subject.words} found"
    panel = Panel("", words, "", layers, rows=[label for label, _ in shown], percent="x", x_domain=(0, 1))
    return Chart(name, f"Accuracy by class, {subject.words}", [panel])


def by_class(subject: Subject) -> Section | None:
    """Accuracy, precision and F1 of each class."""
    if subject.part is None:
        return None
    chart = class_chart(subject, "classes-chart") if subject.model.selection is not None else None
    heads = (
        "class",
        f"#{subject.words}",
        "#found %",
        "#95% interval",
        "#precision %",
        "#F1 %",
        "#links within the class %",
    )
    rows = []
    for label, found, inside in zip(subject.model.class_names, subject.scores, subject.facts.of_class, strict=False):
        low, high = wilson(found.found, found.nodes)
        rows.append([
            label,
            number(f"{found.nodes:,}", found.nodes),
            number(_percent(found.recall), found.recall, "main"),
            number(f"{100 * low:.1f} – {100 * high:.1f}" if found.nodes else "–", low),
            number(_percent(found.precision), found.precision),
            number(_percent(found.f1), found.f1),
            number(_percent(float(inside)), float(inside)),
        ])  # fmt: skip
    weakest = [(name, one) for name, one in zip(subject.model.class_names, subject.scores, strict=True) if one.nodes]
    words = []
    if len(weakest) > 1:
        name, one = min(weakest, key=lambda each: each[1].recall)
        best, other = max(weakest, key=lambda each: each[1].recall)
        words = [tag("p", f"Easiest: {best} ({other.recall:.0%} of its {subject.words} found). "
                          f"Hardest: {name} ({one.recall:.0%}).")]  # fmt: skip
    drawn = [chart_figure("Accuracy by class", CAPTION.format(nodes=subject.words), [chart])] if chart else []
    caption = (
        "“Found” is the share of a class's nodes that are predicted as such (recall), “precision” the share of such "
        "predictions that are right, and F1 their harmonic mean."
    )
    body = [*words, *drawn, table("Classes", heads, rows), tag("p", caption, class_="caption")]
    return Section("classes", "Accuracy by class", body, [chart] if chart else [])


def confusions(subject: Subject) -> Section | None:
    """Which classes are confused: the confusion matrix, and the most frequent mistakes."""
    if subject.part is None:
        return None
    names, matrix = subject.model.class_names, subject.confusion
    body: list[Html] = []
    if len(names) <= _LARGEST_MATRIX:
        body.append(_matrix(subject))
        words = f"Rows are true classes and columns predictions, for {len(subject.judged):,} {subject.words}."
        words += " The stronger the color, the larger the share of its row."
        body.append(tag("p", words, class_="caption"))
    wrong = [
        (int(matrix[i, j]), i, j) for i in range(len(names)) for j in range(len(names)) if i != j and matrix[i, j] > 0
    ]
    wrong = sorted(wrong, key=lambda each: -each[0])[:10]
    if wrong:
        rows = [
            [names[i], names[j], number(f"{count:,}", count),
             number(f"{100 * count / matrix[i].sum():.1f}", count / float(matrix[i].sum()))]
            for count, i, j in wrong
        ]  # fmt: skip
        heads = ("class", "predicted as", "#nodes", "#% of the class")
        body += [tag("h3", "Most frequent mistakes"), table("Most frequent mistakes", heads, rows)]
    else:
        body.append(tag("p", "There are no mistakes."))
    return Section("confusion", "Which classes are confused", body)


def _matrix(subject: Subject) -> Html:
    names, matrix = subject.model.class_names, subject.confusion
    sums = matrix.sum(axis=1)
    heads = [
        tag("th", "class", scope="col"),
        *(tag("th", breakable(each), scope="col", class_="number", title=each) for each in names),
    ]
    # Heads break between the parts of a name, and inside of one only where it is very long.
    longest = max(len(part) for each in names for part in pieces(each))
    rows = []
    for i, name in enumerate(names):
        cells = [
            tag("td", f"{matrix[i, j]:,}", class_="heat", data_value=int(matrix[i, j]),
                style=f"--heat: {55 * matrix[i, j] / sums[i] if sums[i] else 0:.0f}")
            for j in range(len(names))
        ]  # fmt: skip
        rows.append(tag("tr", tag("th", breakable(name), scope="row"), *cells))
    content = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="heat-table",
                  style=f"--longest: {min(longest, 16)}")  # fmt: skip
    return region("Confusion matrix", content)


def calibrated(subject: Subject) -> Section | None:
    """Whether stated probabilities are right as often as they say."""
    if subject.part is None:
        return None
    bins, error = calibration(subject.probabilities[subject.judged], subject.labels)
    count = len(subject.judged)
    stated = sum(each.count * each.stated for each in bins) / count
    correct = sum(each.count * each.correct for each in bins) / count
    apart = stated - correct
    side = "about as sure as it should be"
    if abs(apart) >= 0.02:
        side = "surer of itself than it should be" if apart > 0 else "less sure of itself than it could be"
    text = (
        f"Expected calibration error (ECE): {100 * error:.1f}%. On average the model states a probability of "
        f"{stated:.1%} and is right for {correct:.1%} of the {count:,} {subject.words}: it is {side}."
    )
    chart = _calibration_chart(bins, subject)
    rows = [
        [
            tag("th", f"{each.stated:.1%}", scope="row", data_value=each.stated),
            number(f"{100 * each.correct:.1f}", each.correct),
            number(f"{each.count:,}", each.count),
        ]
        for each in bins
    ]
    heads = ("stated probability", "#right %", "#nodes")
    body = [
        tag("p", text, id="ece"),
        chart_figure("Calibration", _CALIBRATION.format(bins=BINS), [chart]),
        table("Calibration", heads, rows),
    ]
    return Section("calibration", "Can its probabilities be trusted?", body, [chart])


def _calibration_chart(bins: list[Bin], subject: Subject) -> Chart:
    ends = [wilson(round(each.correct * each.count), each.count) for each in bins]
    most = max(each.count for each in bins)
    layers = [
        layer("line", x=[0, 1], y=[0, 1], color=GRAY, dash=[4, 3]),
        layer("rangeY", x=[each.stated for each in bins], low=[low for low, _ in ends], high=[high for _, high in ends],
              color=BLUE),
    ]  # fmt: skip
    for each in bins:
        text = f"stated {each.stated:.1%}\nright {each.correct:.1%}\n{each.count} nodes"
        layers.append(layer("dot", x=[each.stated], y=[each.correct], color=BLUE, text=[text],
                            size=3 + 6 * math.sqrt(each.count / most)))  # fmt: skip
    panel = Panel("", "probability that the model states", "share of right predictions", layers, percent="xy",
                  x_domain=(0, 1), y_domain=(0, 1), height=380)  # fmt: skip
    return Chart("calibration-chart", f"Calibration, {subject.words}", [panel])


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}"
