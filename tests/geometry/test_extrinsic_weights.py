"""G^E(W^l) against per-node autograd, and the natural gradient against a dense solver."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import high_order, renormalized
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.geometry.extrinsic import natural_gradient_step, weight_fisher
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.nn import GCN

on = TrainedModel.from_network


def random_graph(n=10, classes=3, dim=4, seed=0, sparse_features=False):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((n, n)) < 0.3, 1) | (np.eye(n, k=1) > 0)
    features = rng.random((n, dim)).astype(np.float32)
    if sparse_features:
        features = sparse.csr_array(np.where(rng.random((n, dim)) < 0.5, features, 0) + np.eye(1, dim))
    return Graph((links | links.T).astype(float), features=features, labels=rng.integers(classes, size=n))


def network(graph, hidden=(5,), seed=0):
    generator = torch.Generator().manual_seed(seed)
    model = GCN(graph.num_features, hidden, 3, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for weight in model.weights:
            weight *= 2
    return model


def node_gradients(model, graph, layer, propagate=renormalized):
    """∂(-log p(y | i))/∂vec W^l for each node and label by autograd in dense torch, and p."""
    operator = torch.tensor(propagate(graph.adjacency).toarray())
    X = graph.features.toarray() if sparse.issparse(graph.features) else graph.features
    X = torch.tensor(X.astype(np.float64))
    X = X / X.sum(1, keepdim=True)
    weights = [each.detach().clone() for each in model.weights]

    def log_p(weight):
        hidden = X
        for index, each in enumerate(weights):
            hidden = operator @ hidden @ (weight if index == layer else each)
            if index < len(weights) - 1:
                hidden = torch.relu(hidden)
        return torch.log_softmax(hidden, dim=1)

    slopes = -torch.autograd.functional.jacobian(log_p, weights[layer])
    return slopes.flatten(2).numpy(), log_p(weights[layer]).exp().numpy()


DEPTHS = [((), 0), ((5,), 0), ((5,), 1), ((5, 4), 0), ((5, 4), 1), ((5, 4), 2)]


@pytest.mark.parametrize(("hidden", "layer"), DEPTHS)
@pytest.mark.parametrize("sparse_features", [False, True])
def test_exact_information_against_autograd(hidden, layer, sparse_features):
    graph = random_graph(sparse_features=sparse_features)
    model = network(graph, hidden)
    g, p = node_gradients(model, graph, layer)
    expected = np.einsum("nc,nca,ncb->ab", p, g, g) / 10
    fisher = weight_fisher(on(model, graph), layer)
    np.testing.assert_allclose(fisher.todense(), expected, atol=1e-14)
    assert fisher.weight_shape == tuple(model.weights[layer].shape)


@pytest.mark.parametrize(("hidden", "layer"), DEPTHS)
def test_empirical_information_against_autograd_and_its_rank(hidden, layer):
    graph = random_graph()
    model = network(graph, hidden)
    g, _ = node_gradients(model, graph, layer)
    nodes = [1, 4, 7]
    observed = g[nodes, graph.labels[nodes]]
    found = weight_fisher(on(model, graph), layer, kind="empirical", nodes=nodes).todense()
    np.testing.assert_allclose(found, observed.T @ observed / 3, atol=1e-14)
    assert np.linalg.matrix_rank(found) == np.linalg.matrix_rank(observed) > 1


def test_rank_of_the_exact_information():
    graph = random_graph()
    found = weight_fisher(on(network(graph), graph), 0, nodes=[1, 4]).todense()
    assert found.shape == (20, 20)
    assert np.linalg.matrix_rank(found) == 2 * (3 - 1)  # N (C - 1)


@pytest.mark.parametrize("kind", ["exact", "empirical", "monte-carlo"])
def test_products_are_those_of_the_matrix(kind):
    graph = random_graph()
    fisher = weight_fisher(on(network(graph, (5, 4)), graph), 1, kind=kind, samples=7)
    matrix = fisher.todense()
    vectors = np.random.default_rng(0).standard_normal((20, 3))
    np.testing.assert_allclose(fisher @ vectors, matrix @ vectors, atol=1e-14)
    np.testing.assert_allclose(fisher @ vectors[:, 0], matrix @ vectors[:, 0], atol=1e-14)
    np.testing.assert_allclose(fisher.T @ vectors[:, 1], matrix @ vectors[:, 1], atol=1e-14)
    assert np.linalg.eigvalsh(matrix).min() > -1e-14


def test_monte_carlo_tends_to_the_exact_information():
    graph = random_graph()
    exact = weight_fisher(on(network(graph), graph), 1).todense()
    errors = [
        np.abs(weight_fisher(on(network(graph), graph), 1, "monte-carlo", samples=m).todense() - exact).max()
        for m in (10, 1000, 100_000)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02 * np.abs(exact).max()


def test_the_propagation_matrix_may_be_another():
    graph = random_graph()
    model = network(graph)
    g, p = node_gradients(model, graph, 0, high_order)
    found = weight_fisher(on(model, graph, propagation=high_order(graph.adjacency)), 0).todense()
    np.testing.assert_allclose(found, np.einsum("nc,nca,ncb->ab", p, g, g) / 10, atol=1e-14)


def test_a_large_layer_has_products_and_no_matrix():
    graph = random_graph(30, dim=700)
    fisher = weight_fisher(on(network(graph, (6,)), graph), 0)
    assert fisher.shape == (4200, 4200)
    assert np.isfinite(fisher @ np.ones(4200)).all()
    with pytest.raises(InputError, match=r"at most 4096 weights, got 4200: use products"):
        fisher.todense()


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("kind", ["exact", "empirical"])
def test_a_natural_gradient_step_solves_the_damped_system(layer, kind):
    graph = random_graph()
    model = network(graph)
    nodes = [0, 2, 3, 8]
    before = [each.detach().clone() for each in model.weights]
    found = natural_gradient_step(
        on(model, graph), layer, nodes, damping=0.01, learning_rate=0.5, kind=kind, tolerance=1e-12
    )
    g, _ = node_gradients(model, graph, layer)
    gradient = g[nodes, graph.labels[nodes]].mean(axis=0)
    np.testing.assert_allclose(found.gradient.ravel(), gradient, atol=1e-14)
    matrix = weight_fisher(on(model, graph), layer, kind, nodes).todense() + 0.01 * np.eye(len(gradient))
    step = -0.5 * np.linalg.solve(matrix, gradient)
    np.testing.assert_allclose(found.step.ravel(), step, atol=1e-9 * np.abs(step).max())
    decrease = -(gradient @ step + step @ matrix @ step / 2)
    assert found.decrease == pytest.approx(decrease, rel=1e-9)
    assert found.decrease > 0
    assert found.residual <= 1e-12
    for old, new in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(old, new.detach())  # the model is left alone


def test_a_linear_network_reaches_its_minimum_in_a_few_natural_steps():
    """One layer: a convex loss whose Hessian is the exact information, so that steps are nearly Newton's."""
    graph = random_graph(30)
    model = network(graph, ())
    damping = 1e-3

    def objective():
        g, p = node_gradients(model, graph, 0)
        return -np.log(p[np.arange(30), graph.labels]).mean(), g[np.arange(30), graph.labels].mean(axis=0)

    losses, norms = [], []
    for _ in range(12):
        found = natural_gradient_step(on(model, graph), 0, damping=damping, tolerance=1e-10)
        loss, gradient = objective()
        losses.append(loss)
        norms.append(np.linalg.norm(gradient))
        with torch.no_grad():
            model.weights[0] += torch.as_tensor(found.step)
    assert (np.diff(losses) <= 1e-12).all()
    assert norms[-1] < 1e-2 * norms[0]


