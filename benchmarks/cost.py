"""Predicted against measured time and memory, for trainings of very different sizes.

    python benchmarks/cost.py [--device cpu] [--largest 1000000] [--out FILE.json]
    python benchmarks/cost.py --device cuda --runs 32

The machine is measured first, as ``fishergcn train --dry-run`` does it. Then each case is predicted from its sizes, and
trained in a process of its own for some epochs: Cora, CiteSeer, PubMed and planted graphs of 10^3 to 10^6 nodes with 5
links a node; plain, perturbed and high-order networks with 1 and 5 samples, by the compiled step (the paper's settings)
and by autograd (the general ones). Time is that of preparation and training. On the CPU it is the time that one thread
worked, which others who use the machine do not change much, and beside it the time on the wall; memory is the peak of
what is resident. On a GPU, time is that on the wall, of ``--runs`` runs side by side, and memory what torch has
allocated; what is imported was imported before. What counts is the share of predictions within a factor of 1.5.

At a million nodes directions are random, so that no minutes go by for a spectrum, whose time is measured by
``benchmarks/spectrum.py``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from _process import RESULTS, environment, measure_apart, peak_mb
from _record import machine, write_record

FACTOR = 1.5
COUNTED = ("seconds", "epoch", "bytes")
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

    from fishergcn.execution import Part, cost_of
    from fishergcn.training import Run, Sizes, prepare, train_chunk

    torch.set_num_threads(1)
    graph, split, method, config = load(case, epochs)
    part = Part(case["data"], case["method"], Sizes.of(graph, method, config, [split]), method, config, runs)
    cost = cost_of([part], device, workers=1)
    [predicted] = cost.parts
    gpu = device == "cuda"
    clock = time.perf_counter if gpu else time.process_time
    ends, walls = [clock()], [time.perf_counter()]

    def on_epoch(_: Any) -> None:
        ends.append(clock())

    problem = prepare(graph, method, config)
    prepared = clock() - ends[0]
    ends = [clock()]
    train_chunk(problem, [Run(split, 2019 + run) for run in range(runs)], torch.device(device), on_epoch=on_epoch)
    trained = clock() - ends[0]
    later = [after - before for before, after in pairwise(ends[1:])]
    found = {
        "runs": runs,
        "epochs": epochs,
        "entries": int(problem.propagation.nnz),
        "predicted": {
            "seconds": cost.seconds,
            "epoch": predicted.epoch * runs / predicted.side_by_side,
            "bytes": predicted.bytes,
        },
        "measured": {
            "seconds": prepared + trained,
            "wall_seconds": time.perf_counter() - walls[0],
            "preparation": prepared,
            "epoch": median(later),
            "bytes": float(torch.cuda.max_memory_allocated()) if gpu else 1e6 * peak_mb(),
        },
    }
    return {
        **case,
        **found,
        "ratio": {name: found["predicted"][name] / found["measured"][name] for name in COUNTED},
    }


def measure_on_gpu(case: dict[str, str], epochs: int, runs: int) -> dict[str, Any]:
    """Do so in a new process that need not import anything, which takes longer than most of the trainings."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["triton", "fishergcn.execution", "fishergcn.training", "_planted"])
    with context.Pool(1) as pool:
        return pool.apply(measure, (case, epochs, "cuda", runs))


def share_within(results: list[dict[str, Any]], name: str) -> float:
    """Return the share of predictions within the factor."""
    inside = [1 / FACTOR <= each["ratio"][name] <= FACTOR for each in results]
    return sum(inside) / len(inside)


def record(device: str, pace: Any, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is kept of the cases so far."""
    return {
        "benchmark": "cost",
        "device": device,
        "factor": FACTOR,
        "cases": len(results),
        "share_within": {name: share_within(results, name) for name in COUNTED},
        "pace": dict(vars(pace)),
        "results": results,
        "machine": machine() | {"torch": version("torch"), "device": pace.machine["device"]},
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

    import torch

    from fishergcn.training import pace_of

    os.environ.update(environment(1))  # of processes that begin with it
    pace = pace_of(torch.device(options.device))
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
        ratio, measured = found["ratio"], found["measured"]
        print(
            f"{found['data']:>8} {found['method']:20} {found['settings']:8} {measured['seconds']:8.2f} s "
            f"x{ratio['seconds']:.2f}, epoch {1e3 * measured['epoch']:9.2f} ms x{ratio['epoch']:.2f}, "
            f"{measured['bytes'] / 1e9:6.2f} GB x{ratio['bytes']:.2f}",
            flush=True,
        )
        write_record(out, record(options.device, pace, results))
    shares = {name: share_within(results, name) for name in COUNTED}
    print(", ".join(f"{name}: {share:.0%} within {FACTOR:g}" for name, share in shares.items()))


if __name__ == "__main__":
    main()
