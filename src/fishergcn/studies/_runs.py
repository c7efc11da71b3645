"""What can be read of an experiment, whatever form it is kept in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fishergcn._base.types import FloatArray, IntArray
from fishergcn.training import RunRecord

__all__ = ["CURVES", "Band", "Runs", "bands_of"]

CURVES = ("train_loss", "train_accuracy", "val_loss", "val_accuracy")


@dataclass(frozen=True)
class Band:
    """A learning curve over many runs; entry e is the epoch e + 1.

    Attributes
    ----------
    mean, low, high
        Mean, 10 % and 90 % quantile over the runs that were still training.
    runs
        How many these were.
    """

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    runs: IntArray


class Runs(Protocol):
    """The runs of an experiment: a database in work, or an archive of one that is done."""

    @property
    def plan(self) -> dict[str, Any]:
        """What was to be run, as plain values; see :class:`fishergcn.studies._plan.Plan`."""

    def entries(self, dataset: str | None = None, cell: str | None = None) -> Iterator[tuple[str, RunRecord]]:
        """Yield (name of the cell, record), in the order of the plan; of one data set or cell if named."""

    def records(self) -> Iterator[RunRecord]:
        """Yield all records, in the order of the plan."""

    def bands(self, dataset: str, cell: str, epochs: int | None = None) -> dict[str, Band]:
        """Return the learning curves of a cell by name, over at most so many epochs; empty if unknown."""

    def close(self) -> None:
        """Free what is open."""


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
