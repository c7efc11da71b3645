"""Write the tables of docs/guide_pyg.md anew: what the add-on does with each layer and use, and what it costs.

python tools/pyg_table.py            try all uses, and write both tables
python benchmarks/pyg_adversary.py   measure the costs anew first
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from itertools import groupby
from pathlib import Path
from typing import Any

from _blocks import refresh

from fishergcn._base.text import markdown_table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "guide_pyg.md"
COSTS = ROOT / "benchmarks" / "results" / "pyg_adversary.json"


def rows(text: str) -> list[tuple[str, str, str]]:
    """Return name, verdict and deviation of each row of the page's table of uses."""
    block = text.partition("<!-- pyg uses -->")[2].partition("<!-- end -->")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines() if line[:2] == "| "]
    return [(name, verdict, deviation) for name, verdict, deviation in lines[2:] if verdict]


def bound(deviation: float) -> str:
    """Return the smallest power of ten that is not below a deviation, since its digits depend on the machine."""
    return f"1e{math.ceil(math.log10(max(deviation, 1e-16))):+03d}".replace("e-", "e−").replace("e+", "e")


def uses() -> str:
    from _pyg_uses import USES, verdict

    rows = []
    for group, members in groupby(USES, key=lambda use: use.group):
        rows.append([f"*{group}*", "", ""])
        for use in members:
            found, deviation = verdict(use)
            print(f"{use.name}: {found} {'' if deviation is None else deviation}")
            if found != use.verdict:
                raise SystemExit(f"{use.name} must be {use.verdict}, got {found}.")
            rows.append([use.name, found, "" if deviation is None else bound(deviation)])
    return markdown_table(["what", "result", "largest deviation"], rows, escape=False)


def costs() -> str:
    record: dict[str, Any] = json.loads(COSTS.read_text(encoding="utf-8"))
    rows = []
    for samples, name in (("0", "plain"), ("1", "M = 1"), ("5", "M = 5")):
        ratio = "" if samples == "0" else f"{record['time_ratios'][samples]:.2f}"
        peak = record["memory"][samples]["peak_mb"] / 1e3
        rows.append([name, f"{record['seconds'][samples]:.2f}", ratio, f"{peak:.2f}"])
    facts = record["machine"]
    return markdown_table(["", "seconds a step", "times a plain step", "peak memory, GB"], rows) + (
        f"\n\nM = 5 needs {record['memory_ratio']:.2f} times the memory of M = 1 (at most "
        f"{record['required_memory_ratio']} is required). {record['nodes']:,} nodes, {record['links']:,} links, "
        f"{record['features']:,} sparse features, a GCN with {record['hidden']} hidden units; one thread of "
        f"{facts['cpu']}, torch {facts['torch']}, torch_geometric {facts['torch_geometric']}."
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(refresh([PAGE], "pyg", {"uses": uses, "costs": costs}, check=False))
