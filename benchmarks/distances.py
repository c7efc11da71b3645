"""Bures distances of large graphs: time, memory, and how close the estimates come to what is known exactly.

    python benchmarks/distances.py [--nodes 1000000] [--links 5000000] [--probes 3] [--out FILE.json]

Pairs of graphs: a uniform random graph and the same with node weights (a diagonal congruence, exact); the random graph
and one with a tenth, or all, of its links redrawn; and graphs of many pieces of 500 nodes each, redrawn likewise, whose
fidelity is known from dense algebra piece by piece. Then Cora and Cora with a tenth of its links redrawn, dense and
estimated, and the projection to rank 10 of graphs below and above the largest size for dense matrices.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _process import peak_mb
from _record import machine, write_record
from scipy import sparse
from spectrum import random_graph

from fishergcn import datasets
from fishergcn.geometry import intrinsic

_PIECE = 500
_DISTINCT = 10
_SHARES = (0.1, 1.0)


def timed(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, float]:
    """Return what a call returns, and its seconds."""
    start = time.perf_counter()
    return call(*arguments, **options), time.perf_counter() - start


def redrawn(adjacency: Any, share: float, seed: int) -> Any:
    """Return a copy in which a share of the links is gone and as many are drawn anew."""
    rng = np.random.default_rng(seed)
    upper = sparse.triu(adjacency, 1, format="coo")
    gone = rng.random(upper.nnz) < share
    ends = np.sort(rng.integers(0, adjacency.shape[0], size=(int(gone.sum()), 2)), axis=1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    row, column = (np.concatenate([old[~gone], new]) for old, new in zip(upper.coords, ends.T, strict=True))
    half = sparse.coo_array((np.ones(row.size), (row, column)), shape=adjacency.shape).tocsr()
    half.data[:] = 1.0  # a link that was drawn twice is one link
    return sparse.csr_array(half + half.T)


def described(found: intrinsic.GraphDistance, seconds: float) -> dict[str, Any]:
    return {
        "fidelity": found.fidelity,
        "distance": found.distance,
        "standard_error": found.standard_error,
        "bias": found.bias,
        "seconds": round(seconds, 1),
    }


def pieces(nodes: int, links: int, probes: int, share: float) -> dict[str, Any]:
    """Estimate the fidelity of two graphs of many pieces, and find it exactly piece by piece."""
    count = nodes // _PIECE
    one = [random_graph(_PIECE, links // count, seed) for seed in range(_DISTINCT)]
    two = [redrawn(piece, share, seed) for seed, piece in enumerate(one)]
    times = [count // _DISTINCT + (i < count % _DISTINCT) for i in range(_DISTINCT)]
    laplacians = [[intrinsic.graph_laplacian(piece) for piece in side] for side in (one, two)]
    traces = np.array([[each.trace() for each in side] for side in laplacians])
    overlaps = np.array(
        [intrinsic.fidelity(a / a.trace(), b / b.trace()) for a, b in zip(*laplacians, strict=True)]
    ) * np.sqrt(traces.prod(axis=0))
    exact = float((times * overlaps).sum() / np.sqrt((traces * times).sum(axis=1).prod()))
    a, b = (
        sparse.block_diag([piece for i, piece in enumerate(side) for _ in range(times[i])], "csr")
        for side in (one, two)
    )
    found, seconds = timed(intrinsic.graph_distance, a, b, compute="estimate", probes=probes)
    return described(found, seconds) | {
        "exact_fidelity": exact,
        "error_percent": 100 * abs(found.fidelity - exact) / exact,
        "exact_distance": float(np.sqrt(2 - 2 * exact)),
        "distance_error_percent": 100 * float(abs(found.distance / np.sqrt(2 - 2 * exact) - 1)),
    }


def cora() -> dict[str, Any]:
    """Compare with dense algebra on a real graph."""
    graph = datasets.load("cora").adjacency
    other = redrawn(graph, 0.1, 0)
    densities = [intrinsic.density_matrix(intrinsic.graph_laplacian(each)) for each in (graph, other)]
    dense, seconds = timed(intrinsic.fidelity, *densities)
    found, fast = timed(intrinsic.graph_distance, graph, other, compute="estimate")
    return described(found, fast) | {
        "seconds": round(fast, 3),
        "exact_fidelity": dense,
        "dense_seconds": round(seconds, 1),
        "times_faster": round(seconds / fast),
    }


def projections() -> list[dict[str, Any]]:
    """Time the projection to rank 10 over sizes."""
    rows = []
    for nodes in (1000, 3000, 6000, 7000, 20_000):
        rho = intrinsic.density_matrix(intrinsic.graph_laplacian(random_graph(nodes, 3 * nodes, 0)))
        _, seconds = timed(intrinsic.rank_projection, rho, 10)
        rows.append({"nodes": nodes, "seconds": round(seconds, 3)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=5_000_000)
    parser.add_argument("--probes", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "distances.json")
    options = parser.parse_args()

    graph = random_graph(options.nodes, options.links, 0)
    rho = intrinsic.density_matrix(intrinsic.graph_laplacian(graph))
    weights = np.random.default_rng(1).uniform(0.5, 1.5, size=options.nodes)
    along, seconds = timed(intrinsic.congruence_distance, rho, weights)
    del rho
    congruence = {"distance": along, "seconds": round(seconds, 3)}
    record: dict[str, Any] = {
        "benchmark": "distances",
        "nodes": options.nodes,
        "links": options.links,
        "probes": options.probes,
        "congruence": congruence,
        "redrawn": {},
        "pieces": {},
    }
    for share in _SHARES:
        other = redrawn(graph, share, 2)
        found, seconds = timed(intrinsic.graph_distance, graph, other, compute="estimate", probes=options.probes)
        record["redrawn"][str(share)] = described(found, seconds)
    del graph, other
    for share in _SHARES:
        record["pieces"][str(share)] = pieces(options.nodes, options.links, options.probes, share)
    record["peak_memory_gb"] = round(peak_mb() / 1000, 2)
    record["cora"] = cora()
    record["projections"] = projections()
    record["machine"] = machine()
    for name, value in record.items():
        print(f"{name:18} {value}")
    write_record(options.out, record)


if __name__ == "__main__":
    main()
