"""High-order products on one thread beside torch's CSR product, and training with them beside an earlier version.

    python benchmarks/high_order.py
    git worktree add /tmp/before 0dc8ed3
    python benchmarks/high_order.py --before /tmp/before/src

The product has 5 × 64 columns, as in the first layer of ``fishergcn-t``. Both sides take turns in one process; the best
of the turns is taken in each of three repetitions, and all three are shown. The earlier version, given by the folder of
its sources, trains in processes of its own, in turns with this one: the processor time of many epochs
less that of few.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from _process import RESULTS, environment
from _record import machine, write_record

from fishergcn import datasets, high_order
from fishergcn.operators import SparseMatrix

REQUIRED = {"cora": 2.0, "citeseer": None, "pubmed": 2.5}
REQUIRED_TRAINING = 2.0
_COLUMNS = (5, 64)
_TRAINING = """
import json, time, torch, fishergcn
torch.set_num_threads(1)
graph, seconds = fishergcn.datasets.load("pubmed"), []
for epochs in (1, 2, 2 + {epochs}):
    start = time.process_time()
    config = fishergcn.TrainConfig(max_epochs=epochs, stopping="none")
    [record] = fishergcn.train(graph, "fishergcn-t", ["public"], config=config, device="cpu")
    seconds.append(time.process_time() - start)
print(json.dumps([(seconds[2] - seconds[1]) / {epochs}, record.curves["train_loss"][-1]]))
"""


def product(data: str, repetitions: int, turns: int) -> dict[str, Any]:
    """Time both products of a data set."""
    start = time.perf_counter()
    propagation = high_order(datasets.load(data).adjacency)
    matrix = SparseMatrix.from_scipy(propagation, dtype=torch.float32)
    dense = torch.randn(matrix.shape[1], *_COLUMNS, generator=torch.Generator().manual_seed(0))
    flat, rows = dense.flatten(1), []
    with torch.inference_mode():
        matrix.propagate(dense)
        start = time.perf_counter()
        matrix._kept.clear()
        matrix.propagate(dense)
        first = time.perf_counter() - start
        for _ in range(repetitions):
            best = {"torch": float("inf"), "ours": float("inf")}
            for _ in range(turns):
                start = time.perf_counter()
                theirs = matrix.forward @ flat
                middle = time.perf_counter()
                ours = matrix.propagate(dense)
                stop = time.perf_counter()
                best["torch"] = min(best["torch"], middle - start)
                best["ours"] = min(best["ours"], stop - middle)
            rows.append({**best, "ratio": best["torch"] / best["ours"]})
    difference = (theirs.view_as(ours) - ours).abs().max().item()
    operations = 2 * propagation.nnz * flat.shape[1]
    ours_best = min(row["ours"] for row in rows)
    return {
        "data": data,
        "entries": propagation.nnz,
        "repetitions": rows,
        "gflops": operations / ours_best / 1e9,
        "preparation": first - ours_best,
        "difference": difference,
        "required": REQUIRED[data],
    }


def epoch_seconds(source: Path, epochs: int) -> tuple[float, float]:
    """Return the seconds of an epoch of ``fishergcn-t`` on PubMed, and the last loss, of the sources in a folder."""
    command = [sys.executable, "-W", "ignore", "-c", _TRAINING.format(epochs=epochs)]
    settings = environment(1) | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, env=settings, stdout=subprocess.PIPE, text=True, check=True)
    seconds, loss = json.loads(done.stdout.splitlines()[-1])
    return seconds, loss


def training(before: Path, repetitions: int, epochs: int) -> list[dict[str, float]]:
    """Train with both versions in turns."""
    now, rows = Path(__file__).resolve().parents[1] / "src", []
    for _ in range(repetitions):
        (old, old_loss), (new, new_loss) = epoch_seconds(before, epochs), epoch_seconds(now, epochs)
        rows.append({"before": old, "now": new, "ratio": old / new, "loss_before": old_loss, "loss_now": new_loss})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the folder src of an earlier version")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "high_order.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = {"benchmark": "high_order", "columns": _COLUMNS}
    if options.out.exists():  # without --before the earlier comparison stays, with what it says about its machine
        record |= {key: value for key, value in json.loads(options.out.read_text()).items() if key == "training"}
    record["products"] = [product(data, options.repetitions, options.turns) for data in REQUIRED]
    for row in record["products"]:
        ratios = ", ".join(f"{each['ratio']:.2f}" for each in row["repetitions"])
        print(f"{row['data']}^T: {ratios} times torch's speed, {row['gflops']:.1f} GFLOP/s")
    if options.before is not None:
        rows = training(options.before, options.repetitions, options.epochs)
        record["training"] = {"rows": rows, "required": REQUIRED_TRAINING, "machine": machine()}
        for row in rows:
            print(
                f"an epoch of fishergcn-t, PubMed: {row['before']:.2f} s before, {row['now']:.2f} s: {row['ratio']:.2f}"
            )
    write_record(options.out, {**record, "machine": {**machine(), "torch": torch.__version__}})


if __name__ == "__main__":
    main()
