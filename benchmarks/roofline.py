"""A roofline of one training step on one core: what the machine's limits allow, beside what is measured.

    python benchmarks/roofline.py [--datasets cora citeseer pubmed] [--out FILE.json]

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


def best_of(function: Callable[[], Any], turns: int = 7) -> float:
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def product_rate() -> float:
    """Return operations per second of a product of two matrices."""
    first, second = torch.rand(1024, 1024), torch.rand(1024, 1024)
    return 2 * 1024**3 / best_of(lambda: first @ second)


def gather_rate(nodes: int, width: int) -> float:
    """Return bytes per second of adding up random lines of a table like the activations, with our own product."""
    from scipy import sparse

    from fishergcn.operators import SparseMatrix

    rng = np.random.default_rng(0)
    lines, per_row = nodes, 8
    columns = rng.integers(nodes, size=(lines, per_row))
    ones = np.ones(columns.size)
    matrix = sparse.csr_array((ones, columns.ravel(), np.arange(0, columns.size + 1, per_row)), shape=(lines, nodes))
    operator = SparseMatrix.from_scipy(matrix, dtype=torch.float32)
    dense, out = np.ones((nodes, 1, width), np.float32), np.empty((lines, 1, width), np.float32)
    operator.multiply_into(out, dense)
    seconds = best_of(lambda: operator.multiply_into(out, dense))
    return 4 * width * (operator.scipy.nnz + lines) / seconds


def parts_of(graph: Any, samples: int, rank: int) -> dict[str, tuple[float, float]]:
    """Return operations and bytes of each part of a step over all rows."""
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


def measured_step(graph: Any, epochs: int) -> float:
    """Return the seconds of a step, the best of some turns."""
    from fishergcn import splits
    from fishergcn._base.memory import keep_freed_memory
    from fishergcn.training import Run, TrainConfig, parse_method, prepare
    from fishergcn.training._engine import Trainer

    keep_freed_memory()
    problem = prepare(graph, parse_method("fishergcn"), TrainConfig(hidden=(HIDDEN,)))
    trainer = Trainer(problem, [Run(splits.public(graph), 2019)], torch.device("cpu"))
    trainer.step(0)
    return best_of(lambda: [trainer.step(epoch) for epoch in range(epochs)]) / epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["cora", "citeseer", "pubmed"])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "roofline.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    from fishergcn import TrainConfig, datasets

    config, rate, rows = TrainConfig(), product_rate(), []
    print(f"products of matrices: {rate / 1e9:.0f} GFLOP/s")
    for data in options.datasets:
        graph = datasets.load(data)
        bandwidth = gather_rate(graph.num_nodes, config.samples * HIDDEN)
        parts = parts_of(graph, config.samples, config.rank)
        roofs = {name: max(work / rate, size / bandwidth) for name, (work, size) in parts.items()}
        seconds = measured_step(graph, options.epochs)
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
    record = {"benchmark": "roofline", "method": "fishergcn", "gflops": rate / 1e9, "rows": rows}
    write_record(options.out, {**record, "machine": machine() | {"torch": torch.__version__}})


if __name__ == "__main__":
    main()
