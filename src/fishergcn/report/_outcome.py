"""A study as the report sees it: the plan, what was run of each of its cells, and the statistics."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fishergcn._base.types import FloatArray
from fishergcn.errors import DataFileError
from fishergcn.studies import (
    Band,
    Cell,
    CellSummary,
    Comparison,
    Equivalence,
    Estimate,
    Plan,
    Runs,
    compare,
    control_equivalence,
    scores_of,
    summarize,
)
from fishergcn.training import RunRecord, Score, find_score


@dataclass(frozen=True)
class Outcome:
    """What the report is about: cells without finished runs are in none of its mappings."""

    plan: Plan
    score: Score  # what sentences, charts and comparisons are about
    command: str  # the command line that ran it; empty if unknown
    runs: Mapping[Cell, list[RunRecord]]  # finished ones in the plan's order, without their curves
    failed: list[tuple[Cell, RunRecord]]
    bands: Mapping[Cell, Mapping[str, Band]]  # as long as at least half of the runs were still training
    spectra: Mapping[Cell, FloatArray]  # the largest eigenvalues of L, where they were noted
    summaries: Mapping[Cell, CellSummary]  # of cells whose runs have the score
    comparisons: list[Comparison]
    equivalence: Equivalence | None  # what all comparisons with controls say together
    constants: Mapping[str, Mapping[str, float]]  # of data sets: each score of the most frequent class

    @property
    def records(self) -> list[RunRecord]:
        """All runs, failed ones included."""
        return [record for records in self.runs.values() for record in records] + [run for _, run in self.failed]

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets of which there are runs, in the plan's order."""
        return tuple(dict.fromkeys(cell.dataset for cell in self.runs))

    @property
    def controls(self) -> list[Comparison]:
        """The comparisons of cells that are no variants with their controls."""
        plain = {cell.name for cell in self.runs if not cell.variant}
        return [one for one in self.comparisons if one.role == "control" and one.cell in plain]

    def cells(self, dataset: str) -> dict[str, Cell]:
        """Return the cells of one data set that have runs, by name."""
        return {cell.name: cell for cell in self.runs if cell.dataset == dataset}

    def estimate(self, cell: Cell) -> Estimate:
        """Return the score of a cell that has a summary."""
        return self.summaries[cell].scores[self.score.name]

    def constant(self, dataset: str) -> float:
        """Return the mean test score of always answering the most frequent class; NaN where nobody noted it."""
        return self.constants.get(dataset, {}).get(self.score.name, math.nan)

    def values(self, dataset: str, name: str) -> dict[tuple[str, int], float]:
        """Return the test score of a cell by split and seed; none if it has no runs."""
        cell = self.cells(dataset).get(name)
        return scores_of(self.runs[cell], self.score.name) if cell else {}

    def curves(self, dataset: str) -> dict[str, Mapping[str, Band]]:
        """Return the learning curves of the cells of one data set that have any, by name."""
        found = {name: self.bands.get(cell, {}) for name, cell in self.cells(dataset).items()}
        return {name: bands for name, bands in found.items() if bands}


def read_outcome(source: Runs, score: str = "accuracy") -> Outcome:
    """Read the runs of a study; raise if there are none, or none with the score that the report is to be about."""
    chosen = find_score(score)
    plan, memory = source.plan, _Memory(source)
    fine = {cell: [record for record in memory.of_cell(cell) if record.status == "ok"] for cell in plan.cells}
    failed = [(cell, record) for cell in plan.cells for record in memory.of_cell(cell) if record.status != "ok"]
    if not failed and not any(fine.values()):
        raise DataFileError(f"no run of the study {plan.preset!r} is finished yet, so there is nothing to report.")
    spectra = {cell: source.spectrum(cell) for cell, records in fine.items() if records}
    found = dict(zip(plan.cells, summarize(memory), strict=True))
    summaries = {cell: summary for cell, summary in found.items() if chosen.name in summary.scores}
    if not summaries and any(summary.scores for summary in found.values()):
        raise DataFileError(f"no run of the study {plan.preset!r} has the score {chosen.name!r}.")
    return Outcome(
        plan=plan,
        score=chosen,
        command=str(source.facts.get("command") or ""),
        runs={cell: records for cell, records in fine.items() if records},
        failed=failed,
        bands={cell: _bands(source, cell) for cell, records in fine.items() if records},
        spectra={cell: eigenvalues for cell, eigenvalues in spectra.items() if eigenvalues is not None},
        summaries=summaries,
        comparisons=compare(memory, f"test_{chosen.name}"),
        equivalence=control_equivalence(memory, f"test_{chosen.name}"),
        constants={dataset: source.constant(dataset) for dataset in plan.datasets},
    )


class _Memory(Runs):
    """Runs read once and kept without their curves, which of thousands of runs would fill the memory."""

    def __init__(self, source: Runs) -> None:
        self._source = source
        self._kept = {
            cell: [dataclasses.replace(record, curves={}) for record in source.of_cell(cell)]
            for cell in source.plan.cells
        }

    @property
    def plan(self) -> Plan:
        return self._source.plan

    @property
    def facts(self) -> Mapping[str, Any]:
        return self._source.facts

    def of_cell(self, cell: Cell) -> Iterator[RunRecord]:
        return iter(self._kept[cell])


def _bands(source: Runs, cell: Cell) -> dict[str, Band]:
    """Return the learning curves of a cell up to where fewer than half of its runs were still training.

    Runs stop at different epochs; the few that train longest no longer stand for all.
    """
    found = source.bands(cell.dataset, cell.name)
    kept = {name: slice(int((2 * band.runs >= band.runs.max(initial=0)).sum())) for name, band in found.items()}
    return {
        name: Band(band.mean[kept[name]], band.low[kept[name]], band.high[kept[name]], band.runs[kept[name]])
        for name, band in found.items()
    }
