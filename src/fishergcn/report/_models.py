"""The page of a folder with several models: which is best by validation, beside all runs; each has its own page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fishergcn._base.files import write_text
from fishergcn.drawing import looks, tag
from fishergcn.models import load_runs
from fishergcn.report._assessment import calibration, wilson
from fishergcn.report._chart import Chart, Panel, Series, chart_figure, layer, spread, swatch
from fishergcn.report._markup import Section, number, table
from fishergcn.report._model import write_model_page
from fishergcn.report._model_facts import local_link
from fishergcn.report._page import assemble
from fishergcn.report._subject import Subject, read_subject
from fishergcn.training import RunRecord, rank, registered_scores

_CAPTION = (
    "Large marks are the saved models, small dots all runs from which they were chosen. Models are chosen by "
    "validation accuracy; test accuracy is shown but not used."
)


def report_models(folder: Path, places: Sequence[Path]) -> Path:
    """Write a page that compares the models, and the page of each."""
    subjects = {}
    for place in places:
        subjects[place] = read_subject(place)
        write_model_page(subjects[place])
    runs = load_runs(folder)
    names = {place: place.relative_to(folder).as_posix() for place in places}
    sections = [_headline(subjects, names, runs), _table(subjects, names)]
    datasets = list(dict.fromkeys(each.model.record.dataset for each in subjects.values()))
    title = f"{len(places)} models"
    lead = f"{len(places)} trained models on {', '.join(datasets)}; each has a page of its own."
    page = folder / "report.html"
    write_text(page, assemble(title, lead, sections))
    return page


def _headline(subjects: Mapping[Path, Subject], names: Mapping[Path, str], runs: Sequence[RunRecord]) -> Section:
    words = []
    datasets = list(dict.fromkeys(each.model.record.dataset for each in subjects.values()))
    for dataset in datasets:
        here = {place: each.model.record for place, each in subjects.items() if each.model.record.dataset == dataset}
        record = rank(here.values())[0]
        best = next(place for place, each in here.items() if each is record)
        text = f"{names[best]} has the best validation accuracy of {len(here)} models on {dataset}"
        text += f": {record.val_accuracy:.1%}."
        if math.isfinite(record.test_accuracy):
            text += f" It classifies {record.test_accuracy:.1%} of its test nodes correctly."
        words.append(tag("p", text, class_="verdict"))
    chart = _chart(subjects, names, runs, datasets)
    return Section("headline", "In short", [*words, chart_figure("Validation accuracy", _CAPTION, [chart])], [chart])


def _chart(
    subjects: Mapping[Path, Subject], names: Mapping[Path, str], runs: Sequence[RunRecord], datasets: Sequence[str]
) -> Chart:
    own = looks(dict.fromkeys(each.model.record.method for each in subjects.values()))
    panels = []
    for dataset in datasets:
        places = [place for place, each in subjects.items() if each.model.record.dataset == dataset]
        layers = []
        for row, place in enumerate(places):
            subject = subjects[place]
            record = subject.model.record
            others = [
                each for each in (subject.runs or runs) if each.method == record.method and each.dataset == dataset
            ]
            if len(others) > 1:
                height = [row + offset for offset in spread(len(others))]
                text = [f"{names[place]}\nseed {each.seed}: {each.val_accuracy:.2%}" for each in others]
                layers.append(layer("dot", x=[each.val_accuracy for each in others], y=height, opacity=0.55, size=2.8,
                                    color=own[record.method].color, text=text))  # fmt: skip
            text = [f"{names[place]}\nvalidation {record.val_accuracy:.2%}\ntest {record.test_accuracy:.2%}"]
            layers.append(layer("dot", series=record.method, x=[record.val_accuracy], y=[row], size=6, text=text))
        title = dataset if len(datasets) > 1 else ""
        rows = [names[place] for place in places]
        panels.append(Panel(title, "validation accuracy", "", layers, rows=rows, percent="x", x_domain=_domain(layers)))
    return Chart(
        "headline", "Validation accuracy of the models", panels, [Series(name, look) for name, look in own.items()]
    )


def _domain(layers: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return the range of an axis that makes little of small differences: at least five points wide."""
    values = [value for each in layers for value in each["x"] if value is not None]
    if not values:
        return None
    middle, half = (max(values) + min(values)) / 2, max(0.55 * (max(values) - min(values)), 0.025)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _table(subjects: Mapping[Path, Subject], names: Mapping[Path, str]) -> Section:
    own = looks(dict.fromkeys(each.model.record.method for each in subjects.values()))
    more = [each for each in registered_scores() if each.shown and each.name not in ("accuracy", "loss")]
    heads = ("model", "data set", "method", "split", "#validation %", "#test %", "#95% interval",
             *(f"#{each.title}{' %' * each.percent}" for each in more), "#calibration error %", "#epochs")  # fmt: skip
    rows = []
    for place, subject in subjects.items():
        record = subject.model.record
        low, high, error = math.nan, math.nan, math.nan
        if subject.part == "test":
            low, high = wilson(int(subject.confusion.trace()), len(subject.judged))
            error = calibration(subject.probabilities[subject.judged], subject.labels)[1]
        scores = (record.val_accuracy, record.test_accuracy)
        rows.append([
            tag("th", local_link(f"{names[place]}/report.html", names[place]), scope="row"),
            record.dataset,
            tag("td", tag("span", swatch(own[record.method]), record.method, class_="name")),
            record.split,
            *(number(_percent(each, 2), each, "main") for each in scores),
            number("–" if math.isnan(low) else f"{_percent(low, 1)} – {_percent(high, 1)}", low),
            *(number(each.text(value, missing="–").rstrip("%"), value)
              for each in more for value in [getattr(record, f"test_{each.name}")]),
            number(_percent(error, 1), error),
            number(str(record.epochs), record.epochs),
        ])  # fmt: skip
    words = (
        "Follow a link for accuracy by class, calibration, uncertain nodes and files of a model. Models on different "
        "splits have different test nodes. For a paired comparison with intervals over splits use fishergcn compare."
    )
    return Section("models", "The models", [table("Models", heads, rows), tag("p", words, class_="caption")])


def _percent(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}"
