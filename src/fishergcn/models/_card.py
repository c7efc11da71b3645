"""The card of a saved model: what a person wants to know before using it."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from fishergcn.models._facts import SELECTION
from fishergcn.training import TrainConfig

if TYPE_CHECKING:
    from fishergcn.models._trained import TrainedModel


def model_card(model: TrainedModel) -> str:
    """Return the card in Markdown."""
    record, graph, sizes = model.record, model.graph, model.split_sizes
    size = f"{graph.num_nodes} nodes, {graph.num_links} links, {graph.num_features} features"
    parts = f"{sizes['train']} nodes to learn from, {sizes['val']} to validate, {sizes['test']} to test"
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
    scores = [
        _scores("validation", record.val_accuracy, record.val_cross_entropy, record.val_loss),
        _scores("test", record.test_accuracy, record.test_cross_entropy, record.test_loss),
    ]
    chosen = "It is the only run." if model.chosen_from == 1 else f"Chosen from {model.chosen_from} runs: {SELECTION}."
    return "\n".join(
        [
            f"# {record.method} on {_cell(record.dataset)}",
            "",
            "A graph convolutional network that names the class of each node of one graph.",
            "",
            *_table(("", ""), facts),
            "",
            "## Scores",
            "",
            *_table(("nodes", "accuracy", "cross entropy", "loss with weight decay"), scores),
            "",
            f"{chosen} {_caution(sizes['test'], model.chosen_from)}",
            "",
            "## Settings",
            "",
            *_table(("setting", "value", "default"), _settings(model.config)),
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


def _caution(tested: int, chosen_from: int) -> str:
    if tested == 0:
        return "No nodes were set aside for testing, and the validation nodes decided when to stop" + (
            "." if chosen_from == 1 else " and which run to keep."
        )
    return "The validation nodes took part in stopping and choosing, the test nodes in nothing."


def _settings(config: TrainConfig) -> list[tuple[Any, ...]]:
    default = TrainConfig()
    names = [field.name for field in dataclasses.fields(config)]
    return [(name, getattr(config, name), getattr(default, name)) for name in names]


def _scores(part: str, accuracy: float, cross_entropy: float, loss: float) -> tuple[str, ...]:
    if math.isnan(accuracy):
        return part, "-", "-", "-"
    return part, f"{accuracy:.2%}", f"{cross_entropy:.4f}", f"{loss:.4f}"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines]


def _cell(value: Any) -> str:
    """Return text that cannot break out of a Markdown table."""
    return " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
