"""What docs/robustness.md says about the operators in its Bures ball."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn import Neighborhood, datasets, renormalized
from fishergcn.attacks._bures_ball import project

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
study = importlib.import_module("study_ball")


@pytest.fixture(scope="module")
def archived():
    known = json.loads((ROOT / "results" / "distances" / "ball.json").read_text())
    return known["levels"], known["graphs"]


def small_ball(seed):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((40, 40)) < 0.1, 1)
    return Neighborhood(renormalized((links | links.T).astype(float)), rank=6)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**20), share=st.floats(0.01, 0.95))
def test_no_point_of_the_ball_has_a_smaller_eigenvalue_and_one_has_it(seed, share):
    ball = small_ball(seed)
    radius = share * study.farthest(ball)
    smallest = study.smallest_in_ball(ball, radius)
    drawn = 30 * torch.randn(500, ball.rank, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    inside = project(ball, drawn, radius)
    assert (1 - ball.perturbed_eigenvalues(inside).amax(-1) >= smallest - 1e-9).all()
    # Along one axis, the eigenvalue of the largest share grows and the others shrink together.
    phi = torch.zeros(ball.rank, dtype=torch.float64)
    phi[int(ball.projected_spectrum.argmax())] = 200.0
    edge = project(ball, phi, radius)
    if math.isclose(float(ball.distance(edge)), radius, rel_tol=1e-9):  # else the axis ends before the sphere
        assert 1 - float(ball.perturbed_eigenvalues(edge).max()) == pytest.approx(smallest, rel=1e-6)


def test_the_operator_itself_has_that_eigenvalue():
    ball = small_ball(1)
    phi = torch.zeros(ball.rank, dtype=torch.float64)
    phi[int(ball.projected_spectrum.argmax())] = 200.0
    radius = 0.5 * study.farthest(ball)
    dense = ball.operator(project(ball, phi, radius)).to_dense().numpy()
    assert np.linalg.eigvalsh(dense)[0] == pytest.approx(study.smallest_in_ball(ball, radius), rel=1e-9)
    assert np.linalg.eigvalsh(dense)[0] < -1


def test_the_numbers_of_the_page_on_cora(archived):
    levels, graphs = archived
    ball = Neighborhood(renormalized(datasets.load("cora").adjacency), rank=50)
    found = [study.smallest_in_ball(ball, level * study.farthest(ball)) for level in levels]
    assert found == pytest.approx(graphs["cora gcn"]["smallest"], rel=1e-3)
    assert study.farthest(ball) == pytest.approx(graphs["cora gcn"]["farthest"], rel=1e-3)


def test_the_attack_found_what_no_normalized_graph_has(archived):
    """About -2 at 5% and -36 at 50% on every data set with the renormalized matrix; the bound of graphs is -1."""
    levels, graphs = archived
    assert levels == [0.05, 0.1, 0.2, 0.5, 0.9]
    for dataset in ("cora", "citeseer", "pubmed"):
        found, smallest = (graphs[f"{dataset} gcn"][name] for name in ("found", "smallest"))
        assert all(low <= value < -1 for value, low in zip(found, smallest, strict=True))
    assert graphs["cora gcn"]["found"][0] == pytest.approx(-2.0, abs=0.05)
    assert graphs["cora gcn"]["found"][3] == pytest.approx(-36.0, abs=0.5)
    inside = [graphs[f"{dataset} gcn-t"]["smallest"][0] > -1 for dataset in ("cora", "citeseer", "pubmed")]
    assert inside == [True, True, False]


@pytest.mark.slow
def test_the_attack_finds_it_again(archived):
    levels, graphs = archived
    graph = datasets.load("cora")
    ball = Neighborhood(renormalized(graph.adjacency), rank=50)
    found = study.found_for_a_network(graph, "gcn", ball, levels, restarts=5, steps=40)
    assert found == pytest.approx(graphs["cora gcn"]["found"], rel=0.05)
