"""How far probabilities can be trusted, and whether prediction sets hold what they promise, beside TorchCP.

    python benchmarks/calibration.py [FOLDER] [--graphs texas actor] [--splits 10] [--first 0] [--out FILE]

FOLDER holds graph files (.npz); by default ../shared/data/graphs beside the repository if it is there, else the data
sets of the package are measured. Splits are the masks that a graph brings; of a graph without masks, 20 training nodes
of each class are drawn, and of the others 500 at random for validation (`random`). The same graphs are also measured
with 30 validation nodes drawn from each class (`by class`), which are not like the test nodes. Half of the validation
nodes is set aside for prediction sets, as `fit(graph, coverage=)` does. One network a graph (METHODS) is trained with
the default settings, and all contenders see its logits:

- calibration: the expected calibration error (15 bins) of the softmax and of `model.probabilities()`, on test nodes;
- sets of coverage 0.8, 0.9 and 0.95: the share of test nodes whose set has the true class, and the mean size, of
  `model.predict_sets`, and of TorchCP's APS and DAPS (its default coefficient 0.5), calibrated on the same nodes.

TorchCP's score functions are imported from its own files, if it is installed (`pip install --no-deps torchcp`), without
the rest of the package, which needs torchvision and transformers. Otherwise their published formulas are computed here,
and the record says so.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import time
import types
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _process import RESULTS
from _record import machine, write_record

COVERAGES = (0.8, 0.9, 0.95)
METHODS = {"texas": "mlp", "actor": "mlp", "flickr-attr": "mlp", "minesweeper": "sage", "twitch-de": "mlp"}
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "graphs"
_TRAIN, _VAL = 20, 30  # nodes of each class, of graphs without masks
_RANDOM = 500  # validation nodes that are drawn from all classes alike, as many as the public splits have


def random_split(graph: Any, seed: int) -> Any:
    """Return 20 training nodes of each class, 500 validation nodes drawn from all others alike, and the rest."""
    from fishergcn.splits import Split, per_class

    known = per_class(graph, _TRAIN, 0, seed=seed)
    others = np.random.default_rng(seed).permutation(known.test)
    count = min(_RANDOM, len(others) // 2)
    return Split(f"random:{seed}", known.train, np.sort(others[:count]), np.sort(others[count:]))


def splits_of(graph: Any, count: int, first: int) -> dict[str, list[Any]]:
    """Return the splits of each kind."""
    from fishergcn import splits

    if graph.masks is not None:
        return {"mask": splits.choose(graph, first + count)[first:]}
    seeds = range(2019 + first, 2019 + first + count)
    drawn = [splits.per_class(graph, _TRAIN, _VAL, seed=seed) for seed in seeds]
    return {"random": [random_split(graph, seed) for seed in seeds], "by class": drawn}


@cache
def torchcp_scores() -> tuple[Any, Any] | None:
    """Return TorchCP's APS and DAPS, from their files alone."""
    found = importlib.util.find_spec("torchcp")
    if found is None or not found.submodule_search_locations:
        return None
    place = Path(found.submodule_search_locations[0])
    for name in ("", ".classification", ".classification.score", ".graph", ".graph.score"):
        made = types.ModuleType(f"torchcp{name}")
        made.__path__ = [str(place.joinpath(*name.split(".")[1:]))]
        sys.modules[f"torchcp{name}"] = made
    aps = importlib.import_module("torchcp.classification.score.aps").APS
    return aps, importlib.import_module("torchcp.graph.score.daps").DAPS


def peer_scores(graph: Any, logits: Any, seed: int) -> dict[str, np.ndarray]:
    """Return the scores (n, C) of APS and DAPS, randomized, as TorchCP does by default."""
    import torch

    torch.manual_seed(seed)
    outputs = torch.from_numpy(logits).float()
    known = torchcp_scores()
    if known is not None:
        links = graph.adjacency.tocoo()
        pairs = torch.from_numpy(np.array([links.row, links.col], dtype=np.int64))
        data = types.SimpleNamespace(num_nodes=graph.num_nodes, edge_index=pairs, edge_weight=None)
        aps, daps = known
        return {"APS": aps()(outputs).numpy(), "DAPS": daps(data, aps())(outputs).numpy()}

    def aps_scores() -> Any:
        ordered, order = torch.softmax(outputs, dim=1).sort(dim=1, descending=True)
        values = ordered.cumsum(1) - ordered * torch.rand(ordered.shape)
        return torch.zeros_like(values).scatter(1, order, values).numpy()

    base, links = aps_scores(), (graph.adjacency != 0).astype(np.float64)
    mean = links @ base / (np.asarray(links.sum(axis=1)).reshape(-1, 1) + 1e-10)
    return {"APS": aps_scores(), "DAPS": 0.5 * mean + 0.5 * base}


