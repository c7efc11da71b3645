"""``fishergcn fit-large`` on planted graphs that lie on disk: time, memory, disk and accuracy, and how they grow.

    python benchmarks/fit_large.py [--nodes 1000000 10000000] [--memory 6] [--workers 2] [--lose] [--place DIR]
        [--graphs DIR] [--out FILE]

A graph has 10 links a node and 100 features, of which 1 % of the nodes are for training, 0.5 % each for validation and
test; it is generated in blocks. Each size is fitted in a process of its own, and its row in the results is replaced;
rows with other --memory stay beside it. With --lose, the same is done on a simulated Ray cluster of three nodes, of
which one is removed amid the work, and the predictions are compared byte for byte.
Label propagation and a linear model without links are among the candidates, so that all are measured on the same nodes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from _planted import CLASSES, COLUMNS, ENTRIES, _features
from _process import RESULTS, measure_apart, peak_mb
from _record import machine, write_record
from numpy.lib import format as npy

from fishergcn._base.json import plain
from fishergcn._base.npz import pack_json
from fishergcn.large import LargeFit, LargeSettings, fit_large

LINKS = 10  # of a node
_CHUNK, _ROWS, _WITHIN = 1 << 21, 1 << 18, 0.7
_SOON = 4.0  # seconds from the end of the first step to the removal of a node


def alone(graph: Path, out: Path, options: argparse.Namespace) -> None:
    """Fit in this process and print what it took."""
    settings = LargeSettings(memory=int(options.memory * 1e9))

    def fitted(progress: Callable[[str], None], **where: Any) -> LargeFit:
        return fit_large(graph, out=out, settings=settings, progress=progress, **where)

    if options.lose:
        found = losing_a_node(fitted)
    else:
        found = fitted(lambda text: print(text, file=sys.stderr), workers=options.workers)
    total = hashlib.sha256()
    for path in sorted(Path(found.predictions).iterdir()):
        total.update(path.read_bytes())
    used = {"peak_memory_gb": peak_mb() / 1e3, "cpu_seconds": time.process_time(), "sha256": total.hexdigest()}
    print(json.dumps(plain(found.to_dict()) | used))


def losing_a_node(fitted: Callable[..., LargeFit]) -> LargeFit:
    """Fit on a simulated cluster of three nodes with a core each, of which one is removed amid the second step."""
    os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    from ray._private import ray_constants
    from ray.cluster_utils import Cluster

    ray_constants.ENABLE_RAY_CLUSTER = False  # so that nodes may have the loopback address
    settings = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**settings, "include_dashboard": False})
    nodes = [cluster.add_node(**settings) for _ in range(2)]
    cluster.wait_for_nodes()
    removal = threading.Timer(_SOON, cluster.remove_node, (nodes[1],), {"allow_graceful": False})

    def progress(text: str) -> None:
        print(text, file=sys.stderr)
        if text.startswith("hop-1.0: done"):
            removal.start()

    try:
        found = fitted(progress, cluster=cluster.address)
        if not removal.finished.is_set():
            raise SystemExit("the node was to be removed amid the work, and was not.")
        return found
    finally:
        removal.cancel()
        cluster.shutdown()


def write_planted(folder: Path, nodes: int, seed: int = 0) -> int:
    """Write a mapped graph as ``planted_graph`` makes it, but for few links that come twice; return its entries."""
    folder.mkdir(parents=True)
    pieces = [_piece(folder, nodes, seed, at) for at in range(-(-nodes * LINKS // _CHUNK))]
    counts, total = np.zeros(nodes + 1, dtype=np.int64), 0
    with open(folder / "adjacency_indices.npy", "wb") as stream:
        stream.write(_header(2 * nodes * LINKS, np.int32))
        for first in range(0, nodes, _ROWS):
            last = min(first + _ROWS, nodes)
            parts = [np.load(path, mmap_mode="r")[ends[first // _ROWS] : ends[first // _ROWS + 1]]
                     for path, ends in pieces]  # fmt: skip
            keys = np.sort(np.concatenate(parts))
            rows, columns = np.divmod(keys[np.diff(keys, prepend=-1) > 0], nodes)
            columns.astype(np.int32).tofile(stream)
            counts[first + 1 : last + 1] = np.bincount(rows - first, minlength=last - first)
            total += len(columns)
        stream.seek(0)
        stream.write(_header(total, np.int32, like=_header(2 * nodes * LINKS, np.int32)))
    np.save(folder / "adjacency_indptr.npy", np.cumsum(counts).astype(np.int32))
    ones = npy.open_memmap(folder / "adjacency_data.npy", "w+", np.float64, (total,))
    for at in range(0, total, 1 << 24):
        ones[at : at + (1 << 24)] = 1
    del ones
    for path, _ in pieces:
        path.unlink()
    _write_nodes(folder, nodes, seed)
    np.save(folder / "adjacency_shape.npy", np.array([nodes, nodes]))
    described = dict.fromkeys(("node_ids", "class_names", "feature_names", "reading"))
    np.save(folder / "description.npy", pack_json({"name": f"planted-{nodes}", **described}))
    return total


def _piece(folder: Path, nodes: int, seed: int, at: int) -> tuple[Path, np.ndarray]:
    """Write a piece of the links in both directions, as row * nodes + column, by blocks of rows."""
    rng = np.random.default_rng([seed, 2, at])
    count = min(_CHUNK, nodes * LINKS - at * _CHUNK)
    one = rng.integers(0, nodes, count)
    same = rng.integers(0, nodes // CLASSES, count) * CLASSES + one % CLASSES
    other = np.where(rng.random(count) < _WITHIN, same, rng.integers(0, nodes, count))
    one, other = one[one != other], other[one != other]
    keys = np.sort(np.concatenate([one * nodes + other, other * nodes + one]))
    path = folder / f".piece-{at}.npy"
    np.save(path, keys)
    return path, np.searchsorted(keys, np.arange(0, nodes + _ROWS, _ROWS) * nodes)


def _write_nodes(folder: Path, nodes: int, seed: int) -> None:
    """Write sparse features, labels and the split."""
    kinds = {"indices": np.int32, "data": np.float32}
    with ExitStack() as stack:
        streams = {name: stack.enter_context(open(folder / f"features_{name}.npy", "wb")) for name in kinds}
        for name, kind in kinds.items():
            streams[name].write(_header(nodes * ENTRIES, kind))
        ends = np.zeros(nodes + 1, dtype=np.int32)
        for first in range(0, nodes, _ROWS):
            labels = np.arange(first, min(first + _ROWS, nodes)) % CLASSES
            block = _features(np.random.default_rng([seed, 3, first]), labels)
            block.sum_duplicates()
            for name, kind in kinds.items():
                getattr(block, name).astype(kind).tofile(streams[name])
            ends[first + 1 : first + 1 + len(labels)] = ends[first] + block.indptr[1:]
        for name, kind in kinds.items():
            streams[name].seek(0)
            streams[name].write(_header(int(ends[-1]), kind, like=_header(nodes * ENTRIES, kind)))
    np.save(folder / "features_indptr.npy", ends)
    np.save(folder / "features_shape.npy", np.array([nodes, COLUMNS]))
    np.save(folder / "labels.npy", np.arange(nodes) % CLASSES)
    order = np.random.default_rng([seed, 1]).permutation(nodes)
    train, part = max(nodes // 100, 20), max(nodes // 200, 20)
    ends_of = {"train": (0, train), "val": (train, train + part), "test": (train + part, train + 2 * part)}
    for name, (low, high) in ends_of.items():
        np.save(folder / f"split_{name}.npy", order[low:high])


def _header(length: int, kind: Any, like: bytes | None = None) -> bytes:
    stream = BytesIO()
    npy.write_array_header_1_0(
        stream, {"descr": npy.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": (length,)}
    )
    if like is not None and len(stream.getvalue()) != len(like):
        raise ValueError("the header has another length")
    return stream.getvalue()


def exponent(rows: list[dict[str, Any]], name: str) -> float:
    """Return the slope of log(name) over log(nodes) between the smallest and the largest graph."""
    one, other = rows[0], rows[-1]
    return math.log(other[name] / one[name]) / math.log(other["nodes"] / one["nodes"])


def _which(row: dict[str, Any]) -> tuple[float, int]:
    """What is measured once: a size, and how much memory it may take; most memory first."""
    return -row["memory_gb"], row["nodes"]


def measure(nodes: int, options: argparse.Namespace) -> dict[str, Any]:
    place = Path(tempfile.mkdtemp(dir=options.place))
    graph = (options.graphs or place) / f"planted-{nodes}"
    try:
        begun, written = time.perf_counter(), None
        if not graph.exists():
            write_planted(graph, nodes)
            written = time.perf_counter() - begun
        words = ("--memory", options.memory, "--workers", options.workers)
        found = measure_apart(__file__, "--alone", graph, place / "out", *words)
        lost = {}
        if options.lose:
            on_three = measure_apart(__file__, "--alone", graph, place / "three", *words, "--lose")
            equal = on_three["sha256"] == found["sha256"]
            lost = {"lost_a_node": {"seconds": on_three["seconds"], "equal": equal, "load": os.getloadavg()[0]}}
        disk = sum(path.stat().st_size for path in graph.iterdir())
        by_name = {each["name"]: each["test"] for each in found["candidates"]}
        return {
            "nodes": nodes,
            "links": found["entries"] // 2,
            "memory_gb": options.memory,
            "workers": options.workers,
            "chosen": found["chosen"],
            "accuracy": by_name[found["chosen"]],
            "label_propagation": by_name["label propagation"],
            "linear_without_links": by_name["linear, no links"],
            "candidates": found["candidates"],
            "seconds": found["seconds"],
            "cpu_seconds": found["cpu_seconds"],
            "stages": found["stages"],
            "peak_memory_gb": found["peak_memory_gb"],
            "disk_gb": found["disk_bytes"] / 1e9,
            "graph_gb": disk / 1e9,
            "seconds_to_generate": written,
            "load": os.getloadavg()[0],
            **lost,
            "machine": machine(),
        }
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--memory", type=float, default=6.0, help="GB that fit-large may take")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--place", type=Path, help="a folder for the graph and the blocks; by default for temporary files"
    )
    parser.add_argument("--graphs", type=Path, help="a folder where graphs are kept for the next time")
    parser.add_argument("--out", type=Path, default=RESULTS / "fit_large.json")
    parser.add_argument("--lose", action="store_true", help="also on a simulated cluster of three that loses a node")
    parser.add_argument("--alone", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        alone(*options.alone, options)
        return
    for nodes in options.nodes:
        row = measure(nodes, options)
        print(json.dumps({name: row[name] for name in row if name not in ("stages", "machine")}), flush=True)
        before = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
        others = [each for each in before if _which(each) != _which(row)]
        rows = sorted([*others, row], key=_which)
        names = ("seconds", "cpu_seconds", "peak_memory_gb", "disk_gb")
        alike = [each for each in rows if each["memory_gb"] == rows[0]["memory_gb"]]
        growth = {name: exponent(alike, name) for name in names} if len(alike) > 1 else {}
        write_record(options.out, {"benchmark": "fit_large", "rows": rows, "exponents": growth})


if __name__ == "__main__":
    main()
