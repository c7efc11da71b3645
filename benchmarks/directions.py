"""Node weights beside the spectrum on a large graph: what they take before the first epoch, and what an epoch takes.

    python benchmarks/directions.py [--nodes 1000000] [--links 5000000] [--out FILE.json]

A generated graph; mini-batches of 1,024 labeled nodes with 10 neighbors a layer, five samples, one thread. The plain
method with as many samples, fishergcn along the ten largest eigenvectors, and fishergcn with node weights
(directions="nodes") each run in a process of their own. The preparation has the eigen-solver in it, where there is one;
an epoch is one pass over the training nodes, without validation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _process import RESULTS, measure_apart, peak_mb
from _record import machine, write_record

CASES = {"gcn-x5": ("gcn-x5", "high"), "high": ("fishergcn", "high"), "nodes": ("fishergcn", "nodes")}


def measure(nodes: int, links: int, case: str, epochs: int) -> dict[str, Any]:
    """Prepare and train in this process."""
    import torch
    from _planted import planted_graph, planted_split

    from fishergcn import TrainConfig
    from fishergcn.training import BatchSettings, Run, parse_method, prepare_batches
    from fishergcn.training._minibatch import MiniBatchTrainer

    torch.set_num_threads(1)
    name, directions = CASES[case]
    method, device = parse_method(name), torch.device("cpu")
    config = TrainConfig(stopping="none", directions=directions)  # type: ignore[arg-type]

    def trainer(count: int, pairs: int) -> tuple[Any, float]:
        graph = planted_graph(count, pairs)
        start = time.perf_counter()
        problem, basis = prepare_batches(graph, method, config)
        run = Run(planted_split(count), 2019)
        made = MiniBatchTrainer(problem, basis, run, BatchSettings(1024, (10, 10)), device)
        return made, time.perf_counter() - start

    trainer(2000, 8000)[0].epoch(0)  # loads and compiles all that is needed
    large, prepared = trainer(nodes, links)
    seconds = []
    for epoch in range(epochs):
        start = time.perf_counter()
        large.epoch(epoch)
        seconds.append(time.perf_counter() - start)
    return {
        "case": case,
        "preparation_seconds": prepared,
        "seconds_per_epoch": statistics.median(seconds),
        "seconds": seconds,
        "steps_per_epoch": large.batch_count,
        "peak_gb": peak_mb() / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=5_000_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "directions.json")
    parser.add_argument("--case", choices=tuple(CASES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.nodes, options.links, options.case, options.epochs)))
        return
    sizes = ("--nodes", options.nodes, "--links", options.links, "--epochs", options.epochs)
    rows = [measure_apart(__file__, *sizes, "--case", case) for case in CASES]
    for row in rows:
        print(
            f"{row['case']:8} preparation {row['preparation_seconds']:8.1f} s, epoch {row['seconds_per_epoch']:6.2f} s, "
            f"peak {row['peak_gb']:.2f} GB"
        )
    facts = {"nodes": options.nodes, "links": options.links, "torch": version("torch")}
    write_record(options.out, {"machine": machine(), **facts, "cases": rows})


if __name__ == "__main__":
    main()
