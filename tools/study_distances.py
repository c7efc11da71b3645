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
from fishergcn.perturbation import Neighborhood

DRAWS = 5  # of each run, as many as in a step of training
STEPS = 40


def moved(around: Neighborhood, shapes: FloatArray, seed: int = 0) -> float:
    """Return the root mean square of D_B(ρ, ρ(φ)) over draws, some for each ϕ in ``shapes``, (R, k)."""
    noise = around.noise(DRAWS * len(shapes), torch.Generator().manual_seed(seed))
    phi = around.phi(noise * torch.from_numpy(shapes).repeat(DRAWS, 1), 1.0)
    return float(around.distance(phi).square().mean().sqrt())


def without_link(adjacency: CSRArray, i: int, j: int, steps: int = STEPS) -> float:
    """Return D_B between the renormalized graph and itself without the link i, j.

    L' - L has the range of its columns at i and j and of what these hit. In an orthonormal basis Q of the block Krylov
    space of L on that range, L and L' become small dense matrices H and H'; outside they are equal, so that
    F = (tr L - tr H + tr (H^½ H' H^½)^½) / (tr L tr L')^½. Dropping the blocks between both parts (pinching) cannot
    lower a fidelity: the distance is never too large, and exact when Q exhausts the graph's component.
    """
    fewer = adjacency.tolil(copy=True)
    fewer[i, j] = fewer[j, i] = 0
    before, after = (
        sparse.csr_array(sparse.eye_array(adjacency.shape[0]) - renormalized(sparse.csr_array(each)))
        for each in (adjacency, fewer)
    )
    ends = np.zeros((adjacency.shape[0], 2))
    ends[[i, j], [0, 1]] = 1.0
    basis = krylov(before, np.hstack([ends, (after - before) @ ends]), steps)
    small, smaller = (basis.T @ (each @ basis) for each in (before, after))
    values, vectors = np.linalg.eigh(small)
    root = vectors * np.sqrt(values.clip(0.0))
    overlap = np.sqrt(np.linalg.eigvalsh(root.T @ smaller @ root).clip(0.0)).sum()
    traces = before.trace(), after.trace()
    fidelity = (traces[0] - values.sum() + overlap) / np.sqrt(traces[0] * traces[1])
    return float(np.sqrt(max(0.0, 2.0 - 2.0 * fidelity)))


def krylov(matrix: CSRArray, start: FloatArray, steps: int) -> FloatArray:
    """Return an orthonormal basis of the span of start, matrix·start, …, matrix^(steps - 1)·start."""
    basis = block = orthonormal(start)
    for _ in range(steps - 1):
        block = orthonormal(matrix @ block, basis)
        if block.shape[1] == 0:
            break
        basis = np.hstack([basis, block])
    return basis


def orthonormal(block: FloatArray, against: FloatArray | None = None) -> FloatArray:
    """Return an orthonormal basis of a block less its part in ``against``."""
    scale = np.linalg.norm(block)
    for _ in range(2):  # the second pass removes what rounding left of the first
        if against is not None:
            block = block - against @ (against.T @ block)
        left, singular, _ = np.linalg.svd(block, full_matrices=False)
        block = left * singular
    return left[:, singular > 1e-10 * scale]


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
