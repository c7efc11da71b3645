"""Mini-batch training on a generated graph that full-batch training would not fit: memory and time per epoch.

    python benchmarks/large_graph.py [--nodes 2000000] [--links 20000000] [--workers 1 2] [--out FILE.json]

A process of its own generates the graph, computes the spectrum and trains; what counts is the peak of resident memory,
all libraries included, and the seconds of an epoch, validation included. With ``--workers 1 2`` the same is done by one
process and by two that share every batch, each with one thread, and the ratio is noted.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _process import RESULTS, environment, peak_mb
from _record import machine, write_record

REQUIRED_GB, REQUIRED_RATIO = 12.0, 1.5


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Generate, prepare and train in this process, with others if torchrun started them."""
    import numpy as np
    import torch
    from _planted import planted_graph, planted_split

    from fishergcn import TrainConfig
    from fishergcn._base.memory import keep_freed_memory
    from fishergcn.spectrum import Spectrum, top_spectrum
    from fishergcn.training import BatchSettings, Run, prepare_batches
    from fishergcn.training._distributed import process_group
    from fishergcn.training._methods import parse_method
    from fishergcn.training._minibatch import MiniBatchTrainer

    torch.set_num_threads(1)
    peaks, seconds = {"libraries": peak_mb()}, {}
    clock = time.perf_counter()

    def done(stage: str) -> None:
        nonlocal clock
        peaks[stage], seconds[stage] = peak_mb(), time.perf_counter() - clock
        if group.first:
            print(f"{stage}: {seconds[stage]:.1f} s, peak {peaks[stage] / 1e3:.2f} GB", file=sys.stderr, flush=True)
        clock = time.perf_counter()

    with process_group(torch.device("cpu")) as (group, device):
        graph = planted_graph(options.nodes, options.links, degrees=options.degrees)
        done("graph")
        config = TrainConfig(hidden=(options.hidden,), rank=options.rank, samples=options.samples, stopping="none")
        plain, _ = prepare_batches(graph, parse_method("gcn"), config)
        done("propagation")
        method, spectrum = parse_method(options.method), None
        if method.perturbed and group.first:
            kept = Path(options.scratch) / "spectrum.npz"
            if kept.exists():
                with np.load(kept) as stored:
                    spectrum = Spectrum(stored["w"], stored["u"], float(stored["trace"]), float(stored["residual"]))
            else:
                spectrum = top_spectrum(plain.propagation, options.rank, tolerance=options.tolerance)
                np.savez(
                    kept,
                    w=spectrum.eigenvalues,
                    u=spectrum.eigenvectors,
                    trace=spectrum.trace,
                    residual=spectrum.residual,
                )
        done("spectrum")
        del plain
        problem, basis = prepare_batches(graph, method, config, spectrum=spectrum, group=group)
        residual = None if spectrum is None else spectrum.residual
        del spectrum
        run = Run(planted_split(options.nodes), 2019)
        trainer = MiniBatchTrainer(
            problem, basis, run, BatchSettings(options.batch_size, tuple(options.fanout)), device, group
        )
        del basis
        done("preparation")
        epochs = []
        keep_freed_memory()  # as train() does
        for epoch in range(options.epochs):
            worked, found = time.process_time(), [float(each) for each in trainer.epoch(epoch)]
            worked = time.process_time() - worked
            done(f"epoch {epoch + 1}")
            whole = seconds.pop(f"epoch {epoch + 1}")
            names = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "worked_seconds", "seconds")
            epochs.append(dict(zip(names, (*found, worked, whole), strict=True)))
        memory = torch.tensor([peak_mb() / 1e3], dtype=torch.float64)
        [total] = group.add([memory])
    return {
        "rank": group.rank,
        "peak_gb": float(memory),
        "peak_gb_all_processes": float(total),
        "peak_mb_up_to": peaks,
        "seconds": seconds,
        "residual": residual,
        "epochs": epochs,
    }


def measure_apart(workers: int, arguments: list[str]) -> dict[str, Any]:
    """Run this script in new processes and return what the first of them found."""
    command = [sys.executable]
    if workers > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command += ["-m", "torch.distributed.run", f"--nproc-per-node={workers}"]
        command += ["--master-addr=127.0.0.1", f"--master-port={port}"]
    command += [__file__, "--here", *arguments]
    done = subprocess.run(command, env=environment(1), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[1:])} ended with status {done.returncode}.")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--links", type=int, default=20_000_000)
    parser.add_argument("--degrees", choices=("uniform", "power"), default="uniform")
    parser.add_argument("--method", default="fishergcn")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanout", type=int, nargs="+", default=[10, 10])
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--tolerance", type=float, default=None, help="largest relative residual of the spectrum")
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--out", type=Path, default=RESULTS / "large_graph.json")
    parser.add_argument("--scratch", default="", help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        found = measure(options)
        if int(os.environ.get("RANK", "0")) == 0:
            print(json.dumps(found))
        return

    given = [each for each in sys.argv[1:] if not each.startswith("--out=")]
    settings = {name: value for name, value in vars(options).items() if name not in ("out", "scratch", "here")}
    with tempfile.TemporaryDirectory() as scratch:
        results = {
            str(workers): measure_apart(workers, [*given, f"--scratch={scratch}"]) for workers in options.workers
        }
    record: dict[str, Any] = {"benchmark": "large_graph", **settings, "required_gb": REQUIRED_GB, "results": results}
    for workers, found in results.items():
        last = found["epochs"][-1]
        print(
            f"{workers} process(es): {found['peak_gb_all_processes']:.2f} GB in all, {last['seconds']:.1f} s an epoch "
            f"(the first process works {last['worked_seconds']:.1f} s), validation {last['val_accuracy']:.1%}"
        )
    if {"1", "2"} <= set(results):
        times = {workers: min(each["seconds"] for each in found["epochs"]) for workers, found in results.items()}
        record |= {"ratio": times["1"] / times["2"], "required_ratio": REQUIRED_RATIO}
        print(f"two processes are {record['ratio']:.2f} times as fast as one, wanted {REQUIRED_RATIO:g}")
    write_record(options.out, record | {"machine": machine() | {"torch": version("torch")}})


if __name__ == "__main__":
    main()
