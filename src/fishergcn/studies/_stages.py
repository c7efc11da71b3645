"""Stages of a choice: studies of their own, which report as one and keep the weights of the runs on the given split."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fishergcn._base.npz import read_arrays, write_arrays
from fishergcn._base.types import AnyArray
from fishergcn.execution import Listener
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.splits import Split
from fishergcn.studies._store import open_runs
from fishergcn.training import RunRecord


class Stage(Listener):
    """Passes on what happens, but for the end, and keeps the weights of the runs on one split.

    Parameters
    ----------
    listener
        Who is told.
    folder
        Where the stage has its database; weights lie beside it.
    split
        The name of the split: one of the runs on it will be the model.
    """

    def __init__(self, listener: Listener, folder: Path, split: str) -> None:
        self.listener, self.folder, self.split = listener, folder, split

    def begin(self, title: str, planned: Any, before: Any = ()) -> None:
        """Pass on the beginning of a stage."""
        self.listener.begin(title, planned, before)

    def started(self, name: tuple[str, str], runs: int) -> None:
        """Pass on."""
        self.listener.started(name, runs)

    def epoch(self, progress: Any) -> None:
        """Pass on."""
        self.listener.epoch(progress)

    def finished(self, name: tuple[str, str], records: Sequence[RunRecord]) -> None:
        """Write the weights beside the database, and pass on."""
        for record in records:
            if record.split == self.split and record.weights is not None and record.status == "ok":
                arrays: dict[str, AnyArray] = {f"layer{at}": each for at, each in enumerate(record.weights)}
                write_arrays(self.folder / f"{name[1]}.npz", arrays)
        self.listener.finished(name, records)

    def say(self, text: str) -> None:
        """Pass on."""
        self.listener.say(text)

    def __exit__(self, *_: object) -> None:
        """Others follow."""


def kept_model(folder: Path, cell: str, graph: Graph, split: Split) -> TrainedModel:
    """Return the run of a cell on a split as a model, from a stage that kept its weights."""
    arrays = read_arrays(folder / f"{cell}.npz")
    weights = tuple(arrays[f"layer{at}"] for at in range(len(arrays)))
    with open_runs(folder) as runs:
        [record] = [each for _, each in runs.entries(cell=cell) if each.split == split.name]
    return TrainedModel.from_records(graph, [dataclasses.replace(record, weights=weights)], split)
