"""The high-order propagation matrix, ours against the plain loop of SciPy products.

    python benchmarks/preprocessing.py [--data pubmed] [--repeat 3] [--out FILE.json]

Each contender runs in a process of its own with one thread. Its memory is the peak of the process less what
the process held before it began, and its time is the best of ``repeat`` processor times (compilation, which
happens once per installation, is done before).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from _record import machine, write_record
from scipy import sparse

from fishergcn import datasets, high_order
from fishergcn.propagation import _algorithm

ORDER, THRESHOLD = 5, 1e-4
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


def plain(adjacency: Any) -> Any:
    """Algorithm 1 as one would write it down."""
    n = adjacency.shape[0]
    degrees = adjacency.sum(axis=1)
    walk = (sparse.diags_array(np.divide(1, degrees, out=np.zeros(n), where=degrees > 0)) @ adjacency).tocsr()
    power, total = walk, walk
    for _ in range(ORDER - 1):
        power = power @ walk
        total = total + power
    total = total / ORDER
    total.data[total.data <= THRESHOLD] = 0
    total.setdiag(0)
    total.eliminate_zeros()
    weights = (total + total.T + 2 * sparse.eye_array(n)).tocsr()
    scale = sparse.diags_array(1 / np.sqrt(weights.sum(axis=1)))
    return (scale @ weights @ scale).tocsr()


def compiled(adjacency: Any) -> Any:
    return high_order(adjacency, ORDER, THRESHOLD)


def without_numba(adjacency: Any) -> Any:
    _algorithm._has_numba = lambda: False
    return high_order(adjacency, ORDER, THRESHOLD)


CONTENDERS = {"plain": plain, "high_order": compiled, "high_order_without_numba": without_numba}


def peak_memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, data: str, repeat: int) -> dict[str, Any]:
    """Run one contender in this process."""
    adjacency = datasets.load(data).adjacency
    if name == "high_order":
        compiled(sparse.csr_array(np.ones((3, 3))))  # compile, or load what was compiled
    before = peak_memory_mb()
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        entries = CONTENDERS[name](adjacency).nnz
        seconds.append(time.process_time() - start)
    after = peak_memory_mb()
    return {"seconds": min(seconds), "peak_mb": after, "working_mb": after - before, "entries": entries}


def measure_apart(name: str, data: str, repeat: int) -> dict[str, Any]:
    """Run one contender in a new process."""
    command = [sys.executable, __file__, "--data", data, "--repeat", str(repeat), "--only", name]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="pubmed", choices=datasets.available())
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=sorted(CONTENDERS), help="measure one and print it as JSON")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "preprocessing.json")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.data, options.repeat)))
        return

    results = {name: measure_apart(name, options.data, options.repeat) for name in CONTENDERS}
    slowest = results["plain"]["seconds"]
    print(f"{'':26} {'seconds':>8} {'ratio':>6} {'peak MB':>8} {'working MB':>10} {'entries':>11}")
    for name, result in results.items():
        result["times_faster"] = slowest / result["seconds"]
        print(
            f"{name:26} {result['seconds']:8.2f} {result['times_faster']:6.1f} {result['peak_mb']:8.0f} "
            f"{result['working_mb']:10.0f} {result['entries']:11,}"
        )
    record = {"benchmark": "preprocessing", "data": options.data, "results": results, "machine": machine()}
    write_record(options.out, record)


if __name__ == "__main__":
    main()
