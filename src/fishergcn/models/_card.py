"""The card of a saved model: what a person wants to know before using it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fishergcn._base.foreign import markdown
from fishergcn._base.text import html_table, markdown_table, some_of
from fishergcn.models._facts import MemberFacts, selection_rule
from fishergcn.training import Score, TrainConfig, registered_scores

if TYPE_CHECKING:
    from fishergcn.models._trained import TrainedModel


def model_card(model: TrainedModel) -> str:
    """Return the card in Markdown."""
    members = model.facts()
    record, graph, sizes, title = model.record, model.graph, model.split_sizes, model.method.described.title
    size = f"{graph.num_nodes} nodes, {graph.num_links} links, {graph.num_features} features"
    parts = f"{sizes['train']} training, {sizes['val']} validation and {sizes['test']} test nodes"
    facts = [
        ("method", record.method),
        ("graph", f"{record.dataset}: {size}"),
        (model.task.things, ", ".join(model.class_names)),
        ("split", f"{record.split}: {parts}"),
        ("seed, epochs", f"{record.seed}, {record.epochs}"),
        ("trained on", f"{record.device}, {record.seconds:.1f} s"),
        ("versions", ", ".join(f"{name} {version}" for name, version in record.versions.items())),
        ("graph's SHA-256", record.graph_digest),
    ]
    measured = [
        each for each in registered_scores(None) if {f"val_{each.name}", f"test_{each.name}"} & record.scores.keys()
    ]
    scores = [
        (nodes, *(each.text(getattr(record, f"{part}_{each.name}")) for each in measured))
        for nodes, part in (("validation", "val"), ("test", "test"))
    ]
    chosen = "This is the only run." if model.selection is None else "How it was chosen is below."
    if model.chosen_from > 1:
        chosen = f"Chosen from {model.chosen_from} runs: {selection_rule(model.chosen_by)}."
    return "\n".join(
        [
            f"# {record.method} on {markdown(record.dataset)}",
            "",
            *([] if model.selection is None else [markdown(" ".join(model.selection.sentences[:2])), ""]),
            f"{title[0].upper()}{title[1:]} that predicts {model.task.what} of each node of a graph.",
            "",
            markdown_table(("", ""), facts),
            "",
            "## Scores",
            "",
            markdown_table(("nodes", *(_title(each, ensemble=bool(members)) for each in measured)), scores),
            "",
            model.task.note,
            "",
            f"{chosen} {_caution(sizes['test'], model.chosen_from)}",
            "",
            *_trust(model),
            *_selection(model),
            *(_members(members) if members else _settings(model.config)),
            "## Use",
            "",
            "    fishergcn predict FOLDER --out predictions.csv",
            "",
            *_in_python(model),
            "",
        ]
    )


def _in_python(model: TrainedModel) -> list[str]:
    call = "predict" if model.graph.task == "regression" else "probabilities"
    return [
        f"or, in Python, `fishergcn.load_model(FOLDER).{call}()`. Predictions are for the nodes of this",
        f"graph, or of another one with the same features (`{call}(graph)`), without perturbation and",
        "without dropout.",
    ]


def model_html(model: TrainedModel) -> str:
    """Return the decision, sizes and scores as HTML for a notebook; parts without nodes have no scores."""
    graph = model.graph
    rows: list[tuple[str, object]] = [
        ("graph", f"{graph.name or 'no name'}: {graph.num_nodes} nodes, {graph.num_links} links"),
        (model.task.things, some_of(model.class_names)),
    ]
    if len(model.records) != 1:
        title = f"{len(model)} networks, {model.method.name}" if model.records else "A network trained elsewhere"
        return html_table(title, rows)
    record, sizes = model.record, model.split_sizes
    rows.append(("split", f"{record.split}: " + ", ".join(f"{count} {part}" for part, count in sizes.items())))
    for nodes, part in (("validation", "val"), ("test", "test")):
        found = {each: getattr(record, f"{part}_{each.name}") for each in registered_scores(None)}
        said = [f"{each.title} {each.text(value)}" for each, value in found.items() if np.isfinite(value)]
        if sizes[part] and said:
            rows.append((f"{nodes} scores", ", ".join(said)))
    return html_table(record.method, rows, () if model.selection is None else model.selection.sentences[:2])


def _title(score: Score, *, ensemble: bool) -> str:
    """Return the head of a score of the model itself; candidates are judged by calibrated probabilities."""
    if score.name != "cross_entropy":
        return score.title
    return f"{score.title}, {'mean of calibrated members' if ensemble else 'raw probabilities'}"


def _members(members: Sequence[MemberFacts]) -> list[str]:
    """Return of what an ensemble is made."""
    default = TrainConfig().to_dict()
    rows = []
    for each in members:
        own = {name: value for name, value in each.config.to_dict().items() if value != default[name]}
        settings = ", ".join(f"{name} {value}" for name, value in own.items())
        rows.append((each.record.method, f"{each.share:.0%}", f"{each.temperature:.2f}", settings or "defaults"))
    heads = ("method", "share", "temperature", "settings that differ from the defaults")
    words = "p = Σ share · softmax(logits / temperature), each temperature the best on the validation nodes."
    return ["## Members", "", words, "", markdown_table(heads, rows), ""]


def _selection(model: TrainedModel) -> list[str]:
    """Return how the model was chosen among candidates, if it was."""
    if model.selection is None:
        return []
    heads, rows = model.selection.table()
    said = [markdown(each) for each in model.selection.sentences]
    right = range(2, len(heads))
    return ["## How it was chosen", "", *said, "", markdown_table(heads, rows, right=right), ""]


def words_of_trust(model: TrainedModel) -> list[str]:
    """Say how probabilities were calibrated, above which labels are predicted, and what sets or intervals promise."""
    if model.task.decided:
        said = f"A label is predicted where its probability is above {model.threshold:.0%}"
        return [f"{said}, which gave the best micro F1 on validation nodes."]
    if model.graph.targets is None:
        return [model.calibration.words, *(() if model.aside is None else model.guarantee)]
    if not (aside := len(model.nodes_aside)):
        return []
    return [
        f"`predict_interval(coverage)` gives intervals, from the errors on {aside} nodes that had no influence on the "
        "model. They hold the true number with this frequency for nodes that are drawn as those were."
    ]


def _trust(model: TrainedModel) -> list[str]:
    said = [markdown(each) if model.graph.targets is None else each for each in words_of_trust(model)]
    heads = {"classification": "Probabilities", "multilabel": "Labels", "regression": "Intervals"}
    return [f"## {heads[model.task.name]}", "", *(line for each in said for line in (each, ""))] if said else []


def _caution(tested: int, chosen_from: int) -> str:
    if tested == 0:
        return "No nodes were set aside for testing; the validation nodes decided when to stop" + (
            "." if chosen_from == 1 else " and which run to keep."
        )
    return "Validation nodes were used for stopping and choosing; test nodes were not used at all."


def _settings(config: TrainConfig) -> list[str]:
    default = TrainConfig()
    names = [field.name for field in dataclasses.fields(config)]
    rows = [(name, getattr(config, name), getattr(default, name)) for name in names]
    return ["## Settings", "", markdown_table(("setting", "value", "default"), rows), ""]
