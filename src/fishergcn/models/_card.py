"""The card of a saved model: what a person wants to know before using it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from fishergcn._base.foreign import markdown
from fishergcn._base.text import markdown_table
from fishergcn.models._facts import selection_rule
from fishergcn.training import TrainConfig, registered_scores

if TYPE_CHECKING:
    from fishergcn.models._trained import TrainedModel


def model_card(model: TrainedModel) -> str:
    """Return the card in Markdown."""
    record, graph, sizes, title = model.record, model.graph, model.split_sizes, model.method.described.title
    size = f"{graph.num_nodes} nodes, {graph.num_links} links, {graph.num_features} features"
    parts = f"{sizes['train']} training, {sizes['val']} validation and {sizes['test']} test nodes"
    facts = [
        ("method", record.method),
        ("graph", f"{record.dataset}: {size}"),
        ("classes", ", ".join(model.class_names)),
        ("split", f"{record.split}: {parts}"),
        ("seed, epochs", f"{record.seed}, {record.epochs}"),
        ("trained on", f"{record.device}, {record.seconds:.1f} s"),
        ("versions", ", ".join(f"{name} {version}" for name, version in record.versions.items())),
        ("graph's SHA-256", record.graph_digest),
    ]
    measured = [
        each for each in registered_scores() if {f"val_{each.name}", f"test_{each.name}"} & record.scores.keys()
    ]
    scores = [
        (nodes, *(each.text(getattr(record, f"{part}_{each.name}")) for each in measured))
        for nodes, part in (("validation", "val"), ("test", "test"))
    ]
    chosen = "This is the only run."
    if model.chosen_from > 1:
        chosen = f"Chosen from {model.chosen_from} runs: {selection_rule(model.chosen_by)}."
    return "\n".join(
        [
            f"# {record.method} on {markdown(record.dataset)}",
            "",
            f"{title[0].upper()}{title[1:]} that predicts the class of each node of a graph.",
            "",
            markdown_table(("", ""), facts),
            "",
            "## Scores",
            "",
            markdown_table(("nodes", *(each.title for each in measured)), scores),
            "",
            "Balanced accuracy and macro F1 average over classes, so rare ones count as much as common ones.",
            "",
            f"{chosen} {_caution(sizes['test'], model.chosen_from)}",
            "",
            *_selection(model),
            "## Settings",
            "",
            markdown_table(("setting", "value", "default"), _settings(model.config)),
            "",
            "## Use",
            "",
            "    fishergcn predict FOLDER --out predictions.csv",
            "",
            "or, in Python, `fishergcn.load_model(FOLDER).probabilities()`. Predictions are for the nodes of this",
            "graph, or of another one with the same features (`probabilities(graph)`), without perturbation and",
            "without dropout.",
            "",
        ]
    )


def _selection(model: TrainedModel) -> list[str]:
    """Return how the model was chosen among candidates, if it was."""
    if model.selection is None:
        return []
    rows = [
        (
            f"**{markdown(each.name)}**" if each.name == model.selection.chosen else markdown(each.name),
            markdown(", ".join(f"{name} {value}" for name, value in each.settings.items())),
            f"{each.val_accuracy:.2%}" if each.tried else "-",
            f"{each.val_cross_entropy:.4f}" if each.tried else "-",
            each.runs,
        )
        for each in model.selection.candidates
    ]
    heads = ("candidate", "settings", "validation accuracy", "cross entropy", "runs")
    return ["## How it was chosen", "", *model.selection.sentences, "", markdown_table(heads, rows, escape=False), ""]


def _caution(tested: int, chosen_from: int) -> str:
    if tested == 0:
        return "No nodes were set aside for testing; the validation nodes decided when to stop" + (
            "." if chosen_from == 1 else " and which run to keep."
        )
    return "Validation nodes were used for stopping and choosing; test nodes were not used at all."


def _settings(config: TrainConfig) -> list[tuple[Any, ...]]:
    default = TrainConfig()
    names = [field.name for field in dataclasses.fields(config)]
    return [(name, getattr(config, name), getattr(default, name)) for name in names]
