"""How a model does on each class: accuracy, which are confused, and how far stated probabilities can be trusted."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from fishergcn.drawing import Chart, Html, Layer, Panel, Row, draw_rows, tag
from fishergcn.report._assessment import BINS, Bin, ClassScores, Subject, by_chance, calibration, wilson
from fishergcn.report._page import Figure, Section, breakable, count, interval, number, share, table

_CAPTION = (
    "The share of the {nodes} of each class that the model finds, below its accuracy on all of them; bars are 95% "
    "intervals (Wilson), wide where a class has few nodes. The dashed line is the accuracy of always answering the "
    "most frequent class."
)
_CALIBRATION = (
    "Predictions are grouped by the probability that the model states for them (up to {bins} groups of equal width). "
    "A point on the diagonal means that such predictions are right as often as stated; below it the model is too sure "
    "of itself, above it too careful. Bars are 95% intervals; larger points hold more nodes. The expected "
    "calibration error (ECE) is the mean distance from the diagonal, weighted by the number of nodes."
)
_LARGEST_MATRIX = 20
_MOST_ROWS = 40
_MOST_NAMED = 5
_FEW = 30  # nodes of a class, of which percentages would say too much
_SURE_ENOUGH = 0.05  # the half of an interval within which a model can be said to be as sure as it should be


def class_figure(subject: Subject, name: str) -> Figure | None:
    """Draw the share of each class's nodes that is found."""
    known = [each for each in zip(subject.model.class_names, subject.scores, strict=True) if each[1].nodes]
    if not known:
        return None
    hits, count = int(subject.confusion.trace()), len(subject.judged)
    rows = [_row(f"all {count:,} {subject.words}", hits, count, "right", size=8)]
    shown = sorted(known, key=lambda each: each[1].recall)[:_MOST_ROWS] if len(known) > _MOST_ROWS else known
    rows += [_row(label, found.found, found.nodes, "found") for label, found in shown]
    label, x = f"Accuracy by class, {subject.words}", f"share of its {subject.words} found"
    chart = draw_rows(label, {"": rows}, name, x=x, x_domain=(0, 1), beside=subject.always)
    return Figure("Accuracy by class", _CAPTION.format(nodes=subject.words), [chart])


def _row(label: str, hits: int, count: int, word: str, size: float = 5) -> Row:
    low, high = wilson(hits, count)
    text = f"{label}\n{hits} of {count} {word}: {hits / count:.1%}\n95% interval {low:.1%} to {high:.1%}"
    return Row(label, hits / count, low, high, size=size, tip=text)


def in_words(subject: Subject) -> list[str]:
    """Say what the model finds of each class, or of the best and the worst where there are many."""
    known = [each for each in zip(subject.model.class_names, subject.scores, strict=True) if each[1].nodes]
    if len(known) < 2:
        return []
    best, *others, (worst, one) = sorted(known, key=lambda each: (-each[1].recall, each[1].nodes))
    if len(known) > _MOST_NAMED:
        others = []
    said = ", ".join(f"{_found(each)} of {name}" for name, each in (best, *others))
    alone = ", its worst class" if all(each.recall > one.recall for name, each in known if name != worst) else ""
    return [
        f"Of the {subject.words} of each class it finds {said} and {_found(one)} of {worst}{alone}"
        + (f" ({one.found:,} of {one.nodes:,})." if one.nodes >= _FEW else ".")
    ]


def _found(scores: ClassScores) -> str:
    if scores.nodes >= _FEW:
        return f"{scores.recall:.0%}"
    return f"all {scores.nodes}" if scores.found == scores.nodes > 1 else f"{scores.found} of the {scores.nodes}"


def by_class(subject: Subject) -> Section | None:
    """Accuracy, precision and F1 of each class."""
    if subject.part is None:
        return None
    heads = ("class", f"#{subject.words}", "#found %", "#95% interval", "#precision %", "#F1 %",
             "#links within the class %")  # fmt: skip
    rows = []
    for label, found, inside in zip(subject.model.class_names, subject.scores, subject.facts.of_class, strict=False):
        low, high = wilson(found.found, found.nodes)
        ends = number(interval(low, high, 1), low)
        scores = (share(each, 1) for each in (found.precision, found.f1, float(inside)))
        rows.append([label, count(found.nodes), share(found.recall, 1, "main"), ends, *scores])
    weakest = [(name, one) for name, one in zip(subject.model.class_names, subject.scores, strict=True) if one.nodes]
    body: list[Html | Figure] = []
    if len(weakest) > 1:
        body = [tag("p", _ends(weakest, subject.words))]
    figure = class_figure(subject, "classes-chart") if subject.model.selection is not None else None
    caption = (
        "“Found” is the share of a class's nodes that are predicted as such (recall), “precision” the share of such "
        "predictions that are right, and F1 their harmonic mean."
    )
    body += [*([figure] if figure else []), table("Classes", heads, rows), tag("p", caption, class_="caption")]
    return Section("classes", "Accuracy by class", body)


