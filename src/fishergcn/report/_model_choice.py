"""How a model was chosen: candidates on validation nodes, whether the links help, and the runs."""

from __future__ import annotations

from collections.abc import Sequence

from fishergcn.drawing import Chart, Html, Layer, Panel, Row, Series, draw_rows, looks, tag
from fishergcn.models import Selection
from fishergcn.report._assessment import Subject
from fishergcn.report._page import Figure, Section, count, number, share, table
from fishergcn.training import RunRecord

_CAPTION = (
    "Mean accuracy of each candidate on validation nodes; the large filled mark is the one that was chosen. Candidates "
    "that cannot be told apart are ranked by cross entropy, then by simplicity. Test nodes play no part."
)
_CURVES = (
    "Training values are measured with dropout and perturbation on, validation values with both off. Drag over a "
    "chart, or use the buttons, to zoom."
)
_MOST_RUNS = 200
_LINKS = ("The links ", "Warning: the links")


def about_links(subject: Subject) -> list[str]:
    """Return the sentences of the choice that say whether the links help."""
    selection = subject.model.selection
    return [] if selection is None else [each for each in selection.sentences if each.startswith(_LINKS)][:1]


def candidates_figure(selection: Selection | None) -> Figure | None:
    """Draw the validation accuracy of each candidate that was tried."""
    tried = [] if selection is None else [each for each in selection.candidates if each.tried]
    if selection is None or not tried:
        return None
    own = looks(each.name for each in tried)
    rows = []
    for each in tried:
        chosen = each.name == selection.chosen
        name = f"{each.name}{' (chosen)' if chosen else ''}"
        text = f"{name}\naccuracy {each.value:.2%}\n{each.runs} runs"
        rows.append(Row(name, each.value, look=own[each.name], series=each.name, size=8 if chosen else 5,
                        hollow=not chosen, tip=text))  # fmt: skip
    label = "Validation accuracy of the candidates"
    return Figure("Candidates", _CAPTION, [draw_rows(label, {"": rows}, "headline", x="validation accuracy")])


def _table(selection: Selection) -> Html:
    """Return all candidates with their settings and scores."""
    own = looks(each.name for each in selection.candidates)
    rows = [
        [
            tag("th", tag("span", own[each.name].swatch, each.name, class_="name"), scope="row"),
            "chosen" if each.name == selection.chosen else each.left_out and f"left out: {each.left_out}",
            ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in each.settings.items()) or "–",
            share(each.value, kind="main"),
            number(f"{each.cross_entropy:.4f}" if each.tried else "–", each.cross_entropy),
            count(each.runs),
            number(f"{each.seconds:.1f}", each.seconds),
        ]
        for each in selection.candidates
    ]
    heads = ("candidate", "outcome", "settings", "#accuracy %", "#cross entropy", "#runs", "#seconds")
    return table("Candidates", heads, rows)


def _value(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value


def candidates(selection: Selection | None, title: str) -> Section | None:
    """All candidates, and in words what came out."""
    if selection is None:
        return None
    said = [tag("li", each) for each in selection.sentences]
    return Section("candidates", title, [tag("ul", *said), _table(selection)])


def runs(subject: Subject) -> Section | None:
    """The learning curves of the run, and the runs from which it was chosen."""
    record = subject.model.record
    same = [each for each in subject.runs if each.identity == record.identity]
    chart = _draw_curves(same[0].curves if same else {})
    body: list[Html | Figure] = []
    if chart.panels:
        body.append(Figure("Learning curves", _CURVES, [chart]))
    if len(subject.runs) > 1:
        shown = list(subject.runs)[:_MOST_RUNS]
        more = f" The first {_MOST_RUNS} of {len(subject.runs):,} are listed." if len(subject.runs) > _MOST_RUNS else ""
        words = f"Chosen from {len(subject.runs)} runs by validation accuracy; test scores are not used.{more}"
        heads = ("run", "split", "#seed", "#validation %", "#test %", "#epochs", "status")
        rows = [_run(place, each, each.identity == record.identity) for place, each in enumerate(shown, start=1)]
        body += [tag("h3", "All runs"), tag("p", words), table("Runs", heads, rows)]
    return Section("training", "How training went", body) if body else None


def _run(place: int, record: RunRecord, chosen: bool) -> Sequence[str]:
    head = tag("th", f"{place} (chosen)" if chosen else str(place), scope="row", data_value=place)
    return [head, record.split, number(str(record.seed), record.seed), share(record.val_accuracy),
            share(record.test_accuracy), number(str(record.epochs), record.epochs), record.status]  # fmt: skip


def _draw_curves(curves: dict[str, list[float]]) -> Chart:
    names = {"training": "train", "validation": "val"}
    own = dict(zip(names, looks(["fishergcn", "gcn-t-x5"]).values(), strict=True))
    panels = []
    for key, percent in (("loss", ""), ("accuracy", "y")):
        found = {name: curves.get(f"{part}_{key}", []) for name, part in names.items()}
        layers = [
            Layer("line", series=name, x=range(1, len(values) + 1), y=values)
            for name, values in found.items()
            if values
        ]
        if layers:
            panels.append(Panel(key.capitalize(), "epoch", "", layers, percent=percent))
    series = [Series(name, look) for name, look in own.items()]
    return Chart("curves", "Learning curves", panels, series, switches=True, zoom=True, readout=True)
