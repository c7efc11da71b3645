"""What ``fit`` chooses on graphs of one's own, what it announces and what is true, beside peers, with times.

    python benchmarks/graphs.py [FOLDER] [--graphs texas actor] [--splits 10] [--first 0] [--device auto] [--at-once 1]
        [--workers N] [--score accuracy] [--time-limit SECONDS] [--out FILE]

FOLDER holds graph files (.npz), in the layout of `Graph.save` or as plain arrays; without it, the data sets of the
package are measured. Splits are the masks that a graph brings, or 20 + 30 labels a class. `fit` sees training and
validation nodes alone; its announced estimate is compared with the score on the test nodes. Peers: a plain GCN with the
paper's settings, PyTorch Geometric's GCN example (raw features, bias, 200 epochs, tested at the best validation
accuracy), and scikit-learn's LogisticRegression (no links) and LabelSpreading (no features, on the links). With
--at-once several splits are measured side by side, in a process each: scores are the same, and times are those of a
busy machine. Results of other graphs, scores and splits in the file are kept.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _process import RESULTS
from _record import commit, machine, write_record


def fitted(graph: Any, split: Any, device: str, workers: int | None, score: str, limit: float | None) -> dict[str, Any]:
    """Return what was chosen and announced, and the scores on the test nodes."""
    from fishergcn import fit

    started = time.perf_counter()
    model = fit(graph, split, device, workers=workers, score=score, time_limit=limit)
    seconds = time.perf_counter() - started
    found, record = model.selection, model.record
    truth = getattr(record, f"test_{found.score}")
    print(
        f"    {graph.name} {split.name}, {score}: {found.chosen}, {truth:.2%} on test nodes, announced "
        f"{found.value:.2%} ({found.low:.2%} to {found.high:.2%}), {seconds:.0f} s",
        flush=True,
    )
    return {
        "chosen": found.chosen,
        "members": {each.name: each.share for each in found.candidates if each.share > 0},
        "announced": [found.value, found.low, found.high],
        "majority": found.majority,
        "test": truth,
        "accuracy": record.test_accuracy,
        "roc_auc": record.test_roc_auc,
        "seconds": seconds,
    }


def paper(graph: Any, split: Any, device: str) -> tuple[float, float]:
    from fishergcn import train

    started = time.perf_counter()
    [record] = train(graph, "gcn", split, device=device, settings="paper")
    return record.test_accuracy, time.perf_counter() - started


def pyg_example(graph: Any, split: Any, device: str) -> tuple[float, float]:
    """The two layers of PyTorch Geometric's examples/gcn.py: 16 hidden units there, 64 here, as everywhere else."""
    import torch
    from torch_geometric.nn import GCNConv

    place = "cuda" if device == "auto" and torch.cuda.is_available() else device.replace("auto", "cpu")
    started = time.perf_counter()
    torch.manual_seed(0)
    data = graph.to_pyg().to(place)
    first, second = GCNConv(graph.num_features, 64).to(place), GCNConv(64, graph.num_classes).to(place)
    groups = [{"params": first.parameters(), "weight_decay": 5e-4}, {"params": second.parameters()}]
    optimizer = torch.optim.Adam(groups, lr=0.01)
    nodes = {part: torch.as_tensor(np.array(getattr(split, part)), device=place) for part in ("train", "val", "test")}

    def logits(training: bool) -> Any:
        hidden = torch.nn.functional.dropout(data.x, 0.5, training)
        hidden = torch.relu(first(hidden, data.edge_index))
        return second(torch.nn.functional.dropout(hidden, 0.5, training), data.edge_index)

    best = (-1.0, 0.0)
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits(True)[nodes["train"]], data.y[nodes["train"]]).backward()
        optimizer.step()
        with torch.no_grad():
            right = logits(False).argmax(1) == data.y
        scores = tuple(float(right[nodes[part]].float().mean()) for part in ("val", "test"))
        best = max(best, scores, key=lambda pair: pair[0])
    return best[1], time.perf_counter() - started


def logistic_regression(graph: Any, split: Any, _: str) -> tuple[float, float]:
    from sklearn.linear_model import LogisticRegression

    started = time.perf_counter()
    model = LogisticRegression(max_iter=1000).fit(graph.features[split.train], graph.labels[split.train])
    return float(model.score(graph.features[split.test], graph.labels[split.test])), time.perf_counter() - started


def label_spreading(graph: Any, split: Any, _: str) -> tuple[float, float]:
    from sklearn.semi_supervised import LabelSpreading

    started = time.perf_counter()
    known = np.full(graph.num_nodes, -1)
    known[split.train] = graph.labels[split.train]
    links = graph.adjacency.tocoo()
    model = LabelSpreading(kernel=lambda *_: links, max_iter=100).fit(np.arange(graph.num_nodes)[:, None], known)
    hits = model.transduction_[split.test] == graph.labels[split.test]
    return float(hits.mean()), time.perf_counter() - started


