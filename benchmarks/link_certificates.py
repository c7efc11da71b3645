"""How many predictions no reweighting or flipping of links can change, and how many an attack breaks.

    python benchmarks/link_certificates.py [--graphs cora citeseer] [--no-flips] [--out FILE.json]

Networks are trained on the public split and certified on its 1,000 test nodes: ``linear`` and ``gcn`` over all
reweightings of links up to ±x %, of all links or of a node's own; label propagation over all graphs in which links
of every node are removed, or removed and added, up to a number; and personalized propagation of the predictions of an
``mlp``, where each node's outgoing links are flipped. That number is 1, for every
node at once or for those with many links.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _process import RESULTS
from _record import machine, write_record

from fishergcn import TrainConfig, TrainedModel, datasets, splits, train
from fishergcn._base.types import IntArray
from fishergcn.certificates import certify_flips, certify_links, certify_pagerank

PERCENTS = (1.0, 5.0, 10.0, 20.0)
FLIPS: dict[str, Callable[[IntArray], IntArray]] = {
    "1, of nodes with more than 5 links": lambda degrees: (degrees > 5).astype(np.int64),
    "1, of nodes with more than 3 links": lambda degrees: (degrees > 3).astype(np.int64),
    "1, of every node": np.ones_like,
}


def timed(found: Any, started: float) -> dict[str, Any]:
    """Return counts, and the seconds since."""
    return {**found.counts(), "seconds": round(time.perf_counter() - started, 2)}


def measure(name: str, *, flips: bool) -> dict[str, Any]:
    """Return the counts on one graph."""
    graph = datasets.load(name)
    split = splits.public(graph)
    record: dict[str, Any] = {"reweighted": []} | ({"flipped": [], "pagerank": []} if flips else {})
    models = {}
    for method in ("linear", "gcn", "lp", "mlp"):
        runs = train(graph, method, split, config=TrainConfig(), keep_weights=True)
        models[method] = TrainedModel.from_records(graph, runs, split)
    for method in ("linear", "gcn"):
        for own in (False, True):
            for percent in PERCENTS:
                started = time.perf_counter()
                found = certify_links(models[method], percent, split.test, own=own)
                row = {"method": method, "own": own, "percent": percent, **timed(found, started)}
                record["reweighted"].append(row)
                print(name, row, flush=True)
    degrees, scores = np.diff(graph.adjacency.indptr).astype(np.int64), models["mlp"].raw_logits()
    kinds: tuple[Literal["remove", "both"], ...] = ("remove", "both")
    for kind in kinds if flips else ():
        for words, budget in FLIPS.items():
            most = budget(degrees)
            for part in ("flipped", "pagerank"):
                started = time.perf_counter()
                if part == "flipped":
                    made = certify_flips(models["lp"], most, split.test, change=kind)
                else:
                    made = certify_pagerank(graph.adjacency, scores, most, split.test, change=kind)
                record[part].append({"flips": words, "change": kind, **timed(made, started)})
                print(name, part, record[part][-1], flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--graphs", nargs="+", default=["cora", "citeseer", "pubmed"])
    parser.add_argument("--no-flips", action="store_true", help="reweighted links alone; others in FILE are kept")
    parser.add_argument("--out", type=Path, default=RESULTS / "link_certificates.json")
    options = parser.parse_args()
    known = json.loads(options.out.read_text())["graphs"] if options.out.exists() else {}
    for name in options.graphs:
        known[name] = known.get(name, {}) | measure(name, flips=not options.no_flips)
        write_record(options.out, {"benchmark": "link_certificates", "machine": machine(), "graphs": known})


if __name__ == "__main__":
    main()
