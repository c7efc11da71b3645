"""Statistics of many graphs: time and memory of all distances, of a mean, and of estimated distances of large graphs.

    python benchmarks/graph_statistics.py [--parts distances mean large large-mean] [--large-nodes N] [--out FILE.json]

``distances``: 200 graphs of 1,000 nodes and 5,000 links, of which a tenth is redrawn from each to the next, by two
processes. ``mean``: that of 20 graphs of 2,000 nodes. ``large``: all distances of ten graphs of a million nodes and
five links a node, with error bars; exact distances of pieces say elsewhere (``distances.py``) how good these are.
``large-mean``: the estimated mean of ten such graphs with a tenth of the nodes. The record is written after each part;
parts that are not run keep theirs. Distances are kept in a folder beside the record until their part is done: run the
same command again to continue, and the seconds of all runs are added up. Seconds of the clock depend on what else the
machine does, those of the processors hardly.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _record import machine, write_record
from distances import redrawn
from spectrum import random_graph

from fishergcn.geometry import statistics

_PARTS = ("distances", "mean", "large", "large-mean")
_LIMITS = {"distances": 300, "mean": 180, "large": 1200, "large-mean": None}


def sequence(count: int, nodes: int, links: int) -> list[Any]:
    graphs = [random_graph(nodes, links, 0)]
    for seed in range(1, count):
        graphs.append(redrawn(graphs[-1], 0.1, seed))
    return graphs


@dataclass
class Usage:
    """What this process and its children use: seconds of the clock, seconds of processors, the most memory in GB."""

    seconds: float = 0.0
    processors: float = 0.0
    gigabytes: float = 0.0


class Watch:
    """Looks at what is used, ten times a second; keeps it beside the folder of distances, and tells of its rows."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows, self.file = folder, rows, folder.with_suffix(".usage.json")
        self.before = Usage(**json.loads(self.file.read_text())) if self.file.is_file() else Usage()
        self.start, self.ticks, self.most = time.perf_counter(), _tree("self")[1], 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Watch:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def usage(self) -> Usage:
        """Of all runs together."""
        seconds = self.before.seconds + time.perf_counter() - self.start
        processors = self.before.processors + (_tree("self")[1] - self.ticks) / os.sysconf("SC_CLK_TCK")
        return Usage(round(seconds, 1), round(processors, 1), round(max(self.before.gigabytes, self.most / 1e9), 2))

    def _watch(self) -> None:
        told = kept = time.perf_counter()
        while not self._done.wait(0.1):
            self.most, now = max(self.most, _tree("self")[0]), time.perf_counter()
            if now - kept > 2:
                kept = now
                self.file.write_text(json.dumps(asdict(self.usage)))
            if now - told > 30:
                told = now
                done = len(list(self.folder.glob("row-*.npz")))
                print(f"{done} of {self.rows} rows after {self.usage.seconds:.0f} s", file=sys.stderr, flush=True)


def _tree(process: str) -> tuple[int, int]:
    """Return the resident bytes of a process and its children, and their ticks of the processors."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        memory, ticks = int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), sum(map(int, fields[11:15]))
        for each in Path(f"/proc/{process}/task").glob("*/children"):
            for child in each.read_text().split():
                own = _tree(child)
                memory, ticks = memory + own[0], ticks + own[1]
        return memory, ticks
    except (OSError, ValueError, IndexError):  # it has ended
        return 0, 0


def measured(part: str, options: argparse.Namespace) -> dict[str, Any]:
    large = options.large_nodes
    count, nodes = {
        "distances": (200, 1000), "mean": (20, 2000), "large": (10, large), "large-mean": (10, large // 10)
    }[part]  # fmt: skip
    graphs = statistics.GraphCollection(sequence(count, nodes, 5 * nodes))
    folder = options.out.parent / f"{options.out.stem}-{part}-{nodes}"
    with Watch(folder, count - 1) as watch:
        if part in ("mean", "large-mean"):
            watch.before = Usage()  # all in one go
            found = statistics.mean(graphs, probes=max(options.probes, 4))
            names = ["variance", "lowest_variance", "residual"]
            names += ["variance_error", "residual_error"] if part == "large-mean" else []
            facts: dict[str, Any] = {name: float(getattr(found, name)) for name in names}
        else:
            chosen: dict[str, Any] = {"compute": "estimate", "probes": options.probes} if part == "large" else {}
            distances = statistics.pairwise(graphs, workers=2, folder=folder, **chosen)
            away = distances.values[np.triu_indices(count, 1)]
            relative = distances.errors[np.triu_indices(count, 1)] / away
            facts = {"method": distances.method, "largest_error": float(relative.max()), "mean_distance": away.mean()}
            if part == "large":
                facts["probes"] = options.probes
        usage = watch.usage
    shutil.rmtree(folder, ignore_errors=True)
    watch.file.unlink(missing_ok=True)
    return {"graphs": count, "nodes": nodes, "links": 5 * nodes, **facts, **asdict(usage), "limit": _LIMITS[part]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--large-nodes", type=int, default=1_000_000)
    parser.add_argument("--probes", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "graph_statistics.json")
    options = parser.parse_args()
    record: dict[str, Any] = {"benchmark": "graph_statistics", "parts": {}}
    if options.out.is_file():
        record = json.loads(options.out.read_text(encoding="utf-8"))
    for part in options.parts:
        print(part, "…", file=sys.stderr, flush=True)
        found = measured(part, options)
        print(part, found, flush=True)
        record["parts"][part] = found
        write_record(options.out, {**record, "machine": machine()})


if __name__ == "__main__":
    main()
