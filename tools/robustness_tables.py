"""Fill the tables and pictures of docs/robustness.md from the points of a study.

    python tools/robustness_tables.py            # reads results/robustness, writes docs

The study itself: fishergcn robustness --preset full --device cuda --out DIR, then copy DIR/points.csv and
DIR/study.json to results/robustness.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from _blocks import fill

from fishergcn._files import write_text
from fishergcn.experiments.resampling import Estimate
from fishergcn.robustness.pictures import write_pictures
from fishergcn.robustness.points import read_points
from fishergcn.robustness.summary import ATTACKS, TITLES, Cell, markdown, summarize, summary_csv

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill docs/robustness.md from the points of a study.")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "robustness")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "robustness.md")
    options = parser.parse_args()
    cells = summarize(read_points(options.results / "points.csv"))
    if not cells:
        raise SystemExit(f"no points in {options.results / 'points.csv'}")
    studies = json.loads((options.results / "study.json").read_text(encoding="utf-8"))
    folder = options.into.parent / "robustness"
    pictures = write_pictures(cells, folder)
    for path in folder.glob("*.json"):
        path.unlink()
    write_text(options.results / "summary.csv", summary_csv(cells))
    blocks = {
        "machine": lambda: machine(studies),
        "findings": lambda: findings(cells),
        "pictures": lambda: "\n\n".join(
            f"![{path.stem.replace('-', ' ')}](robustness/{path.name})" for path in pictures
        ),
        "tables": lambda: markdown(cells),
    }
    write_text(options.into, fill(options.into.read_text(encoding="utf-8"), "robustness", blocks))


def shown(picture: Path) -> str:
    return f"![{picture.stem.replace('-', ' ')}](robustness/{picture.name})"


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
    return "\n".join(lines)


def outside(gaps: list[Estimate]) -> tuple[int, int]:
    """Count the intervals above zero and those below."""
    return sum(gap.low > 0 for gap in gaps), sum(gap.high < 0 for gap in gaps)


if __name__ == "__main__":
    main()
