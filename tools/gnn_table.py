"""Train five networks of PyTorch Geometric with and without the adversary, and write the table of docs/gnn_table.md.

    python tools/gnn_table.py --device cuda --processes 12 --out results/gnn/runs.csv
    python tools/gnn_table.py --table results/gnn/runs.csv --into docs/gnn_table.md

The first command can be interrupted and repeated: runs that the file holds are not trained again. One training loop
keeps a GPU idle most of the time, waiting for the next small kernel, so several worker processes share it. They take
tasks from a list by creating files, and write rows of their own; the parent merges them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from _gnn_networks import MODES, RANK, SETTINGS, train
from _gnn_page import DATASETS, Row, csv_text, filled, key_of, read_rows
from torch_geometric.transforms import NormalizeFeatures

import fishergcn
from fishergcn._base.files import write_text
from fishergcn._base.npz import read_arrays, write_arrays
from fishergcn.integrations.pyg import AddBuresSpectrum

FIRST_SPLIT = 2019
SPECTRUM = ("bures_basis", "bures_eigenvalues", "bures_trace")


def tasks_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """List all runs: split after split, so that what an early end leaves out is whole splits; longest first."""
    tasks = [
        {"dataset": dataset, "model": model, "mode": mode, "split": f"shuffled:{split}", "seed": seed,
         "epochs": options.epochs}
        for split in range(FIRST_SPLIT, FIRST_SPLIT + options.splits)
        for seed in range(options.seeds)
        for dataset in options.datasets
        for model in options.models
        for mode in MODES
    ]  # fmt: skip
    passes = {"plain": 2, "x5": 6, "adversary": 8}
    return sorted(
        tasks,
        key=lambda task: (task["split"], task["seed"], -SETTINGS[task["model"]].cost * passes[task["mode"]]),
    )


def merge(out: Path, folder: Path) -> dict[tuple[str, ...], Row]:
    """Put the rows of all workers into the file, which is rewritten at once or not at all."""
    known = {key_of(row): row for row in read_rows(out)}
    before = len(known)
    for part in sorted(folder.glob("part-*.csv")):
        known.update((key_of(row), row) for row in read_rows(part))
    if len(known) > before:
        write_text(out, csv_text((known[key] for key in sorted(known)), header=True))
    return known


def run_all(options: argparse.Namespace) -> int:
    """Train what is missing in ``options.out``; return 0 if nothing is missing at the end."""
    started, out = time.perf_counter(), options.out
    folder = out.with_suffix(".work")
    out.parent.mkdir(parents=True, exist_ok=True)
    tasks = tasks_of(options)
    known = merge(out, folder)  # with what an interrupted command left behind
    missing = [task for task in tasks if key_of(task) not in known]
    shutil.rmtree(folder, ignore_errors=True)
    if missing:
        folder.mkdir()
        for dataset in {task["dataset"] for task in missing}:
            data = AddBuresSpectrum(RANK)(fishergcn.datasets.load(dataset).to_pyg())
            write_arrays(folder / f"{dataset}.npz", {name: data[name].numpy() for name in SPECTRUM})
        write_text(folder / "plan.json", json.dumps({"device": options.device, "tasks": missing}))
        count = min(options.processes, len(missing))
        print(f"{len(missing)} runs of {len(tasks)} to train, {count} processes, {options.device}", flush=True)
        command = [sys.executable, str(Path(__file__).resolve()), "--work", str(folder), "--worker"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        workers = [subprocess.Popen([*command, str(number)], env=environment) for number in range(count)]
        try:
            watch(workers, out, folder, len(missing), len(known), started, options.max_seconds)
        finally:
            end(workers, folder)
            known = merge(out, folder)
            shutil.rmtree(folder, ignore_errors=True)
    left = sum(key_of(task) not in known for task in tasks)
    print(f"{len(tasks) - left} of {len(tasks)} runs in {out} after {time.perf_counter() - started:.0f} s", flush=True)
    return int(left > 0)


def watch(
    workers: list[subprocess.Popen[bytes]], out: Path, folder: Path, planned: int, before: int, started: float,
    limit: float,
) -> None:  # fmt: skip
    """Report progress and save rows until all workers have ended or the time is over."""
    said = 0.0
    while any(worker.poll() is None for worker in workers):
        time.sleep(0.2)
        seconds = time.perf_counter() - started
        if seconds - said >= 5:
            said, done = seconds, len(merge(out, folder)) - before
            ahead = f", about {seconds / done * (planned - done):.0f} s to go" if done else ""
            print(f"{seconds:5.0f} s  {done} of {planned} runs{ahead}", flush=True)
        if seconds > limit:
            print(f"stopped by --max-seconds {limit:g}; the same command goes on where this one ended", flush=True)
            return


def end(workers: list[subprocess.Popen[bytes]], folder: Path) -> None:
    """Ask the workers to stop, which takes them ten epochs, and end those that do not."""
    (folder / "stop").touch()
    patience = time.perf_counter() + 10
    for worker in workers:
        try:
            worker.wait(max(0.0, patience - time.perf_counter()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def work(folder: Path, number: int) -> int:
    """Train one run after the other that no other worker has taken."""
    torch.set_num_threads(1)
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    device = plan["device"]
    place = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    versions = {"device": place, "torch": torch.__version__, "torch_geometric": torch_geometric.__version__}
    loaded: dict[str, tuple[fishergcn.Graph, Any]] = {}
    with (folder / f"part-{number}.csv").open("w", encoding="utf-8") as part:
        part.write(csv_text([], header=True))
        for index, task in enumerate(plan["tasks"]):
            if (folder / "stop").exists():
                break
            try:
                (folder / f"taken-{index}").touch(exist_ok=False)
            except FileExistsError:
                continue
            if task["dataset"] not in loaded:
                loaded[task["dataset"]] = load(task["dataset"], device, folder)
            graph, data = loaded[task["dataset"]]
            split = fishergcn.splits.parse(graph, task["split"])
            parts = {name: torch.tensor(getattr(split, name), device=device) for name in ("train", "val", "test")}
            how = task["model"], task["mode"], task["seed"], task["epochs"]
            found = train(data, parts, *how, stopped=(folder / "stop").exists)
            if found is not None:
                part.write(csv_text([{**task, **found, **versions}], header=False))
                part.flush()
    return 0


def load(dataset: str, device: str, folder: Path) -> tuple[fishergcn.Graph, Any]:
    """Return a data set as a graph and, with rows that sum to 1 and the spectrum, for PyG."""
    graph = fishergcn.datasets.load(dataset)
    data = NormalizeFeatures()(graph.to_pyg())
    for name, values in read_arrays(folder / f"{dataset}.npz").items():
        data[name] = torch.tensor(values)
    return graph, data.to(device)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--out", type=Path, help="the CSV file of runs to make or to complete")
    options.add_argument("--device", default="cpu", help="such as cpu or cuda")
    options.add_argument("--processes", type=positive, default=2)
    options.add_argument("--splits", type=positive, default=5, help=f"shuffled splits, from seed {FIRST_SPLIT} on")
    options.add_argument("--seeds", type=positive, default=2, help="initializations on each split")
    options.add_argument("--epochs", type=positive, default=200)
    options.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    options.add_argument("--models", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    options.add_argument("--max-seconds", type=float, default=math.inf, help="stop then, and keep what is done")
    options.add_argument("--table", type=Path, metavar="RUNS", help="write the table of these runs")
    options.add_argument("--into", type=Path, metavar="PAGE", help="the page with the marked blocks")
    options.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    return options


def main(arguments: list[str] | None = None) -> int:
    line = parser()
    options = line.parse_args(arguments)
    if options.worker is not None:
        return work(options.work, options.worker)
    if (options.out is None) == (options.table is None) or (options.table is None) != (options.into is None):
        line.error("give --out RUNS to train, or --table RUNS --into PAGE to write the table")
    if options.out is not None:
        return run_all(options)
    write_text(options.into, filled(options.into.read_text(encoding="utf-8"), options.table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
