"""The page of a trained model: how good it is and where, how it was chosen, and what its graph looks like."""

from __future__ import annotations

import math
from pathlib import Path

from fishergcn._base.files import write_text
from fishergcn.drawing import tag
from fishergcn.report import _model_choice as choice
from fishergcn.report import _model_classes as classes
from fishergcn.report import _model_facts as facts
from fishergcn.report._assessment import wilson
from fishergcn.report._chart import chart_figure
from fishergcn.report._geometry import geometry
from fishergcn.report._markup import Section
from fishergcn.report._model_graph import graph_section
from fishergcn.report._model_nodes import uncertain_nodes
from fishergcn.report._page import assemble
from fishergcn.report._subject import Subject, read_subject


def report_model(folder: Path) -> Path:
    """Write the page of a model into its folder."""
    return write_model_page(read_subject(folder))


def write_model_page(subject: Subject) -> Path:
    """Write the page of a model that has been read."""
    sections = [
        _headline(subject),
        choice.candidates(subject),
        classes.by_class(subject),
        classes.confusions(subject),
        classes.calibrated(subject),
        uncertain_nodes(subject),
        graph_section(subject),
        choice.runs(subject),
        geometry(subject.folder),
        facts.files(subject),
        facts.protocol(subject),
    ]
    record, graph = subject.model.record, subject.model.graph
    lead = (
        f"A trained model for the {graph.num_nodes:,} nodes, {graph.num_links:,} links and "
        f"{subject.model.num_classes} classes of {record.dataset}."
    )
    page = subject.folder / "report.html"
    title = f"{record.method} on {record.dataset}"
    write_text(page, assemble(title, lead, [each for each in sections if each is not None]))
    return page


def _headline(subject: Subject) -> Section:
    """Say how good the model is and whether the links help; draw the candidates, or accuracy by class."""
    words = [tag("p", each, class_="verdict") for each in (_verdict(subject), *choice.about_links(subject))]
    chart = choice.candidates_chart(subject.model.selection) or classes.class_chart(subject, "headline")
    if chart is None:
        return Section("headline", "In short", words)
    caption = choice.CAPTION if subject.model.selection is not None else classes.CAPTION.format(nodes=subject.words)
    title = "Candidates" if subject.model.selection is not None else "Accuracy by class"
    return Section("headline", "In short", [*words, chart_figure(title, caption, [chart])], [chart])


def _verdict(subject: Subject) -> str:
    record = subject.model.record
    if subject.part is None:
        known = record.test_accuracy if math.isfinite(record.test_accuracy) else record.val_accuracy
        which = "test" if math.isfinite(record.test_accuracy) else "validation"
        return (
            f"{record.method} classified {known:.1%} of its {which} nodes correctly. This folder does not say which "
            "nodes those were, so there are no numbers by class; models saved from now on do."
        )
    hits, count = int(subject.confusion.trace()), len(subject.judged)
    low, high = wilson(hits, count)
    text = (
        f"{record.method} classifies {hits / count:.1%} of the {count:,} {subject.words} correctly "
        f"(95% interval {low:.1%} to {high:.1%})."
    )
    if subject.part == "val":
        text += " No nodes were set aside for testing; these also decided when to stop, so expect a little less."
    return text
