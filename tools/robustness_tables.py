"""Fill the tables and pictures of docs/robustness.md from the points of a study.

    python tools/robustness_tables.py            # reads results/robustness, writes docs

The study itself: fishergcn robustness --preset full --device cuda --out DIR, then copy DIR/points.csv and
DIR/study.json to results/robustness.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from fishergcn._files import write_text
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
    text = options.into.read_text(encoding="utf-8")
    text = filled(text, "machine", machine(studies))
    text = filled(text, "findings", findings(cells))
    shown = [f"![{path.stem.replace('-', ' ')}](robustness/{path.name})\n" for path in pictures]
    text = filled(text, "pictures", "\n".join(shown))
    write_text(options.into, filled(text, "tables", markdown(cells)))


def filled(text: str, name: str, content: str) -> str:
    """Put content between the markers of a name."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"no place for {name}")
    return pattern.sub(lambda found: f"{found[1]}\n{content.strip()}\n\n{found[2]}", text)


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
    for attack in ATTACKS:
        gaps = [cell.difference for cell in cells if cell.attack == attack and cell.level > 0 and cell.difference]
        if gaps:
            above, below = sum(gap.low > 0 for gap in gaps), sum(gap.high < 0 for gap in gaps)
            mean = 100 * sum(gap.mean for gap in gaps) / len(gaps)
            counts = f"{len(gaps)} | {above} | {len(gaps) - above - below} | {below}"
            lines.append(f"| {TITLES[attack]} | {counts} | {mean:+.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
