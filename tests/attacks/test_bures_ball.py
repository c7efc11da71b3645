"""The worst graph in a Bures ball: never outside, never beaten by random points, exact at radius 0."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn import Graph, TrainedModel, renormalized
from fishergcn.attacks import farthest, project, worst_in_ball
from fishergcn.errors import InputError
from fishergcn.perturbation import Neighborhood


@pytest.fixture(scope="module")
def ball(graph):
    return Neighborhood(renormalized(graph.adjacency), rank=6)


def dense_scores(model, records, matrix):
    """Loss and accuracy of each network in NumPy, on a dense propagation matrix of its own."""
    x = torch.zeros(model.features.shape, dtype=torch.float64)
    rows = np.repeat(np.arange(x.shape[0]), np.diff(model.features.indptr.numpy()))
    x[rows, model.features.indices.long()] = model.features.values
    found = []
    for index, record in enumerate(records):
        first, second = record.weights.values()
        logits = matrix[index] @ np.maximum(matrix[index] @ x.numpy() @ first, 0) @ second
        test = model.runs[index].split.test
        chosen = logits[test] - logits[test].max(axis=1, keepdims=True)
        log_p = chosen - np.log(np.exp(chosen).sum(axis=1, keepdims=True))
        labels = np.arange(x.shape[0])[test] % 3
        found.append((-log_p[np.arange(len(test)), labels].mean(), (chosen.argmax(axis=1) == labels).mean()))
    return np.array(found).T


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("method", ["gcn", "fishergcn"])
@pytest.mark.parametrize("bound", [None, 2.0])
def test_inside_and_worse_than_any_random_point(ball, trained, method, share, bound):
    _, records, model = trained(method)
    radius = share * farthest(ball, bound)
    found = worst_in_ball(model, ball, radius, restarts=8, steps=40, seed=1, bound=bound)
    if bound is not None:
        matrices = ball.operator(found.phi).to_dense()
        assert (torch.linalg.eigvalsh(torch.eye(len(matrices[0])) - matrices)[:, -1] <= bound + 1e-6).all()
    assert (found.distance <= radius).all()
    assert (ball.distance(found.phi) <= radius * (1 + 1e-12)).all()

    loss, accuracy = dense_scores(model, records, ball.operator(found.phi).to_dense().numpy())
    assert np.allclose(found.loss, loss, rtol=1e-10)
    assert np.allclose(found.accuracy, accuracy)

    drawn = torch.randn(100, ball.rank, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    phi = project(ball, 50 * drawn, radius, bound)  # random points of the same distance, or as far as a ray reaches
    for each in phi:
        matrix = ball.operator(each).to_dense().numpy()
        assert (dense_scores(model, records, [matrix] * len(records))[0] <= loss + 1e-12).all()


def test_radius_zero_is_the_plain_graph(ball, trained):
    _, records, model = trained("gcn")
    found = worst_in_ball(model, ball, 0.0)
    assert found.accuracy.tolist() == [record.test_accuracy for record in records]
    assert (found.phi == 0).all()
    assert (found.distance == 0).all()


def test_larger_balls_are_worse_and_seeds_repeat(ball, trained):
    model = trained("gcn")[2]
    losses = [worst_in_ball(model, ball, r * farthest(ball), steps=12, seed=0).loss for r in (0, 0.1, 0.3, 0.6)]
    assert all((after > before).all() for before, after in pairwise(losses))
    again = worst_in_ball(model, ball, 0.3 * farthest(ball), steps=12, seed=0).loss
    assert torch.equal(again, losses[2])


def test_farthest_is_approached_and_not_exceeded(ball):
    weakest = int(ball.projected_spectrum.argmin())
    phi = torch.zeros(ball.rank, dtype=torch.float64)
    phi[weakest] = 80.0
    assert math.isclose(float(ball.distance(phi)), farthest(ball, None), rel_tol=1e-9)
    drawn = 30 * torch.randn(500, ball.rank, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert (ball.distance(drawn) <= farthest(ball, None) * (1 + 1e-12)).all()  # but for rounding


def test_farthest_within_the_spectral_bound(ball):
    """Against all corners: some eigenvalues at the bound, one that takes the rest, the others 0."""
    values, bound = ball.spectrum.eigenvalues, 2.0
    total = values.sum()
    full = int(total // bound)
    affinities = []
    for order in permutations(range(len(values))):
        q = np.zeros(len(values))
        q[list(order[:full])] = bound / total
        q[order[full]] = 1 - q.sum()
        affinities.append(np.sqrt(values / total * q).sum())
    wanted = math.sqrt(2 * ball.captured_mass * (1 - min(affinities)))
    assert math.isclose(farthest(ball), wanted, rel_tol=1e-9)
    assert farthest(ball) < farthest(ball, None)
    drawn = 30 * torch.randn(500, ball.rank, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    inside = project(ball, drawn, 10.0, bound)
    assert (ball.perturbed_eigenvalues(inside).amax(-1) <= bound + 1e-8).all()
    assert (ball.distance(inside) <= farthest(ball) * (1 + 1e-9)).all()
    assert float(ball.distance(inside).max()) > 0.8 * farthest(ball)


@settings(max_examples=25)
@given(st.lists(st.floats(-40, 40), min_size=6, max_size=6), st.floats(1e-6, 1.0))
def test_projection(ball, numbers, share):
    phi, radius = torch.tensor(numbers, dtype=torch.float64), share * farthest(ball, None)
    inside = project(ball, phi, radius)
    before = float(ball.distance(phi))
    if before <= radius:
        assert torch.equal(inside, phi)
    else:
        assert float(ball.distance(inside)) <= radius
        assert math.isclose(float(ball.distance(inside)), radius, rel_tol=1e-9)
        scale = (inside @ phi) / (phi @ phi)
        assert torch.allclose(inside, scale * phi, rtol=0, atol=1e-12)
    # Along a ray the distance grows.
    steps = ball.distance(torch.linspace(0, 1, 9, dtype=torch.float64)[:, None] * phi)
    assert (steps.diff() >= -1e-12).all()


def test_bad_arguments(ball, trained):
    model = trained("gcn")[2]
    for wrong in ({"radius": -0.1}, {"radius": 0.1, "restarts": 0}, {"radius": 0.1, "steps": -1}):
        with pytest.raises(InputError, match="must be at least"):
            worst_in_ball(model, ball, **wrong)


def test_a_function_without_known_weights_is_refused():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    weight = torch.ones(4, 2, dtype=torch.float64)
    model = TrainedModel.from_network(lambda operator: operator @ weight, graph)
    around = Neighborhood(model.propagation, rank=2)
    with pytest.raises(InputError, match=r"the network must be a fishergcn\.GCN here"):
        worst_in_ball(model, around, 0.1)
    with pytest.raises(InputError, match=r"the network must be a fishergcn\.GCN here"):
        model.network()
