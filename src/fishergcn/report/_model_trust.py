"""What a model's sets promise and hold, and what it costs to answer only where it is sure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from fishergcn._base.types import FloatArray
from fishergcn.drawing import Chart, Html, Layer, Panel, tag
from fishergcn.models import spread_of_coverage
from fishergcn.report._assessment import Subject, wilson
from fishergcn.report._page import Figure, Section, command, count, interval, number, share, table

_COVERAGES = (0.8, 0.9, 0.95, 0.99)
_CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_USUAL = 0.8  # a probability below which to give no answer
_FEWEST_ANSWERS = 10  # whose share of right ones says something
_MOST_PLACES = 200  # of a curve
_LAY = (
    "Instead of one class, the model can name several that a node may have: few where it is sure, more where it is "
    "not. Of 100 such sets, about {hits} contain the true class."
)
_TRADE = (
    "From left to right more nodes are answered, the surest first; the height is the share of answers that are right, "
    "with a band of 95%. Where the curve falls, the model can be left out of the less certain cases and a person asked."
)


def sets(subject: Subject) -> Section | None:
    """What prediction sets promise, and how they do on the nodes that the model is tested on."""
    model = subject.model
    if model.aside is None:
        return None
    asked, held = model.aside.coverage, len(model.aside.nodes)
    possible = [each for each in sorted({*_COVERAGES, asked}) if held >= each / (1 - each) - 1e-9]
    tested = subject.part == "test"
    nodes = subject.judged if tested else np.setdiff1d(np.arange(model.graph.num_nodes), model.aside.nodes)
    rows = []
    for each in possible:
        inside = model.predict_sets(coverage=each)[nodes]
        sizes = inside.sum(axis=1)
        low, high = spread_of_coverage(held, each)
        measured: list[Html] = []
        if tested:
            hits = int(inside[np.arange(len(nodes)), subject.labels].sum())
            measured = [share(hits / len(nodes), 1, "main"), number(interval(*wilson(hits, len(nodes)), 1), hits)]
        rows.append([
            tag("th", f"{each:.0%}" if round(100 * each, 6).is_integer() else f"{each:.1%}", scope="row"),
            number(interval(low, high, 0), low), *measured, number(f"{sizes.mean():.2f}", float(sizes.mean())),
            share(float((sizes == 1).mean()), 1), share(float((sizes == 0).mean()), 1),
        ])  # fmt: skip
    heads = ["promised", "#to expect with these nodes %"]
    heads += [f"#{subject.words} with their class in the set %", "#95% interval"] if tested else []
    heads += ["#classes in a set", "#sets with one class %", "#empty sets %"]
    words = [_LAY.format(hits=round(100 * asked)), *model.guarantee]
    if not tested:
        words.append("No nodes were set aside for testing, so there is no count of sets that are right.")
    empty = (
        "A set is empty where more sets would be right than was promised; ask for a higher coverage, or take the most "
        "probable class."
    )
    body = [
        *(tag("p", each) for each in words),
        table("Prediction sets", heads, rows),
        tag("p", empty, class_="caption"),
        command(f"fishergcn predict {shlex.quote(str(subject.folder))} --coverage {asked:g} --out sets.csv"),
    ]
    return Section("sets", "Which classes may a node have?", body)


def decisions(subject: Subject) -> Section | None:
    """What is gained by answering only where the model is sure; for two classes, what a threshold trades."""
    if subject.part is None:
        return None
    found = subject.probabilities[subject.judged]
    stated, right = found.max(axis=1), found.argmax(axis=1) == subject.labels
    rows = []
    limits = [each for each in _CONFIDENCES if each <= stated.max()]
    for each in limits:
        answered = stated >= each
        hits, total = int(right[answered].sum()), int(answered.sum())
        rows.append([
            tag("th", f"{each:.0%}", scope="row", data_value=each), share(float(answered.mean()), 1),
            share(hits / total if total else float("nan"), 1, "main"),
            number(interval(*wilson(hits, total), 1) if total else "–", hits),
        ])  # fmt: skip
    heads = ("no answer below", f"#{subject.words} answered %", "#right of these %", "#95% interval")
    place = shlex.quote(str(subject.folder))
    highest = f"The highest probability that it states on the {subject.words} is {stated.max():.0%}."
    body: list[Html | Figure] = [tag("p", highest)] if limits != [*_CONFIDENCES] else []
    if len(right) > _FEWEST_ANSWERS:
        body.append(Figure("Answers", _TRADE, [_draw_trade(stated, right, subject.words)]))
    if limits:
        limit = min(limits, key=lambda each: abs(each - _USUAL))
        body += [
            table("Answers", heads, rows),
            command(f"fishergcn predict {place} --abstain {limit:g} --out answers.csv"),
        ]
    if subject.model.num_classes == 2:
        body += _thresholds(subject, found[:, 1], place)
    return Section("decisions", "When should it answer?", body)


def _draw_trade(stated: FloatArray, right: FloatArray, words: str) -> Chart:
    order = np.argsort(-stated, kind="stable")
    hits = np.cumsum(right[order])
    places = np.unique(np.linspace(max(min(_FEWEST_ANSWERS, len(order)), 1), len(order), _MOST_PLACES).astype(int))
    ends = [wilson(int(hits[each - 1]), int(each)) for each in places]
    x, y = places / len(order), hits[places - 1] / places
    layers = [
        Layer("band", x=x, low=[low for low, _ in ends], high=[high for _, high in ends], color="main", opacity=0.15),
        Layer("line", x=x, y=y, color="main"),
    ]
    panel = Panel("", f"share of the {words} that are answered", "share of right answers", layers, percent="xy",
                  x_domain=(0, 1), height=300)  # fmt: skip
    return Chart("decisions-chart", f"Right answers by how many are given, {words}", [panel])


def _thresholds(subject: Subject, stated: FloatArray, place: str) -> Sequence[Html]:
    """Return misses and false alarms, by the probability from which on the second class is answered."""
    first, second = subject.model.class_names
    truth = subject.labels == 1
    rows = []
    for each in _THRESHOLDS:
        answered = stated >= each
        alarms, misses = int((answered & ~truth).sum()), int((~answered & truth).sum())
        rows.append([
            tag("th", f"{each:.0%}", scope="row", data_value=each), count(alarms), count(misses),
            share(float((answered == truth).mean()), 1),
        ])  # fmt: skip
    words = (
        f"The model answers {second} where its probability is at least that of the row. A false alarm is {first} taken "
        f"for {second}, a miss the reverse; with costs a and b of either, the best threshold is a / (a + b)."
    )
    heads = (f"{second} from", "#false alarms", "#misses", "#right %")
    return [
        tag("h3", "Where to draw the line between two classes"),
        table("Thresholds", heads, rows),
        tag("p", words, class_="caption"),
        command(f"fishergcn predict {place} --costs 1,5 --out answers.csv"),
    ]