def sets_of(scores: np.ndarray, nodes: Any, labels: Any, coverage: float) -> np.ndarray:
    """Return the sets of a score by split conformal prediction: TorchCP takes the same quantile."""
    from fishergcn.models import conformal_quantile

    return scores <= conformal_quantile(scores[nodes, labels[nodes]], coverage)


def measure(graph: Any, split: Any, method: str) -> dict[str, Any]:
    """Return calibration errors, coverages and sizes on the test nodes of one split."""
    from fishergcn import TrainedModel, train
    from fishergcn.models import split_for
    from fishergcn.report._assessment import calibration

    started, labels, test = time.perf_counter(), np.asarray(graph.labels), split.test
    smaller, aside = split_for(graph, split, max(COVERAGES) if len(split.val) > 60 else 0.9)
    [record] = train(graph, method, smaller, device="cpu", keep_weights=True)
    model = TrainedModel.from_records(graph, record, smaller)
    raw, stated = model.probabilities(raw=True), model.probabilities()
    found: dict[str, Any] = {
        "accuracy": float((raw[test].argmax(axis=1) == labels[test]).mean()),
        "nodes": [len(smaller.train), len(smaller.val), len(aside), len(test)],
        "calibration": model.calibration.name,
        "ece": [calibration(each[test], labels[test])[1] for each in (raw, stated)],
        "log_loss": [float(-np.log(np.maximum(each[test, labels[test]], 1e-12)).mean()) for each in (raw, stated)],
        "sets": {},
    }
    peers = peer_scores(graph, model.raw_logits(), seed=2019)
    for coverage in COVERAGES:
        with_sets = model.set_aside(aside, coverage)
        sets = {"fishergcn": with_sets.predict_sets()}
        sets |= {name: sets_of(each, aside, labels, coverage) for name, each in peers.items()}
        row = {
            name: [float(each[test, labels[test]].mean()), float(each[test].sum(axis=1).mean())]
            for name, each in sets.items()
        }
        chosen = with_sets.aside
        row["chosen"] = [chosen.smoothing, chosen.calibrated, bool(chosen.weights)]
        found["sets"][str(coverage)] = row
    found["seconds"] = time.perf_counter() - started
    return found


def summary(runs: dict[str, Any]) -> dict[str, Any]:
    """Return means over splits."""
    every = list(runs.values())
    sets = {
        str(coverage): {
            name: np.mean([each["sets"][str(coverage)][name] for each in every], axis=0).tolist()
            for name in ("fishergcn", "APS", "DAPS")
        }
        for coverage in COVERAGES
    }
    means = {name: np.mean([each[name] for each in every], axis=0).tolist() for name in ("accuracy", "ece", "log_loss")}
    return {**means, "sets": sets}


def main() -> None:
    from fishergcn import Graph, datasets

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?", default=SHARED if SHARED.is_dir() else None)
    parser.add_argument("--graphs", nargs="+", help="names of files without .npz; all by default")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="how many splits to leave out before them")
    parser.add_argument("--out", type=Path, default=RESULTS / "calibration.json", help="other results in it are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = datasets.available() if options.folder is None else [each.stem for each in options.folder.glob("*.npz")]
    peer = "TorchCP's code" if torchcp_scores() is not None else "TorchCP's published formulas"
    for name in sorted(set(names) & set(options.graphs or names)):
        graph = datasets.load(name) if options.folder is None else Graph.load(options.folder / f"{name}.npz")
        method = METHODS.get(name, "gcn")
        for kind, chosen in splits_of(graph, options.splits, options.first).items():
            key = name if kind != "by class" else f"{name}, by class"
            for split in chosen:
                found = measure(graph, split, method)
                known = json.loads(options.out.read_text())["graphs"] if options.out.exists() else {}
                runs = known.get(key, {}).get("splits", {}) | {split.name: found}
                facts = {"nodes": graph.num_nodes, "method": method, "kind": kind, "digest": graph.digest}
                known[key] = facts | {"means": summary(runs), "splits": runs}
                ordered = {each: known[each] for each in sorted(known)}
                record = {"benchmark": "calibration", "peer": peer, "machine": machine(), "graphs": ordered}
                write_record(options.out, record)
                said = "; ".join(
                    f"{coverage}: "
                    + ", ".join(f"{at} {row[0]:.3f}/{row[1]:.2f}" for at, row in each.items() if at != "chosen")
                    for coverage, each in found["sets"].items()
                )
                before, after = found["ece"]
                seconds = f"{found['seconds']:.0f} s"
                print(f"{key} {split.name}: ECE {before:.1%} -> {after:.1%}; {said}; {seconds}", flush=True)


if __name__ == "__main__":
    main()
