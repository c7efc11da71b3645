"""How far does the perturbation of Table 2 move a graph, and how far is a graph from itself less one link?

    python tools/study_distances.py                 # minutes on one core; writes results/distances/distances.json

The first part draws from the neighborhood with every scale at its bound (ϕ = ε), and with the final scales of the runs
in results/table2. The second removes links, one at a time.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from _results_shapes import shapes_of
from _study import NAMES, PAIRS, RESULTS
from scipy import sparse

from fishergcn import datasets, high_order, renormalized
from fishergcn._base.files import make_folder, write_text
from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.geometry.intrinsic import graph_distance
from fishergcn.perturbation import Neighborhood

DRAWS = 5  # of each run, as many as in a step of training


def moved(around: Neighborhood, shapes: FloatArray, seed: int = 0) -> float:
    """Return the root mean square of D_B(ρ, ρ(φ)) over draws, some for each ϕ in ``shapes``, (R, k)."""
    noise = around.noise(DRAWS * len(shapes), torch.Generator().manual_seed(seed))
    phi = around.phi(noise * torch.from_numpy(shapes).repeat(DRAWS, 1), 1.0)
    return float(around.distance(phi).square().mean().sqrt())


def without_link(adjacency: CSRArray, i: int, j: int) -> float:
    """Return D_B between the renormalized graph and itself without the link i, j."""
    gone = sparse.csr_array(([adjacency[i, j]] * 2, ([i, j], [j, i])), shape=adjacency.shape)
    return graph_distance(adjacency, sparse.csr_array(adjacency - gone), compute="estimate").distance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=int, default=300, help="how many links of each graph are removed")
    parser.add_argument("--seed", type=int, default=0, help="of draws and of the choice of links")
    parser.add_argument("--out", type=Path, default=RESULTS / "distances" / "distances.json")
    options = parser.parse_args()
    found = {}
    for dataset in NAMES:
        adjacency = sparse.csr_array(datasets.load(dataset).adjacency)
        links = sparse.coo_array(sparse.triu(adjacency, 1))
        chosen = np.random.default_rng(options.seed).choice(links.nnz, min(options.links, links.nnz), replace=False)
        pairs = np.stack(links.coords, axis=1)[chosen]
        found[dataset] = {"links": [float(f"{without_link(adjacency, *pair):.4g}") for pair in pairs.tolist()]}
        for (method, _, _), matrix in zip(PAIRS, (renormalized(adjacency), high_order(adjacency)), strict=True):
            around = Neighborhood(matrix, rank=10, radius=0.1)
            ends = shapes_of()[dataset, method].end * around.radius
            numbers = {
                "captured_mass": around.captured_mass,
                "at_the_bound": moved(around, np.full_like(ends, around.radius), options.seed),
                "as_trained": moved(around, ends, options.seed),
            }
            found[dataset][method] = {name: float(f"{value:.4g}") for name, value in numbers.items()}
        print(dataset, found[dataset], flush=True)
    make_folder(options.out.parent)
    write_text(options.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
