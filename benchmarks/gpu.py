"""Run-epochs per second on a GPU: 200 stacked runs of ours beside other ways to train; or the whole table.

    python benchmarks/gpu.py [--repetitions 3] [--peers plain recorded] [--out FILE.json]
    python benchmarks/gpu.py --table [--workers 3] [--no-mps] [--out FILE.json]

A run-epoch is one optimization step and one validation pass of one run. Peers: PyTorch Geometric's ``GCNConv`` in a
plain loop as its example has it, with ``torch.compile``, and with the epoch recorded as one CUDA graph, one run after
the other; and, where JAX is installed, a GCN whose 200 runs are stacked by ``vmap``, with a segment sum or a dense
matrix. Ratios are against the fastest peer of the same repetition, and against the plain loop. Where PyTorch Geometric
is missing, its loops are in plain torch (the record says which); how fast the plain loop is depends on the CPU that
starts its kernels, and varies from one repetition to the next. ``--device cpu`` shows that all parts run.

With ``--table``, every method is trained on every data set as
``fishergcn reproduce table2 --device cuda --workers 3`` does it, 20 shuffled splits x 10 seeds a cell. The clock runs
from the first import of data to the last cell: start of the processes, preprocessing and compilation are timed with the
rest. Processes share a GPU by NVIDIA's MPS, which is started for them, or, with ``--no-mps`` or where it is missing, by
slices of its time: results are kept as ``gpu_table.json`` or ``gpu_table_sliced.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _peers import Loop, Recorded, compiled, has_pyg, message_passing
from _peers_jax import Stacked, has_jax
from _process import RESULTS
from _record import machine, write_record

import fishergcn
from fishergcn import studies
from fishergcn.execution import Listener
from fishergcn.training import Run
from fishergcn.training._chunk import read_later
from fishergcn.training._engine import Trainer
from fishergcn.training._methods import parse_method
from fishergcn.training._problem import prepare

REQUIRED = {"gcn": 250.0, "fishergcn": 100.0}
REQUIRED_TABLE_MINUTES = 2.0
FIRST_SEED = 2019  # of splits and of initializations alike


def wait_for(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def gpu_machine(device: str) -> dict[str, Any]:
    gpu = torch.cuda.get_device_name(device) if device.startswith("cuda") else None
    return machine() | {"gpu": gpu, "torch": torch.__version__, "cuda": torch.version.cuda}


def shuffled_splits(graph: fishergcn.Graph, count: int) -> list[Any]:
    return [fishergcn.splits.shuffled(graph, FIRST_SEED + index) for index in range(count)]


def rate(
    epoch: Callable[[int], object], runs: int, epochs: int, warm_up: int, device: str, first: int = 0
) -> dict[str, float]:
    """Return run-epochs per second after a warm-up, from the epoch ``first`` on."""
    for index in range(first, first + warm_up):
        epoch(index)
    wait_for(device)
    start = time.perf_counter()
    for index in range(first + warm_up, first + warm_up + epochs):
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


def peers_of(graph: fishergcn.Graph, splits: int, seeds: int, device: str) -> dict[str, tuple[int, str, Any]]:
    """Return for each peer the number of its runs, what it is, and what makes its epoch."""

    def plain() -> Loop:
        torch.manual_seed(0)
        return message_passing(graph, shuffled_splits(graph, 1)[0], 64, device, use_pyg=has_pyg())

    def one(make: Callable[[], Loop]) -> Callable[[], Callable[[int], tuple[float, float]]]:
        def begin() -> Callable[[int], tuple[float, float]]:
            loop = make()
            return lambda _: loop.epoch()

        return begin

    name = "PyTorch Geometric's GCNConv" if has_pyg() else "GCNConv in plain torch"
    found: dict[str, tuple[int, str, Any]] = {
        "plain": (1, f"{name}, plain loop", one(plain)),
        "compiled": (1, f"{name}, torch.compile", one(lambda: compiled(plain()))),
        "recorded": (1, f"{name}, one CUDA graph an epoch", one(lambda: Recorded(plain()))),
    }
    if has_jax():
        every = shuffled_splits(graph, splits)
        for way in ("segment", "dense"):
            stack = partial(Stacked, graph, every, seeds, 64, dense=way == "dense")
            found[f"jax-{way}"] = (splits * seeds, f"JAX vmap, {way}", lambda stack=stack: stack().epoch)
    return found


def side_by_side(
    data: str, splits: int, seeds: int, epochs: int, device: str, *, peers: Sequence[str] = (), repetitions: int = 1
) -> Iterator[dict[str, Any]]:
    """Yield what each repetition measures; peers are set up, and compiled, once for all of them."""
    graph = fishergcn.datasets.load(data)
    every = {name: each for name, each in peers_of(graph, splits, seeds, device).items() if name in peers or not peers}
    steps: dict[str, Callable[[int], tuple[float, float]]] = {}
    for repetition in range(repetitions):
        scores, found = dict[str, float](), dict[str, Any]()
        for name, (runs, what, begin) in every.items():
            began = time.perf_counter()
            step = steps[name] if name in steps else steps.setdefault(name, begin())

            def measured(index: int, step: Any = step, name: str = name, scores: Any = scores) -> None:
                scores[name] = step(index)[1]

            found[name] = rate(measured, runs, epochs, 10, device, repetition * (epochs + 10)) | {"what": what}
            print(f"{what}: {time.perf_counter() - began:.0f} s", flush=True)
        yield _beside(data, graph, found, scores, (splits, seeds, epochs, device))


def _beside(
    data: str, graph: fishergcn.Graph, peers: dict[str, Any], scores: dict[str, float], sizes: tuple[int, int, int, str]
) -> dict[str, Any]:
    """Measure ours, and return it beside the peers of the same repetition."""
    splits, seeds, epochs, device = sizes
    best = max(peers.values(), key=lambda each: each["run_epochs_per_second"])
    ours = {}
    for method, required in REQUIRED.items():
        trainer, begun = stacked(graph, method, splits, seeds, device), list[Callable[[], Any]]()

        def epoch(index: int, trainer: Trainer = trainer, method: str = method, begun: Any = begun) -> None:
            # The scores of every epoch are read while the next one runs, as train() does to decide which runs stop.
            begun.append(read_later(trainer.epoch(index)))
            if len(begun) > trainer.ahead:
                scores[method] = float(begun.pop(0)()[3].mean())

        found = rate(epoch, splits * seeds, epochs, 10, device)
        ours[method] = found | {
            "ratio": found["run_epochs_per_second"] / peers["plain"]["run_epochs_per_second"],
            "ratio_of_best": found["run_epochs_per_second"] / best["run_epochs_per_second"],
            "required": required,
        }
        del trainer
    return {"data": data, "peers": peers, "best_peer": best["what"], "ours": ours, "val_accuracy": scores}


def show(result: dict[str, Any]) -> None:
    print(f"{result['data']}: run-epochs per second, mean validation accuracy at the end")
    accuracy = result["val_accuracy"]
    for name, row in result["peers"].items():
        print(f"  {name:12} {row['run_epochs_per_second']:10,.0f}   {accuracy[name]:.3f}   {row['what']}")
    for method, row in result["ours"].items():
        ratios = f"{row['ratio_of_best']:.1f} times {result['best_peer']}; {row['ratio']:.1f} times the plain loop"
        speed = f"{row['run_epochs_per_second']:10,.0f}   {accuracy[method]:.3f}"
        print(f"  {method:12} {speed}   {ratios}, required {row['required']:g}")


def summary(records: list[fishergcn.RunRecord], seconds: float) -> dict[str, Any]:
    fine = [record for record in records if record.status == "ok"]
    columns = ("test_accuracy", "test_loss", "test_cross_entropy", "epochs")
    means = {f"mean_{name}": float(np.mean([getattr(record, name) for record in fine])) for name in columns}
    spread = float(np.std([record.test_accuracy for record in fine]))
    counts = {"runs": len(records), "diverged": len(records) - len(fine)}
    return {**counts, **means, "std_test_accuracy": spread, "seconds": seconds}


def shared_by_mps() -> bool:
    """Say whether NVIDIA's multi-process service runs, which lets processes use a GPU at the same time."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # has ended meanwhile
            found.append(path.read_bytes())
    return any(b"nvidia-cuda-mps-server" in each for each in found)


