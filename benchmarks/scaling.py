"""Time and memory per epoch against the size of the graph, with a picture.

    python benchmarks/scaling.py [--nodes 10000 31623 100000 316228 1000000] [--methods gcn fishergcn]
                                 [--epochs 3] [--hidden 64] [--samples 5] [--threads 2] [--out FILE.json]

Random graphs in which every node has 10 links on average, 4 of 5 within its class; 500 features of which
about 20 are stored per node; 10 classes; 1 % of the nodes for training, 1 % for validation. An epoch is one
optimization step and one validation pass, on two threads; each size and method runs in a process of its own.
A plain GCN computes only the rows within reach of the labeled nodes, and their share does not depend on n.
The memory is the peak of the process from its start to the last epoch, less what the libraries take. The
exponents are slopes of straight lines through the logarithms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from _process import RESULTS, measure_apart, peak_mb
from _record import machine, write_record
from scipy import sparse

from fishergcn import Graph
from fishergcn.splits import Split

CLASSES, LINKS_PER_NODE, FEATURES, ENTRIES, WITHIN, LABEL_RATE = 10, 10, 500, 20, 0.8, 0.01


def planted_graph(nodes: int, seed: int) -> Graph:
    """Return a random graph whose links and features prefer a node's class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes) % CLASSES
    row = rng.integers(nodes, size=nodes * LINKS_PER_NODE // 2)
    column = rng.integers(nodes, size=row.size)
    # Moving a node by less than CLASSES places gives it any class and keeps it nearly uniform.
    same = rng.random(row.size) < WITHIN
    column = np.where(same, np.minimum(column - column % CLASSES + row % CLASSES, nodes - 1), column)
    apart = row != column
    half = sparse.coo_array((np.ones(apart.sum()), (row[apart], column[apart])), shape=(nodes, nodes)).tocsr()
    adjacency = half + half.T
    adjacency.data[:] = 1.0
    return Graph(adjacency, planted_features(labels, rng), labels, name=f"planted-{nodes}")


def planted_features(labels: Any, rng: np.random.Generator) -> Any:
    """Draw features, half of them from the tenth of all columns that belongs to the class."""
    block = FEATURES // CLASSES
    columns = rng.integers(FEATURES, size=(labels.size, ENTRIES))
    own = columns[:, : ENTRIES // 2]
    columns[:, : ENTRIES // 2] = own % block + block * labels[:, None]
    pointers = np.arange(0, columns.size + 1, ENTRIES)
    matrix = sparse.csr_array((np.ones(columns.size, dtype=np.float32), columns.ravel(), pointers))
    matrix.resize((labels.size, FEATURES))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def random_split(nodes: int, seed: int) -> Split:
    count = max(CLASSES, int(LABEL_RATE * nodes))
    train, val, test = np.random.default_rng(seed).permutation(nodes)[: 3 * count].reshape(3, count)
    return Split("random", train, val, test)


def make_trainer(graph: Graph, split: Split, method: str, hidden: int, samples: int) -> Any:
    import torch

    from fishergcn import TrainConfig
    from fishergcn.training import Run
    from fishergcn.training._engine import Trainer
    from fishergcn.training._methods import parse_method
    from fishergcn.training._problem import prepare

    problem = prepare(graph, parse_method(method), TrainConfig(hidden=(hidden,), samples=samples))
    return Trainer(problem, [Run(split, 2019)], torch.device("cpu"))


def run_epoch(trainer: Any, epoch: int) -> tuple[float, float]:
    """Return the seconds of an epoch and the validation accuracy after it."""
    start = time.perf_counter()
    trainer.step(epoch)
    accuracy = float(trainer.validate()[1][0])
    return time.perf_counter() - start, accuracy


def measure(nodes: int, method: str, epochs: int, hidden: int, samples: int, threads: int) -> dict[str, Any]:
    """Train on one graph in this process."""
    import torch

    from fishergcn._base.memory import keep_freed_memory

    torch.set_num_threads(threads)
    # A tiny graph first: it loads and compiles all that is needed, which is no cost of large graphs.
    run_epoch(make_trainer(planted_graph(1000, 0), random_split(1000, 1), method, hidden, samples), 0)
    libraries, start = peak_mb(), time.perf_counter()
    graph, split = planted_graph(nodes, seed=0), random_split(nodes, seed=1)
    generated = time.perf_counter()
    keep_freed_memory()  # as train() does
    trainer = make_trainer(graph, split, method, hidden, samples)
    prepared, before = time.perf_counter(), peak_mb()
    seconds, accuracies = zip(*(run_epoch(trainer, epoch) for epoch in range(epochs + 1)), strict=True)
    peak = peak_mb()
    return {
        "nodes": nodes,
        "links": graph.num_links,
        "method": method,
        "labeled": {"train": len(split.train), "val": len(split.val)},
        "seconds_per_epoch": statistics.median(seconds[1:]),  # the first also fetches memory from the system
        "seconds": seconds,
        "generation_seconds": generated - start,
        "preprocessing_seconds": prepared - generated,
        "peak_mb": peak,
        "peak_mb_before_epochs": before,
        "libraries_mb": libraries,
        "memory_mb": peak - libraries,
        "val_accuracy": accuracies[-1],
    }


def exponents(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Fit time and memory of each method as powers of n, over all sizes."""
    found: dict[str, dict[str, float]] = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        if len(mine) > 1:
            nodes = np.log([row["nodes"] for row in mine])
            slopes = {
                name: float(np.polyfit(nodes, np.log([row[column] for row in mine]), 1)[0])
                for name, column in (("time", "seconds_per_epoch"), ("memory", "memory_mb"))
            }
            found[method] = slopes
    return found


def draw(rows: list[dict[str, Any]], fitted: dict[str, dict[str, float]], path: Path) -> None:
    """Draw time and memory over n, both axes logarithmic, as PNG and SVG."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "scaling"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.0), layout="constrained")
    panels = (
        ("time", "seconds_per_epoch", "seconds per epoch", 1.0),
        ("memory", "memory_mb", "memory (GB)", 1e-3),
    )
    for axis, (name, column, label, unit) in zip(axes, panels, strict=True):
        for method in dict.fromkeys(row["method"] for row in rows):
            mine = [row for row in rows if row["method"] == method]
            note = f", exponent {fitted[method][name]:.2f}" if method in fitted else ""
            values = [unit * row[column] for row in mine]
            axis.loglog([row["nodes"] for row in mine], values, "o-", label=method + note)
        ends = np.array([min(row["nodes"] for row in rows), max(row["nodes"] for row in rows)], dtype=float)
        lowest = min(unit * row[column] for row in rows)
        axis.loglog(ends, 0.5 * lowest * ends / ends[0], "k:", label="linear")
        axis.set(xlabel="nodes", ylabel=label)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 31_623, 100_000, 316_228, 1_000_000])
    parser.add_argument("--methods", nargs="+", default=["gcn", "fishergcn"])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "scaling.json", help="the pictures go beside it")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("epochs", "hidden", "samples", "threads")}
    if options.here:
        print(json.dumps(measure(options.nodes[0], options.methods[0], **settings)))
        return

    arguments = [f"--{name}={value}" for name, value in settings.items()]
    rows = []
    for method in options.methods:
        for nodes in options.nodes:
            row = measure_apart(
                __file__, "--here", f"--nodes={nodes}", f"--methods={method}", *arguments, threads=options.threads
            )
            rows.append(row)
            sizes = f"{row['seconds_per_epoch']:9.4f} s per epoch {row['memory_mb'] / 1e3:8.3f} GB"
            print(
                f"{method:10} {nodes:9,} nodes {sizes}   prepared in {row['preprocessing_seconds']:.1f} s",
                flush=True,
            )
    fitted = exponents(rows)
    for method, slopes in fitted.items():
        print(f"{method:10} time grows as n^{slopes['time']:.2f}, memory as n^{slopes['memory']:.2f}")
    graph = {
        "classes": CLASSES,
        "links_per_node": LINKS_PER_NODE,
        "features": FEATURES,
        "entries_per_node": ENTRIES,
        "label_rate": LABEL_RATE,
    }
    record = {"benchmark": "scaling", **settings, "graph": graph, "rows": rows, "exponents": fitted}
    write_record(options.out, record | {"machine": machine() | {"torch": version("torch")}})
    draw(rows, fitted, options.out)


if __name__ == "__main__":
    main()
