"""Top eigenpairs of a large random graph: time, memory and residual.

    python benchmarks/spectrum.py [--nodes 1000000] [--links 5000000] [--rank 10] [--out FILE.json]

The graph has ``links`` links between nodes drawn uniformly. Its top eigenvalues crowd together at the edge
of a continuous spectrum, which is as hard for an iterative solver as graphs get.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from _record import machine, write_record
from scipy import sparse

from fishergcn import renormalized, top_spectrum


def random_graph(nodes: int, links: int, seed: int) -> Any:
    """Return the adjacency matrix of exactly ``links`` distinct links drawn uniformly."""
    rng = np.random.default_rng(seed)
    codes = np.empty(0, dtype=np.int64)
    while codes.size < links:
        ends = np.sort(rng.integers(0, nodes, size=(links, 2)), axis=1)
        ends = ends[ends[:, 0] < ends[:, 1]]
        codes = np.unique(np.concatenate([codes, ends[:, 0] * nodes + ends[:, 1]]))
    row, column = np.divmod(rng.choice(codes, size=links, replace=False), nodes)
    upper = sparse.coo_array((np.ones(links), (row, column)), shape=(nodes, nodes)).tocsr()
    return upper + upper.T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=5_000_000)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "spectrum.json")
    options = parser.parse_args()

    propagation = renormalized(random_graph(options.nodes, options.links, options.seed))
    start = time.perf_counter()
    spectrum = top_spectrum(propagation, rank=options.rank, seed=options.seed)
    seconds = time.perf_counter() - start
    # Checked here on its own, not taken from the solver.
    product = spectrum.eigenvectors - propagation @ spectrum.eigenvectors
    errors = np.linalg.norm(product - spectrum.eigenvectors * spectrum.eigenvalues, axis=0)
    # Outside the largest component L u is zero like u, so nothing is lost by looking at all rows.
    record = {
        "benchmark": "spectrum",
        "nodes": options.nodes,
        "links": options.links,
        "rank": options.rank,
        "seconds": round(seconds, 2),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "relative_residual": float(errors.max() / spectrum.eigenvalues[0]),
        "solver": spectrum.solver,
        "eigenvalues": spectrum.eigenvalues.tolist(),
        "machine": machine(),
    }
    for name, value in record.items():
        print(f"{name:18} {value}")
    write_record(options.out, record)


if __name__ == "__main__":
    main()
