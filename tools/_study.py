"""The archives in results/ and how their numbers are written on pages; for the tools that write pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from functools import cache, partial
from pathlib import Path

from fishergcn._base.files import write_text
from fishergcn._base.text import markdown_table, signed_points
from fishergcn.drawing import Chart
from fishergcn.studies import (
    CellSummary,
    Comparison,
    Estimate,
    compare,
    control_equivalence,
    estimate_groups,
    open_runs,
    paired_difference,
    summarize,
    units_of,
)

__all__ = [
    "NAMES",
    "PAIRS",
    "RESULTS",
    "ROOT",
    "TABLES",
    "Study",
    "excludes_zero",
    "interval",
    "markdown",
    "save",
    "study",
]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
PICTURES = ROOT / "docs" / "_static"
TABLES = ("table2", "table3", "three-layers")
NAMES = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
# Perturbed method, its control, the plain one: on the graph itself and on that of Algorithm 1.
PAIRS = (("fishergcn", "gcn-x5", "gcn"), ("fishergcn-t", "gcn-t-x5", "gcn-t"))


class Study:
    """One experiment: its plan, its cells and its paired differences."""

    def __init__(self, name: str) -> None:
        runs = open_runs(RESULTS / name)
        self.plan = runs.plan
        self.cells: list[CellSummary] = summarize(runs)
        self.differences: list[Comparison] = compare(runs)
        self.equivalence = control_equivalence(runs)
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self.places: set[str] = set()
        self._accuracies: dict[tuple[str, str], dict[tuple[str, int], float]] = defaultdict(dict)
        for cell, record in runs.entries():
            self.seconds[record.dataset, cell] += record.seconds
            self.places.add(f"{record.device}, torch {record.versions['torch']}")
            if record.status == "ok":
                self._accuracies[record.dataset, cell][record.split, record.seed] = record.test_accuracy
        runs.close()

    def gain(self, dataset: str, cell: str, reference: str) -> str:
        """Return a paired difference with its interval, in points."""
        difference, _, _ = paired_difference(self._accuracies[dataset, cell], self._accuracies[dataset, reference])
        return interval(difference)

    def pooled_gain(self, pairs: Iterable[tuple[str, str]]) -> Estimate:
        """Return the mean paired difference over some (cell, reference) on all data sets."""
        values: list[float] = []
        groups: list[Hashable] = []
        chosen, unit = list(pairs), ""
        for dataset in NAMES:
            for cell, reference in chosen:
                theirs = self._accuracies[dataset, reference]
                gaps = {key: value - theirs[key] for key, value in self._accuracies[dataset, cell].items()}
                unit, places = units_of(gaps)
                values += gaps.values()
                groups += [(dataset, place) for place in places]
        return estimate_groups(values, groups, unit)

    @property
    def place(self) -> str:
        """The machine, in words."""
        return "; ".join(sorted(self.places)).replace("cuda (NVIDIA H200)", "one NVIDIA H200")

    @property
    def controls(self) -> list[Comparison]:
        """What the perturbation is judged by."""
        return [each for each in self.differences if each.role == "control" and each.cell.startswith("fishergcn")]


@cache
def study(name: str) -> Study:
    return Study(name)


markdown = partial(markdown_table, escape=False)


def interval(difference: Estimate, digits: int = 2) -> str:
    """Return a difference with its interval, in points."""
    mean, low, high = (signed_points(each, digits) for each in (difference.mean, difference.low, difference.high))
    return f"{mean} [{low}, {high}]"


def excludes_zero(difference: Estimate) -> bool:
    return difference.low > 0 or difference.high < 0


def save(picture: Chart) -> None:
    """Write a picture of the pages, on white so that it can be read in dark mode too."""
    PICTURES.mkdir(exist_ok=True)
    paper = picture.svg.replace('style="fill: none"/>', 'style="fill: #ffffff"/>', 1)
    write_text(PICTURES / f"{picture.name}.svg", paper)
