"""What can be read of a study, whatever form it is kept in."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
    """A learning curve over many runs; entry e is the epoch e + 1.

    Attributes
    ----------
    mean, low, high
        Mean, 10% and 90% quantile over the runs that were still training.
    runs
        How many these were.

    Examples
    --------
    >>> Band(mean=np.array([2.0, 1.5]), low=np.array([1.9, 1.4]), high=np.array([2.1, 1.6]), runs=np.array([9, 8])).runs
    array([9, 8])
    """

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
        """Return the learning curves of a cell by name, over at most so many epochs; empty if unknown."""
        return bands_of((record for _, record in self.entries(dataset, cell)), epochs)

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


def bands_of(records: Iterable[RunRecord], epochs: int | None = None) -> dict[str, Band]:
    """Summarize the learning curves of some runs.

    Examples
    --------
    >>> bands_of([])
    {}
    """
    curves = [each.curves for each in records if each.status == "ok" and each.curves.keys() >= set(CURVES)]
    if not curves:
        return {}
    return {name: _band([each[name][:epochs] for each in curves]) for name in CURVES}


def _band(curves: list[list[float]]) -> Band:
    stacked = np.full((len(curves), max(map(len, curves))), np.nan)
    for row, curve in enumerate(curves):
        stacked[row, : len(curve)] = curve
    low, high = np.nanquantile(stacked, [0.1, 0.9], axis=0)
    return Band(np.nanmean(stacked, axis=0), low, high, np.isfinite(stacked).sum(axis=0))
