"""How long the command and the package take to start, beside ``import torch`` in the same run.

    python benchmarks/startup.py

All take turns, each in a new process; the best and the median of the turns are kept. The first turn, which fills the
caches of the file system, does not count. ``import fishergcn`` brings names alone; ``fishergcn.train`` is what the
first use of one costs, torch and SciPy included.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _process import RESULTS, environment
from _record import machine, write_record

_COMPLETION = {"_FISHERGCN_COMPLETE": "complete_bash", "COMP_WORDS": "fishergcn train --", "COMP_CWORD": "2"}
CASES: dict[str, tuple[list[str], dict[str, str]]] = {
    "import torch": (["-c", "import torch"], {}),
    "import fishergcn": (["-c", "import fishergcn"], {}),
    "fishergcn.train": (["-c", "import fishergcn; fishergcn.train"], {}),
    "fishergcn --version": (["-m", "fishergcn", "--version"], {}),
    "fishergcn --help": (["-m", "fishergcn", "--help"], {}),
    "fishergcn train --help": (["-m", "fishergcn", "train", "--help"], {}),
    "completion of fishergcn train --": (["-m", "fishergcn"], _COMPLETION),
}
REQUIRED = {"fishergcn --version": 0.3, "fishergcn --help": 0.3, "completion of fishergcn train --": 0.3}


def seconds_of(arguments: list[str], variables: dict[str, str]) -> float:
    start = time.perf_counter()
    command, settings = [sys.executable, *arguments], environment(1) | variables
    subprocess.run(command, env=settings, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS / "startup.json")
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for turn in range(options.turns + 1):
        for name, case in CASES.items():
            elapsed = seconds_of(*case)
            if turn:
                times[name].append(elapsed)
    rows: list[dict[str, Any]] = [
        {"what": name, "best": min(each), "median": statistics.median(each), "required": REQUIRED.get(name)}
        for name, each in times.items()
    ]
    slower = min(times["import fishergcn"]) - min(times["import torch"])
    first_use = min(times["fishergcn.train"]) - min(times["import torch"])
    for row in rows:
        print(f"{row['what']:34} {row['best']:.3f} s, median {row['median']:.3f} s")
    print(f"import fishergcn beyond import torch: {slower:+.3f} s; its first use: {first_use:+.3f} s")
    record = {"benchmark": "startup", "turns": options.turns, "rows": rows, "slower_than_torch": slower}
    write_record(options.out, {**record, "first_use": first_use, "required_slower": 0.15, "machine": machine()})


if __name__ == "__main__":
    main()
