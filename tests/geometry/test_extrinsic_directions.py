"""The adversarial direction, and how the loss grows along it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import linalg, optimize

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic import (
    adversarial_direction,
    fisher_information,
    intrinsic_metric,
    sharpness,
    typical_distance,
)
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.nn import GCN
from fishergcn.perturbation import Neighborhood, PerturbationWarning

on = TrainedModel.from_network


def random_graph(n=30, classes=3, dim=5, seed=0):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((n, n)) < 0.1, 1) | (np.eye(n, k=1) > 0)
    return Graph(
        (links | links.T).astype(float),
        features=rng.random((n, dim)).astype(np.float32),
        labels=rng.integers(classes, size=n),
    )


def network(graph, hidden=(6,), seed=0):
    generator = torch.Generator().manual_seed(seed)
    model = GCN(graph.num_features, hidden, 3, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for weight in model.weights:
            weight *= 3
    return model


def around(graph, rank=5, **options):
    return Neighborhood(renormalized(graph.adjacency), rank=rank, **options)


@pytest.mark.parametrize("directions", ["high", "low"])
def test_the_metric_is_the_second_order_of_the_distance(directions):
    near = around(random_graph(), directions=directions)
    M = intrinsic_metric(near)
    for v in np.random.default_rng(0).standard_normal((4, 5)):
        squared = float(near.distance(1e-4 * v)) ** 2 / 1e-8
        assert squared == pytest.approx(v @ M @ v, rel=2e-4)


@pytest.mark.parametrize("kind", ["exact", "empirical"])
@pytest.mark.parametrize("directions", ["high", "low"])
def test_directions_solve_the_generalized_eigenproblem(kind, directions):
    graph = random_graph()
    model, near = network(graph), around(graph, directions=directions)
    found = adversarial_direction(on(model, graph), near, kind)
    G, M = fisher_information(on(model, graph), near, kind=kind), intrinsic_metric(near)
    np.testing.assert_array_equal(found.fisher, G)
    size = found.eigenvalues[0]
    V, mu = found.directions, found.eigenvalues
    np.testing.assert_allclose(V.T @ M @ V, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(V.T @ G @ V, np.diag(mu), atol=1e-10 * size)
    np.testing.assert_allclose(G @ V, M @ V * mu, atol=1e-10 * np.abs(G @ V).max())
    np.testing.assert_allclose(near.projected_spectrum.numpy() @ V, 0, atol=1e-10 * np.abs(V).max())
    # Another route: any complement of the null vector 1, and SciPy's generalized solver.
    Q = linalg.null_space(np.ones((1, 5)))
    np.testing.assert_allclose(mu, linalg.eigh(Q.T @ G @ Q, Q.T @ M @ Q)[0][::-1], atol=1e-9 * size)
    assert 1 <= found.anisotropy <= 4
    # No direction does better.
    for v in np.random.default_rng(0).standard_normal((50, 5)):
        assert v @ G @ v <= (1 + 1e-12) * size * (v @ M @ v)


def test_shares_of_nodes():
    graph = random_graph()
    model, near = network(graph), around(graph)
    found = adversarial_direction(on(model, graph), near, nodes=[3, 8, 21])
    v = found.direction
    expected = np.array([v @ fisher_information(on(model, graph), near, nodes=[i]) @ v for i in (3, 8, 21)])
    np.testing.assert_allclose(found.node_shares, expected / expected.sum(), atol=1e-12)
    assert expected.mean() == pytest.approx(found.eigenvalues[0], rel=1e-10)
    np.testing.assert_array_equal(found.nodes, [3, 8, 21])


def test_the_sign_and_the_solver_are_settled():
    graph = random_graph()
    found = adversarial_direction(on(network(graph), graph), around(graph))
    assert (found.directions[np.abs(found.directions).argmax(axis=0), np.arange(4)] > 0).all()


def at_distance(near, v, length):
    """The point of the ray along v at a Bures distance, by another solver than the library's."""
    time = optimize.brentq(lambda t: float(near.distance(t * v)) - length, 0, 700 / np.ptp(v), xtol=1e-14, rtol=1e-14)
    return time * v


@pytest.mark.parametrize("scale", [0.02, 0.3, 0.9])
def test_points_at_a_distance_are_at_that_distance(scale):
    """Whatever operators a network is asked about are on the rays, at the distance, in both directions."""
    graph = random_graph()
    near, seen = around(graph), []
    X = torch.as_tensor(graph.features, dtype=torch.float64)[:, :3]

    def network(operator):
        product = operator @ X
        seen.append(product.detach())
        return product

    v = np.random.default_rng(0).standard_normal((5, 6))
    length = scale * float(near.distance(700 * v.T / np.ptp(v.T, axis=1, keepdims=True)).min())
    sharpness(on(network, graph), near, length, directions=v, random=0)
    for product, ray in zip(seen[-12:], np.stack([v.T, -v.T], axis=1).reshape(12, 5), strict=True):
        point = at_distance(near, ray, length)
        assert float(near.distance(point)) == pytest.approx(length, rel=1e-10)
        torch.testing.assert_close(product, near.operator(point) @ X, rtol=1e-9, atol=1e-12)


