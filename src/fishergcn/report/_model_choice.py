"""How a model was chosen: candidates on validation nodes, whether the links help, and the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fishergcn.drawing import Html, looks, tag
from fishergcn.models import Selection
from fishergcn.report._chart import Chart, Panel, Series, chart_figure, layer, swatch
from fishergcn.report._markup import Section, number, table
from fishergcn.report._subject import Subject
from fishergcn.training import RunRecord

CAPTION = (
    "Mean accuracy of each candidate on validation nodes; the large filled mark is the one that was chosen. Candidates "
    "that cannot be told apart are ranked by cross entropy, then by simplicity. Test nodes play no part."
)
_MOST_RUNS = 200
_MOST_EPOCHS = 1000  # of a curve; of a longer one every n-th is shown
_CURVES = (("loss", "Loss", ""), ("accuracy", "Accuracy", "y"))
_LINKS = ("The links ", "Warning: the links")


def about_links(subject: Subject) -> list[str]:
    """Return the sentences of the choice that say whether the links help."""
    selection = subject.model.selection
    return [] if selection is None else [each for each in selection.sentences if each.startswith(_LINKS)][:1]


def candidates_chart(selection: Selection | None, name: str = "headline") -> Chart | None:
    """Draw the validation accuracy of each candidate that was tried."""
    tried = [] if selection is None else [each for each in selection.candidates if each.tried]
    if selection is None or not tried:
        return None
    own = looks(each.name for each in tried)
    layers = []
    for place, each in enumerate(tried):
        chosen = each.name == selection.chosen
        text = f"{each.name}{' (chosen)' if chosen else ''}\naccuracy {each.val_accuracy:.2%}\n{each.runs} runs"
        layers.append(layer("dot", series=each.name, x=[each.val_accuracy], y=[place], size=8 if chosen else 5,
                            hollow=not chosen, text=[text]))  # fmt: skip
    rows = [f"{each.name} (chosen)" if each.name == selection.chosen else each.name for each in tried]
    panel = Panel("", "validation accuracy", "", layers, rows=rows, percent="x")
    return Chart(name, "Validation accuracy of the candidates", [panel], [Series(each, own[each]) for each in own])


def candidates_table(selection: Selection) -> Html:
    """Return all candidates with their settings and scores."""
    own = looks(each.name for each in selection.candidates)
    rows = [
        [
            tag("th", tag("span", swatch(own[each.name]), each.name, class_="name"), scope="row"),
            "chosen" if each.name == selection.chosen else each.left_out and f"left out: {each.left_out}",
            ", ".join(map(_setting, each.settings.items())) or "–",
            number(f"{100 * each.val_accuracy:.2f}" if each.tried else "–", each.val_accuracy, "main"),
            number(f"{each.val_cross_entropy:.4f}" if each.tried else "–", each.val_cross_entropy),
            number(str(each.runs), each.runs),
            number(f"{each.seconds:.1f}", each.seconds),
        ]
        for each in selection.candidates
    ]
    heads = ("candidate", "", "settings", "#accuracy %", "#cross entropy", "#runs", "#seconds")
    return table("Candidates", [each or "outcome" for each in heads], rows)


def _setting(found: tuple[str, Any]) -> str:
    name, value = found
    return f"{name.replace('_', ' ')} {('yes' if value else 'no') if isinstance(value, bool) else value}"


def candidates(subject: Subject) -> Section | None:
    """All candidates, and in words what came out."""
    selection = subject.model.selection
    if selection is None:
        return None
    said = [tag("li", each) for each in selection.sentences]
    return Section(
        "candidates", "How it was chosen: does the graph help?", [tag("ul", *said), candidates_table(selection)]
    )


def runs(subject: Subject) -> Section | None:
    """The learning curves of the run, and the runs from which it was chosen."""
    record = subject.model.record
    same = [each for each in subject.runs if each.identity == record.identity]
    curves = same[0].curves if same else {}
    body: list[Html] = []
    charts = []
    chart = _curves_chart(curves)
    if chart is not None:
        caption = (
            "Training values are measured with dropout and perturbation on, validation values with both off. Drag "
            "over a chart, or use the buttons, to zoom."
        )
        charts.append(chart)
        body.append(chart_figure("Learning curves", caption, charts))
    if len(subject.runs) > 1:
        shown = list(subject.runs)[:_MOST_RUNS]
        more = f" The first {_MOST_RUNS} of {len(subject.runs):,} are listed." if len(subject.runs) > _MOST_RUNS else ""
        words = f"Chosen from {len(subject.runs)} runs by validation accuracy; test scores are not used.{more}"
        heads = ("run", "split", "#seed", "#validation %", "#test %", "#epochs", "status")
        rows = [_run(place, each, each.identity == record.identity) for place, each in enumerate(shown, start=1)]
        body += [tag("h3", "All runs"), tag("p", words), table("Runs", heads, rows)]
    return Section("training", "How training went", body, charts) if body else None


def _run(place: int, record: RunRecord, chosen: bool) -> Sequence[str]:
    scores = (record.val_accuracy, record.test_accuracy)
    shown = [number("–" if math.isnan(each) else f"{100 * each:.2f}", each) for each in scores]
    first = f"{place} (chosen)" if chosen else str(place)
    head = tag("th", first, scope="row", data_value=place)
    return [head, record.split, number(str(record.seed), record.seed), *shown,
            number(str(record.epochs), record.epochs), record.status]  # fmt: skip


def _curves_chart(curves: dict[str, list[float]]) -> Chart | None:
    names = {"training": "train", "validation": "val"}
    own = dict(zip(names, looks(["fishergcn", "gcn-t-x5"]).values(), strict=True))
    panels = []
    for key, title, percent in _CURVES:
        layers = []
        for name, part in names.items():
            values = curves.get(f"{part}_{key}", [])
            steps = range(0, len(values), -(-len(values) // _MOST_EPOCHS) or 1)
            if values:
                layers.append(
                    layer("line", series=name, x=[each + 1 for each in steps], y=[values[each] for each in steps])
                )
        if layers:
            panels.append(Panel(title, "epoch", "", layers, percent=percent))
    series = [Series(name, look) for name, look in own.items()]
    chart = Chart("curves", "Learning curves", panels, series, switches=True, zoom=True, readout=True)
    return chart if panels else None
