"""What the adversary costs a model of PyTorch Geometric: time and peak memory of a step, on sparse features.

    python benchmarks/pyg_adversary.py [--nodes 34000] [--links 248000] [--features 8400] [--steps 7] [--out FILE.json]

A two-layer GCN of PyTorch Geometric on a generated graph of the size of the co-author graph of physics. For the memory,
plain training and training with M = 1 and M = 5 run in processes of their own; what counts is the peak of the resident
memory above what it was when data and model were ready. For the time they take turns in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from _planted import planted_graph
from _process import RESULTS, _status_mb, measure_apart, peak_mb
from _record import machine, write_record
from scipy import sparse

SAMPLES = (1, 5)
ENTRIES = 33  # of a node's features, as in the graph that this one stands for
REQUIRED_MEMORY = 1.3


def make_data(nodes: int, links: int, features: int) -> Any:
    from fishergcn import Graph

    planted = planted_graph(nodes, links)
    rng = np.random.default_rng(0)
    places = np.repeat(np.arange(nodes), ENTRIES), rng.integers(features, size=nodes * ENTRIES)
    entries = sparse.csr_array((np.ones(nodes * ENTRIES, dtype=np.float32), places), shape=(nodes, features))
    return Graph(planted.adjacency, entries, planted.labels).to_pyg(sparse=True)


def make_step(data: Any, hidden: int, samples: int) -> Callable[[], float]:
    """Return a training step: plain if ``samples`` is 0."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch_geometric.nn import GCN

    from fishergcn.integrations.pyg import BuresAdversary

    torch.manual_seed(0)
    model = GCN(data.num_features, hidden, num_layers=2, out_channels=10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    closure = lambda: cross_entropy(model(data.x, data.edge_index), data.y)  # noqa: E731
    adversary = None
    if samples:
        adversary = BuresAdversary(data, rank=10, radius=0.1, samples=samples).attach(model)
        optimizer.add_param_group(adversary.parameter_group())

    def step() -> float:
        optimizer.zero_grad()
        loss = closure() if adversary is None else adversary.average(closure)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def measure_memory(data: Any, hidden: int, samples: int, steps: int) -> dict[str, float]:
    step = make_step(data, hidden, samples)
    before = _status_mb("VmRSS") or peak_mb()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    losses = [step() for _ in range(steps)]
    return {"ready_mb": before, "peak_mb": peak_mb(), "first_loss": losses[0], "last_loss": losses[-1]}


def measure_time(data: Any, hidden: int, steps: int) -> dict[str, float]:
    step_of = {samples: make_step(data, hidden, samples) for samples in (0, *SAMPLES)}
    seconds: dict[int, list[float]] = {samples: [] for samples in step_of}
    for step in step_of.values():
        step()
    for _ in range(steps):
        for samples, step in step_of.items():
            start = time.perf_counter()
            step()
            seconds[samples].append(time.perf_counter() - start)
    return {str(samples): statistics.median(found) for samples, found in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("nodes", 34_000), ("links", 248_000), ("features", 8_400), ("hidden", 64), ("steps", 7)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--out", type=Path, default=RESULTS / "pyg_adversary.json")
    parser.add_argument("--here", choices=["memory", "time"], help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("nodes", "links", "features", "hidden", "steps")}
    if options.here:
        data = make_data(options.nodes, options.links, options.features)
        if options.here == "memory":
            print(json.dumps(measure_memory(data, options.hidden, options.samples, min(options.steps, 3))))
        else:
            print(json.dumps(measure_time(data, options.hidden, options.steps)))
        return

    arguments = [f"--{name}={value}" for name, value in settings.items()]
    memory = {
        str(samples): measure_apart(__file__, "--here=memory", f"--samples={samples}", *arguments)
        for samples in (0, *SAMPLES)
    }
    seconds = measure_apart(__file__, "--here=time", *arguments)
    record = {
        "benchmark": "pyg_adversary",
        **settings,
        "memory": memory,
        "seconds": seconds,
        "memory_ratio": memory["5"]["peak_mb"] / memory["1"]["peak_mb"],
        "required_memory_ratio": REQUIRED_MEMORY,
        "time_ratios": {str(samples): seconds[str(samples)] / seconds["0"] for samples in SAMPLES},
        "machine": machine() | {name: version(name) for name in ("torch", "torch_geometric")},
    }
    for samples, found in memory.items():
        print(f"M = {samples}: peak {found['peak_mb'] / 1e3:.2f} GB, {seconds[samples]:.3f} s a step")
    print(f"memory at M = 5 over M = 1: {record['memory_ratio']:.3f}, allowed {REQUIRED_MEMORY}")
    print("time of a step over a plain one:", record["time_ratios"])
    write_record(options.out, record)


if __name__ == "__main__":
    main()