class _Cells(Listener):
    """Notes down each cell as it is finished."""

    def __init__(self, options: argparse.Namespace, cells: int) -> None:
        self.options, self.cells, self.begun = options, cells, time.perf_counter()
        self.rows: list[dict[str, Any]] = []
        self.records: dict[tuple[str, str], list[fishergcn.RunRecord]] = {}

    def finished(self, name: tuple[str, str], records: Sequence[fishergcn.RunRecord]) -> None:
        data, method = name
        done = self.records.setdefault(name, [])
        done += records
        if len(done) < self.options.splits * self.options.seeds:
            return
        seconds = time.perf_counter() - self.begun
        facts = summary(done, seconds)
        self.rows.append({"dataset": data, "method": method, **facts})
        scores = f"{100 * facts['mean_test_accuracy']:6.2f} % loss {facts['mean_test_loss']:.3f}"
        print(f"{data:9} {method:12} {scores}   after {seconds:6.1f} s", flush=True)
        options, mps = self.options, shared_by_mps()
        name = "gpu_table" if mps else "gpu_table_sliced"
        write_record(
            options.out or RESULTS / f"{name}.json",
            {
                "benchmark": name,
                "mps": mps,
                "cells": self.cells,
                "minutes": seconds / 60,
                "required_minutes": REQUIRED_TABLE_MINUTES,
                "splits": options.splits,
                "seeds": options.seeds,
                "max_epochs": options.max_epochs,
                "workers": options.workers,
                "rows": self.rows,
                "machine": gpu_machine(options.device),
            },
        )


