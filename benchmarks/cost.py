"""Predicted against measured memory, for trainings of very different sizes.

    python benchmarks/cost.py [--device cpu] [--largest 1000000] [--out FILE.json]
    python benchmarks/cost.py --device cuda --runs 32

Each case is predicted from its sizes, as ``fishergcn train --dry-run`` does it, and trained in a process of its own for
some epochs: Cora, CiteSeer, PubMed and planted graphs of 10^3 to 10^6 nodes with 5 links a node; plain, perturbed and
high-order networks with 1 and 5 samples, by the compiled step (the paper's settings) and by autograd (the general
ones). On the CPU memory is the peak of what is resident; on a GPU it is what torch has allocated for ``--runs`` runs
side by side. What counts is the share of predictions within a factor of 1.5.

At a million nodes directions are random, so that no minutes go by for a spectrum.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _process import RESULTS, environment, measure_apart, peak_mb
from _record import machine, write_record

FACTOR = 1.5
METHODS = ("gcn", "gcn-x5", "fishergcn", "fishergcn samples=1")
DATASETS = ("cora", "citeseer", "pubmed")
PLANTED = (1_000, 10_000, 100_000, 1_000_000)


def cases(largest: int) -> list[dict[str, str]]:
    """Return all cases: data, method and settings."""
    data = [*DATASETS, *(str(nodes) for nodes in PLANTED if nodes <= largest)]
    found = [
        {"data": each, "method": method, "settings": settings}
        for each in data
        for method in METHODS
        for settings in ("paper", "general")
        if not (settings == "general" and method.endswith("=1"))
    ]
    high = [each for each in data if not each.isdigit() or int(each) <= 10_000]
    found += [
        {"data": each, "method": method, "settings": settings}
        for each in high
        for method, settings in (("gcn-t", "paper"), ("gcn-t", "general"), ("fishergcn-t", "paper"))
    ]
    return found + [{"data": each, "method": "gcn-x5-c", "settings": "general"} for each in ("cora", "pubmed")]


def load(case: dict[str, str], epochs: int) -> tuple[Any, Any, Any, Any]:
    """Return graph, split, method and configuration of a case."""
    from _planted import planted_graph, planted_split

    from fishergcn import TrainConfig, datasets, splits
    from fishergcn.training import parse_method

    name, _, sample = case["method"].partition(" samples=")
    changes: dict[str, Any] = {"samples": int(sample)} if sample else {}
    if case["data"].isdigit():
        nodes = int(case["data"])
        graph, split = planted_graph(nodes, 5 * nodes), planted_split(nodes)
        changes |= {"directions": "random"} if nodes >= 1_000_000 else {}
    else:
        graph = datasets.load(case["data"])
        split = splits.public(graph)
    config = TrainConfig.named(case["settings"], max_epochs=epochs, stopping="none", **changes)
    return graph, split, parse_method(name), config


def measure(case: dict[str, str], epochs: int, device: str, runs: int) -> dict[str, Any]:
    """Predict, then prepare and train, in this process."""
    import torch

    from fishergcn._base.provenance import device_name
    from fishergcn.execution import Part, cost_of
    from fishergcn.training import Run, prepare, train_chunk

    torch.set_num_threads(1)
    graph, split, method, config = load(case, epochs)
    [predicted] = cost_of([Part.of(graph, method, config, [split], runs)], device, workers=1, timed=False).parts
    problem = prepare(graph, method, config)
    train_chunk(problem, [Run(split, 2019 + run) for run in range(runs)], torch.device(device))
    measured = float(torch.cuda.max_memory_allocated()) if device == "cuda" else 1e6 * peak_mb()
    return {
        **case,
        "runs": runs,
        "epochs": epochs,
        "entries": int(problem.propagation.nnz),
        "predicted": predicted.bytes,
        "measured": measured,
        "ratio": predicted.bytes / measured,
        "device": device_name(torch.device(device)),
    }


def measure_on_gpu(case: dict[str, str], epochs: int, runs: int) -> dict[str, Any]:
    """Do so in a new process that need not import anything, which takes longer than most of the trainings."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["triton", "fishergcn.execution", "fishergcn.training", "_planted"])
    with context.Pool(1) as pool:
        return pool.apply(measure, (case, epochs, "cuda", runs))


def share_within(results: list[dict[str, Any]]) -> float:
    """Return the share of predictions within the factor."""
    inside = [1 / FACTOR <= each["ratio"] <= FACTOR for each in results]
    return sum(inside) / len(inside)


def record(device: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is kept of the cases so far."""
    return {
        "benchmark": "cost",
        "device": device,
        "factor": FACTOR,
        "cases": len(results),
        "share_within": share_within(results),
        "results": results,
        "machine": machine() | {"torch": version("torch"), "device": results[0]["device"]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--runs", type=int, default=None, help="side by side; 1 on the CPU, 32 on a GPU by default")
    parser.add_argument("--largest", type=int, default=PLANTED[-1], help="nodes of the largest planted graph")
    parser.add_argument("--only", default="", help="cases whose data begin with this")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--here", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    runs = options.runs or (32 if options.device == "cuda" else 1)
    if options.here:
        case = json.loads(options.here)
        epochs = case.pop("epochs")
        print(json.dumps(measure(case, epochs, "cpu", runs)))
        return

    os.environ.update(environment(1))  # of processes that begin with it
    out = options.out or RESULTS / ("cost.json" if options.device == "cpu" else "cost_gpu.json")
    results: list[dict[str, Any]] = []
    for case in cases(options.largest):
        if not case["data"].startswith(options.only):
            continue
        nodes = int(case["data"]) if case["data"].isdigit() else 0
        epochs = 5 if nodes >= 1_000_000 else 10 if nodes >= 100_000 else 50
        if options.device == "cpu":
            found = measure_apart(__file__, f"--here={json.dumps(case | {'epochs': epochs})}", f"--runs={runs}")
        else:
            found = measure_on_gpu(case, epochs, min(runs, 4) if nodes >= 100_000 else runs)
        results.append(found)
        print(
            f"{found['data']:>8} {found['method']:20} {found['settings']:8} {found['measured'] / 1e9:6.2f} GB "
            f"x{found['ratio']:.2f}",
            flush=True,
        )
        write_record(out, record(options.device, results))
    print(f"{share_within(results):.0%} within {FACTOR:g}")


if __name__ == "__main__":
    main()
