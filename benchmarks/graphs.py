"""What ``fit`` chooses on graphs of one's own, beside each of its candidates and beside peers, with times.

    python benchmarks/graphs.py [FOLDER] [--graphs texas actor] [--splits 10] [--device auto] [--at-once 1]
        [--time-limit SECONDS] [--out FILE]

FOLDER holds graph files (.npz), in the layout of `Graph.save` or as plain arrays; without it, the data sets of the
package are measured. Splits are the masks that a graph brings, or 20 + 30 labels a class. The candidates' test scores
come from the same runs that the choice is made of, each with the settings that validation prefers for it; the choice
itself sees validation nodes alone. Peers: a plain GCN with the paper's settings, PyTorch Geometric's GCN example (raw
features, bias, 200 epochs, tested at the best validation accuracy), and scikit-learn's LogisticRegression (no links)
and LabelSpreading (no features, on the links). With --at-once several splits are measured side by side, in a process
each: scores are the same, and times are those of a busy machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _process import RESULTS
from _record import machine, write_record


def fitted(graph: Any, split: Any, device: str, limit: float | None) -> dict[str, tuple[float, float]]:
    """Return test accuracy and seconds of the choice and of each candidate."""
    from fishergcn import fit
    from fishergcn.studies import open_runs

    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        model = fit(graph, split, device, folder=folder, time_limit=limit)
        seconds = time.perf_counter() - started
        records = []
        for stage in ("settings", "candidates"):
            if (Path(folder) / stage).exists():
                with open_runs(Path(folder) / stage) as runs:
                    records += [record for _, record in runs.entries() if record.split == split.name]
    found = {}
    for each in model.selection.candidates:
        for record in records:
            same = all(record.config[name] == value for name, value in each.settings.items())
            full = record.config["max_epochs"] == model.record.config["max_epochs"]
            if each.tried and record.method == each.method and same and full:
                found[f"  {each.name}"] = (record.test_accuracy, each.seconds)
    chosen = f"{model.selection.chosen} {model.record.test_accuracy:.2%}"
    print(f"    {graph.name} {split.name}: {chosen}, {seconds:.0f} s", flush=True)
    return {"auto": (model.record.test_accuracy, seconds), **found}


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
    name: str, path: Path | None, split: str, device: str, limit: float | None
) -> tuple[str, dict[str, tuple[float, float]]]:
    """Return test accuracy and seconds of all contestants on one split of a graph."""
    from fishergcn import splits

    warnings.simplefilter("ignore")
    graph = load(name, path)
    [chosen] = splits.choose(graph, split)
    return name, fitted(graph, chosen, device, limit) | {
        peer: run(graph, chosen, device) for peer, run in PEERS.items()
    }


def summary(name: str, path: Path | None, scores: list[dict[str, tuple[float, float]]]) -> dict[str, Any]:
    """Return means over splits, and print them."""
    graph = load(name, path)
    print(f"{name}: {graph.num_nodes:,} nodes, {graph.num_links:,} links, {len(scores)} splits", flush=True)
    rows = {}
    for contestant in {each: None for found in scores for each in found}:
        accuracy, seconds = np.array([found[contestant] for found in scores if contestant in found]).T
        mean, std, count = float(accuracy.mean()), float(accuracy.std()), len(accuracy)
        rows[contestant.strip()] = {"accuracy": mean, "std": std, "runs": count, "seconds": float(seconds.mean())}
        print(f"  {contestant:28} {mean:7.2%} ± {std:.2%}  {seconds.mean():8.2f} s  {count} splits")
    return {"nodes": graph.num_nodes, "links": graph.num_links, "digest": graph.digest, "contestants": rows}


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
    parser.add_argument("--device", default="auto")
    parser.add_argument("--at-once", type=int, default=1, help="splits measured side by side")
    parser.add_argument("--time-limit", type=float, help="seconds that a choice may take; the default of fit otherwise")
    parser.add_argument("--out", type=Path, default=RESULTS / "graphs.json", help="other graphs in it are kept")
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
        for split in splits.choose(load(name, path), options.splits)
    ]
    scores: dict[str, list[dict[str, tuple[float, float]]]] = {name: [] for name in chosen}
    with ProcessPoolExecutor(options.at_once, get_context("spawn")) as pool:
        for each in as_completed([pool.submit(measure, *task, options.device, options.time_limit) for task in tasks]):
            name, found = each.result()
            scores[name].append(found)
            if len(scores[name]) == sum(task[0] == name for task in tasks):
                known = json.loads(options.out.read_text())["graphs"] if options.out.exists() else {}
                facts = {"at_once": options.at_once, "machine": machine() | _torch_facts(options.device)}
                known[name] = summary(name, chosen[name], scores[name]) | facts
                ordered = {name: known[name] for name in sorted(known)}
                write_record(options.out, {"benchmark": "graphs", "graphs": ordered})


if __name__ == "__main__":
    main()
