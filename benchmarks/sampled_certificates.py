"""Whether any of many sampled graphs is below the bounds of certificates: none may be.

    python benchmarks/sampled_certificates.py [--names cora] [--networks gcn] [--draws 100000] [--out FILE]

For networks on the first split, and five radii up to that of the farthest graph with λ_max ≤ 2: 1,000 test nodes are
certified, and their margins computed on graphs of the ball, most of them on its surface, by plain passes in float32. A
violation is a margin below the bound, less what `rounding` allows, of any node on any graph; how much of the bound the
worst graph uses up is shown as the smallest distance between margin and bound. What FILE already holds is not measured
again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _process import RESULTS
from _record import machine, write_record
from certificates import MOST, RADII, trained

ENTRIES = 20_000  # nodes of all graphs that go through a pass side by side
NETWORKS = ("linear", "gcn", "fishergcn", "gcn-t", "two layers, linearized")


def sampled(around: Any, radius: float, count: int, seed: int) -> Any:
    """Return shares of graphs within a ball and λ_max ≤ 2, along random rays: (count, k)."""
    rng, shares = np.random.default_rng(seed), around.projected_spectrum.numpy()
    cap = 2.0 / float(around.spectrum.eigenvalues.sum())
    steps = rng.normal(size=(count, len(shares))) / np.sqrt(shares)
    steps *= np.where(rng.random(steps.shape) < 0.3, 0.1, 1.0)  # some along few coordinates
    low, high = np.zeros(count), np.full(count, 50.0)

    def at(length: Any) -> Any:
        q = shares * np.exp(length[:, None] * (steps - steps.max(1, keepdims=True)))
        return q / q.sum(1, keepdims=True)

    for _ in range(50):
        middle = (low + high) / 2
        q = at(middle)
        away = around.captured_mass * ((np.sqrt(q) - np.sqrt(shares)) ** 2).sum(1)
        inside = (away <= radius**2) & (q.max(1) <= cap)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return at(low * np.where(rng.random(count) < 0.2, rng.random(count), 1.0))


def passes(model: Any, around: Any, nodes: Any) -> Any:
    """Return a function from G rows of δ = q - λ̄ to the logits of nodes, (N, G, C), written without the library's."""
    weights = {name: each[0].float() for name, each in model.weights.items()}
    total = float(around.spectrum.eigenvalues.sum())
    basis = torch.tensor(np.sqrt(total) * around.spectrum.eigenvectors, dtype=torch.float32)
    matrix, few = _sparse(model.propagation), _sparse(model.propagation[nodes])
    from fishergcn.certificates._network import features_matrix

    x = features_matrix(model.features)

    def times(name: str) -> Any:
        return torch.tensor(x @ weights[name].double().numpy(), dtype=torch.float32)

    solved, nodes = model.method.base == "linear", torch.tensor(nodes)
    entering = times("weights.2" if solved else "weights.0")
    plain, moments = (matrix @ entering)[:, None], (basis.T @ entering)[:, None]
    plain = plain + times("weights.1")[:, None] if solved else plain
    after = times("weights.0")[nodes][:, None] if solved else 0.0

    def product(rows: Any, moved: Any, values: Any) -> Any:
        """Return B diag(δ) times values of shape (k, G or 1, d) for some rows of B, (rows, G, d)."""
        scaled = moved.T[:, :, None] * values
        return (rows @ scaled.reshape(len(scaled), -1)).reshape(len(rows), *scaled.shape[1:])

    def logits(moved: Any) -> Any:
        hidden = product(basis, moved, moments)
        torch.sub(plain, hidden, out=hidden)
        hidden = hidden if solved else hidden.relu_() @ weights["weights.1"]
        flat = hidden.reshape(len(hidden), -1)
        around_nodes, low = ((each @ flat).reshape(-1, *hidden.shape[1:]) for each in (few, basis.T))
        return around_nodes - product(basis[nodes], moved, low) + after

    return logits


def _sparse(matrix: Any) -> Any:
    parts = (torch.tensor(each) for each in (matrix.indptr, matrix.indices))
    return torch.sparse_csr_tensor(
        *parts, torch.tensor(matrix.data, dtype=torch.float32), matrix.shape, check_invariants=False
    )


def least_margins(logits: Any, moves: Any, own: Any, batch: int) -> Any:
    """Return the smallest margin of each node over graphs, (N,)."""
    least, at = torch.full((len(own),), np.inf, dtype=torch.float64), torch.arange(len(own))
    for start in range(0, len(moves), batch):
        out = logits(torch.tensor(moves[start : start + batch], dtype=torch.float32)).double()
        margins = out[at, :, own]
        out[at, :, own] = -np.inf
        least = torch.minimum(least, (margins - out.max(2).values).min(1).values)
    return least


def measure(name: str, network: str, draws: int) -> list[dict[str, Any]]:
    """Certify and sample at every radius."""
    from fishergcn import Neighborhood, datasets, splits
    from fishergcn.certificates import certify

    graph = datasets.load(name)
    split = splits.choose(graph, 1)[0]
    model = trained(graph, split, network)
    around = Neighborhood(model.propagation, rank=model.config.rank, radius=0.0)
    nodes = np.asarray(split.test)[:MOST]
    logits, shares, found = passes(model, around, nodes), around.projected_spectrum.numpy(), []
    batch = max(1, ENTRIES // graph.num_nodes)
    for seed, radius in enumerate((*RADII, around.farthest(2.0))):
        started = time.perf_counter()
        result = certify(model, radius, nodes, neighborhood=around)
        bound, off = torch.tensor(result.lower), torch.tensor(result.rounding)
        moves = sampled(around, radius, draws // (len(RADII) + 1), seed) - shares
        least = least_margins(logits, moves, torch.tensor(result.classes), batch)
        sure = torch.tensor(result.certified) & (bound > off)
        found.append({
            "radius": radius, "graphs": len(moves), "certified": int(result.certified.sum()),
            "below": int((least < bound - off).sum()), "changed": int((sure & (least <= 0)).sum()),
            "closest": float((least - bound).min()), "seconds": time.perf_counter() - started,
        })  # fmt: skip
        print(name, network, found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--names", nargs="+", default=["cora", "citeseer", "pubmed"])
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--draws", type=int, default=100_000, help="graphs of each network, over all radii")
    parser.add_argument("--out", type=Path, default=RESULTS / "sampled_certificates.json")
    options = parser.parse_args()
    for name in options.names:
        for network in options.networks:
            known = json.loads(options.out.read_text())["graphs"] if options.out.exists() else {}
            if network in known.setdefault(name, {}):
                continue
            known[name][network] = measure(name, network, options.draws)
            write_record(options.out, {"benchmark": "sampled_certificates", "machine": machine(), "graphs": known})


if __name__ == "__main__":
    main()
