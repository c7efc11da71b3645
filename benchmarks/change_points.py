"""Planted change points in sequences of stochastic block models: how many are found, beside other methods.

    python benchmarks/change_points.py [--sequences 20] [--nodes 100] [--kept FOLDER] [--out FILE.json]

The settings are those of LAD (Huang et al., KDD 2020), with fewer nodes: 151 graphs, seven planted steps; see
``_sequences.py``. Every method may name seven steps. LAD ranks them by how much a score rises, with windows of 5 and 10
graphs: here the angle of singular values, or of degree vectors, to the window's principal vector, and the Bures
distance to the window's mean. ``change_points`` ranks them by ``ranked(7)``. Beside it: the steps that it marks at the
level 5%, from Bures and Wasserstein distances and from Euclidean distances of the other two signatures, without a
number to be given; how many of its marks are at steps that were not planted; and how often it marks anything in
sequences without a change: noise about one graph, and graphs that drift, a few links at every step. Short sequences
with one or two large changes (other communities) say from how many graphs on such changes are marked. Sequences that
are done are kept beside the record until all are: run the same command again to continue. With ``--kept``, distances
are kept for later runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _record import machine, write_record
from _sequences import (
    PLANTED,
    STEPS,
    angle_scores,
    block_model,
    degree_vectors,
    planted,
    rises,
    singular_vectors,
    window_scores,
)
from scipy.spatial.distance import pdist, squareform

from fishergcn.geometry import statistics

_SETTINGS = ("pure", "redrawn", "hybrid", "members")
_NULLS, _NULL_STEPS, _NULL_NODES = 200, 40, 20
_MEASURES: tuple[Literal["bures", "wasserstein"], ...] = ("bures", "wasserstein")
_SHORT = (8, 9, 10, 12, 16)


def hits(scores: Any) -> float:
    """Return the share of planted steps among the seven of the largest scores."""
    return len(set(np.argsort(-scores)[: len(PLANTED)].tolist()) & set(PLANTED)) / len(PLANTED)


def one_sequence(setting: str, nodes: int, seed: int, kept: Path) -> dict[str, float]:
    """Return what each method finds in a sequence."""
    graphs = planted(setting, nodes, seed)
    folder = kept / f"{setting}-{nodes}-{seed}"
    distances = {name: statistics.pairwise(graphs, measure=name, folder=folder).values for name in _MEASURES}
    found: dict[str, float] = {}
    vectors = {"lad": singular_vectors(graphs), "degrees": degree_vectors(graphs)}
    scores = {name: partial(angle_scores, each) for name, each in vectors.items()}
    scores |= {name: partial(window_scores, each) for name, each in distances.items()}
    distances |= {name: squareform(pdist(each)) for name, each in vectors.items()}
    # An event lasts one step, and is no change that lasts.
    lasting = set(PLANTED[1::2] if setting == "hybrid" else PLANTED)
    for name, each in distances.items():
        found[name] = hits(rises(scores[name]))
        changes = statistics.change_points(graphs, distances=each, explain=False)
        steps = {change.step for change in changes.changes}
        found[f"{name}_ranked"] = len(set(changes.ranked(len(PLANTED))) & set(PLANTED)) / len(PLANTED)
        found[f"{name}_marked"] = len(steps & lasting) / len(lasting)
        found[f"{name}_false"] = len(steps - set(PLANTED))
    return found


def short_marks(count: int, changes: int) -> float:
    """Return the share of large changes that are marked in sequences of so few graphs."""
    steps = [count // 2] if changes == 1 else [count // 3, count - count // 3]
    found = 0
    for seed in range(_NULLS // 2):
        rng = np.random.default_rng([seed, count, changes])
        graphs: list[Any] = []
        for start, end in pairwise([0, *steps, count]):
            members = rng.permutation(2 * _NULL_NODES) % 2
            graphs += [block_model(members, 0.05, rng, inside=0.5) for _ in range(start, end)]
        marked = statistics.change_points(graphs, permutations=199, explain=False, seed=seed).changes
        found += len({each.step for each in marked} & set(steps))
    return found / (_NULLS // 2) / changes


def null_marks(*, drift: bool) -> float:
    """Return the share of sequences without a change in which something is marked."""
    found = 0
    members = np.arange(_NULL_NODES) % 2
    for seed in range(_NULLS):
        rng = np.random.default_rng(seed)
        graphs = [block_model(members, 0.2, rng, inside=0.5) for _ in range(_NULL_STEPS)]
        for at in range(1, _NULL_STEPS if drift else 0):  # one pair of nodes in twenty is drawn anew
            kept = np.triu(rng.random((_NULL_NODES, _NULL_NODES)) > 0.05, 1)
            graphs[at] = np.where(kept | kept.T, graphs[at - 1], graphs[at])
        found += bool(statistics.change_points(graphs, permutations=199, explain=False, seed=seed).changes)
    return found / _NULLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "change_points.json")
    parser.add_argument("--kept", type=Path, help="where distances are kept, so that later runs need not find them")
    options = parser.parse_args()

    kept = options.out.with_suffix(f".{options.nodes}.partial.json")
    folder = options.kept or Path(tempfile.mkdtemp(prefix="distances-"))
    done: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}

    def once(name: str, find: Callable[[], Any]) -> Any:
        if name not in done:
            done[name] = find()
            write_record(kept, done)
            print(name, "done", file=sys.stderr, flush=True)
        return done[name]

    rows = []
    for setting in _SETTINGS:
        found = [
            once(f"{setting} {seed}", partial(one_sequence, setting, options.nodes, seed, folder))
            for seed in range(options.sequences)
        ]
        means = {name: round(float(np.mean([each[name] for each in found])), 4) for name in found[0]}
        rows.append({"setting": setting, **means})
        print(rows[-1], flush=True)
    record = {
        "benchmark": "change_points",
        "sequences": options.sequences,
        "nodes": options.nodes,
        "steps": STEPS,
        "planted": list(PLANTED),
        "settings": rows,
        "null_sequences": _NULLS,
        "null_steps": _NULL_STEPS,
        "null_marked": once("null", partial(null_marks, drift=False)),
        "drift_marked": once("drift", partial(null_marks, drift=True)),
        "short": [
            {"graphs": count}
            | {f"changes_{k}": once(f"short {count} {k}", partial(short_marks, count, k)) for k in (1, 2)}
            for count in _SHORT
        ],
        "machine": machine(),
    }
    print("marked without a change", record["null_marked"], record["drift_marked"])
    write_record(options.out, record)
    kept.unlink()
    if options.kept is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
