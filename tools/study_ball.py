"""What are the graphs that the Bures ball of docs/robustness.md holds? Their smallest eigenvalue tells.

    python tools/study_ball.py              # minutes on one core; writes results/distances/ball.json

Every normalized graph has -1 ≤ λ(Ã) ≤ 1: no convolution makes a signal grow. The ball of the study keeps a Bures
distance and not this bound. For each level: the smallest eigenvalue of any Ã(φ) in the ball, in closed form, and that
of the worst graph which the attack of the study finds for one trained network.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from _study import NAMES, RESULTS

import fishergcn
from fishergcn import datasets
from fishergcn._base.files import make_folder, write_text
from fishergcn.attacks import worst_in_ball
from fishergcn.perturbation import Neighborhood
from fishergcn.studies import load_preset

SPLIT = SEED = 2019
METHODS = ("gcn", "gcn-t")


def farthest(ball: Neighborhood) -> float:
    """Return sup D_B(ρ, ρ(φ)) over all φ, whatever the norm of Ã(φ): the unit of the levels of the study."""
    return math.sqrt(2.0 * ball.captured_mass * (1.0 - math.sqrt(float(ball.projected_spectrum.min()))))


def smallest_in_ball(ball: Neighborhood, radius: float) -> float:
    """Return min λ_min(Ã(φ)) over D_B(ρ, ρ(φ)) ≤ radius, φ along eigenvectors.

    One eigenvalue of L takes from the others, in proportion: q_i = sin²(α_i + δ) with sin²α_i = λ̄_i and
    cos δ = 1 - radius²/2s, since Σ_j sqrt(λ̄_j q_j) ≤ sqrt(λ̄_i q_i) + sqrt((1 - λ̄_i)(1 - q_i)) = cos δ. The largest of
    all Σw·q_i is that of the largest λ̄.
    """
    alpha = math.asin(math.sqrt(float(ball.projected_spectrum.max())))
    delta = math.acos(max(-1.0, 1.0 - radius**2 / (2.0 * ball.captured_mass)))
    grown = float(ball.spectrum.eigenvalues.sum()) * math.sin(min(alpha + delta, math.pi / 2)) ** 2
    return 1.0 - grown


def found_for_a_network(
    graph: fishergcn.Graph, method: str, ball: Neighborhood, levels: list[float], restarts: int, steps: int
) -> list[float]:
    """Return λ_min(Ã(φ)) of the worst graph that the attack finds for one network, at each level."""
    split = fishergcn.splits.shuffled(graph, SPLIT)
    config = fishergcn.TrainConfig(**load_preset("robustness").config.to_dict())
    records = fishergcn.train(graph, method, split, seeds=[SEED], config=config, device="cpu", keep_weights=True)
    model = fishergcn.TrainedModel.from_records(graph, records, split)
    made = (
        worst_in_ball(model, ball, level * farthest(ball), restarts=restarts, steps=steps, bound=None)
        for level in levels
    )
    return [1.0 - float(ball.perturbed_eigenvalues(each.phi).max()) for each in made]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=list(NAMES), action="append", help="attack networks on these; all")
    parser.add_argument("--out", type=Path, default=RESULTS / "distances" / "ball.json")
    options = parser.parse_args()
    attack = load_preset("robustness").attacks["bures-ball"]
    levels = [float(level) for level in attack["levels"]]
    found = {}
    for dataset in NAMES:
        graph = datasets.load(dataset)
        for method in METHODS:
            matrix = (fishergcn.renormalized if method == "gcn" else fishergcn.high_order)(graph.adjacency)
            ball = Neighborhood(matrix, rank=int(attack["rank"]))
            most = farthest(ball)
            entry = {"farthest": most, "smallest": [smallest_in_ball(ball, level * most) for level in levels]}
            if method == "gcn" and dataset in (options.dataset or NAMES):
                tries = (int(attack["restarts"]), int(attack["steps"]))
                entry["found"] = found_for_a_network(graph, method, ball, levels, *tries)
            found[f"{dataset} {method}"] = {
                name: float(f"{value:.4g}") if isinstance(value, float) else [float(f"{each:.4g}") for each in value]
                for name, value in entry.items()
            }
            print(dataset, method, found[f"{dataset} {method}"], flush=True)
    make_folder(options.out.parent)
    write_text(options.out, json.dumps({"levels": levels, "graphs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
