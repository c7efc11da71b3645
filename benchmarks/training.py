"""Time per epoch of ours on one thread beside plain GCNs of others on two.

    python benchmarks/training.py [--datasets cora citeseer pubmed] [--rounds 7] [--epochs 50] [--out FILE]

An epoch is one optimization step and one validation pass (loss and accuracy). Every contestant lives in a
process of its own, made ready and warmed up (compilation included) before the clock starts; then they take
turns, round after round, so that whatever else the machine does hits all alike. A round's time is divided by
its epochs, so that work done once in many epochs counts; the median over rounds is reported. Also: the runs
per second of two worker processes against one, from the difference of many runs and few, which takes
start-up and preprocessing out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _process import RESULTS, environment, measure_apart
from _record import machine, write_record

HIDDEN, WARM_UP = 64, 5
THREADS = {"pyg": 2, "sparse": 2, "sparse-bits": 2, "gcn": 1, "fishergcn": 1}
# How many times slower the peer's plain GCN must at least be.
REQUIRED: dict[tuple[str, str], dict[str, float]] = {
    ("gcn", "pyg"): {"cora": 20, "citeseer": 35, "pubmed": 10},
    ("gcn", "sparse"): {"cora": 4, "citeseer": 2.5, "pubmed": 3},
    ("gcn", "sparse-bits"): {},
    ("fishergcn", "pyg"): {"cora": 6, "citeseer": 12, "pubmed": 1.5},
    ("fishergcn", "sparse"): {"cora": 1, "citeseer": 1, "pubmed": 1},
    ("fishergcn", "sparse-bits"): {},
}
REQUIRED_WORKERS = 1.7


def contestant(name: str, data: str) -> Callable[[], tuple[float, float]]:
    """Return a function that runs one epoch and returns validation loss and accuracy."""
    import torch

    from fishergcn import TrainConfig, datasets, splits

    torch.set_num_threads(THREADS[name])
    torch.manual_seed(0)
    graph = datasets.load(data)
    split = splits.public(graph)
    if THREADS[name] > 1:
        from _peers import PEERS

        return PEERS[name](graph, split, HIDDEN).epoch

    from fishergcn._base.memory import keep_freed_memory
    from fishergcn.training import Run
    from fishergcn.training._engine import Trainer
    from fishergcn.training._methods import parse_method
    from fishergcn.training._problem import prepare

    keep_freed_memory()  # as train() does
    problem = prepare(graph, parse_method(name), TrainConfig(hidden=(HIDDEN,), samples=5))
    trainer = Trainer(problem, [Run(split, 2019)], torch.device("cpu"))
    done = 0

    def epoch() -> tuple[float, float]:
        nonlocal done
        measured = torch.stack([*trainer.step(done), *trainer.validate()]).double().numpy()
        done += 1
        return float(measured[2, 0]), float(measured[3, 0])

    return epoch


def serve(name: str, data: str) -> None:
    """Run as many epochs as each line of standard input says; answer with seconds and validation scores."""
    epoch = contestant(name, data)
    for line in sys.stdin:
        count = int(line)
        start = time.perf_counter()
        scores = [epoch() for _ in range(count)]
        print(json.dumps({"seconds": time.perf_counter() - start, "scores": scores}), flush=True)


class Contestant:
    """A process that runs epochs when told to."""

    def __init__(self, name: str, data: str) -> None:
        self.name = name
        self.scores: list[tuple[float, float]] = []
        command = [sys.executable, __file__, "--serve", name, "--datasets", data]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process: Any = subprocess.Popen(command, env=environment(THREADS[name]), **pipes)

    def run(self, epochs: int) -> float:
        """Return milliseconds per epoch."""
        self._process.stdin.write(f"{epochs}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with status {self._process.wait()}.")
        answer = json.loads(line)
        self.scores += answer["scores"]
        return 1e3 * float(answer["seconds"]) / epochs

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def compare(data: str, rounds: int, epochs: int, check_epoch: int) -> dict[str, Any]:
    """Let all contestants take turns on one data set."""
    contestants = [Contestant(name, data) for name in THREADS]
    times: dict[str, list[float]] = {name: [] for name in THREADS}
    for each in contestants:
        each.run(WARM_UP)
    for _ in range(rounds):
        for each in contestants:
            times[each.name].append(each.run(epochs))
    for each in contestants:
        # Untimed: few rounds may end before the epoch at which learning is checked.
        each.run(max(1, check_epoch - len(each.scores)))
        each.close()
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = [
        {
            "ours": ours,
            "peer": peer,
            "ratio": medians[peer] / medians[ours],
            "ratio_of_best": min(times[peer]) / min(times[ours]),
            "required": required.get(data),
        }
        for (ours, peer), required in REQUIRED.items()
    ]
    return {
        "data": data,
        "ms_per_epoch": medians,
        "ms_by_round": times,
        "ratios": ratios,
        "val_accuracy": {each.name: each.scores[check_epoch - 1][1] for each in contestants},
    }


def time_workers(data: str, rounds: int, epochs: int, few: int, many: int) -> dict[str, Any]:
    """Return runs per second of one and of two workers; to be run in a process with one thread."""
    import fishergcn

    graph = fishergcn.datasets.load(data)
    split = fishergcn.splits.public(graph)
    config = fishergcn.TrainConfig(max_epochs=epochs, stopping="none")

    def seconds(workers: int, runs: int) -> float:
        start = time.perf_counter()
        fishergcn.train(graph, "fishergcn", split, runs, config, workers=workers)
        return time.perf_counter() - start

    seconds(1, 1)  # warm up
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers, found in rates.items():
            found.append((many - few) / (seconds(workers, many) - seconds(workers, few)))
    one, two = (statistics.median(found) for found in rates.values())
    settings = {"data": data, "method": "fishergcn", "epochs": epochs, "runs": [few, many], "rounds": rounds}
    rates_by_workers = {str(workers): found for workers, found in rates.items()}
    return {
        **settings,
        "runs_per_second": {"1": one, "2": two},
        "by_round": rates_by_workers,
        "ratio": two / one,
        "required": REQUIRED_WORKERS,
    }


def show(result: dict[str, Any], check_epoch: int) -> None:
    print(f"\n{result['data']}: ms per epoch, validation accuracy after {check_epoch} epochs")
    for name, value in result["ms_per_epoch"].items():
        print(f"  {name:12} {THREADS[name]} threads {value:9.2f} ms   {result['val_accuracy'][name]:.3f}")
    for row in result["ratios"]:
        wanted = "" if row["required"] is None else f"   required {row['required']:g}"
        ratio = f"{row['ratio']:7.2f} (best {row['ratio_of_best']:.2f})"
        print(f"  {row['peer']:>12} / {row['ours']:10} {ratio}{wanted}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["cora", "citeseer", "pubmed"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=50, help="per round")
    parser.add_argument("--check-epoch", type=int, default=100, help="compare accuracies after so many epochs")
    parser.add_argument("--worker-runs", type=int, nargs=2, default=[2, 10], metavar=("FEW", "MANY"))
    parser.add_argument("--worker-epochs", type=int, default=200)
    parser.add_argument("--worker-rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "training.json")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--workers-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    few, many = options.worker_runs
    if options.serve:
        serve(options.serve, options.datasets[0])
        return
    if options.workers_only:
        data, rounds, epochs = options.datasets[0], options.worker_rounds, options.worker_epochs
        print(json.dumps(time_workers(data, rounds, epochs, few, many)))
        return

    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the machine is busy (load {load:.1f}): two threads suffer more from that than one.")
    results = []
    for data in options.datasets:
        results.append(compare(data, options.rounds, options.epochs, options.check_epoch))
        show(results[-1], options.check_epoch)
    workers = measure_apart(
        __file__, "--workers-only", "--datasets", options.datasets[0], "--worker-runs", few, many,
        "--worker-epochs", options.worker_epochs, "--worker-rounds", options.worker_rounds,
    )  # fmt: skip
    print(f"\ntwo workers / one: {workers['ratio']:.2f} times the runs per second, required {REQUIRED_WORKERS}")
    record = {
        "benchmark": "training",
        "hidden": HIDDEN,
        "samples": 5,
        "rounds": options.rounds,
        "epochs_per_round": options.epochs,
        "threads": THREADS,
        "accuracy_after": options.check_epoch,
        "results": results,
        "workers": workers,
        "load_before": load,
        "machine": machine() | {name: version(name) for name in ("torch", "torch_geometric")},
    }
    write_record(options.out, record)


if __name__ == "__main__":
    main()