def _ends(known: Sequence[tuple[str, ClassScores]], words: str) -> str:
    """Say which classes are found best and worst."""
    shares = [one.recall for _, one in known]
    low, high = min(shares), max(shares)
    if low == high:
        return f"Of each class the same share of its {words} is found: {high:.0%}."
    easy, hard = (_some([name for name, one in known if one.recall == end]) for end in (high, low))
    return f"Easiest: {easy} ({high:.0%} of the {words} found). Hardest: {hard} ({low:.0%})."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


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
        rows = [[names[i], names[j], count(nodes), share(nodes / float(matrix[i].sum()), 1)] for nodes, i, j in wrong]
        heads = ("class", "predicted as", "#nodes", "#% of the class")
        body += [tag("h3", "Most frequent mistakes"), table("Most frequent mistakes", heads, rows)]
    else:
        body.append(tag("p", "There are no mistakes."))
    return Section("confusion", "Which classes are confused", body)


def _matrix(subject: Subject) -> Html:
    names, matrix = subject.model.class_names, subject.confusion
    sums = matrix.sum(axis=1)
    heads = ["class", *(tag("th", breakable(each), scope="col", class_="number", title=each) for each in names)]
    rows = [
        [name, *(tag("td", f"{nodes:,}", class_="heat", data_value=int(nodes),
                     style=f"--heat: {55 * nodes / total if total else 0:.0f}") for nodes in row)]
        for name, row, total in zip(names, matrix, sums, strict=True)
    ]  # fmt: skip
    # Heads break at spaces and after underscores, and inside of a part only where it is very long.
    longest = max(len(part) for each in names for part in re.findall(r"[^_\s]*_+|[^_\s]+", each) or [each])
    return table("Confusion matrix", heads, rows, class_="heat-table", style=f"--longest: {min(longest, 16)}")


def calibrated(subject: Subject) -> Section | None:
    """Whether stated probabilities are right as often as they say."""
    if subject.part is None:
        return None
    bins, error = calibration(subject.probabilities[subject.judged], subject.labels)
    text = (
        f"Expected calibration error (ECE): {100 * error:.1f}%. On average the model states a probability of "
        f"{{stated:.1%}} and is right for {{correct:.1%}} of the {len(subject.judged):,} {subject.words}: {{side}}."
    ).format(**_sureness(subject, error, by_chance(bins)))
    chosen = subject.model.calibration
    if chosen.name != "none":
        _, before = calibration(subject.model.probabilities(raw=True)[subject.judged], subject.labels)
        text += f" Without calibration the error would be {100 * before:.1f}%."
    rows = [
        [
            tag("th", f"{each.stated:.1%}", scope="row", data_value=each.stated),
            share(each.correct, 1),
            count(each.count),
        ]
        for each in bins
    ]
    body: list[Html | Figure] = [
        tag("p", text, id="ece"),
        tag("p", chosen.words),
        Figure("Calibration", _CALIBRATION.format(bins=BINS), [_draw_calibration(bins, subject)]),
        table("Calibration", ("stated probability", "#right %", "#nodes"), rows),
    ]
    return Section("calibration", "Can its probabilities be trusted?", body)


def _sureness(subject: Subject, error: float, chance: float) -> dict[str, Any]:
    """Return what the model states and what is right, and what to say of it, by the interval of their difference."""
    found = subject.probabilities[subject.judged]
    stated, right = found.max(axis=1), found.argmax(axis=1) == subject.labels
    apart, nodes = stated - right, len(found)
    half = 1.96 * math.sqrt((apart.var() * nodes + 0.5) / (nodes + 1) / nodes)
    if abs(apart.mean()) > half:
        sure = "surer of itself than it should be" if apart.mean() > 0 else "less sure of itself than it could be"
        side = f"it is {sure}"
    elif half > _SURE_ENOUGH:
        side = f"too few nodes to say whether it is too sure of itself (95% interval of the difference ±{half:.0%})"
    elif error > 2 * chance:
        side = "right on average, but too sure for some predictions and too careful for others"
    else:
        side = "it is about as sure as it should be"
    return {"stated": stated.mean(), "correct": right.mean(), "side": side}


def _draw_calibration(bins: list[Bin], subject: Subject) -> Chart:
    most = max(each.count for each in bins)
    layers = [Layer("line", x=[0, 1], y=[0, 1], color="rest", dash=[4, 3])]
    for each in bins:
        low, high = wilson(round(each.correct * each.count), each.count)
        text = f"stated {each.stated:.1%}\nright {each.correct:.1%}\n{each.count} nodes"
        size = 3 + 6 * math.sqrt(each.count / most)
        layers.append(Layer("rangeY", x=[each.stated], low=[low], high=[high], color="main"))
        layers.append(Layer("dot", x=[each.stated], y=[each.correct], color="main", text=[text], size=size))
    panel = Panel("", "probability that the model states", "share of right predictions", layers, percent="xy",
                  x_domain=(0, 1), y_domain=(0, 1), height=380)  # fmt: skip
    return Chart("calibration-chart", f"Calibration, {subject.words}", [panel])