PEERS = {
    "gcn, the paper's settings": paper,
    "PyTorch Geometric's GCN": pyg_example,
    "logistic regression": logistic_regression,
    "label spreading": label_spreading,
}


@cache
def load(name: str, path: Path | None) -> Any:
    from fishergcn import Graph, datasets

    return datasets.load(name) if path is None else Graph.load(path)


def measure(
    name: str, path: Path | None, split: str, device: str, workers: int | None, score: str, limit: float | None
) -> tuple[str, str, dict[str, Any]]:
    """Return what fit and all peers do on one split of a graph."""
    from fishergcn import splits

    warnings.simplefilter("ignore")
    graph = load(name, path)
    [chosen] = splits.choose(graph, split)
    found = fitted(graph, chosen, device, workers, score, limit)
    if score == "accuracy":
        found["peers"] = {peer: list(run(graph, chosen, device)) for peer, run in PEERS.items()}
    return name, split, found


def summary(name: str, path: Path | None, runs: dict[str, Any], score: str) -> dict[str, Any]:
    """Return means over splits, and print them."""
    graph = load(name, path)
    print(f"{name}, {score}: {graph.num_nodes:,} nodes, {graph.num_links:,} links, {len(runs)} splits", flush=True)
    rows: dict[str, Any] = {}
    for key in ("accuracy", "roc_auc"):
        values = np.array([each[key] for each in runs.values()])
        rows[key] = {"mean": float(values.mean()), "std": float(values.std())}
        print(f"  fit, {key:24} {values.mean():7.2%} ± {values.std():.2%}")
    announced = np.array([each["announced"] for each in runs.values()])
    truth = np.array([each["test"] for each in runs.values()])
    held = (announced[:, 1] <= truth) & (truth <= announced[:, 2])
    rows["error"], rows["held"] = float((announced[:, 0] - truth).mean()), float(held.mean())
    rows["width"] = float((announced[:, 2] - announced[:, 1]).mean())
    timed = [each["seconds"] for each in runs.values() if each["seconds"] is not None]  # none where more was trained
    rows["seconds"] = float(np.mean(timed))
    print(f"  announced - true {rows['error']:+.2%}, intervals held in {held.mean():.0%}, {rows['seconds']:.0f} s")
    for peer in PEERS if score == "accuracy" else ():
        accuracy, seconds = np.array([each["peers"][peer] for each in runs.values()]).T
        rows[peer] = {"mean": float(accuracy.mean()), "std": float(accuracy.std()), "seconds": float(seconds.mean())}
        print(f"  {peer:28} {accuracy.mean():7.2%} ± {accuracy.std():.2%}  {seconds.mean():8.2f} s")
    return {"nodes": graph.num_nodes, "links": graph.num_links, "digest": graph.digest, "means": rows, "splits": runs}


def _torch_facts(device: str) -> dict[str, str]:
    import torch

    used = torch.cuda.is_available() and device != "cpu"
    return {"torch": torch.__version__} | ({"gpu": torch.cuda.get_device_name()} if used else {})


def main() -> None:
    from fishergcn import datasets, splits

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--graphs", nargs="+", help="names of files without .npz; all by default")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="how many splits to leave out before them")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--at-once", type=int, default=1, help="splits measured side by side")
    parser.add_argument("--workers", type=int, help="processes of each choice on the CPU; one for each core by default")
    parser.add_argument("--score", default="accuracy", help="what fit chooses by")
    parser.add_argument("--time-limit", type=float, help="seconds that a choice may take; none by default")
    parser.add_argument("--out", type=Path, default=RESULTS / "graphs.json", help="other results in it are kept")
    options = parser.parse_args()
    files: dict[str, Path | None] = (
        dict.fromkeys(datasets.available())
        if options.folder is None
        else {path.stem: path for path in sorted(options.folder.glob("*.npz"))}
    )
    chosen = {name: path for name, path in files.items() if not options.graphs or name in options.graphs}
    tasks = [
        (name, path, split.name)
        for name, path in chosen.items()
        for split in splits.choose(load(name, path), options.first + options.splits)[options.first :]
    ]
    facts = {"at_once": options.at_once, "commit": commit(), "machine": machine() | _torch_facts(options.device)}
    with ProcessPoolExecutor(options.at_once, get_context("spawn")) as pool:
        more = options.device, options.workers, options.score, options.time_limit
        for each in as_completed([pool.submit(measure, *task, *more) for task in tasks]):
            name, split, found = each.result()
            known = json.loads(options.out.read_text())["graphs"] if options.out.exists() else {}
            key = name if options.score == "accuracy" else f"{name}, {options.score}"
            runs = known.get(key, {}).get("splits", {}) | {split: found}
            known[key] = summary(name, chosen[name], runs, options.score) | facts
            ordered = {name: known[name] for name in sorted(known)}
            write_record(options.out, {"benchmark": "graphs", "graphs": ordered})


if __name__ == "__main__":
    main()
