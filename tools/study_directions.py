"""On a graph, do directions with large Fisher information hurt a network more than random ones?

Trains a few networks, finds for each the eigenvectors of G^E relative to the Bures metric, and measures how
the loss and the predictions change at equal Bures distance along them and along random directions.

    python tools/study_directions.py                       # Cora, GCN and FisherGCN, 5 seeds, minutes on one core
    python tools/study_directions.py --json directions.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

import fishergcn
from fishergcn._base.files import write_text
from fishergcn._base.text import markdown_table
from fishergcn.geometry import extrinsic
from fishergcn.nn import GCN
from fishergcn.perturbation import Neighborhood


def network(graph: fishergcn.Graph, record: Any) -> GCN:
    """Return the trained network of a record."""
    model = GCN(graph.num_features, record.config["hidden"], graph.num_classes)
    with torch.no_grad():
        for weight, values in zip(model.weights, record.weights.values(), strict=True):
            weight.copy_(torch.from_numpy(values))
    return model


def study(
    model: GCN, graph: fishergcn.Graph, around: Neighborhood, nodes: Any, factor: float, random: int
) -> dict[str, Any]:
    """Compare directions at ``factor`` times the typical distance of draws, on the loss of ``nodes``."""
    found = extrinsic.adversarial_direction(model, graph, around, nodes=nodes)
    distance = factor * extrinsic.typical_distance(around)
    grown = extrinsic.sharpness(model, graph, around, distance, nodes, directions=found.directions, random=random)
    worst = grown.random.max(axis=1)
    ends = grown.adversarial.max(axis=1)
    # The slope of the loss cancels to first order in the mean of both ends. Some of it stays at second order: the
    # line in φ is no geodesic, so that equal distances forward and backward are not equal steps of φ.
    both, both_random = grown.adversarial.mean(axis=1), grown.random.mean(axis=1)
    return {
        "distance": distance,
        "loss": grown.loss,
        "anisotropy": found.anisotropy,
        "kl_first_over_random": float(grown.adversarial_change[0].mean() / grown.random_change.mean()),
        "changes_more_than": grown.rank_of_change,
        "loss_growth_first": float(ends[0]),
        "loss_growth_random": float(np.median(worst)),
        "loss_growth_last": float(ends[-1]),
        "hurts_more_than": grown.rank_of_loss,
        "both_ends_first": float(both[0]),
        "both_ends_random": float(np.median(both_random)),
        "both_ends_more_than": float((both_random < both[0]).mean()),
        "spearman_kl": float(stats.spearmanr(found.eigenvalues, grown.adversarial_change.mean(axis=1))[0]),
        "spearman_loss": float(stats.spearmanr(found.eigenvalues, ends)[0]),
        "spearman_both_ends": float(stats.spearmanr(found.eigenvalues, both)[0]),
    }


COLUMNS = (
    ("anisotropy", "μ1/mean μ", "{:.2f}"),
    ("kl_first_over_random", "KL 1st/random", "{:.2f}"),
    ("changes_more_than", "KL rank", "{:.0%}"),
    ("loss", "loss", "{:.3f}"),
    ("loss_growth_first", "growth 1st", "{:+.2e}"),
    ("loss_growth_random", "growth random", "{:+.2e}"),
    ("loss_growth_last", "growth last", "{:+.2e}"),
    ("hurts_more_than", "growth rank", "{:.0%}"),
    ("both_ends_more_than", "both-ends rank", "{:.0%}"),
    ("spearman_loss", "ρ(μ, growth)", "{:+.2f}"),
    ("spearman_both_ends", "ρ(μ, both ends)", "{:+.2f}"),
)


def show(rows: list[dict[str, Any]]) -> None:
    """Print means over seeds, one line for each method, set of nodes and distance."""
    lines = []
    for key in dict.fromkeys((row["method"], row["nodes"], row["factor"]) for row in rows):
        group = [row for row in rows if (row["method"], row["nodes"], row["factor"]) == key]
        cells = [shape.format(np.mean([row[name] for row in group])) for name, _, shape in COLUMNS]
        lines.append([*key[:2], f"{key[2]:g} x", *cells])
    print(markdown_table(["method", "nodes", "distance", *(title for _, title, _ in COLUMNS)], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--methods", nargs="+", default=["gcn", "fishergcn"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--factors", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--json", type=Path, help="also write every number here")
    options = parser.parse_args()
    graph = fishergcn.datasets.load(options.dataset)
    split = fishergcn.splits.public(graph)
    around = Neighborhood(fishergcn.renormalized(graph.adjacency), rank=options.rank)
    rows = []
    for method in options.methods:
        for record in fishergcn.train(graph, method, split, options.seeds, keep_weights=True):
            model = network(graph, record)
            for name in ("train", "test"):
                for factor in options.factors:
                    facts = study(model, graph, around, getattr(split, name), factor, options.random)
                    run = {"method": method, "seed": record.seed, "accuracy": record.test_accuracy}
                    rows.append({**run, "nodes": name, "factor": factor, **facts})
    show(rows)
    if options.json is not None:
        write_text(options.json, json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
