"""The page of a trained model: how good it is and where, how it was chosen, what its graph looks like, its files."""

from __future__ import annotations

import math
import os
import shlex
from pathlib import Path

import numpy as np

from fishergcn._base.text import duration
from fishergcn.drawing import Html, tag
from fishergcn.execution import chosen_config
from fishergcn.graph import target_words
from fishergcn.report import _model_choice as choice
from fishergcn.report import _model_classes as classes
from fishergcn.report import _model_task as others
from fishergcn.report import _model_trust as trust
from fishergcn.report._assessment import Subject, read_subject, wilson
from fishergcn.report._certificates import certificates
from fishergcn.report._model_graph import graph_section, has_derivatives, uncertain_nodes
from fishergcn.report._model_why import why
from fishergcn.report._page import Section, command, entries, in_short, in_words, local_link, named_digest, write_page
from fishergcn.report._sections import geometry
from fishergcn.studies import on_nodes
from fishergcn.training import find_score

_FILES = {
    "predictions.csv": "class and probabilities of every node",
    "README.md": "the model card",
    "model.json": "settings, scores, versions",
    "weights.safetensors": "what was learned",
    "split.safetensors": "nodes for training, validation and test",
    "runs.json": "all runs from which it was chosen",
    "graph.npz": "the graph",
    "geometry.json": "how it responds to changes of the graph",
    "certificates.json": "which predictions no graph nearby can change",
}


def report_model(folder: Path) -> Path:
    """Write the page of a model into its folder."""
    return write_model_page(read_subject(folder))


def write_model_page(subject: Subject) -> Path:
    """Write the page of a model that has been read."""
    by_class = subject.model.graph.targets is None
    sections = [
        _headline(subject) if by_class else others.headline(subject),
        choice.candidates(subject.model.selection, "How it was chosen: does the graph help?"),
        choice.members(subject),
        *(_of_classes(subject) if by_class else others.sections(subject)),
        graph_section(subject),
        choice.runs(subject),
        geometry(subject.folder),
        certificates(subject.folder),
        _files(subject),
        _protocol(subject),
    ]
    record, graph = subject.model.record, subject.model.graph
    things = f"{subject.model.num_classes} classes" if by_class else target_words(graph)
    size = f"{graph.num_nodes:,} nodes, {graph.num_links:,} links and {things}"
    lead = f"A trained model for the {size} of {record.dataset}."
    return write_page(subject.folder, f"{record.method} on {record.dataset}", lead, sections)


def _of_classes(subject: Subject) -> list[Section | None]:
    """Return what is said of the predictions of classes."""
    return [
        classes.by_class(subject),
        classes.confusions(subject),
        classes.calibrated(subject),
        trust.sets(subject),
        trust.decisions(subject),
        uncertain_nodes(subject),
        why(subject),
    ]


def _headline(subject: Subject) -> Section:
    """Say whether to use the model, how good it is, and whether the links help; draw the candidates or the classes."""
    sentences = (*decision(subject), *classes.in_words(subject), *choice.about_links(subject))
    if (figure := choice.candidates_figure(subject.model.selection)) is not None:
        return in_short(sentences, figure)
    return in_short(sentences, classes.class_figure(subject, "headline"))


def decision(subject: Subject) -> list[str]:
    """Say whether to use the model, by the estimate of its choice or by the nodes that it is judged on, and why."""
    selection = subject.model.selection
    if subject.model.graph.targets is not None:
        return others.decision(subject)
    if selection is None or selection.useful is None:
        said = list(selection.sentences[:1]) if selection is not None else []
        return [*_judged(subject), *said]
    said = [choice.USE, *selection.sentences[:1]] if selection.useful else list(selection.sentences[:2])
    return [*said, _accuracy(subject)] if subject.part == "test" else said


