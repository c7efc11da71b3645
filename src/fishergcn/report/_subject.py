"""A saved model as the report sees it: its predictions, and the nodes that they are judged on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel, load_model, load_runs
from fishergcn.report._assessment import ClassScores, GraphFacts, class_scores, confusion_matrix, graph_facts
from fishergcn.splits import Split, parse
from fishergcn.training import RunRecord

_WORDS = {"test": "test nodes", "val": "validation nodes"}
_FEWEST = 1


@dataclass(frozen=True)
class Subject:
    """A model, its folder, and the runs from which it was chosen."""

    folder: Path
    model: TrainedModel
    runs: Sequence[RunRecord]

    @cached_property
    def split(self) -> Split | None:
        """Which nodes were trained on, validated with and tested on; None if neither folder nor name says so."""
        if self.model.runs:
            return self.model.runs[0].split
        try:  # a folder of an older version, of a split that its name describes
            found = parse(self.model.graph, self.model.record.split)
        except InputError:
            return None
        sizes = {part: len(getattr(found, part)) for part in ("train", "val", "test")}
        return found if sizes == dict(self.model.split_sizes) else None

    @cached_property
    def probabilities(self) -> FloatArray:
        """What the model states for every node, n x C."""
        return self.model.probabilities()

    @cached_property
    def part(self) -> str | None:
        """The part of the split that predictions are judged on: test nodes, else validation nodes, else nothing."""
        if self.split is None or self.model.graph.labels is None:
            return None
        labels = self.model.graph.labels
        return next((part for part in _WORDS if (labels[getattr(self.split, part)] >= 0).sum() >= _FEWEST), None)

    @property
    def words(self) -> str:
        """What the judged nodes are called."""
        return _WORDS[self.part] if self.part else "nodes"

    @cached_property
    def judged(self) -> IntArray:
        """The labeled nodes that predictions are judged on."""
        labels = self.model.graph.labels
        if self.part is None or labels is None:
            return np.empty(0, dtype=np.int64)
        nodes: IntArray = getattr(self.split, self.part)
        return nodes[labels[nodes] >= 0]

    @cached_property
    def labels(self) -> IntArray:
        """The classes of the judged nodes."""
        labels = self.model.graph.labels
        return np.empty(0, dtype=np.int64) if labels is None else labels[self.judged]

    @cached_property
    def confusion(self) -> IntArray:
        """Classes of the judged nodes (rows) against predictions (columns)."""
        predicted = self.probabilities[self.judged].argmax(axis=1)
        return confusion_matrix(self.labels, predicted, self.model.num_classes)

    @cached_property
    def scores(self) -> list[ClassScores]:
        """How each class was predicted."""
        return class_scores(self.confusion)

    @cached_property
    def facts(self) -> GraphFacts:
        """What the graph looks like."""
        return graph_facts(self.model.graph)


def read_subject(folder: Path) -> Subject:
    """Read a model with the runs from which it was chosen, which may lie in the folder around it."""
    model = load_model(folder)
    runs = load_runs(folder) or [each for each in load_runs(folder.parent) if each.method == model.record.method]
    return Subject(folder, model, runs)
