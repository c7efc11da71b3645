"""Write the numbers and pictures of the documentation from the runs in results/.

    python tools/results_tables.py            rewrite the marked blocks of the pages, and the pictures
    python tools/results_tables.py --check    write nothing; fail if a block is out of date

A block begins with a line ``<!-- results NAME -->`` and ends with ``<!-- end -->``. What stands between is made by the
function of that name in ``BLOCKS``, from archives that ``fishergcn runs archive`` wrote.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from _blocks import refresh

from fishergcn._base.files import write_text
from fishergcn.drawing import Picture, draw_forest, looks
from fishergcn.report._captions import PERTURBATIONS
from fishergcn.report._outcome import read_outcome
from fishergcn.report._perturbations import draw_perturbations, judge, paragraph
from fishergcn.studies import (
    CellSummary,
    Comparison,
    Estimate,
    compare,
    open_runs,
    paired_difference,
    summarize,
)

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
PICTURES = ROOT / "docs" / "_static"
PAGES = ("README.md", "docs/reproduction.md")
TABLES = ("table2", "table3", "three-layers")
NAMES = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}


class Study:
    """One experiment: its plan, its cells and its paired differences."""

    def __init__(self, name: str) -> None:
        runs = open_runs(RESULTS / name)
        self.plan = runs.plan
        self.cells: list[CellSummary] = summarize(runs)
        self.differences: list[Comparison] = compare(runs)
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


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    titles = list(header)
    lines = [titles, ["---"] * len(titles), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def signed(value: float) -> str:
    """Return a difference of fractions in percentage points."""
    text = f"{100 * value:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", "−")


def interval(difference: Estimate) -> str:
    return f"{signed(difference.mean)} [{signed(difference.low)}, {signed(difference.high)}]"


def after_controls(comparison: Comparison) -> bool:
    """Sort what the perturbation is judged by before what the paper compares with."""
    return comparison.role != "control"


def excludes_zero(difference: Estimate) -> bool:
    return difference.low > 0 or difference.high < 0


def cells_of(name: str) -> str:
    found = study(name)
    rows = []
    for cell in found.cells:
        accuracy, loss, published = cell.accuracy, cell.loss, cell.published
        if accuracy is None or loss is None:
            continue
        theirs = "" if published is None else f"{100 * published.accuracy:.2f}"
        their_loss = "" if published is None else f"{published.loss:.2f}"
        ours = f"{100 * accuracy.mean:.2f} [{100 * accuracy.low:.2f}, {100 * accuracy.high:.2f}]"
        seconds = found.seconds[cell.dataset, cell.cell]
        rows.append([NAMES[cell.dataset], f"`{cell.cell}`", cell.ok, ours, theirs, f"{loss.mean:.3f}", their_loss,
                     f"{cell.epochs:.0f}", f"{seconds:.1f}"])  # fmt: skip
    header = ["data", "method", "runs", "accuracy, % [95 % interval]", "paper", "loss", "paper", "epochs", "seconds"]
    return markdown(header, rows)


def paired_of(name: str) -> str:
    found = study(name)
    unit = found.differences[0].difference.unit
    rows = [
        [NAMES[each.dataset], f"`{each.cell}` − `{each.reference}`", each.role, interval(each.difference),
         f"{each.won} / {each.tied} / {each.lost}", f"{each.p_value:.2g}"]
        for each in sorted(found.differences, key=after_controls)
    ]  # fmt: skip
    rows.sort(key=lambda row: list(NAMES.values()).index(str(row[0])))
    header = ["data", "difference", "against the", "points [95 % interval]", f"{unit} won / tied / lost", "Wilcoxon p"]
    return markdown(header, rows)


def times() -> str:
    rows = []
    for name in TABLES:
        found = study(name)
        runs = sum(cell.ok for cell in found.cells)
        steps = sum(cell.ok * cell.epochs for cell in found.cells)
        seconds = sum(found.seconds.values())
        slowest = max(found.seconds, key=lambda key: found.seconds[key])
        share = f"{NAMES[slowest[0]]} `{slowest[1]}`, {found.seconds[slowest]:.0f} s"
        rows.append([f"`{name}`", f"{runs:,}", f"{steps:,.0f}", f"{seconds:.0f} s", share, found.place])
    return markdown(["preset", "runs", "epochs in all", "training", "of which most", "machine"], rows)


def agreement() -> str:
    """How far our means are from the published ones."""
    lines = []
    for name in TABLES:
        pairs = [(cell, cell.published) for cell in study(name).cells if cell.published and cell.accuracy and cell.loss]
        points = [100 * abs(cell.accuracy.mean - known.accuracy) for cell, known in pairs]  # type: ignore[union-attr]
        losses = [abs(cell.loss.mean - known.loss) for cell, known in pairs]  # type: ignore[union-attr]
        lines.append([f"`{name}`", len(pairs), f"{max(points):.2f}", f"{max(losses):.3f}"])
    return markdown(["preset", "published cells", "largest difference, points", "largest difference in loss"], lines)


def finding() -> str:
    """The gain of the paper beside the gain of the control, and what is left for the perturbation."""
    rows = []
    for name in TABLES:
        found = study(name)
        for dataset, label in NAMES.items():
            for method, control, plain in (("fishergcn", "gcn-x5", "gcn"), ("fishergcn-t", "gcn-t-x5", "gcn-t")):
                pairs = ((method, plain), (control, plain), (method, control))
                three = [found.gain(dataset, *pair) for pair in pairs]
                rows.append([f"`{name}`", label, f"`{method}`", *three])
    header = ["preset", "data", "method", "method − plain", "control − plain", "**method − control**"]
    return f"{markdown(header, rows)}\n\n{verdict()}"


def verdict() -> str:
    """Say what the intervals say, and no more."""
    every = [(name, each) for name in TABLES for each in study(name).controls]
    outside = [(name, each) for name, each in every if excludes_zero(each.difference)]
    largest = max(abs(each.difference.mean) for _, each in every)
    named = "; ".join(
        f"`{each.cell}` on {NAMES[each.dataset]} in `{name}`, {interval(each.difference)}" for name, each in outside
    )
    return (
        f"Of {len(every)} intervals of the difference from the control, {len(every) - len(outside)} include zero. "
        f"Exceptions: {named or 'none'}. If there were no effect at all, about {0.05 * len(every):.0f} in "
        f"{len(every)} would be expected to miss zero. No difference is larger than {100 * largest:.2f} points, in "
        "either direction."
    )


def headline() -> str:
    """The table of the README: means, the paper's, and both differences."""
    found = study("table2")
    cells = {(cell.dataset, cell.cell): cell for cell in found.cells}
    rows = []
    for method in found.plan.methods:
        row = [f"`{method}`" + (" (control)" if "-x" in method else "")]
        for dataset in NAMES:
            cell = cells[dataset, method]
            assert cell.accuracy is not None
            theirs = "" if cell.published is None else f" ({100 * cell.published.accuracy:.2f})"
            row.append(f"{100 * cell.accuracy.mean:.2f}{theirs}")
        rows.append(row)
    pairs = [("fishergcn", "gcn"), ("gcn-x5", "gcn"), ("fishergcn", "gcn-x5")]
    pairs += [("fishergcn-t", "gcn-t"), ("gcn-t-x5", "gcn-t"), ("fishergcn-t", "gcn-t-x5")]
    for cell, reference in pairs:
        values = [found.gain(dataset, cell, reference) for dataset in NAMES]
        rows.append([f"`{cell}` − `{reference}`", *values])
    return markdown(["test accuracy, % (paper)", *NAMES.values()], rows)


