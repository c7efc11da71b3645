"""From what is measured here with 1, 2 and 4 processes to 10^9 links on several machines, by the cost model.

    python benchmarks/extrapolation.py [--nodes 100000] [--links 1000000] [--workers 1 2 4] [--out FILE.json]

Measured: an epoch of mini-batches on a planted graph, by one process and by several that share every batch
(``large_graph.py``): how long each of them works, which others who use the machine change little, and on the wall.
Extrapolated: the same network on graphs of the same shape, up to 10^9 links, on machines like this one, where an epoch
takes longer in proportion to the links. What a step costs around its work, between machines, is assumed.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _process import RESULTS
from _record import machine, write_record
from large_graph import measure_apart

METHOD, BATCH, FANOUT, HIDDEN = "gcn-x5", 1024, (10, 10), 64
SIZES = (10**6, 10**7, 10**8, 10**9)  # links
PROCESSES = (4, 16, 64)
# Assumed: what an exchange takes besides its bytes, and bytes a second between machines.
LATENCY, BANDWIDTH = 1e-3, 1e9


def sizes_of(nodes: int, links: int) -> Any:
    """Return the sizes of a planted graph, which need not be there."""
    from _planted import CLASSES, COLUMNS, ENTRIES

    from fishergcn.training import Sizes

    parts = {"train": max(nodes // 100, 20), "val": max(nodes // 200, 20), "test": max(nodes // 200, 20)}
    crowding = 2 * links / nodes + 2
    return Sizes(
        nodes, 2 * links, float(2 * links + nodes), COLUMNS, ENTRIES * nodes, CLASSES, **parts, crowding=crowding
    )


def predicted(nodes: int, links: int) -> dict[str, float]:
    """Return the steps of an epoch, and bytes of memory and files."""
    from fishergcn import TrainConfig
    from fishergcn.training import held_bytes, parse_method

    sizes, config, method = sizes_of(nodes, links), TrainConfig(hidden=(HIDDEN,)), parse_method(METHOD)
    index = 4 if max(sizes.entries, nodes) < 2**31 else 8
    files = sizes.links * (8 + index) + sizes.entries * (8 + index) + sizes.stored * (4 + index) + 5 * 8 * nodes
    return {
        "steps": -(-sizes.train // BATCH),
        "loaded_bytes": held_bytes(sizes, method, config, 1, batches=True),
        "file_bytes": files,
        # What a process holds of a mapped graph: libraries, some numbers of each node, two layers of a validation.
        "private_bytes": 4e8 + 60.0 * nodes + 4.0 * 2 * HIDDEN * min(nodes, 120 * sizes.val),
        "weight_bytes": 8.0 * (sizes.features * HIDDEN + HIDDEN * sizes.classes),
    }


def extrapolated(links: int, ratio: float, seconds: float, efficiency: float) -> dict[str, Any]:
    """Return the time of an epoch for a number of links and processes, from the ``seconds`` of one link."""
    nodes = int(links / ratio)
    one = predicted(nodes, links) | {"epoch_seconds": links * seconds}
    exchange = one["steps"] * (LATENCY + 2 * one["weight_bytes"] / BANDWIDTH)
    epochs = {str(count): one["epoch_seconds"] / (count * efficiency) + exchange for count in PROCESSES}
    return {"nodes": nodes, "links": links, **one, "exchange_seconds": exchange, "epoch_seconds_by_processes": epochs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--links", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "extrapolation.json")
    options = parser.parse_args()
    given = [f"--nodes={options.nodes}", f"--links={options.links}", f"--method={METHOD}", f"--epochs={options.epochs}"]
    given += [f"--batch-size={BATCH}", "--fanout", *map(str, FANOUT), f"--hidden={HIDDEN}"]
    measured = {}
    for workers in options.workers:
        found = measure_apart(workers, given)
        epochs = found["epochs"][1:]  # the first loads kernels
        measured[str(workers)] = {
            "worked_seconds": min(each["worked_seconds"] for each in epochs),
            "wall_seconds": min(each["seconds"] for each in epochs),
            "peak_gb": found["peak_gb"],
        }
        print(f"{workers}: {json.dumps(measured[str(workers)])}", flush=True)
    most = str(max(options.workers))
    alone = measured["1"]["worked_seconds"]
    efficiency = {name: alone / (int(name) * each["worked_seconds"]) for name, each in measured.items()}
    assumed = min(efficiency[most], 1.0)
    ratio = options.links / options.nodes
    record = {
        "benchmark": "extrapolation",
        "method": METHOD,
        "batch_size": BATCH,
        "fanout": FANOUT,
        "hidden": HIDDEN,
        "nodes": options.nodes,
        "links": options.links,
        "measured": measured,
        "efficiency": efficiency,
        "assumed": {"latency_seconds": LATENCY, "bytes_per_second": BANDWIDTH, "efficiency": assumed},
        "extrapolated": [extrapolated(links, ratio, alone / options.links, assumed) for links in SIZES],
        "machine": machine() | {"torch": version("torch")},
    }
    write_record(options.out, record)


if __name__ == "__main__":
    main()