def _judged(subject: Subject) -> list[str]:
    """Decide by test nodes, or by validation nodes where there are none."""
    model, record = subject.model, subject.model.record
    if subject.part is None or subject.split is None or model.graph.labels is None:
        known = record.test_accuracy if math.isfinite(record.test_accuracy) else record.val_accuracy
        which = "test" if math.isfinite(record.test_accuracy) else "validation"
        return [
            f"{record.method} classified {known:.1%} of its {which} nodes correctly. This folder does not say which "
            "nodes those were, so there are no numbers by class; models saved from now on do."
        ]
    constant = np.tile(np.eye(model.num_classes)[subject.common], (len(subject.judged), 1))
    found, accuracy = subject.probabilities[subject.judged], find_score("accuracy")
    ahead = on_nodes(accuracy, found, subject.labels, constant)
    always = f"always answering the most frequent class is right for {subject.always:.1%}."
    if ahead.low > 0:
        return [choice.USE, f"{_accuracy(subject)[:-1]}; {always}", *_caution(subject)]
    return [
        f"Do not use this model: on these {len(subject.judged):,} {subject.words} it is not clearly better than "
        f"always answering the most frequent class (difference {accuracy.difference(ahead.value, 1)} points, 95% "
        f"interval {accuracy.difference(ahead.low, 1)} to {accuracy.difference(ahead.high, 1)}).",
        f"{_accuracy(subject)[:-1]}; {always}",
        *_caution(subject),
    ]


def _caution(subject: Subject) -> list[str]:
    if subject.part != "val":
        return []
    return ["No nodes were set aside for testing; these also decided when to stop, so expect a little less."]


def _accuracy(subject: Subject) -> str:
    hits, count = int(subject.confusion.trace()), len(subject.judged)
    low, high = wilson(hits, count)
    return (
        f"{subject.model.record.method} classifies {hits / count:.1%} of the {count:,} {subject.words} correctly "
        f"(95% interval {low:.1%} to {high:.1%})."
    )


def _files(subject: Subject) -> Section:
    """Links to predictions and model, and the commands that use them."""
    there = {name: words for name, words in _FILES.items() if os.path.isfile(subject.folder / name)}
    if subject.model.graph.targets is not None:
        there["predictions.csv"] = f"{subject.model.task.what} of every node"
    listed = [tag("li", local_link(name, name), f": {words}") for name, words in there.items()]
    place = shlex.quote(str(subject.folder))
    call = "predict_interval(0.9)" if subject.model.graph.task == "regression" else "probabilities()"
    code = f"import fishergcn\nmodel = fishergcn.load_model({str(subject.folder)!r})\nmodel.{call}"
    geometry = [
        tag(
            "p", "See which links a prediction depends on and, of one network, how it responds to changes of its graph:"
        ),
        command(f"fishergcn geometry links {place} --node NODE"),
        *([] if subject.model.facts() else [command(f"fishergcn geometry fisher {place} --keep")]),
    ]
    body = [
        tag("p", "Beside this page:"),
        tag("ul", *listed),
        tag("p", "Predict the nodes of a graph with the same features:"),
        command(f"fishergcn predict {place} --graph other.npz --out predictions.csv"),
        *(geometry if has_derivatives(subject.model) else []),
        tag("p", "In Python:"),
        command(code),
    ]
    return Section("files", "Predictions and files", body)


def _protocol(subject: Subject) -> Section:
    """What the model was made with."""
    model, record = subject.model, subject.model.record
    sizes = model.split_sizes
    parts = f"{sizes['train']:,} training, {sizes['val']:,} validation and {sizes['test']:,} test nodes"
    if model.graph.task == "regression":
        parts += f"; {len(model.nodes_aside):,} set aside for intervals"
    usual = chosen_config(None, None)
    changed = {name: value for name, value in vars(model.config).items() if value != getattr(usual, name)}
    aside = "" if model.aside is None else f"; {len(model.aside.nodes):,} nodes set aside for prediction sets"
    found: list[tuple[str, list[Html | str]]] = [
        ("Method", [record.method]),
        ("Data", [named_digest(record.dataset, record.graph_digest)]),
        ("Split", [f"{record.split}: {parts}{aside}"]),
        ("Seed, epochs", [f"{record.seed}, {record.epochs}"]),
        ("Settings that differ from the defaults", [] if model.facts() else [in_words(changed) or "none"]),
        ("Trained on", [f"{record.device}, {duration(record.seconds)}"]),
        ("Versions", [in_words(record.versions)]),
    ]
    return Section("protocol", "How it was made", [entries(found)])
