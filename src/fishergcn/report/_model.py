"""The page of a trained model: how good it is and where, how it was chosen, what its graph looks like, its files."""

from __future__ import annotations

import math
import os
import shlex
from pathlib import Path

from fishergcn._base.text import duration
from fishergcn.drawing import Html, tag
from fishergcn.execution import chosen_config
from fishergcn.report import _model_choice as choice
from fishergcn.report import _model_classes as classes
from fishergcn.report._assessment import Subject, read_subject, wilson
from fishergcn.report._model_graph import graph_section, uncertain_nodes
from fishergcn.report._page import Section, command, entries, in_short, in_words, local_link, named_digest, write_page
from fishergcn.report._sections import geometry

_FILES = {
    "predictions.csv": "class and probabilities of every node",
    "README.md": "the model card",
    "model.json": "settings, scores, versions",
    "weights.safetensors": "what was learned",
    "split.safetensors": "nodes for training, validation and test",
    "runs.json": "all runs from which it was chosen",
    "graph.npz": "the graph",
    "geometry.json": "how it responds to changes of the graph",
}


def report_model(folder: Path) -> Path:
    """Write the page of a model into its folder."""
    return write_model_page(read_subject(folder))


def write_model_page(subject: Subject) -> Path:
    """Write the page of a model that has been read."""
    sections = [
        _headline(subject),
        choice.candidates(subject.model.selection, "How it was chosen: does the graph help?"),
        classes.by_class(subject),
        classes.confusions(subject),
        classes.calibrated(subject),
        uncertain_nodes(subject),
        graph_section(subject),
        choice.runs(subject),
        geometry(subject.folder),
        _files(subject),
        _protocol(subject),
    ]
    record, graph = subject.model.record, subject.model.graph
    lead = (
        f"A trained model for the {graph.num_nodes:,} nodes, {graph.num_links:,} links and "
        f"{subject.model.num_classes} classes of {record.dataset}."
    )
    return write_page(subject.folder, f"{record.method} on {record.dataset}", lead, sections)


def _headline(subject: Subject) -> Section:
    """Say how good the model is and whether the links help; draw the candidates, or accuracy by class."""
    sentences = (_verdict(subject), *choice.about_links(subject))
    if (figure := choice.candidates_figure(subject.model.selection)) is not None:
        return in_short(sentences, figure)
    return in_short(sentences, classes.class_figure(subject, "headline"))


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


def _files(subject: Subject) -> Section:
    """Links to predictions and model, and the commands that use them."""
    there = {name: words for name, words in _FILES.items() if os.path.isfile(subject.folder / name)}
    listed = [tag("li", local_link(name, name), f": {words}") for name, words in there.items()]
    place = shlex.quote(str(subject.folder))
    code = f"import fishergcn\nmodel = fishergcn.load_model({str(subject.folder)!r})\nmodel.probabilities()"
    body = [
        tag("p", "Beside this page:"),
        tag("ul", *listed),
        tag("p", "Predict the nodes of a graph with the same features:"),
        command(f"fishergcn predict {place} --graph other.npz --out predictions.csv"),
        tag("p", "See which links a prediction depends on, and how the model responds to changes of its graph:"),
        command(f"fishergcn geometry links {place} --node NODE"),
        command(f"fishergcn geometry fisher {place} --keep"),
        tag("p", "In Python:"),
        command(code),
    ]
    return Section("files", "Predictions and files", body)


def _protocol(subject: Subject) -> Section:
    """What the model was made with."""
    model, record = subject.model, subject.model.record
    sizes = model.split_sizes
    parts = f"{sizes['train']:,} training, {sizes['val']:,} validation and {sizes['test']:,} test nodes"
    usual = chosen_config(None, None)
    changed = {name: value for name, value in vars(model.config).items() if value != getattr(usual, name)}
    found: list[tuple[str, list[Html | str]]] = [
        ("Method", [record.method]),
        ("Data", [named_digest(record.dataset, record.graph_digest)]),
        ("Split", [f"{record.split}: {parts}"]),
        ("Seed, epochs", [f"{record.seed}, {record.epochs}"]),
        ("Settings that differ from the defaults", [in_words(changed) or "none"]),
        ("Trained on", [f"{record.device}, {duration(record.seconds)}"]),
        ("Versions", [in_words(record.versions)]),
    ]
    return Section("protocol", "How it was made", [entries(found)])
