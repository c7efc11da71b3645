"""The page of a folder with several models: which is best by validation, beside all runs; each has its own page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from fishergcn.drawing import Look, Row, draw_rows, looks, tag
from fishergcn.errors import DataFileError
from fishergcn.models import load_runs
from fishergcn.report._assessment import Subject, calibration, read_subject, wilson
from fishergcn.report._model import decision, write_model_page
from fishergcn.report._page import Figure, Section, in_short, interval, local_link, number, share, table, write_page
from fishergcn.training import RunRecord, Score, find_score, rank, registered_scores

Subjects = Mapping[str, Subject]  # by the folder of each, relative to that of the page
_CAPTION = "Large marks are the saved models, small dots all runs from which they were chosen by validation {title}."
_TESTED = " Test {title} is in the table, but no model was chosen by it."


def report_models(folder: Path, places: Sequence[Path]) -> Path:
    """Write a page that compares the models, and the page of each."""
    subjects = {place.relative_to(folder).as_posix(): read_subject(place) for place in places}
    tasks = sorted({each.model.task.name for each in subjects.values()})
    if len(tasks) > 1:
        raise DataFileError(f"{folder} holds models for {' and for '.join(tasks)}; report on each folder in it.")
    score = find_score(next(iter(subjects.values())).model.task.score)
    for subject in subjects.values():
        write_model_page(subject)
    datasets = list(dict.fromkeys(each.model.record.dataset for each in subjects.values()))
    own = looks(dict.fromkeys(each.model.record.method for each in subjects.values()))
    lead = f"{len(places)} trained models on {', '.join(datasets)}; each has a page of its own."
    sections = [_headline(subjects, datasets, own, load_runs(folder), score), _table(subjects, own, score)]
    return write_page(folder, f"{len(places)} models", lead, sections)


def _headline(
    subjects: Subjects, datasets: Sequence[str], looks: Mapping[str, Look], runs: Sequence[RunRecord], score: Score
) -> Section:
    sentences, panels = [], {}
    for dataset in datasets:
        here = {name: each for name, each in subjects.items() if each.model.record.dataset == dataset}
        record = rank([each.model.record for each in here.values()], score.name)[0]
        val, test = (getattr(record, f"{part}_{score.name}") for part in ("val", "test"))
        best = next(name for name, each in here.items() if each.model.record is record)
        text = f"{best} has the best validation {score.title} of {len(here)} models on {dataset}: {score.text(val, 1)}."
        if math.isfinite(test) and score.name == "accuracy":
            text += f" It classifies {test:.1%} of its test nodes correctly."
        elif math.isfinite(test):
            text += f" On its test nodes it has {score.text(test, 1)}."
        sentences += [f"{best}: {decision(here[best])[0]}", text]
        panels[dataset if len(datasets) > 1 else ""] = [
            _row(name, each, looks, runs, score) for name, each in here.items()
        ]
    label, least = f"Validation {score.title} of the models", 0.1 if score.percent else 1e-9
    chart = draw_rows(label, panels, "headline", x=f"validation {score.title}", score=score.name, least=least)
    tested = any(math.isfinite(each.model.record.test_loss) for each in subjects.values())
    words = (_CAPTION + _TESTED * tested).format(title=score.title)
    return in_short(sentences, Figure(f"Validation {score.title}", words, [chart]))


def _row(name: str, subject: Subject, looks: Mapping[str, Look], runs: Sequence[RunRecord], score: Score) -> Row:
    record, key = subject.model.record, f"val_{score.name}"
    kind = (record.method, record.dataset)
    others = [each for each in (subject.runs or runs) if (each.method, each.dataset) == kind]
    notes = [f"{name}\nseed {each.seed}: {score.text(getattr(each, key))}" for each in others]
    value, test = getattr(record, key), getattr(record, f"test_{score.name}")
    text = f"{name}\nvalidation {score.text(value)}\ntest {score.text(test)}"
    return Row(name, value, look=looks[record.method], runs=[getattr(each, key) for each in others],
               notes=notes, series=record.method, size=6, tip=text)  # fmt: skip


def _table(subjects: Subjects, looks: Mapping[str, Look], score: Score) -> Section:
    classes = score.name == "accuracy"
    known = registered_scores(next(iter(subjects.values())).model.task.name)
    more = [each for each in known if each.shown and each.name not in (score.name, "loss")]
    parts = ("#validation %", "#test %") if classes else (f"#validation {score.head}", f"#test {score.head}")
    heads = ("model", "data set", "method", "split", *parts, *(("#95% interval",) if classes else ()),
             *(f"#{each.title}{' %' * each.percent}" for each in more),
             *(("#calibration error %",) if classes else ()), "#epochs")  # fmt: skip
    rows = []
    for name, subject in subjects.items():
        record = subject.model.record
        low, high, error = math.nan, math.nan, math.nan
        if subject.part == "test" and classes:
            low, high = wilson(int(subject.confusion.trace()), len(subject.judged))
            error = calibration(subject.probabilities[subject.judged], subject.labels)[1]
        rows.append([
            tag("th", local_link(f"{name}/report.html", name), scope="row"),
            record.dataset,
            tag("td", tag("span", looks[record.method].swatch, record.method, class_="name")),
            record.split,
            *(number(score.number(value, missing="–"), value, "main")
              for part in ("val", "test") for value in [getattr(record, f"{part}_{score.name}")]),
            *([number(interval(low, high, 1), low)] if classes else []),
            *(number(each.text(value, missing="–").rstrip("%"), value)
              for each in more for value in [getattr(record, f"test_{each.name}")]),
            *([share(error, 1)] if classes else []),
            number(str(record.epochs), record.epochs),
        ])  # fmt: skip
    words = "Follow a link for more about a model. Models on different splits have different test nodes."
    if classes:
        words = (
            "Follow a link for accuracy by class, calibration, uncertain nodes and files of a model. Models on "
            "different splits have different test nodes. For a paired comparison with intervals over splits use "
            "fishergcn compare."
        )
    return Section("models", "The models", [table("Models", heads, rows), tag("p", words, class_="caption")])
