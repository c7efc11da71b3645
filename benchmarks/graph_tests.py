"""Tests on graphs: how often they reject where there is nothing, and how often where something was planted.

    python benchmarks/graph_tests.py [--nulls 6000] [--powers 200] [--out FILE.json]

Two groups of eight graphs of 24 nodes, stochastic block models with two communities. Nulls: both groups have the same
communities. Planted: in the second group, some pairs of nodes exchange their communities, so that every node keeps
its expected degree. The test on Bures distances stands beside the same test on distances of degree vectors. For
``independence``, a covariate is drawn at random (null), or is the number of nodes that changed sides (planted).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from _record import machine, write_record
from _sequences import block_model
from scipy.spatial.distance import pdist, squareform

from fishergcn.geometry import statistics

_NODES, _SIZE, _LEVEL, _PERMUTATIONS = 24, 8, 0.05, 199
_EXCHANGED = (1, 2, 3, 4, 6)


def members(exchanged: int) -> Any:
    """Return two communities of equal size, some of whose nodes have changed sides in pairs."""
    found = np.repeat([0, 1], _NODES // 2)
    found[:exchanged], found[_NODES // 2 : _NODES // 2 + exchanged] = 1, 0
    return found


def p_values(exchanged: int, seed: int) -> dict[str, float]:
    """Return the p-values of both tests between groups with a number of exchanged pairs."""
    rng = np.random.default_rng([seed, exchanged])
    sides = [members(0)] * _SIZE + [members(exchanged)] * _SIZE
    graphs = [block_model(each, 0.25, rng, inside=0.5) for each in sides]
    groups = ["one"] * _SIZE + ["other"] * _SIZE
    degrees = squareform(pdist([graph.sum(axis=1) for graph in graphs]))
    pairs = {"bures": statistics.pairwise(graphs), "degrees": degrees}
    return {
        name: statistics.two_sample_test(each, groups, permutations=_PERMUTATIONS, seed=seed).p_value
        for name, each in pairs.items()
    }


def independence_p_value(planted: bool, seed: int) -> float:
    """Return the p-value of independence from a covariate."""
    rng = np.random.default_rng([seed, 99])
    exchanged = rng.integers(0, 7, size=2 * _SIZE)
    graphs = [block_model(members(int(each)), 0.25, rng, inside=0.5) for each in exchanged]
    covariate = exchanged if planted else rng.standard_normal(2 * _SIZE)
    found = statistics.independence(
        statistics.pairwise(graphs), covariate.astype(float), permutations=_PERMUTATIONS, seed=seed
    )
    return found.p_value


def share(values: list[float]) -> float:
    return round(float(np.mean(np.array(values) <= _LEVEL)), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nulls", type=int, default=6000)
    parser.add_argument("--powers", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "graph_tests.json")
    options = parser.parse_args()

    rows = []
    for exchanged in (0, *_EXCHANGED):
        found = [p_values(exchanged, seed) for seed in range(options.powers if exchanged else options.nulls)]
        rows.append({"exchanged_pairs": exchanged, "simulations": len(found)})
        rows[-1] |= {name: share([each[name] for each in found]) for name in ("bures", "degrees")}
        print(rows[-1], flush=True)
    independence = {
        "null": share([independence_p_value(False, seed) for seed in range(options.nulls)]),
        "planted": share([independence_p_value(True, seed) for seed in range(options.powers)]),
    }
    print("independence", independence)
    record = {
        "benchmark": "graph_tests",
        "nodes": _NODES,
        "graphs_per_group": _SIZE,
        "level": _LEVEL,
        "permutations": _PERMUTATIONS,
        "two_samples": rows,
        "independence": independence,
        "machine": machine(),
    }
    write_record(options.out, record)


if __name__ == "__main__":
    main()