def test_a_step_is_newtons_undamped_in_full_and_with_the_exact_information():
    """One layer; the Hessian by autograd. Damping, a shorter step or the empirical kind make it another step."""
    graph = random_graph(30)
    model = network(graph, ())
    operator = torch.tensor(renormalized(graph.adjacency).toarray())
    X = torch.tensor(graph.features.astype(np.float64))
    X, labels = X / X.sum(1, keepdim=True), torch.tensor(graph.labels)
    weights = model.weights[0].detach()

    def loss(flat):
        return torch.nn.functional.cross_entropy(operator @ X @ flat.view_as(weights), labels)

    hessian = torch.autograd.functional.hessian(loss, weights.flatten())
    gradient = torch.autograd.functional.jacobian(loss, weights.flatten())
    newton = -(torch.linalg.pinv(hessian, hermitian=True, rtol=1e-10) @ gradient).view_as(weights).numpy()

    def gap(**options):
        options = {"damping": 1e-9, "tolerance": 1e-10, "max_iterations": 5000} | options
        step = natural_gradient_step(on(model, graph), 0, **options).step
        return np.linalg.norm(step - newton) / np.linalg.norm(newton)

    assert gap() < 1e-4
    assert gap(damping=1e-3) > 0.05
    assert gap(learning_rate=0.5) == pytest.approx(0.5, abs=1e-4)
    assert gap(kind="empirical") > 0.05


def test_a_step_reduces_the_loss_of_a_deep_network():
    graph = random_graph(30)
    model = network(graph, (5,))
    labels = torch.tensor(graph.labels)
    X = graph.features.astype(np.float64)
    X = X / X.sum(1, keepdims=True)

    def loss():
        return float(torch.nn.functional.cross_entropy(model.eval()(X, renormalized(graph.adjacency)), labels).detach())

    for layer in (0, 1):
        before = loss()
        found = natural_gradient_step(on(model, graph), layer, damping=0.1, learning_rate=0.2)
        with torch.no_grad():
            model.weights[layer] += torch.as_tensor(found.step)
        assert loss() < before - 0.2 * found.decrease


def test_too_few_products_are_said():
    graph = random_graph()
    with pytest.raises(ConvergenceError, match=r"raise damping or max_iterations"):
        natural_gradient_step(on(network(graph), graph), 0, damping=1e-9, max_iterations=1, tolerance=1e-10)


def test_bad_input_is_one_sentence():
    graph = random_graph()
    model = network(graph)
    with pytest.raises(InputError, match=r"layer must be between 0 and 1, got 2"):
        weight_fisher(on(model, graph), 2)
    with pytest.raises(InputError, match=r"layer must be between 0 and 1, got -1"):
        natural_gradient_step(on(model, graph), -1)
    with pytest.raises(InputError, match=r"kind must be one of"):
        weight_fisher(on(model, graph), 0, kind="observed")
    with pytest.raises(InputError, match=r"model must be of a network whose layers have weights"):
        weight_fisher(on(lambda operator: torch.zeros(10, 3), graph), 0)
    with pytest.raises(InputError, match=r"damping must be greater than 0"):
        natural_gradient_step(on(model, graph), 0, damping=0.0)
    with pytest.raises(InputError, match=r"no labels"):
        natural_gradient_step(on(model, graph.replace(labels=None)), 0)
    with pytest.raises(InputError, match=r"node 2 has no label"):
        natural_gradient_step(on(model, graph.replace(labels=[0, 1, -1] + [2] * 7)), 0, nodes=[2])