def test_sharpness_is_what_it_says():
    graph = random_graph()
    model, near = network(graph), around(graph)
    nodes = np.array([0, 4, 9, 17])
    found = sharpness(on(model, graph), near, 0.01, nodes, random=7, seed=3)
    assert found.adversarial.shape == found.adversarial_change.shape == (4, 2)
    assert found.random.shape == found.random_change.shape == (7, 2)
    v = adversarial_direction(on(model, graph), near, nodes=nodes).directions
    X = graph.features.astype(np.float64)
    X = X / X.sum(1, keepdims=True)

    def log_p(phi):
        return torch.log_softmax(model.eval()(X, near.operator(phi)), dim=1).detach().numpy()[nodes]

    before = log_p(np.zeros(5))
    assert found.loss == pytest.approx(-before[np.arange(4), graph.labels[nodes]].mean(), rel=1e-12)
    for d in (0, 2):
        for end, sign in enumerate((1, -1)):
            after = log_p(at_distance(near, sign * v[:, d], 0.01))
            growth = (before - after)[np.arange(4), graph.labels[nodes]].mean()
            assert found.adversarial[d, end] == pytest.approx(growth, abs=1e-13)
            change = (np.exp(before) * (before - after)).sum(axis=1).mean()
            assert found.adversarial_change[d, end] == pytest.approx(change, abs=1e-14)
    assert 0 <= found.rank_of_loss <= 1


def test_the_change_of_predictions_is_foretold_and_largest_along_the_first_direction():
    graph = random_graph()
    model, near = network(graph), around(graph)
    found = sharpness(on(model, graph), near, 1e-4, random=200)
    np.testing.assert_allclose(found.adversarial_change.mean(axis=1), found.foretold, rtol=1e-3)
    assert found.rank_of_change == 1.0
    mu = adversarial_direction(on(model, graph), near).eigenvalues
    np.testing.assert_allclose(found.foretold, mu * 1e-8 / 2, rtol=1e-10)
    # Uniform on the sphere of the metric: the mean change is that of the mean eigenvalue.
    assert found.random_change.mean() == pytest.approx(mu.mean() * 1e-8 / 2, rel=0.1)


def test_the_typical_distance_is_that_of_draws():
    near = around(random_graph(), radius=0.01, noise="gaussian")
    drawn = near.distance(near.sample(20_000)).numpy()
    assert np.sqrt((drawn**2).mean()) == pytest.approx(typical_distance(near), rel=0.02)
    graph = random_graph()
    assert sharpness(on(network(graph), graph), around(graph), random=0).distance == typical_distance(around(graph))


def test_chosen_directions():
    graph = random_graph()
    model, near = network(graph), around(graph)
    chosen = np.eye(5)[:, :2]
    found = sharpness(on(model, graph), near, 1e-4, directions=chosen, random=3)
    assert found.adversarial.shape == (2, 2)
    np.testing.assert_allclose(found.adversarial_change.mean(axis=1), found.foretold, rtol=1e-3)


def test_bad_input_is_one_sentence():
    graph = random_graph()
    model, near = network(graph), around(graph)
    with pytest.raises(InputError, match=r"rank must be at least 2"):
        adversarial_direction(on(model, graph), around(graph, rank=1))
    with pytest.raises(InputError, match=r"known along eigenvectors .* 'random'"):
        adversarial_direction(on(model, graph), around(graph, directions="random"))
    with pytest.warns(PerturbationWarning):
        literal = around(graph, scale="trace")
    with pytest.raises(InputError, match=r"scale 'trace'"):
        adversarial_direction(on(model, graph), literal)
    with pytest.raises(InputError, match=r"distance must be less than 0\.\d+, the farthest a direction leads, got 2"):
        sharpness(on(model, graph), near, 2.0)
    with pytest.raises(InputError, match=r"distance must be greater than 0"):
        sharpness(on(model, graph), near, 0.0)
    with pytest.raises(InputError, match=r"directions must be finite, of shape \(5, d\), got \(4, 1\)"):
        sharpness(on(model, graph), near, directions=np.ones((4, 1)))
    with pytest.raises(InputError, match=r"one whose entries are all equal"):
        sharpness(on(model, graph), near, directions=np.ones((5, 1)))
    with pytest.raises(InputError, match=r"no labels"):
        sharpness(on(model, graph.replace(labels=None)), near)
    with pytest.raises(InputError, match=r"random must be at least 0"):
        sharpness(on(model, graph), near, random=-1)
