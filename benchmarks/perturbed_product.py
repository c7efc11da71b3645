"""The perturbed product beside M plain sparse products on PubMed.

    python benchmarks/perturbed_product.py --out perturbed_product.json

One operand of shape (n, d) is shared by the M perturbed graphs, or each has its own, as behind dropout. The
plain side is M separate products; for operands of their own also the M products written to one tensor, as the
perturbed side does (a large tensor is paid for in page faults before anything is computed). Both sides take
turns, so that a busy machine disturbs both alike. One thread unless told otherwise.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _record import machine, write_record

import fishergcn
from fishergcn.operators import spmm
from fishergcn.perturbation import Neighborhood

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def side_by_side(first: Callable[[], Any], second: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Median milliseconds of two functions that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 3):
        for function, record in zip((first, second), times, strict=True):
            start = time.perf_counter()
            result = function()
            elapsed = time.perf_counter() - start
            del result
            if turn >= 3:  # the first turns warm up
                record.append(1e3 * elapsed)
    return statistics.median(times[0]), statistics.median(times[1])


def measure(data: str, columns: int, samples: int, rank: int, dtype: str, repeats: int) -> list[dict[str, Any]]:
    propagation = fishergcn.renormalized(fishergcn.datasets.load(data).adjacency)
    neighborhood = Neighborhood(propagation, rank=rank).to(dtype=DTYPES[dtype])
    operator = neighborhood.operator(neighborhood.sample(samples))
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(samples, operator.shape[0], columns, dtype=operator.dtype, generator=generator)
    sparse, shared = operator.sparse, own[0]
    cases: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "shared": (lambda: [spmm(sparse, shared) for _ in range(samples)], lambda: operator @ shared),
        "own": (lambda: [spmm(sparse, each) for each in own], lambda: operator @ own),
        "own, one tensor": (lambda: spmm(sparse, own), lambda: operator @ own),
    }
    rows = []
    for case, functions in cases.items():
        with torch.no_grad():
            plain, perturbed = side_by_side(*functions, repeats)
        times = {"plain_ms": plain, "perturbed_ms": perturbed, "ratio": perturbed / plain}
        rows.append({"case": case, "dtype": dtype, **times})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="pubmed")
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=41)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings = {name: getattr(options, name) for name in ("data", "columns", "samples", "rank", "repeats")}
    rows = [row for dtype in DTYPES for row in measure(dtype=dtype, **settings)]
    report = {
        "what": "one product of M perturbed graphs / M plain sparse products, median of turns",
        "machine": {**machine(), "threads": options.threads, "torch": torch.__version__},
        **settings,
        "rows": rows,
    }
    for row in rows:
        times = f"plain {row['plain_ms']:7.2f} ms   perturbed {row['perturbed_ms']:7.2f} ms"
        print(f"{row['dtype']:8} {row['case']:15} {times}   ratio {row['ratio']:.2f}")
    if options.out is not None:
        write_record(options.out, report)


if __name__ == "__main__":
    main()
