"""Predictions for people and programs: the names of nodes and classes beside the probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fishergcn._base.text import csv_text
from fishergcn._base.types import FloatArray


def predictions_csv(nodes: Sequence[str], classes: Sequence[str], probabilities: FloatArray) -> str:
    """Return a table as CSV: node id, name of the most probable class, probability of each class."""
    found = zip(nodes, probabilities, probabilities.argmax(axis=1), strict=True)
    rows = [[node, classes[best], *(f"{each:.9g}" for each in row)] for node, row, best in found]
    return csv_text(["node", "class", *(f"p:{name}" for name in classes)], rows)


def prediction_rows(nodes: Sequence[str], classes: Sequence[str], probabilities: FloatArray) -> list[dict[str, Any]]:
    """Return a dictionary for each node: its id, the name of the most probable class, and all probabilities."""
    return [
        {"node": node, "class": classes[row.argmax()], "probabilities": dict(zip(classes, row.tolist(), strict=True))}
        for node, row in zip(nodes, probabilities, strict=True)
    ]
