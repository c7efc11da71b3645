"""What ``fit`` chooses on a planted graph of a million nodes and five million links: accuracy, time and memory.

    python benchmarks/large_fit.py [--nodes 1000000] [--links 5000000] [--out FILE]

Beside it: label propagation, which reads no features, and scikit-learn's LogisticRegression, which reads no links.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from pathlib import Path

from _planted import planted_graph, planted_split
from _process import RESULTS
from _record import machine, write_record


def main() -> None:
    from sklearn.linear_model import LogisticRegression

    from fishergcn import fit, train

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=5_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "large_fit.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    graph, split = planted_graph(options.nodes, options.links), planted_split(options.nodes)
    started = time.perf_counter()
    model = fit(graph, split, "cpu", progress=True)
    seconds = time.perf_counter() - started
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    [spread] = train(graph, "lp", split, device="cpu", workers=1)
    plain = LogisticRegression(max_iter=300).fit(graph.features[split.train], graph.labels[split.train])
    found = model.selection
    record = {
        "benchmark": "large_fit",
        "nodes": graph.num_nodes,
        "links": graph.num_links,
        "chosen": found.chosen,
        "members": {each.name: each.share for each in found.candidates if each.share > 0},
        "announced": [found.value, found.low, found.high],
        "accuracy": model.record.test_accuracy,
        "label_propagation": spread.test_accuracy,
        "logistic_regression": float(plain.score(graph.features[split.test], graph.labels[split.test])),
        "seconds": seconds,
        "peak_memory_gb": gigabytes,
        "machine": machine(),
    }
    print(record)
    write_record(options.out, record)


if __name__ == "__main__":
    main()
