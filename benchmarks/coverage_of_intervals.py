"""How often intervals of 95 % hold the truth, by simulation: of means over splits, and of what links are worth in fit.

    python benchmarks/coverage_of_intervals.py [--repetitions 10000] [--worlds 1000] [--out FILE.json]

Means: G splits with three runs each, a variance of 1 between splits and 0.3 within, normal or skewed (exponential);
Student's t, as studies have it, beside the percentile bootstrap of whole splits. Crossed seeds: 20 splits or fewer with
seeds that carry a share of the variance, over splits alone and with the error of both. Links: a generated graph with
planted classes, ridge regression on features and on features propagated once or twice; inner splits judge, the better
of the two with links is compared with the one without, and the truth is by how much it is better on unlabeled nodes.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from _process import RESULTS
from _record import machine, write_record
from scipy import sparse, special

from fishergcn import Graph, renormalized
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.models import class_shares
from fishergcn.splits import Split
from fishergcn.studies import cluster_bootstrap, crossed_error, student
from fishergcn.studies._honest import Honest, estimated
from fishergcn.studies._inner import inner_splits
from fishergcn.training import find_score

GROUPS, SEEDS = (5, 6, 10, 20), 3
CROSSED = ((5, 5), (6, 3), (10, 5), (20, 10))
SHARES = (0.0, 0.05, 0.2)  # of the variance that seeds carry, to 1 of the residuals
WORLDS: dict[str, dict[str, Any]] = {
    "60 for training, 60 for validation": {},
    "30 and 30": {"train": 10, "val": 30},
    "60 and 500, of 3,000": {"nodes": 3000, "val": 500},
    "60 and 1,000, of 3,000": {"nodes": 3000, "val": 1000},
    "15 and 30, strong features": {"train": 5, "val": 30, "signal": 0.6},
    "30 and 100, of 300": {"nodes": 300, "train": 10, "val": 100},
    "60 and 60, links at random": {"within": 0.0},
}


def holds(low: float, high: float) -> bool:
    return low <= 0.0 <= high


def means(groups: int, kind: str, repetitions: int) -> dict[str, float]:
    """Return the shares of intervals around a mean that hold it."""
    rng = np.random.default_rng([groups, len(kind)])
    names = np.repeat(np.arange(groups), SEEDS).tolist()
    found = {"student": 0, "bootstrap": 0}
    for _ in range(repetitions):
        luck = rng.normal(size=(groups, 1)) if kind == "normal" else rng.exponential(size=(groups, 1)) - 1.0
        values = (luck + math.sqrt(0.3) * rng.normal(size=(groups, SEEDS))).ravel()
        found["student"] += holds(*student(values, names)[1:])
        found["bootstrap"] += holds(*cluster_bootstrap(values, names, resamples=1000)[1:])
    return {name: count / repetitions for name, count in found.items()}


def crossed(splits: int, seeds: int, share: float, repetitions: int) -> dict[str, float]:
    """Return the shares of intervals that hold the mean where a seed brings the same luck to every split."""
    rng = np.random.default_rng([splits, seeds, round(100 * share)])
    groups, columns = np.repeat(np.arange(splits), seeds).tolist(), np.tile(np.arange(seeds), splits).tolist()
    found = {"splits alone": 0, "both": 0}
    for _ in range(repetitions):
        luck = math.sqrt(share) * rng.normal(size=(1, seeds)) + 0.3 * rng.normal(size=(splits, 1))
        values = (luck + rng.normal(size=(splits, seeds))).ravel()
        found["splits alone"] += holds(*student(values, groups)[1:])
        error, degrees = crossed_error(values, groups, columns)
        found["both"] += abs(values.mean()) <= special.stdtrit(degrees, 0.975) * error
    return {name: count / repetitions for name, count in found.items()}


def world(
    rng: np.random.Generator, nodes: int, classes: int, within: float, signal: float, degree: int = 4, columns: int = 20
) -> Graph:
    """Return a graph with planted classes; links stay in a class with probability ``within``, and by chance."""
    labels = rng.integers(0, classes, nodes)
    features = signal * rng.normal(size=(classes, columns))[labels] + rng.normal(size=(nodes, columns))
    one = rng.integers(0, nodes, nodes * degree // 2)
    members = [np.flatnonzero(labels == each) for each in range(classes)]
    alike = np.array([rng.choice(members[labels[each]]) for each in one])
    other = np.where(rng.random(len(one)) < within, alike, rng.integers(0, nodes, len(one)))
    kept = one != other
    half = sparse.coo_array((np.ones(kept.sum()), (one[kept], other[kept])), shape=(nodes, nodes))
    links = sparse.csr_array(half + half.T)
    links.data[:] = 1.0
    return Graph(links, features, labels, name="planted")


def regressed(inputs: FloatArray, labels: IntArray, train: IntArray, classes: int) -> FloatArray:
    """Return probabilities of all nodes by ridge regression on indicators of the classes."""
    seen, wanted = inputs[train], np.eye(classes)[labels[train]] - 1.0 / classes
    outputs = inputs @ (seen.T @ np.linalg.solve(seen @ seen.T + np.eye(len(train)), wanted))
    return np.asarray(special.softmax(6.0 * outputs, axis=1))


def worth(
    rng: np.random.Generator,
    nodes: int = 800,
    classes: int = 3,
    within: float = 0.5,
    signal: float = 0.35,
    train: int = 20,
    val: int = 60,
) -> tuple[float, Honest, Honest]:
    """Return by how much links help on unlabeled nodes, its estimate, and the estimate as if splits did not overlap."""
    graph = world(rng, nodes, classes, within, signal)
    labels, features = np.asarray(graph.labels), np.asarray(graph.features)
    order = rng.permutation(nodes)
    chosen = np.concatenate([order[labels[order] == each][:train] for each in range(classes)])
    rest = rng.permutation(np.setdiff1d(order, chosen))
    split = Split("mine", train=np.sort(chosen), val=np.sort(rest[:val]), test=np.sort(rest[val:]))
    parts = inner_splits(graph, split, int(np.clip(math.ceil(1000 / (val // 2)), 3, 5)))  # as fit deals them
    aside = [labels[part.test] for part in parts]
    matrix = renormalized(graph.adjacency)
    once = np.asarray(matrix @ features)

    def judged(inputs: FloatArray) -> list[FloatArray]:
        return [regressed(inputs, labels, part.train, classes)[part.test] for part in parts]

    def hits(found: list[FloatArray]) -> float:
        return float(sum((each.argmax(axis=1) == own).sum() for each, own in zip(found, aside, strict=True)))

    linked = max(((each, judged(each)) for each in (once, np.asarray(matrix @ once))), key=lambda pair: hits(pair[1]))
    final = [regressed(each, labels, split.train, classes)[split.test] for each in (linked[0], features)]
    right = [float((each.argmax(axis=1) == labels[split.test]).mean()) for each in final]
    shares = class_shares(np.concatenate(linked[1]), np.concatenate(aside), final[0])
    known = (find_score("accuracy"), linked[1], aside, shares, len(split.test), judged(features))
    return right[0] - right[1], estimated(*known, labeled=len(chosen) + val), estimated(*known)


def links(settings: dict[str, Any], repetitions: int) -> dict[str, float]:
    """Return the shares of intervals of what links are worth that hold it, and their mean half widths."""
    rng = np.random.default_rng(1)
    made = [worth(rng, **settings) for _ in range(repetitions)]
    found: dict[str, float] = {}
    for at, name in ((1, "corrected"), (2, "plain")):
        found[name] = float(np.mean([each[at].low <= each[0] <= each[at].high for each in made]))
        found[f"{name} width"] = float(np.mean([(each[at].high - each[at].low) / 2 for each in made]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repetitions", type=int, default=10_000, help="of each simulated mean")
    parser.add_argument("--worlds", type=int, default=1000, help="generated graphs for each row of links")
    parser.add_argument("--out", type=Path, default=RESULTS / "coverage.json")
    options = parser.parse_args()
    record: dict[str, Any] = {"machine": machine(), "repetitions": options.repetitions, "worlds": options.worlds}
    record["means"] = [
        {"groups": groups, "kind": kind, **means(groups, kind, options.repetitions)}
        for kind in ("normal", "skewed")
        for groups in GROUPS
    ]
    record["crossed"] = [
        {"splits": splits, "seeds": seeds, "share": share, **crossed(splits, seeds, share, options.repetitions)}
        for splits, seeds in CROSSED
        for share in SHARES
    ]
    record["links"] = [{"world": name, **links(settings, options.worlds)} for name, settings in WORLDS.items()]
    write_record(options.out, record)


if __name__ == "__main__":
    main()
