"""The distance of a graph from itself less one link, against dense matrices."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Neighborhood, renormalized
from fishergcn.geometry import intrinsic

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
study = importlib.import_module("study_distances")


def random_graph(nodes, links, seed):
    rng = np.random.default_rng(seed)
    ends = rng.integers(nodes, size=(2, links))
    weights = sparse.coo_array((np.ones(links), tuple(ends)), shape=(nodes, nodes)).toarray()
    weights = np.triu(weights + weights.T, 1) > 0
    return sparse.csr_array((weights | weights.T).astype(float)), np.argwhere(weights)


def dense_distance(adjacency, i, j):
    fewer = adjacency.toarray()
    fewer[i, j] = fewer[j, i] = 0
    return intrinsic.bures_distance(
        *(
            intrinsic.density_matrix(intrinsic.graph_laplacian(each, "renormalized"))
            for each in (adjacency.toarray(), fewer)
        )
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_removed_link_is_as_far_as_dense_matrices_say(seed):
    adjacency, links = random_graph(80, 130, seed)
    for i, j in links[:4].tolist():
        assert study.without_link(adjacency, i, j) == pytest.approx(dense_distance(adjacency, i, j), rel=1e-6)


def test_the_distance_of_draws_is_that_of_second_order_theory():
    """To second order E D_B² = s / 48 Σ_i ϕ_i² (1 - λ̄_i) for noise of variance 1/12."""
    adjacency, _ = random_graph(80, 200, 0)
    around = Neighborhood(renormalized(adjacency), rank=5, radius=0.01)
    shapes = 0.01 * np.random.default_rng(0).random((4000, 5))
    shares = around.projected_spectrum.numpy()
    expected = np.sqrt(around.captured_mass / 48 * np.mean((shapes**2) @ (1 - shares)))
    assert study.moved(around, shapes) == pytest.approx(expected, rel=0.02)
    assert study.moved(around, shapes) == study.moved(around, shapes)


@pytest.mark.parametrize("seed", range(3))
def test_several_links_are_about_the_root_of_their_number_as_far_as_one(seed):
    adjacency, links = random_graph(250, 700, seed)
    chosen = links[np.random.default_rng(seed).choice(len(links), 9, replace=False)]
    fewer = adjacency.toarray()
    fewer[tuple(chosen.T)] = fewer[tuple(chosen.T[::-1])] = 0
    before, after = (
        intrinsic.density_matrix(intrinsic.graph_laplacian(each, "renormalized"))
        for each in (adjacency.toarray(), fewer)
    )
    alone = np.sqrt(np.mean([study.without_link(adjacency, i, j) ** 2 for i, j in chosen.tolist()]))
    assert intrinsic.bures_distance(before, after) / alone == pytest.approx(3.0, rel=0.1)
