"""A roofline of training on one core, or on a GPU: what the machine's limits allow, beside what is measured.

    python benchmarks/roofline.py [--datasets cora citeseer pubmed] [--out FILE.json]
    python benchmarks/roofline.py --device cuda [--runs 200]

On the CPU one step of one run is timed; on a GPU an epoch of ``--runs`` runs side by side, validation included, as it
is recorded and replayed.

The limits are measured in the same run: the rate of a product of two matrices, and the bandwidth of adding up random
lines of a table as large as the activations of the step. Each part of a step of ``fishergcn`` is counted: its
operations, and the bytes that it has to read and write once beyond registers. A part takes at least the larger of
operations / rate and bytes / bandwidth; the sum of these is the roof. Random bits, the loss, Adam and Python are not
counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _process import RESULTS
from _record import machine, write_record

HIDDEN = 64


def best_of(function: Callable[[], Any], device: torch.device, turns: int = 7) -> float:
    times = []
    for _ in range(turns):
        wait_for(device)
        start = time.perf_counter()
        function()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return min(times)


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def product_rate(device: torch.device) -> float:
    """Return operations per second of a product of two matrices, in float32."""
    size = 1024 if device.type == "cpu" else 8192
    first, second = torch.rand(size, size, device=device), torch.rand(size, size, device=device)
    return 2 * size**3 / best_of(lambda: first @ second, device)


def gather_rate(nodes: int, batch: int, device: torch.device) -> float:
    """Return bytes per second of adding up random lines of a table like the activations, with our own product."""
    from scipy import sparse

    from fishergcn.operators import SparseMatrix

    rng = np.random.default_rng(0)
    lines, per_row = nodes, 8
    columns = rng.integers(nodes, size=(lines, per_row))
    ones = np.ones(columns.size)
    matrix = sparse.csr_array((ones, columns.ravel(), np.arange(0, columns.size + 1, per_row)), shape=(lines, nodes))
    operator = SparseMatrix.from_scipy(matrix, device=device, dtype=torch.float32)
    dense = torch.ones(nodes, batch, HIDDEN, device=device)
    operator.propagate(dense)
    with torch.inference_mode():
        seconds = best_of(lambda: operator.propagate(dense), device)
    return 4 * batch * HIDDEN * (operator.scipy.nnz + lines) / seconds


def parts_of(graph: Any, samples: int, rank: int) -> dict[str, tuple[float, float]]:
    """Return operations and bytes of each part of a step over all rows, with so many samples in all."""
    from fishergcn import renormalized

    nodes, entries = graph.num_nodes, renormalized(graph.adjacency).nnz
    stored, wide = graph.features.nnz, samples * HIDDEN
    number, kept = 4, 0.5
    # Logits, and with them all that has as many columns as classes, are computed at labeled nodes alone: too little to
    # count. The perturbation takes the moments of three arrays, and an update of low rank of three.
    return {
        "features, forward": (2 * kept * stored * wide, number * (nodes * wide + 2 * stored)),
        "propagation of hidden units, both ways": (4 * entries * wide, 2 * number * (entries + nodes) * wide),
        "perturbation, both ways": (12 * nodes * rank * wide, number * 3 * nodes * wide),
        "activation, both ways": (4 * nodes * wide, number * 4 * nodes * wide),
        "features, backward": (2 * stored * wide, number * (nodes * wide + 2 * stored)),
    }


def measured(graph: Any, epochs: int, runs: int, device: torch.device) -> float:
    """Return the seconds of a step on the CPU, or of an epoch on a GPU, the best of some turns."""
    from fishergcn import splits
    from fishergcn._base.memory import keep_freed_memory
    from fishergcn.training import Run, TrainConfig, parse_method, prepare
    from fishergcn.training._engine import Trainer

    keep_freed_memory()
    problem = prepare(graph, parse_method("fishergcn"), TrainConfig(hidden=(HIDDEN,)))
    trainer = Trainer(problem, [Run(splits.public(graph), 2019 + run) for run in range(runs)], device)
    step = trainer.step if device.type == "cpu" else trainer.epoch
    for epoch in range(3):  # the first compiles, the second is recorded on a GPU
        step(epoch)
    return best_of(lambda: [step(epoch) for epoch in range(epochs)], device) / epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["cora", "citeseer", "pubmed"])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=int, default=None, help="side by side; 1 on the CPU, 200 on a GPU by default")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    device = torch.device(options.device)
    runs = options.runs or (1 if device.type == "cpu" else 200)
    torch.set_num_threads(1)
    from fishergcn import TrainConfig, datasets

    config, rate, rows = TrainConfig(), product_rate(device), []
    print(f"products of matrices: {rate / 1e9:.0f} GFLOP/s")
    for data in options.datasets:
        graph = datasets.load(data)
        bandwidth = gather_rate(graph.num_nodes, runs * config.samples, device)
        parts = parts_of(graph, runs * config.samples, config.rank)
        roofs = {name: max(work / rate, size / bandwidth) for name, (work, size) in parts.items()}
        seconds = measured(graph, options.epochs, runs, device)
        rows.append(
            {
                "data": data,
                "bandwidth": bandwidth,
                "parts": {name: {"operations": work, "bytes": size} for name, (work, size) in parts.items()},
                "roof_ms": {name: 1e3 * value for name, value in roofs.items()},
                "total_roof_ms": 1e3 * sum(roofs.values()),
                "measured_ms": 1e3 * seconds,
            }
        )
        roof = f"roof {1e3 * sum(roofs.values()):.2f} ms"
        print(f"{data}: {bandwidth / 1e9:.1f} GB/s; {roof}, measured {1e3 * seconds:.2f} ms", flush=True)
    record = {"benchmark": "roofline", "method": "fishergcn", "runs": runs, "gflops": rate / 1e9, "rows": rows}
    place = {} if device.type == "cpu" else {"gpu": torch.cuda.get_device_name(device)}
    out = options.out or RESULTS / ("roofline.json" if device.type == "cpu" else "roofline_gpu.json")
    write_record(out, {**record, "machine": machine() | place | {"torch": torch.__version__}})


if __name__ == "__main__":
    main()
