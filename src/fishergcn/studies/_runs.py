"""What can be read of a study, whatever form it is kept in."""

from __future__ import annotations

import abc
import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fishergcn._base.entries import Entries
from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import DataFileError, InputError
from fishergcn.studies._plan import Cell, Plan
from fishergcn.training import RunRecord

CURVES = ("train_loss", "train_accuracy", "val_loss", "val_accuracy")
SHOWN = 3  # as many eigenvalues are noted as this multiple of those that are perturbed
Self = TypeVar("Self", bound="Runs")


@dataclass(frozen=True)
class Band:
    """A learning curve over many runs: mean, 10% and 90% quantile over those that were still training, and how many."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    runs: IntArray

    __repr__ = one_line


class Runs(abc.ABC):
    """The runs of a study, with its plan: a database in work, or an archive of one that is done.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import studies
    >>> plan = studies.make_plan("quick", methods=["gcn"], splits=2, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder, studies.run(plan, folder, workers=1) as runs:
    ...     print(runs.counts(), [(cell, record.split) for cell, record in runs.entries()])
    {'ok': 2} [('gcn', 'shuffled:2019'), ('gcn', 'shuffled:2020')]
    >>> runs.plan == plan
    True
    """

    @property
    @abc.abstractmethod
    def plan(self) -> Plan:
        """What was to be run."""

    @property
    @abc.abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What the runner noted, as plain values.

        ``"command"`` and ``"created"``; ``"data DATASET"`` with the numbers of nodes, links, features and classes;
        ``"constant DATASET"`` with the mean test scores of the answer that is the same for all nodes;
        ``"spectrum DATASET MATRIX"`` with the largest eigenvalues of L = I - Ã.
        """

    @abc.abstractmethod
    def of_cell(self, cell: Cell) -> Iterator[RunRecord]:
        """Yield the records of a cell, by split and seed."""

    def entries(self, dataset: str | None = None, cell: str | None = None) -> Iterator[tuple[str, RunRecord]]:
        """Yield (name of the cell, record), in the order of the plan; of one data set or cell if named."""
        for known in self.plan.cells:
            if dataset in (None, known.dataset) and cell in (None, known.name):
                yield from ((known.name, record) for record in self.of_cell(known))

    def records(self) -> Iterator[RunRecord]:
        """Yield all records, in the order of the plan."""
        return (record for _, record in self.entries())

    def bands(self, dataset: str, cell: str, epochs: int | None = None) -> dict[str, Band]:
        """Return the learning curves of a cell by name, over the first ``epochs``; empty if unknown."""
        fine = (record.curves for _, record in self.entries(dataset, cell) if record.status == "ok")
        curves = [each for each in fine if each.keys() >= set(CURVES)]
        return {name: _band([each[name][:epochs] for each in curves]) for name in CURVES} if curves else {}

    def constant(self, dataset: str) -> dict[str, float]:
        """Return the mean test scores, by name, of always answering the most frequent class; empty if unknown."""
        known = self.facts.get(f"constant {dataset}", {})
        try:
            entries = Entries(known, "the facts")
            return {name: entries.number(name) for name in known}
        except InputError as error:
            raise DataFileError(str(error)) from error

    def spectrum(self, cell: Cell) -> FloatArray | None:
        """Return the 3k largest eigenvalues of L = I - Ã of a cell that perturbs k of them; None if unknown."""
        name = f"spectrum {cell.dataset} {self.plan.matrix(cell)}"
        if name not in self.facts:
            return None
        try:
            found = Entries(self.facts, "the facts").reals(name)
        except InputError as error:
            raise DataFileError(str(error)) from error
        return np.array(found[: SHOWN * cell.config.rank])

    def counts(self) -> dict[str, int]:
        """Return how many runs have which status: ok, diverged, failed."""
        return dict(Counter(record.status.partition(":")[0] for record in self.records()))

    def close(self) -> None:  # noqa: B027 - an archive has nothing open
        """Free what is open."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _band(curves: list[list[float]]) -> Band:
    stacked = np.full((len(curves), max(map(len, curves))), np.nan)
    for row, curve in enumerate(curves):
        stacked[row, : len(curve)] = curve
    low, high = np.nanquantile(stacked, [0.1, 0.9], axis=0)
    return Band(np.nanmean(stacked, axis=0), low, high, np.isfinite(stacked).sum(axis=0))


class KnownRuns(Runs):
    """Runs whose plan and facts were read beforehand."""

    def __init__(self, plan: Plan, facts: Mapping[str, Any]) -> None:
        self._plan, self._facts = plan, facts

    @property
    def plan(self) -> Plan:
        """What was to be run."""
        return self._plan

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the runner noted."""
        return self._facts


class _JoinedRuns(KnownRuns):
    """Runs of one study on several data sets, kept in several places."""

    def __init__(self, plan: Plan, parts: Mapping[str, Runs]) -> None:
        # Of what each runner noted on its own (the command, the day), the first one's.
        each = reversed([part.facts for part in parts.values()])
        super().__init__(plan, {name: value for facts in each for name, value in facts.items()})
        self._parts = parts

    def of_cell(self, cell: Cell) -> Iterator[RunRecord]:
        """Yield the records of a cell, by split and seed."""
        return self._parts[cell.dataset].of_cell(cell)

    def bands(self, dataset: str, cell: str, epochs: int | None = None) -> dict[str, Band]:
        """Return the learning curves of a cell by name."""
        return self._parts[dataset].bands(dataset, cell, epochs)

    def close(self) -> None:
        """Free what is open."""
        for part in self._parts.values():
            part.close()


def join(parts: Sequence[Runs]) -> Runs:
    """Read parts of one study as one: each has other data sets, and the same preset, splits, seeds and measure."""
    if not parts:
        raise InputError("there must be at least one folder of runs to join, got none.")
    if len(parts) == 1:
        return parts[0]
    first = parts[0].plan
    for other in (part.plan for part in parts[1:]):
        for name in ("preset", "splits", "seeds", "changed", "measure"):
            ours, theirs = getattr(first, name), getattr(other, name)
            if ours != theirs:
                raise InputError(f"folders to join must be parts of one study, got {name} {ours!r} and {theirs!r}.")
    owners: dict[str, Runs] = {}
    for part in parts:
        for dataset in part.plan.datasets:
            if dataset in owners:
                raise InputError(f"folders to join must have different data sets, got {dataset!r} twice.")
            owners[dataset] = part
    plan = dataclasses.replace(
        first,
        cells=tuple(cell for part in parts for cell in part.plan.cells),
        digests={name: value for part in parts for name, value in part.plan.digests.items()},
        published=tuple(dict.fromkeys(each for part in parts for each in part.plan.published)),
        graphs={name: graph for part in parts for name, graph in part.plan.graphs.items()},
        own_splits={name: own for part in parts for name, own in part.plan.own_splits.items()},
    )
    return _JoinedRuns(plan, owners)
