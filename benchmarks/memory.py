"""Peak memory of the heaviest case on the CPU: PubMed with the high-order graph and perturbation.

    python benchmarks/memory.py [--data pubmed] [--method fishergcn-t] [--epochs 3] [--out FILE.json]

A process of its own loads the data, computes the propagation matrix and its spectrum, trains some epochs and
tests. What counts is the peak of its resident memory, all libraries included, in units of 10^9 bytes.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _process import RESULTS, measure_apart, peak_mb
from _record import machine, write_record

REQUIRED_GB = 4.0


def measure(data: str, method: str, epochs: int) -> dict[str, Any]:
    """Train in this process and note the peak after each stage."""
    import torch

    from fishergcn import TrainConfig, datasets, splits
    from fishergcn.training import Run, train_chunk
    from fishergcn.training._methods import parse_method
    from fishergcn.training._problem import prepare

    torch.set_num_threads(1)
    peaks, seconds, start = {"libraries": peak_mb()}, {}, time.perf_counter()
    graph = datasets.load(data)
    problem = prepare(graph, parse_method(method), TrainConfig(max_epochs=epochs, stopping="none"))
    peaks["preprocessing"], seconds["preprocessing"] = peak_mb(), time.perf_counter() - start
    start = time.perf_counter()
    train_chunk(problem, [Run(splits.public(graph), 2019)], torch.device("cpu"))
    peaks["training"], seconds["training"] = peak_mb(), time.perf_counter() - start
    stored = int(problem.propagation.nnz)
    return {"stored_entries": stored, "peak_mb_up_to": peaks, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="pubmed")
    parser.add_argument("--method", default="fishergcn-t")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "memory.json")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("data", "method", "epochs")}
    if options.here:
        print(json.dumps(measure(**settings)))
        return

    arguments = [f"--{name}={value}" for name, value in settings.items()]
    found = measure_apart(__file__, "--here", *arguments)
    peak = found["peak_mb_up_to"]["training"] / 1e3
    for stage, value in found["peak_mb_up_to"].items():
        print(f"up to {stage:14} {value / 1e3:6.2f} GB")
    print(f"{options.data} {options.method}: {peak:.2f} GB at most, allowed {REQUIRED_GB:g}")
    record = {
        "benchmark": "memory",
        **settings,
        **found,
        "peak_gb": peak,
        "required_gb": REQUIRED_GB,
        "machine": machine() | {"torch": version("torch")},
    }
    write_record(options.out, record)


if __name__ == "__main__":
    main()
