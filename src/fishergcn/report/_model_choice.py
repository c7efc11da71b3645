"""How a model was chosen: candidates on validation nodes, whether the links help, and the runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fishergcn.drawing import Chart, Html, Layer, Panel, Row, Series, draw_rows, looks, tag
from fishergcn.execution import chosen_config
from fishergcn.graph import Task as TaskName
from fishergcn.models import Selection
from fishergcn.report._assessment import Subject
from fishergcn.report._model_graph import has_derivatives
from fishergcn.report._page import Figure, Section, number, table
from fishergcn.training import RunRecord, Score, find_score, find_task

_CAPTION = (
    "Expected {title} on nodes without a label, measured on labeled nodes that were set aside, with 95% intervals. "
    "{line}{model}Filled marks are of what the model is made, hollow ones of the other candidates, best first. "
    "Intervals that overlap do not tell candidates apart."
)
_MODEL = (
    "The first row is this model, chosen anew without the nodes that judge: the best candidate looks better than it "
    "is, since luck helped to choose it. "
)
_LINE = "The dashed line is what {always} gives. "
_CURVES = (
    "Training values are measured with dropout and any perturbation on, validation values with both off. Drag over a "
    "chart, or use the buttons, to zoom."
)
_MOST_RUNS = 200
_LINKS = ("The links ", "Warning: the links")


def usable(task: TaskName) -> str:
    """Say that a model can be used, since it beats what a model of its task must."""
    return f"This model can be used: it is clearly better than {find_task(task).constant}."


USE = usable("classification")


def about_links(subject: Subject) -> list[str]:
    """Return the sentences of the choice that say whether the links help."""
    selection = subject.model.selection
    return [] if selection is None else [each for each in selection.sentences if each.startswith(_LINKS)][:1]


def candidates_figure(selection: Selection | None) -> Figure | None:
    """Draw the model and each candidate that was tried, with intervals, beside the most frequent class."""
    tried = [] if selection is None else [each for each in selection.ranked() if each.tried]
    if selection is None or not tried:
        return None
    score, own = selection.entry, looks(each.name for each in selection.candidates)
    rows = []
    if math.isfinite(selection.value):
        rows.append(Row(f"this model: {_chosen(selection)}", selection.value, selection.low, selection.high, size=8))
    for each in tried:
        text = (
            f"{each.name}\n{selection.title} {score.text(each.value)}\n{each.runs} inner split{'s' * (each.runs > 1)}"
        )
        text += f"\n95% interval {score.text(each.low)} to {score.text(each.high)}" if each.low <= each.high else ""
        rows.append(Row(each.said, each.value, each.low, each.high, own[each.name], size=5, hollow=not each.share,
                        tip=text))  # fmt: skip
    x, line = f"expected {selection.title} ({score.direction})", ""
    if math.isfinite(selection.majority):
        line = _LINE.format(always=find_task(selection.task).constant)
    chart = draw_rows(f"Expected {selection.title} of the candidates", {"": rows}, "headline", x=x, score=score.name,
                      least=0.1 if score.percent else 1e-9, beside=selection.majority)  # fmt: skip
    model = _MODEL if math.isfinite(selection.value) else ""
    return Figure("Candidates", _CAPTION.format(title=selection.title, line=line, model=model), [chart])


def _chosen(selection: Selection) -> str:
    """Return in a few words what was chosen."""
    members = [each for each in selection.candidates if each.share]
    if len(members) > 1:
        return f"an ensemble of {len(members)} candidates"
    return members[0].said if members else selection.chosen


def _table(selection: Selection) -> Html:
    """Return all candidates with their scores and settings, best first and those left out last."""
    own = looks(each.name for each in selection.candidates)
    heads, texts = selection.table()
    rows = []
    for each, (_, words, *cells) in zip(selection.ranked(), texts, strict=True):
        values = (each.value, each.low, each.cross_entropy, each.runs, each.seconds, each.share)
        known = dict(zip((selection.title, "95% interval", selection.loss_title, *_NUMBERS), values, strict=True))
        rows.append([
            tag("th", tag("span", own[each.name].swatch, each.name, class_="name"), scope="row"),
            *(number(text, known[head], "main" * (head == selection.title))
              for head, text in zip(heads[2:], cells, strict=True)),
            tag("td", words, tag("br"), tag("small", settings_in_words(each.settings)), class_="wrap"),
        ])  # fmt: skip
    # The scores first, which a narrow screen then shows.
    return table("Candidates", (heads[0], *(f"#{each}" for each in heads[2:]), heads[1]), rows)


_NUMBERS = ("runs", "seconds", "share")


def members(subject: Subject) -> Section | None:
    """Of what an ensemble is made, and what is not said of it."""
    found, usual = subject.model.facts(), chosen_config(None, None).to_dict()
    if not found:
        return None
    rows, heated = [], subject.model.graph.task != "regression"
    for each in found:
        own = {name: value for name, value in each.config.to_dict().items() if value != usual[name]}
        rows.append([
            each.record.method,
            number(f"{each.share:.0%}", each.share, "main"),
            *([number(f"{each.temperature:.2f}", each.temperature)] if heated else []),
            number(str(each.record.epochs), each.record.epochs),
            tag("td", settings_in_words(own) or "defaults", class_="wrap"),
        ])  # fmt: skip
    what = "probabilities" if heated else "numbers"
    heated = heated and any(each.temperature != 1.0 for each in found)
    links = "" if has_derivatives(subject.model) else ", the links that a prediction depends on,"
    heats = "Each one's logits are divided by its temperature first, the best on the validation nodes. "
    words = (
        f"This model is the mean of the {what} of {len(found)} models, by their "
        f"shares. {heats * heated}Learning curves{links} and geometry are of single networks: they are not on this "
        "page."
    )
    heads = ("method", "#share", *(("#temperature",) if heated else ()), "#epochs",
             "settings that differ from the defaults")  # fmt: skip
    return Section("members", "What the ensemble is made of", [tag("p", words), table("Members", heads, rows)])


def settings_in_words(settings: Mapping[str, object]) -> str:
    """Return settings with their values, for people."""
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in settings.items())


def _value(value: object) -> object:
    if isinstance(value, list | tuple):
        return "/".join(map(str, value))
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
    score = find_score(subject.model.task.score)
    chart = _draw_curves(same[0].curves if same else {}, score)
    body: list[Html | Figure] = []
    if chart.panels:
        body.append(Figure("Learning curves", _CURVES, [chart]))
    if len(subject.runs) > 1:
        shown = list(subject.runs)[:_MOST_RUNS]
        more = f" The first {_MOST_RUNS} of {len(subject.runs):,} are listed." if len(subject.runs) > _MOST_RUNS else ""
        title, tested = (
            find_score(subject.model.chosen_by).title,
            any(math.isfinite(each.test_loss) for each in shown),
        )
        words = (
            f"Chosen from {len(subject.runs)} runs by validation {title}{'; test scores are not used' * tested}.{more}"
        )
        heads = ("run", "split", "#seed", *_parts(score), "#epochs", "status")
        rows = [_run(place, each, each.identity == record.identity, score) for place, each in enumerate(shown, start=1)]
        body += [tag("h3", "All runs"), tag("p", words), table("Runs", heads, rows)]
    return Section("training", "How training went", body) if body else None


def _parts(score: Score) -> tuple[str, str]:
    """Return the heads of a score on validation and test nodes; accuracy goes without saying."""
    if score.name == "accuracy":
        return "#validation %", "#test %"
    return f"#validation {score.head}", f"#test {score.head}"


def _run(place: int, record: RunRecord, chosen: bool, score: Score) -> Sequence[str]:
    head = tag("th", f"{place} (chosen)" if chosen else str(place), scope="row", data_value=place)
    values = (getattr(record, f"{part}_{score.name}") for part in ("val", "test"))
    return [head, record.split, number(str(record.seed), record.seed),
            *(number(score.number(value, missing="–"), value) for value in values),
            number(str(record.epochs), record.epochs), record.status]  # fmt: skip


def _draw_curves(curves: dict[str, list[float]], score: Score) -> Chart:
    names = {"training": "train", "validation": "val"}
    own = dict(zip(names, looks(["fishergcn", "gcn-t-x5"]).values(), strict=True))
    panels = []
    for key, percent in (("loss", ""), (score.name, "y" * score.percent)):
        found = {name: curves.get(f"{part}_{key}", []) for name, part in names.items()}
        layers = [
            Layer("line", series=name, x=range(1, len(values) + 1), y=values)
            for name, values in found.items()
            if values
        ]
        if layers:
            title = "Loss" if key == "loss" else f"{score.title[0].upper()}{score.title[1:]}"
            panels.append(Panel(title, "epoch", "", layers, percent=percent))
    series = [Series(name, look) for name, look in own.items()]
    return Chart("curves", "Learning curves", panels, series, switches=True, zoom=True, readout=True)
