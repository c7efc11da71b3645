"""How long ``fit`` takes on the cores of this machine, stage by stage, and how busy they are.

    python benchmarks/fit_time.py [FOLDER] [--graphs amazon-photo dblp] [--workers N] [--before SRC] [--out FILE]

FOLDER holds graph files (.npz); without it, the data sets of the package are measured. Each graph is fitted in a
process of its own, on the first split that the graph brings or on 20 + 30 labels a class. The first call on a machine
compiles kernels too: call it twice there. Other graphs in the file are kept. With --before, an earlier version, whose
package is in the folder SRC, then fits the same graph in the same way.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from _process import RESULTS, measure_apart
from _record import machine, write_record

from fishergcn.execution import Listener


class Stages(Listener):
    """Notes when each stage begins, and how long its runs took in all."""

    def __init__(self) -> None:
        self.stages: list[dict[str, Any]] = []

    def begin(self, title: str, planned: Mapping[Any, int], before: Iterable[Any] = ()) -> None:
        """Note a stage."""
        stage = {"stage": title, "runs": sum(planned.values()), "begun": time.perf_counter(), "seconds_of_runs": 0.0}
        self.stages.append(stage)

    def finished(self, name: Any, records: Any) -> None:
        """Add up runs."""
        self.stages[-1]["seconds_of_runs"] += sum(record.seconds for record in records)


def alone(name: str, path: str, workers: int) -> dict[str, Any]:
    """Fit in this process and return what it took; processor time is that of workers too, which have ended."""
    from fishergcn import Graph, __version__, datasets, fit, splits

    graph = Graph.load(path) if path else datasets.load(name)
    [split] = splits.choose(graph, 1)
    listener, started = Stages(), time.perf_counter()
    model = fit(graph, split, "cpu", workers=workers, progress=listener)
    ended = time.perf_counter()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ends = [*(each["begun"] for each in listener.stages[1:]), ended]
    for each, end in zip(listener.stages, ends, strict=True):
        each["seconds"] = end - each.pop("begun")
    return {
        "version": __version__,
        "nodes": graph.num_nodes,
        "links": graph.num_links,
        "digest": graph.digest,
        "split": split.name,
        "workers": workers,
        "seconds": ended - started,
        "cpu_seconds": sum(each.ru_utime + each.ru_stime for each in used),
        "stages": listener.stages,
        "chosen": model.selection.chosen,
        "accuracy": model.record.test_accuracy,
        "probabilities": hashlib.sha256(model.probabilities().tobytes()).hexdigest(),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    from fishergcn import datasets
    from fishergcn.execution import count_cores

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--graphs", nargs="+", help="names of files without .npz; all by default")
    parser.add_argument("--workers", type=int, default=count_cores())
    parser.add_argument("--before", type=Path, metavar="SRC", help="the folder src of an earlier version")
    parser.add_argument("--out", type=Path, default=RESULTS / "fit_time.json", help="other graphs in it are kept")
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(alone(*options.alone, options.workers)))
        return
    files = dict.fromkeys(datasets.available(), "")
    if options.folder is not None:
        files = {path.stem: str(path) for path in sorted(options.folder.glob("*.npz"))}
    for name in options.graphs or files:
        words = ("--alone", name, files[name], "--workers", options.workers)
        found = measure_apart(__file__, *words, threads=options.workers)
        print(f"{name}: {found['seconds']:.0f} s, {found['chosen']}, {found['accuracy']:.2%} on test nodes", flush=True)
        if options.before is not None:
            before = measure_apart(__file__, *words, threads=options.workers, source=options.before.resolve())
            found["before"] = {key: before[key] for key in ("version", "seconds", "cpu_seconds", "chosen", "accuracy")}
            print(f"  before: {before['seconds']:.0f} s, {before['chosen']}, {before['accuracy']:.2%}", flush=True)
        known = json.loads(options.out.read_text())["graphs"] if options.out.exists() else {}
        known[name] = found | {"machine": machine()}
        write_record(options.out, {"benchmark": "fit_time", "graphs": {key: known[key] for key in sorted(known)}})


if __name__ == "__main__":
    main()
