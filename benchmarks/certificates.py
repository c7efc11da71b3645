"""Which predictions no graph of the neighborhood can change, by network and radius, and what certified training does.

    python benchmarks/certificates.py [--graphs FOLDER] [--names cora actor] [--splits 10] [--first 0] [--out FILE]

For each split and network: test accuracy, and how many test nodes (1,000 at most) are certified, broken and undecided
with λ_max ≤ 2; on the first split at four radii and at that of the farthest graph, on others at that of certified
training, 0.01. Networks: `linear` (two hops, solved), `gcn`, `fishergcn`, its control `gcn-x5`, `gcn-t`, a GCN of one
layer without and with certified training (exact worst case), and of two layers with training on the exact worst case of
the linearized network. FOLDER holds graph files (.npz), measured instead of the data sets of the package. What FILE
already holds is not measured again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from _process import RESULTS
from _record import machine, write_record

RADII = (0.001, 0.0037, 0.01, 0.015)
TRAINED_AT = 0.01
NETWORKS = (
    "gcn", "gcn-x5", "fishergcn", "one layer", "one layer, certified", "two layers, linearized", "linear", "gcn-t",
)  # fmt: skip
ONCE = ("linear", "gcn-t")  # on the first split alone
MOST = 1000


def trained(graph: Any, split: Any, name: str) -> Any:
    """Train one network with the default settings."""
    import fishergcn
    from fishergcn.certificates import train_certified

    shallow = fishergcn.TrainConfig(hidden=())
    if name == "one layer, certified":
        return train_certified(graph, split, TRAINED_AT, config=shallow)
    if name == "two layers, linearized":
        return train_certified(graph, split, TRAINED_AT)
    method, config = ("gcn", shallow) if name == "one layer" else (name, fishergcn.TrainConfig())
    records = fishergcn.train(graph, method, split, config=config, keep_weights=True)
    return fishergcn.TrainedModel.from_records(graph, records, split)


def measure(graph: Any, split: Any, name: str, every: bool) -> dict[str, Any]:
    """Return accuracy on all test nodes, and counts at every radius or at that of training, with seconds."""
    from fishergcn import Neighborhood
    from fishergcn.certificates import certify

    started = time.perf_counter()
    model = trained(graph, split, name)
    found: dict[str, Any] = {"training": time.perf_counter() - started}
    found["cpu"] = machine()["cpu"]  # splits may be shared between machines
    found["accuracy"] = float(np.mean(model.predict()[split.test] == graph.labels[split.test]))
    around = Neighborhood(model.propagation, rank=model.config.rank, radius=0.0)
    nodes, found["radii"], farthest = np.asarray(split.test)[:MOST], {}, around.farthest(2.0)
    found["farthest"] = farthest
    for radius in (*RADII, farthest) if every else (TRAINED_AT,):
        if radius <= farthest:
            started = time.perf_counter()
            result = certify(model, radius, nodes, neighborhood=around)
            right = result.certified & (result.classes == graph.labels[nodes])
            counts = result.counts() | {"right": int(right.sum()), "seconds": time.perf_counter() - started}
            found["radii"]["farthest" if radius == farthest else str(radius)] = counts
    return found


def main() -> None:
    from fishergcn import Graph, datasets, splits

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--graphs", type=Path, help="a folder of graph files instead of the data sets of the package")
    parser.add_argument("--names", nargs="+", help="which graphs; all by default")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="how many splits to leave out before them")
    parser.add_argument("--out", type=Path, default=RESULTS / "certificates.json", help="other results in it are kept")
    options = parser.parse_args()
    every = datasets.available() if options.graphs is None else [each.stem for each in options.graphs.glob("*.npz")]
    for number in range(options.first, options.first + options.splits):
        for name in sorted(set(every) & set(options.names or every)):
            graph = datasets.load(name) if options.graphs is None else Graph.load(options.graphs / f"{name}.npz")
            split = splits.choose(graph, number + 1)[number]
            for network in options.networks:
                known = json.loads(options.out.read_text())["graphs"] if options.out.exists() else {}
                cell = known.setdefault(name, {}).setdefault(network, {})
                if split.name in cell or (number and network in ONCE):
                    continue
                found = cell[split.name] = measure(graph, split, network, every=not number)
                ordered = {each: known[each] for each in sorted(known)}
                write_record(options.out, {"benchmark": "certificates", "machine": machine(), "graphs": ordered})
                counts = {
                    at: [each[word] for word in ("certified", "broken", "undecided")]
                    for at, each in found["radii"].items()
                }
                print(f"{name} {split.name} {network}: {found['accuracy']:.1%} {counts}", flush=True)


if __name__ == "__main__":
    main()
