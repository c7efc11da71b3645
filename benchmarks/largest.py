"""The largest graph that trains in a given amount of memory: all at once, in mini-batches, and mapped.

    python benchmarks/largest.py [--gigabytes 20] [--method fishergcn] [--ways full batches mapped] [--out FILE.json]

The memory that is counted (``fishergcn train --dry-run``) is bisected for the largest planted graph, with 5 links a
node, that should fit. That graph is generated and written in one process, and trained for some epochs in another,
whose peak is noted; if it is beyond the limit, or less than nine tenths of it, the size is corrected by what was
found and tried again, up to three times. Each way is written down as soon as it is found; other ways and limits that
the file has already are kept. What counts is the peak of resident memory, all libraries included, in units of 10^9
bytes. A mapped graph need not be in memory: of it, only memory that is not that of a file counts, by what Linux says
every 20 milliseconds. Directions are random, since an eigensolver is no part of the question.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from _process import RESULTS, measure_apart, peak_mb
from _record import machine, write_record

LINKS = 5
WAYS = ("full", "batches", "mapped")


def settings_of(options: argparse.Namespace) -> Any:
    from fishergcn import TrainConfig

    return TrainConfig(max_epochs=options.epochs, stopping="none", directions="random")


def predicted_bytes(nodes: int, way: str, options: argparse.Namespace) -> float:
    """Return what is predicted for a planted graph."""
    from _planted import CLASSES, COLUMNS, ENTRIES, planted_split

    from fishergcn.training import Sizes, held_bytes, parse_method

    split, links = planted_split(min(nodes, 10_000)), 2 * LINKS * nodes
    scale = nodes / min(nodes, 10_000)
    parts = {part: int(scale * len(getattr(split, part))) for part in ("train", "val", "test")}
    sizes = Sizes(
        nodes, links, float(links + nodes), COLUMNS, ENTRIES * nodes, CLASSES, **parts, crowding=2 * LINKS + 2
    )
    method = parse_method(options.method)
    return held_bytes(sizes, method, settings_of(options), 1, batches=way != "full")


def largest(way: str, options: argparse.Namespace, limit: float) -> int:
    """Return the largest number of nodes that should fit, in thousands."""
    low, high = 1, 10**6
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if predicted_bytes(1000 * middle, way, options) <= limit else (low, middle)
    return 1000 * low


def generate(nodes: int, folder: str) -> dict[str, Any]:
    """Write a planted graph to a folder."""
    from _planted import planted_graph

    planted_graph(nodes, LINKS * nodes).save(folder, mapped=True)
    return {"bytes": sum(path.stat().st_size for path in Path(folder).iterdir())}


class PrivateMemory(threading.Thread):
    """Notes the most memory of this process that belongs to no file."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0.0

    def run(self) -> None:
        while True:
            lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
            found = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
            self.most = max(self.most, float(found))
            time.sleep(0.02)


def train(way: str, folder: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train on the graph of a folder in this process; return its peak and the seconds of an epoch."""
    import numpy as np
    from _planted import planted_split

    import fishergcn
    from fishergcn.execution import Listener
    from fishergcn.training import BatchSettings

    watch = PrivateMemory()
    watch.start()
    graph = fishergcn.Graph.load(folder)
    if way != "mapped":
        graph = fishergcn.Graph.from_arrays({name: np.array(array) for name, array in graph.to_arrays().items()})
    ends: list[float] = []

    class Ends(Listener):
        def epoch(self, progress: Any) -> None:
            ends.append(time.perf_counter())

    batches = None if way == "full" else BatchSettings(options.batch_size, (10, 10))
    split, config = planted_split(graph.num_nodes), settings_of(options)
    [record] = fishergcn.train(
        graph, options.method, split, config=config, device="cpu", batches=batches, progress=Ends()
    )
    peak = watch.most if way == "mapped" else 1e6 * peak_mb()
    return {
        "peak_bytes": peak,
        "resident_bytes": 1e6 * peak_mb(),
        "epoch_seconds": min(after - before for before, after in pairwise(ends)),
        "status": record.status,
        "val_accuracy": record.val_accuracy,
    }


def found_size(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """Find the size for one way of training, and train it."""
    limit, tried = 1e9 * options.gigabytes, list[dict[str, Any]]()
    nodes = options.start or largest("batches" if way == "mapped" else way, options, limit)
    for _ in range(options.tries):
        with tempfile.TemporaryDirectory() as place:
            folder = str(Path(place) / "graph")
            written = measure_apart(__file__, f"--generate={nodes}", f"--folder={folder}")
            given = [
                f"--{name}={getattr(options, name.replace('-', '_'))}" for name in ("method", "epochs", "batch-size")
            ]
            result = measure_apart(__file__, f"--train={way}", f"--folder={folder}", *given)
        predicted = predicted_bytes(nodes, way, options)
        fits = result["peak_bytes"] <= limit
        tried.append({"nodes": nodes, "links": LINKS * nodes, "fits": fits, "predicted_bytes": predicted,
                      "graph_bytes": written["bytes"], **result})  # fmt: skip
        print(
            f"{way}: {nodes:,} nodes, {LINKS * nodes:,} links, {result['peak_bytes'] / 1e9:.2f} GB "
            f"(predicted {predicted / 1e9:.2f}), {result['epoch_seconds']:.1f} s an epoch", file=sys.stderr, flush=True,
        )  # fmt: skip
        if fits and result["peak_bytes"] >= 0.9 * limit:
            break
        base = 4.2e8
        nodes = int(0.97 * nodes * (limit - base) / (result["peak_bytes"] - base) / 1000) * 1000
    best = max((each for each in tried if each["fits"]), key=lambda each: each["nodes"], default=None)
    return {"best": best, "tried": tried}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--method", default="fishergcn")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--start", type=int, default=0, help="nodes to begin with, instead of what the model says")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--generate", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--train", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate:
        print(json.dumps(generate(options.generate, options.folder)))
        return
    if options.train:
        print(json.dumps(train(options.train, options.folder, options)))
        return

    path = options.out or RESULTS / "largest.json"
    results = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else []
    for way in options.ways:
        case = {"way": way, "gigabytes": options.gigabytes, "method": options.method, "batch_size": options.batch_size}
        results = [each for each in results if any(each[name] != value for name, value in case.items())]
        results.append(case | {"epochs": options.epochs} | found_size(way, options))
        results.sort(key=lambda each: (-each["gigabytes"], WAYS.index(each["way"])))
        about = machine() | {"torch": version("torch")}
        write_record(path, {"benchmark": "largest", "results": results, "machine": about})


if __name__ == "__main__":
    main()
