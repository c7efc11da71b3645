"""Fill the tables and pictures of docs/robustness.md from the points of a study.

    python tools/robustness_tables.py            rewrite the marked blocks of the page, and the pictures
    python tools/robustness_tables.py --check    write nothing; fail if a block is out of date

The study itself: fishergcn robustness --preset full --device cuda --out DIR, then copy DIR/points.csv and
DIR/study.json to results/robustness.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from _blocks import refresh
from fishergcn.drawing._robustness import write_pictures
from fishergcn.studies._robustness_points import read_points
from fishergcn.studies._robustness_summary import ATTACKS, TITLES, Cell, markdown, summarize, summary_csv

from fishergcn._base.files import write_text
from fishergcn.studies._resampling import Estimate

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "robustness"
PAGE = ROOT / "docs" / "robustness.md"
PICTURES = ROOT / "docs" / "robustness"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a block is out of date")
    options = parser.parse_args()
    cells = summarize(read_points(RESULTS / "points.csv"))
    studies = json.loads((RESULTS / "study.json").read_text(encoding="utf-8"))
    if not options.check:
        draw(cells)
        write_text(RESULTS / "summary.csv", summary_csv(cells))
    blocks = {
        "machine": lambda: machine(studies),
        "findings": lambda: findings(cells),
        "pictures": lambda: shown(cells),
        "tables": lambda: markdown(cells),
    }
    return refresh([PAGE], "robustness", blocks, check=options.check)


def draw(cells: list[Cell]) -> None:
    """Write the pictures; their captions are for the report and stand on the page."""
    for path in write_pictures(cells, PICTURES):
        path.with_suffix(".json").unlink()


def shown(cells: list[Cell]) -> str:
    names = [f"{cell.dataset}-{kind}" for cell in cells for kind in ("accuracy", "difference")]
    return "\n\n".join(
        f"![robustness {name.replace('-', ', ')}](robustness/robustness-{name}.svg)" for name in dict.fromkeys(names)
    )


def machine(studies: dict[str, dict[str, object]]) -> str:
    """Say where the study was made and with what."""
    made = {json.dumps(study["made"], sort_keys=True) for study in studies.values()}
    lines = []
    for text in sorted(made):
        values = json.loads(text)
        versions = ", ".join(f"{name} {version}" for name, version in values["versions"].items())
        lines.append(f"Made on {values['device']} with {versions}.")
    return "\n".join(lines)


def findings(cells: list[Cell]) -> str:
    """Count, attack by attack, where the interval of method minus control lies above, on or below zero."""
    lines = [
        "| attack | differences | interval above 0 | holds 0 | interval below 0 | mean difference, points |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    every = []
    for attack in ATTACKS:
        gaps = [cell.difference for cell in cells if cell.attack == attack and cell.level > 0 and cell.difference]
        if gaps:
            above, below = outside(gaps)
            mean = 100 * sum(gap.mean for gap in gaps) / len(gaps)
            counts = f"{len(gaps)} | {above} | {len(gaps) - above - below} | {below}"
            lines.append(f"| {TITLES[attack]} | {counts} | {mean:+.2f} |")
            every += gaps
    above, below = outside(every)
    largest = max(abs(gap.mean) for gap in every)
    lines += [
        "",
        f"Of {len(every)} intervals, {above + below} miss zero, {above} above it and {below} below; if the "
        f"perturbation did nothing, about {0.05 * len(every):.0f} would be expected to. No difference is larger than "
        f"{100 * largest:.2f} points, in either direction.",
    ]
    lines += ["", others(cells)]
    return "\n".join(lines)


def others(cells: list[Cell]) -> str:
    """How often five dropout samples, and the high-order matrix, keep more accuracy; the ball depends on the matrix."""
    found = {(cell.dataset, cell.attack, cell.level, cell.method): cell.accuracy.mean for cell in cells if cell.level}

    def compared(pairs: tuple[tuple[str, str], ...], attacks: Iterable[str]) -> str:
        gaps = [
            found[(*place, one)] - found[(*place, other)]
            for one, other in pairs
            for *place, method in found
            if method == one and place[1] in attacks
        ]
        mean = 100 * sum(gaps) / len(gaps)
        return f"{sum(gap > 0 for gap in gaps)} of {len(gaps)} points, {mean:+.2f} on average"

    links = ("links-added", "links-removed", "prbcd", "training-links")
    samples = compared((("gcn-x5", "gcn"), ("gcn-t-x5", "gcn-t")), ATTACKS)
    high = (("gcn-t", "gcn"), ("gcn-t-x5", "gcn-x5"))
    return (
        "Two counts of means, without intervals. Five dropout samples, not one (`gcn-x5` for `gcn`, `gcn-t-x5` for "
        f"`gcn-t`) keep more accuracy at {samples}. The high-order matrix (`gcn-t` for `gcn`, `gcn-t-x5` for `gcn-x5`) "
        f"keeps more at {compared(high, links)}, where links change, and at {compared(high, ('features',))}, where "
        "features do."
    )


def outside(gaps: list[Estimate]) -> tuple[int, int]:
    """Count the intervals above zero and those below."""
    return sum(gap.low > 0 for gap in gaps), sum(gap.high < 0 for gap in gaps)


if __name__ == "__main__":
    sys.exit(main())