def made_by() -> str:
    """Which runs the headline comes from, and the command."""
    found = study("table2")
    runs = sum(cell.ok for cell in found.cells)
    each = found.cells[0].planned
    return (
        f"{runs:,} runs, {each} a cell ({len(found.plan.splits)} random splits, {len(found.plan.seeds)} "
        f"initializations), trained in {sum(found.seconds.values()):.0f} seconds on {found.place}. "
        "Differences are paired on splits and seeds, in points, with 95 % intervals over splits. Made by "
        "`fishergcn reproduce table2 --device cuda --out table2`."
    )


def consistency() -> str:
    """Consistency on unlabeled nodes: means, and what the term adds to its control."""
    found = study("consistency")
    cells = {(cell.dataset, cell.cell): cell for cell in found.cells}
    rows = []
    for method in ("gcn", "gcn-x5", "gcn-x5-c", "gcn-t-x5", "gcn-t-x5-c", "fishergcn-t-c"):
        means = [cells[dataset, method].accuracy for dataset in NAMES]
        rows.append([f"`{method}`", *(f"{100 * mean.mean:.2f}" for mean in means if mean is not None)])
    for cell, reference in (("gcn-x5-c", "gcn-x5"), ("gcn-t-x5-c", "gcn-t-x5"), ("fishergcn-t-c", "gcn-t-x5-c")):
        rows.append([f"`{cell}` − `{reference}`", *(found.gain(dataset, cell, reference) for dataset in NAMES)])
    runs, seconds = sum(cell.ok for cell in found.cells), sum(found.seconds.values())
    return (
        markdown(["test accuracy, %", *NAMES.values()], rows)
        + f"\n\n{runs:,} runs, {found.cells[0].planned} a cell, trained in {seconds:.0f} seconds on {found.place}. "
        "Made by `fishergcn reproduce consistency --device cuda --out consistency`."
    )


def perturbations() -> str:
    """Return what the study of perturbations found, in words, with its picture."""
    with open_runs(RESULTS / "perturbations") as runs:
        judged = judge(read_outcome(runs))
    picture = "![What each neighborhood gains over its control](_static/perturbations.svg)"
    return f"{paragraph(judged)}\n\n{picture}\n\n{PERTURBATIONS}"


BLOCKS: dict[str, Callable[[], str]] = {
    "perturbations": perturbations,
    "consistency": consistency,
    "headline": headline,
    "made-by": made_by,
    "verdict": verdict,
    "finding": finding,
    "agreement": agreement,
    "times": times,
    **{f"{name}-cells": (lambda name=name: cells_of(name)) for name in TABLES},  # type: ignore[misc]
    **{f"{name}-paired": (lambda name=name: paired_of(name)) for name in TABLES},  # type: ignore[misc]
}


def draw() -> None:
    """Write the forest plots of Table 2, on white so that they can be read in dark mode too."""
    PICTURES.mkdir(exist_ok=True)
    found = study("table2")
    chosen = looks(cell.name for cell in found.plan.cells)
    for dataset, label in NAMES.items():
        rows = sorted((each for each in found.differences if each.dataset == dataset), key=after_controls)
        picture = draw_forest(label, rows, chosen, f"forest-{dataset}")
        _keep(picture)
    if (RESULTS / "perturbations").is_dir():
        with open_runs(RESULTS / "perturbations") as runs:
            drawn = draw_perturbations(judge(read_outcome(runs)))
        if drawn is not None:
            _keep(drawn)


def _keep(picture: Picture) -> None:
    """Write a picture on white paper for the pages."""
    paper = picture.svg.replace('style="fill: none"/>', 'style="fill: #ffffff"/>', 1)
    write_text(PICTURES / f"{picture.name}.svg", paper)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a block is out of date")
    options = parser.parse_args()
    if not options.check:
        draw()
    return refresh([ROOT / page for page in PAGES], "results", BLOCKS, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
