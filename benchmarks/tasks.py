"""Several labels and a number a node: how good models are, and whether intervals hold what they promise.

    python benchmarks/tasks.py [--splits 3] [--draws 60] [--only planted words number] [--out FILE]

Several labels, each beside scikit-learn's LogisticRegression for every label against the rest, on a node's features and
on these beside the mean of its neighbors'. It says a label from a probability of ½ on, as scikit-learn does, or above
the threshold of the best micro F1 on validation nodes, as fishergcn does; its strength is chosen likewise:

- planted: 1,200 nodes in 6 overlapping groups, each with probability 0.3; links are likelier the more groups two nodes
  share, and each group shifts the features a little;
- cora, words: the 20 most frequent words of Cora's papers are taken out of the features, and which of them a paper has
  is predicted from its other words and its citations.

A number, a law with known noise on the links and words of PubMed: y = 100 + 10 f + 10 ε, where f is the mean of x·w
over a paper and its neighbors, for random w, standardized, and ε is normal with the standard deviation that leaves R²
= 0.8 to the best prediction there is. Intervals are measured on test nodes, over random draws of all parts of the
split.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _process import RESULTS
from _record import machine, write_record
from scipy import sparse

from fishergcn import Graph, TrainedModel, datasets, fit, train
from fishergcn.splits import Split
from fishergcn.training import find_score, find_task, score_of

METHODS = ("lp", "linear", "mlp", "gcn", "sage")
SCORES = ("micro_f1", "macro_f1", "average_precision")
COVERAGES = (0.8, 0.9, 0.95)
PARTS = ("planted", "words", "number")
NOISE = math.sqrt(0.25)  # of f, whose variance is 1: R² of f is 0.8


def overlapping() -> Graph:
    """Return the planted graph."""
    rng, nodes, groups = np.random.default_rng(0), 1200, 6
    member = rng.random((nodes, groups)) < 0.3
    shared = member.astype(float) @ member.T
    likely = 0.002 + 0.008 * shared
    links = np.argwhere(np.triu(rng.random((nodes, nodes)) < likely, 1))
    features = rng.normal(size=(nodes, 16)) + 0.5 * member @ rng.normal(size=(groups, 16))
    return Graph.from_edges(links, num_nodes=nodes, features=features, labels=member, name="planted", task="multilabel")


def words() -> Graph:
    """Return Cora with its most frequent words as labels."""
    cora = datasets.load("cora")
    features: Any = sparse.csc_array(cora.features)
    counts = np.asarray((features > 0).sum(axis=0)).ravel()
    taken = np.sort(np.argsort(-counts, kind="stable")[:20])
    labels = features[:, taken].toarray() > 0
    rest = features[:, np.setdiff1d(np.arange(features.shape[1]), taken)]
    return Graph(cora.adjacency, sparse.csr_array(rest), labels, name="cora, words", task="multilabel")


def law() -> Graph:
    """Return PubMed with a number a node."""
    pubmed, rng = datasets.load("pubmed"), np.random.default_rng(0)
    links: Any = pubmed.adjacency + sparse.eye_array(pubmed.num_nodes)
    features: Any = pubmed.features
    mean = (links @ (features @ rng.normal(size=pubmed.num_features))) / np.asarray(links.sum(axis=1)).ravel()
    clean = (mean - mean.mean()) / mean.std()
    labels = 100 + 10 * (clean + NOISE * rng.normal(size=pubmed.num_nodes))
    return Graph(pubmed.adjacency, features, labels, name="pubmed, law", task="regression")


def dealt(graph: Graph, seed: int, train: int, val: int, test: int) -> Split:
    """Return random nodes for each part; the others are in none."""
    order = np.random.default_rng([seed, 7]).permutation(graph.num_nodes)[: train + val + test]
    return Split(f"random:{seed}", *np.split(order, [train, train + val]))


def against_the_rest(graph: Graph, split: Split, *, neighbors: bool, half: bool) -> dict[str, float]:
    """Return the scores of logistic regression on the test nodes; strength and threshold are from validation nodes."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    features: Any = sparse.csr_array(graph.features)
    if neighbors:
        degrees = np.maximum(np.asarray(graph.adjacency.sum(axis=1)).ravel(), 1)
        around = sparse.diags_array(1 / degrees) @ graph.adjacency @ features
        features = sparse.csr_array(sparse.hstack([features, around]))
    known, task = np.asarray(graph.targets), find_task("multilabel")
    best: tuple[float, Any, float] = -math.inf, None, 0.5
    for strength in (0.01, 0.1, 1.0, 10.0):
        model = OneVsRestClassifier(LogisticRegression(C=strength, max_iter=500))
        model.fit(features[split.train], known[split.train])
        found = model.predict_proba(features[split.val])
        limit = 0.5 if half else task.threshold(found, known[split.val])
        value = score_of(find_score("micro_f1"), task.scored(found), known[split.val], task, limit)
        best = max(best, (value, model, limit), key=lambda each: each[0])
    found = task.scored(best[1].predict_proba(features[split.test]))
    return {name: score_of(find_score(name), found, known[split.test], task, best[2]) for name in SCORES}


