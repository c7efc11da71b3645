"""Run-epochs per second on a GPU: 200 stacked runs of ours beside a plain loop; or the whole table.

    python benchmarks/gpu.py [--out FILE.json]
    python benchmarks/gpu.py --table [--max-minutes 9] [--out FILE.json] [--csv FILE.csv]

A run-epoch is one optimization step and one validation pass of one run. The plain loop is PyTorch Geometric's
``GCNConv`` as its example uses it, one run after the other; where that package is missing, the same loop in
plain torch (the record says which). With ``--table``, every method is trained on every data set by
``fishergcn.train``, 20 shuffled splits x 10 seeds a cell, preprocessing timed with the rest; each cell is on
disk as soon as it is finished.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _peers import has_pyg, message_passing
from _process import RESULTS
from _record import machine, write_record

import fishergcn
from fishergcn.training import Run
from fishergcn.training._engine import Trainer
from fishergcn.training._methods import parse_method
from fishergcn.training._problem import prepare

REQUIRED = {"gcn": 250.0, "fishergcn": 100.0}
REQUIRED_TABLE_MINUTES = 2.0
FIRST_SEED = 2019  # of splits and of initializations alike
COLUMNS = (
    "dataset", "method", "split", "seed", "status", "epochs",
    "test_accuracy", "test_loss", "test_cross_entropy",
    "val_accuracy", "val_loss", "val_cross_entropy", "seconds",
)  # fmt: skip
# Cheap cells first: if time runs out, only the high-order cells of PubMed are missing.
CELLS = [
    *((data, method) for data in ("cora", "citeseer") for method in ("gcn", "gcn-x5", "fishergcn")),
    *((data, method) for data in ("cora", "citeseer") for method in ("gcn-t", "gcn-t-x5", "fishergcn-t")),
    *(("pubmed", method) for method in ("gcn", "gcn-x5", "fishergcn", "gcn-t", "gcn-t-x5", "fishergcn-t")),
]


def wait_for(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def gpu_machine(device: str) -> dict[str, Any]:
    gpu = torch.cuda.get_device_name(device) if device.startswith("cuda") else None
    return machine() | {"gpu": gpu, "torch": torch.__version__, "cuda": torch.version.cuda}


def shuffled_splits(graph: fishergcn.Graph, count: int) -> list[Any]:
    return [fishergcn.splits.shuffled(graph, FIRST_SEED + index) for index in range(count)]


def rate(epoch: Callable[[int], object], runs: int, epochs: int, warm_up: int, device: str) -> dict[str, float]:
    """Return run-epochs per second after a warm-up."""
    for index in range(warm_up):
        epoch(index)
    wait_for(device)
    start = time.perf_counter()
    for index in range(warm_up, warm_up + epochs):
        epoch(index)
    wait_for(device)
    seconds = time.perf_counter() - start
    return {
        "runs": runs,
        "epochs": epochs,
        "seconds": seconds,
        "run_epochs_per_second": runs * epochs / seconds,
    }


def stacked(graph: fishergcn.Graph, method: str, splits: int, seeds: int, device: str) -> Trainer:
    runs = [Run(split, FIRST_SEED + s) for split in shuffled_splits(graph, splits) for s in range(seeds)]
    return Trainer(prepare(graph, parse_method(method), fishergcn.TrainConfig()), runs, torch.device(device))


def side_by_side(data: str, splits: int, seeds: int, epochs: int, device: str) -> dict[str, Any]:
    graph = fishergcn.datasets.load(data)
    torch.manual_seed(0)
    loop = message_passing(graph, shuffled_splits(graph, 1)[0], 64, device, use_pyg=has_pyg())
    scores = {}

    def plain(_: int) -> None:
        scores["peer"] = loop.epoch()[1]

    name = "PyTorch Geometric's GCNConv" if has_pyg() else "GCNConv written in plain torch (no torch_geometric here)"
    peer = rate(plain, 1, epochs, 10, device) | {"what": name}
    ours = {}
    for method, required in REQUIRED.items():
        trainer = stacked(graph, method, splits, seeds, device)

        def epoch(index: int, trainer: Trainer = trainer, method: str = method) -> None:
            # Every epoch the scores are read back, as train() does to decide which runs stop.
            measured = torch.stack([each.double() for each in trainer.epoch(index)]).cpu().numpy()
            scores[method] = float(measured[3].mean())

        found = rate(epoch, splits * seeds, epochs, 10, device)
        ratio = found["run_epochs_per_second"] / peer["run_epochs_per_second"]
        ours[method] = found | {"ratio": ratio, "required": required}
        del trainer
    return {"data": data, "peer": peer, "ours": ours, "val_accuracy": scores}


def show(result: dict[str, Any]) -> None:
    peer = result["peer"]
    print(f"{result['data']}: run-epochs per second, mean validation accuracy at the end")
    accuracy = result["val_accuracy"]
    speed = f"{peer['run_epochs_per_second']:10,.0f}   {accuracy['peer']:.3f}"
    print(f"  {'plain loop':10} {speed}   {peer['what']}")
    for method, row in result["ours"].items():
        speed = f"{row['run_epochs_per_second']:10,.0f}   {accuracy[method]:.3f}"
        print(f"  {method:10} {speed}   ratio {row['ratio']:.1f}, required {row['required']:g}")


def summary(records: list[fishergcn.RunRecord], seconds: float) -> dict[str, Any]:
    fine = [record for record in records if record.status == "ok"]
    columns = ("test_accuracy", "test_loss", "test_cross_entropy", "epochs")
    means = {f"mean_{name}": float(np.mean([getattr(record, name) for record in fine])) for name in columns}
    spread = float(np.std([record.test_accuracy for record in fine]))
    counts = {"runs": len(records), "diverged": len(records) - len(fine)}
    return {**counts, **means, "std_test_accuracy": spread, "seconds": seconds}


def train_cell(data: str, method: str, options: argparse.Namespace) -> tuple[dict[str, Any], list[Any]]:
    """Train one cell; a cell that fails is noted down and the others go on."""
    start = time.perf_counter()
    try:
        graph = fishergcn.datasets.load(data)
        config = fishergcn.TrainConfig(max_epochs=options.max_epochs)
        splits = shuffled_splits(graph, options.splits)
        records = fishergcn.train(graph, method, splits, options.seeds, config, device=options.device)
        wait_for(options.device)
    except Exception as error:
        print(f"{data} {method} failed: {type(error).__name__}: {error}", flush=True)
        return {"error": f"{type(error).__name__}: {error}", "seconds": time.perf_counter() - start}, []
    finally:
        if options.device.startswith("cuda"):
            torch.cuda.empty_cache()
    return summary(records, time.perf_counter() - start), records


def table(options: argparse.Namespace) -> bool:
    """Train the cells in order, each on disk as soon as it is finished; return whether all were trained."""
    cells = [cell for cell in CELLS if cell[0] in options.datasets and cell[1] in options.methods]
    out = options.out or RESULTS / "gpu_table.json"
    rows: list[dict[str, Any]] = []
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    with options.csv.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for data, method in cells:
            if time.perf_counter() - begin > 60 * options.max_minutes:
                missing = len(cells) - len(rows)
                print(f"{options.max_minutes:g} minutes are over; {missing} cells are not trained.")
                break
            facts, records = train_cell(data, method, options)
            writer.writerows([getattr(record, name) for name in COLUMNS] for record in records)
            file.flush()
            os.fsync(file.fileno())
            rows.append({"dataset": data, "method": method, **facts})
            minutes = (time.perf_counter() - begin) / 60
            record = {
                "benchmark": "gpu_table",
                "cells": len(cells),
                "minutes": minutes,
                "required_minutes": REQUIRED_TABLE_MINUTES,
                "splits": options.splits,
                "seeds": options.seeds,
                "max_epochs": options.max_epochs,
                "rows": rows,
                "machine": gpu_machine(options.device),
            }
            write_record(out, record)
            if records:
                scores = f"{100 * facts['mean_test_accuracy']:6.2f} % loss {facts['mean_test_loss']:.3f}"
                print(
                    f"{data:9} {method:12} {scores} {facts['seconds']:7.1f} s   {minutes:5.2f} min",
                    flush=True,
                )
    return len(rows) == len(cells) and not any("error" in row for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path)
    speed = parser.add_argument_group("speed")
    speed.add_argument("--data", default="cora")
    speed.add_argument("--epochs", type=int, default=200)
    full = parser.add_argument_group("table")
    full.add_argument("--table", action="store_true", help="train the whole table instead")
    full.add_argument("--datasets", nargs="+", default=sorted({data for data, _ in CELLS}))
    full.add_argument("--methods", nargs="+", default=list(fishergcn.METHODS))
    full.add_argument("--max-epochs", type=int, default=500)
    full.add_argument("--max-minutes", type=float, default=9.0, help="start no new cell after that")
    full.add_argument("--csv", type=Path, default=RESULTS / "gpu_table.csv")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("gpu: no CUDA device here, nothing to measure.")
        return
    if options.table:
        raise SystemExit(0 if table(options) else 1)
    result = side_by_side(options.data, options.splits, options.seeds, options.epochs, options.device)
    show(result)
    record = {"benchmark": "gpu", **result, "machine": gpu_machine(options.device)}
    write_record(options.out or RESULTS / "gpu.json", record)


if __name__ == "__main__":
    main()
