"""A study as the report sees it: the plan, what was run of each of its cells, and the statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fishergcn.errors import DataFileError
from fishergcn.studies import Band, Cell, CellSummary, Comparison, Plan, Runs, compare, summarize
from fishergcn.training import RunRecord

__all__ = ["Outcome", "read_outcome"]


@dataclass(frozen=True)
class Outcome:
    """What the report is about.

    Attributes
    ----------
    plan
        What was to be run.
    command
        The command line that ran it; empty if unknown.
    facts
        What was noted about the data.
    runs
        The finished runs of each cell, in the plan's order, without their curves; cells without
        any are left out.
    failed
        The runs that diverged or broke, each with its cell.
    bands
        The learning curves of each cell, as long as at least half of its runs were still training.
    summaries, comparisons
        The results of each cell that has any, and its paired differences.
    """

    plan: Plan
    command: str
    facts: Mapping[str, Any]
    runs: Mapping[Cell, list[RunRecord]]
    failed: list[tuple[Cell, RunRecord]]
    bands: Mapping[Cell, Mapping[str, Band]]
    summaries: Mapping[Cell, CellSummary]
    comparisons: list[Comparison]

    @property
    def records(self) -> list[RunRecord]:
        """All runs, failed ones included."""
        return [record for records in self.runs.values() for record in records] + [run for _, run in self.failed]

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets of which there are runs, in the plan's order."""
        return tuple(dict.fromkeys(cell.dataset for cell in self.runs))

    def cells(self, dataset: str) -> dict[str, Cell]:
        """Return the cells of one data set that have runs, by name."""
        return {cell.name: cell for cell in self.runs if cell.dataset == dataset}

    def curves(self, dataset: str) -> dict[str, Mapping[str, Band]]:
        """Return the learning curves of the cells of one data set that have any, by name."""
        found = {name: self.bands.get(cell, {}) for name, cell in self.cells(dataset).items()}
        return {name: bands for name, bands in found.items() if bands}


def read_outcome(source: Runs) -> Outcome:
    """Read the runs of a study; raise if there are none."""
    memory = _Memory(source)
    plan = Plan.from_dict(memory.plan)
    every = {cell: memory.kept[cell.dataset, cell.name] for cell in plan.cells}
    if not any(every.values()):
        raise DataFileError(f"no run of the study {plan.preset!r} is finished yet, so there is nothing to report.")
    fine = {cell: [record for record in records if record.status == "ok"] for cell, records in every.items()}
    summaries = dict(zip(plan.cells, summarize(memory), strict=True))
    return Outcome(
        plan=plan,
        command=str(memory.plan.get("command") or ""),
        facts=getattr(source, "facts", {}),
        runs={cell: records for cell, records in fine.items() if records},
        failed=[(cell, record) for cell, records in every.items() for record in records if record.status != "ok"],
        bands={cell: _bands(source, cell) for cell, records in fine.items() if records},
        summaries={cell: summary for cell, summary in summaries.items() if summary.accuracy is not None},
        comparisons=compare(memory),
    )


class _Memory:
    """Runs read once and kept without their curves, which of thousands of runs would fill the memory."""

    def __init__(self, source: Runs) -> None:
        self.plan: dict[str, Any] = source.plan
        self.kept: dict[tuple[str, str], list[RunRecord]] = {
            (cell["dataset"], cell["name"]): [
                dataclasses.replace(record, curves={}) for _, record in source.entries(cell["dataset"], cell["name"])
            ]
            for cell in self.plan["cells"]
        }

    def entries(self, dataset: str | None = None, cell: str | None = None) -> Iterator[tuple[str, RunRecord]]:
        for (known_dataset, known_cell), records in self.kept.items():
            if dataset in (None, known_dataset) and cell in (None, known_cell):
                yield from ((known_cell, record) for record in records)

    def records(self) -> Iterator[RunRecord]:
        return (record for _, record in self.entries())

    def bands(self, dataset: str, cell: str, epochs: int | None = None) -> dict[str, Band]:
        return {}

    def close(self) -> None:
        pass


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