def several(graph: Graph, count: int, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """Return means over splits of the scores of ``fit`` and of logistic regression."""
    found: dict[str, list[dict[str, float]]] = {"fit": []}
    started, chosen, announced = time.perf_counter(), list[str](), list[list[float]]()
    for seed in range(count):
        split = dealt(graph, seed, *sizes)
        model = fit(graph, split, "cpu", methods=METHODS)
        found["fit"].append({name: getattr(model.record, f"test_{name}") for name in SCORES})
        if model.selection is not None:
            chosen.append(model.selection.chosen)
            announced.append([model.selection.value, model.selection.low, model.selection.high])
        for seen, half in itertools.product((False, True), (True, False)):
            name = f"{'neighbors' if seen else 'features'}{', from ½ on' if half else ''}"
            found.setdefault(name, []).append(against_the_rest(graph, split, neighbors=seen, half=half))
    known = np.asarray(graph.targets)
    means = {
        kind: {name: float(np.mean([each[name] for each in some])) for name in SCORES} for kind, some in found.items()
    }
    return {
        "nodes": graph.num_nodes, "links": graph.num_links, "labels": graph.num_classes, "sizes": sizes,
        "labels_a_node": float(known.sum(axis=1).mean()), "splits": count, "means": means, "runs": found,
        "chosen": chosen, "announced": announced, "seconds": time.perf_counter() - started,
    }  # fmt: skip


def number(graph: Graph, count: int, draws: int) -> dict[str, Any]:
    """Return scores of ``fit`` over some splits, and how often intervals hold over many."""
    started, values = time.perf_counter(), np.asarray(graph.targets)
    fits = []
    for seed in range(count):
        split = dealt(graph, seed, 1600, 400, 2000)
        # Only these nodes are known: the others are what the model is for.
        some = np.full(graph.num_nodes, np.nan)
        some[np.concatenate([split.train, split.val, split.test])] = values[
            np.concatenate([split.train, split.val, split.test])
        ]
        model = fit(graph.replace(labels=some, task="regression"), split, "cpu", methods=METHODS)
        selection = model.selection
        fits.append(
            {"r2": model.record.test_r2, "mae": model.record.test_mae, "chosen": selection.chosen if selection else "",
             "announced": [selection.value, selection.low, selection.high] if selection else [],
             "aside": len(model.nodes_aside), **_held(model, values, split.test)}
        )  # fmt: skip
    many = []
    for seed in range(draws):
        split = dealt(graph, 1000 + seed, 600, 200, 2000)
        order = np.random.default_rng([seed, 8]).permutation(np.setdiff1d(np.arange(graph.num_nodes), np.concatenate(
            [split.train, split.val, split.test])))[:200]  # fmt: skip
        some, every = np.full(graph.num_nodes, np.nan), np.concatenate([split.train, split.val, split.test, order])
        some[every] = values[every]
        partly = graph.replace(labels=some, task="regression")
        records = train(partly, "linear", split, settings={"scaling": "columns", "weight_decay": 0.5}, device="cpu",
                        keep_weights=True)  # fmt: skip
        many.append(_held(TrainedModel.from_records(partly, records, split), values, split.test))
    held = {str(each): [one["held"][str(each)] for one in many] for each in COVERAGES}
    return {
        "nodes": graph.num_nodes, "links": graph.num_links, "ceiling": 0.8, "noise": 10 * NOISE, "fits": fits,
        "draws": draws, "seconds": time.perf_counter() - started,
        "coverage": {name: {"mean": float(np.mean(each)), "error": float(np.std(each, ddof=1) / math.sqrt(draws)),
                            "least": float(np.min(each))} for name, each in held.items()},
    }  # fmt: skip


def _held(model: TrainedModel, values: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Return the share of test nodes whose interval holds the true number, and how wide intervals are."""
    held, half = {}, {}
    for coverage in COVERAGES:
        ends = model.predict_interval(coverage)[test]
        held[str(coverage)] = float(((ends[:, 0] <= values[test]) & (values[test] <= ends[:, 1])).mean())
        half[str(coverage)] = float((ends[0, 1] - ends[0, 0]) / 2)
    return {"held": held, "half": half}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path, default=RESULTS / "tasks.json", help="other results in it are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in options.only:
        known: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
        if part == "number":
            known["regression"] = number(law(), options.splits, options.draws)
        else:
            graph, sizes = (overlapping(), (200, 100, 900)) if part == "planted" else (words(), (800, 400, 1508))
            known["multilabel"] = known.get("multilabel", {}) | {graph.name: several(graph, options.splits, sizes)}
        write_record(options.out, known | {"benchmark": "tasks", "machine": machine()})
        print(f"{part}: done", flush=True)


if __name__ == "__main__":
    main()
