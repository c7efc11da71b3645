"""The page of a folder with several models: which is best by validation, beside all runs; each has its own page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from fishergcn.drawing import Look, Row, draw_rows, looks, tag
from fishergcn.models import load_runs
from fishergcn.report._assessment import Subject, calibration, read_subject, wilson
from fishergcn.report._model import decision, write_model_page
from fishergcn.report._page import Figure, Section, in_short, interval, local_link, number, share, table, write_page
from fishergcn.training import RunRecord, rank, registered_scores

Subjects = Mapping[str, Subject]  # by the folder of each, relative to that of the page
_CAPTION = "Large marks are the saved models, small dots all runs from which they were chosen by validation accuracy."
_TESTED = " Test accuracy is in the table, but no model was chosen by it."


def report_models(folder: Path, places: Sequence[Path]) -> Path:
    """Write a page that compares the models, and the page of each."""
    subjects = {place.relative_to(folder).as_posix(): read_subject(place) for place in places}
    for subject in subjects.values():
        write_model_page(subject)
    datasets = list(dict.fromkeys(each.model.record.dataset for each in subjects.values()))
    own = looks(dict.fromkeys(each.model.record.method for each in subjects.values()))
    lead = f"{len(places)} trained models on {', '.join(datasets)}; each has a page of its own."
    sections = [_headline(subjects, datasets, own, load_runs(folder)), _table(subjects, own)]
    return write_page(folder, f"{len(places)} models", lead, sections)


def _headline(
    subjects: Subjects, datasets: Sequence[str], looks: Mapping[str, Look], runs: Sequence[RunRecord]
) -> Section:
    sentences, panels = [], {}
    for dataset in datasets:
        here = {name: each for name, each in subjects.items() if each.model.record.dataset == dataset}
        record = rank([each.model.record for each in here.values()])[0]
        best = next(name for name, each in here.items() if each.model.record is record)
        text = f"{best} has the best validation accuracy of {len(here)} models on {dataset}: {record.val_accuracy:.1%}."
        if math.isfinite(record.test_accuracy):
            text += f" It classifies {record.test_accuracy:.1%} of its test nodes correctly."
        sentences += [f"{best}: {decision(here[best])[0]}", text]
        panels[dataset if len(datasets) > 1 else ""] = [_row(name, each, looks, runs) for name, each in here.items()]
    label = "Validation accuracy of the models"
    chart = draw_rows(label, panels, "headline", x="validation accuracy", least=0.1)
    tested = any(math.isfinite(each.model.record.test_accuracy) for each in subjects.values())
    return in_short(sentences, Figure("Validation accuracy", _CAPTION + _TESTED * tested, [chart]))


def _row(name: str, subject: Subject, looks: Mapping[str, Look], runs: Sequence[RunRecord]) -> Row:
    record = subject.model.record
    kind = (record.method, record.dataset)
    others = [each for each in (subject.runs or runs) if (each.method, each.dataset) == kind]
    notes = [f"{name}\nseed {each.seed}: {each.val_accuracy:.2%}" for each in others]
    text = f"{name}\nvalidation {record.val_accuracy:.2%}\ntest {record.test_accuracy:.2%}"
    return Row(name, record.val_accuracy, look=looks[record.method], runs=[each.val_accuracy for each in others],
               notes=notes, series=record.method, size=6, tip=text)  # fmt: skip


def _table(subjects: Subjects, looks: Mapping[str, Look]) -> Section:
    more = [each for each in registered_scores() if each.shown and each.name not in ("accuracy", "loss")]
    heads = ("model", "data set", "method", "split", "#validation %", "#test %", "#95% interval",
             *(f"#{each.title}{' %' * each.percent}" for each in more), "#calibration error %", "#epochs")  # fmt: skip
    rows = []
    for name, subject in subjects.items():
        record = subject.model.record
        low, high, error = math.nan, math.nan, math.nan
        if subject.part == "test":
            low, high = wilson(int(subject.confusion.trace()), len(subject.judged))
            error = calibration(subject.probabilities[subject.judged], subject.labels)[1]
        rows.append([
            tag("th", local_link(f"{name}/report.html", name), scope="row"),
            record.dataset,
            tag("td", tag("span", looks[record.method].swatch, record.method, class_="name")),
            record.split,
            share(record.val_accuracy, kind="main"),
            share(record.test_accuracy, kind="main"),
            number(interval(low, high, 1), low),
            *(number(each.text(value, missing="–").rstrip("%"), value)
              for each in more for value in [getattr(record, f"test_{each.name}")]),
            share(error, 1),
            number(str(record.epochs), record.epochs),
        ])  # fmt: skip
    words = (
        "Follow a link for accuracy by class, calibration, uncertain nodes and files of a model. Models on different "
        "splits have different test nodes. For a paired comparison with intervals over splits use fishergcn compare."
    )
    return Section("models", "The models", [table("Models", heads, rows), tag("p", words, class_="caption")])