def table(options: argparse.Namespace) -> bool:
    """Train the cells, each noted down as soon as it is finished; return whether all were trained."""
    plan = studies.make_plan(
        "table2",
        datasets=options.datasets,
        methods=options.methods,
        splits=options.splits,
        seeds=options.seeds,
        epochs=options.max_epochs,
    )
    cells = _Cells(options, len(plan.cells))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as nothing:
        if options.no_mps:
            os.environ["CUDA_MPS_PIPE_DIRECTORY"] = nothing  # where no service is
        studies.run(plan, folder, device=options.device, workers=options.workers, listener=cells).close()
    return len(cells.rows) == len(plan.cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path)
    speed = parser.add_argument_group("speed")
    speed.add_argument("--data", default="cora")
    speed.add_argument("--epochs", type=int, default=200)
    speed.add_argument("--repetitions", type=int, default=3)
    speed.add_argument("--peers", nargs="+", default=(), help="only these; one of them must be the plain loop")
    full = parser.add_argument_group("table")
    full.add_argument("--table", action="store_true", help="train the whole table instead")
    full.add_argument("--datasets", nargs="+", default=["cora", "citeseer", "pubmed"])
    full.add_argument("--methods", nargs="+", default=list(fishergcn.METHODS))
    full.add_argument("--max-epochs", type=int, default=500)
    full.add_argument("--workers", type=int, default=3, help="processes on the GPU, beside the one that prepares")
    full.add_argument("--no-mps", action="store_true", help="processes share the GPU by slices of its time")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("gpu: no CUDA device here, nothing to measure.")
        return
    if options.table:
        raise SystemExit(0 if table(options) else 1)
    found = []
    sizes = (options.data, options.splits, options.seeds, options.epochs, options.device)
    for each in side_by_side(*sizes, peers=options.peers, repetitions=options.repetitions):
        found.append(each)
        show(each)
        facts = {"benchmark": "gpu", "data": options.data, "machine": gpu_machine(options.device)}
        write_record(options.out or RESULTS / "gpu.json", facts | {"repetitions": found})


if __name__ == "__main__":
    main()
