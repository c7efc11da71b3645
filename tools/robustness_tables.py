"""Fill the tables and pictures of docs/robustness.md from the runs in results/robustness.

    python tools/robustness_tables.py            rewrite the marked blocks of the page, and the pictures
    python tools/robustness_tables.py --check    write nothing; fail if a block is out of date

The study itself: fishergcn robustness --device cuda --out DIR, then fishergcn runs archive DIR --out results/robustness
--curves none. What the Bures ball holds: python tools/study_ball.py. The ball within the bound: fishergcn robustness
--attack bures-ball --device cuda --out DIR, archived as results/robustness-bounded.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from _blocks import refresh
from _study import NAMES, markdown

from fishergcn.report._attacks import AttackPoint, attack_markdown, attack_points, draw_attacks
from fishergcn.report._outcome import read_outcome
from fishergcn.studies import ATTACKS, Estimate, open_runs
from fishergcn.training import RunRecord

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "robustness"
PAGE = ROOT / "docs" / "robustness.md"
PICTURES = ROOT / "docs" / "robustness"
BOUNDED = ROOT / "results" / "robustness-bounded"
BALL = ROOT / "results" / "distances" / "ball.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a block is out of date")
    options = parser.parse_args()
    with open_runs(RESULTS) as runs:
        outcome = read_outcome(runs)
    points = attack_points(outcome)
    if not options.check:
        for picture in draw_attacks(points):
            picture.save(PICTURES / f"{picture.name}.svg")
    blocks = {
        "machine": lambda: machine(outcome.records),
        "ball": ball,
        "bounded": bounded,
        "findings": lambda: findings(points),
        "pictures": lambda: shown(points),
        "tables": lambda: attack_markdown(points),
    }
    return refresh([PAGE], "robustness", blocks, check=options.check)


def ball() -> str:
    """The smallest eigenvalue of the operators in the ball, at each level."""
    known = json.loads(BALL.read_text(encoding="utf-8"))
    rows = []
    for name, entry in known["graphs"].items():
        dataset, method = name.split()
        matrix = "renormalized" if method == "gcn" else "high-order"
        kinds = (("least in the ball", entry["smallest"]), ("found for a network", entry.get("found")))
        rows += [[NAMES[dataset], matrix, kind, *map(decimal, values)] for kind, values in kinds if values]
    return markdown(
        ["data", "matrix", "λ_min(Ã)", *(f"{level:.0%}".replace("%", " %") for level in known["levels"])], rows
    )


def bounded() -> str:
    """The same attack, kept within what a normalized graph can have: by method, at each level."""
    with open_runs(BOUNDED) as runs:
        outcome, planned = read_outcome(runs), len(runs.plan)
    points = attack_points(outcome)
    gaps = [point.difference for point in points if point.level > 0 and point.difference]
    above, below = outside(gaps)
    done = len(list(outcome.records))
    part = "" if done == planned else f" {done:,} of {planned:,} runs are done; points without runs are left out."
    lost = [_lost(points, dataset) for dataset in dict.fromkeys(point.dataset for point in points)]
    return (
        f"{attack_markdown(points)}\n\nWithin the bound the worst operator costs a plain GCN {', '.join(lost)} at the "
        f"highest level. Of {len(gaps)} intervals of method minus control, {above} lie above 0 and {below} below."
        f"{part} {machine(outcome.records)}"
    )


def _lost(points: list[AttackPoint], dataset: str) -> str:
    plain = {point.level: point.value.mean for point in points if (point.dataset, point.method) == (dataset, "gcn")}
    return f"{100 * (plain[0.0] - plain[max(plain)]):.1f} points on {NAMES[dataset]}"


def decimal(value: float) -> str:
    return f"{value:.{2 if abs(value) < 10 else 1}f}".replace("-", "−")


def shown(points: list[AttackPoint]) -> str:
    names = [f"{point.dataset}-{kind}" for point in points for kind in ("accuracy", "difference")]
    return "\n\n".join(
        f"![robustness {name.replace('-', ', ')}](robustness/robustness-{name}.svg)" for name in dict.fromkeys(names)
    )


def machine(records: Iterable[RunRecord]) -> str:
    """Say where the study was made and with what."""
    made = {(record.device, tuple(sorted(record.versions.items()))) for record in records}
    lines = []
    for device, versions in sorted(made):
        words = ", ".join(f"{name} {version}" for name, version in versions)
        lines.append(f"Made on {device} with {words}.")
    return "\n".join(lines)


def findings(points: list[AttackPoint]) -> str:
    """Count, attack by attack, where the interval of method minus control lies above, on or below zero."""
    rows = []
    every = []
    titles = {point.attack: point.panel[0] for point in points}
    for attack in ATTACKS:
        gaps = [point.difference for point in points if point.attack == attack and point.level > 0 and point.difference]
        if gaps:
            above, below = outside(gaps)
            mean = 100 * sum(gap.mean for gap in gaps) / len(gaps)
            rows.append([titles[attack], len(gaps), above, len(gaps) - above - below, below, f"{mean:+.2f}"])
            every += gaps
    above, below = outside(every)
    largest = max(abs(gap.mean) for gap in every)
    head = ["attack", "differences", "interval above 0", "holds 0", "interval below 0", "mean difference, points"]
    lines = [
        markdown(head, rows, right=range(1, 6)),
        "",
        f"Of {len(every)} intervals, {above + below} miss zero, {above} above it and {below} below; if the "
        f"perturbation did nothing, about {0.05 * len(every):.0f} would be expected to. No difference is larger than "
        f"{100 * largest:.2f} points, in either direction.",
        "",
        others(points),
    ]
    return "\n".join(lines)


def others(points: list[AttackPoint]) -> str:
    """How often five dropout samples, and the high-order matrix, keep more accuracy; the ball depends on the matrix."""
    harder = [point for point in points if point.level > 0]
    found = {(each.dataset, each.attack, each.level, each.method): each.value.mean for each in harder}

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
