"""G^E(φ): against all labelings, against autograd through dense matrices, and its invariances."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic import fisher_information
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.nn import GCN
from fishergcn.perturbation import Neighborhood

on = TrainedModel.from_network


def random_graph(n=5, classes=3, dim=4, seed=0):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((n, n)) < 0.4, 1) | (np.eye(n, k=1) > 0)
    return Graph(
        (links | links.T).astype(float),
        features=rng.random((n, dim)).astype(np.float32),
        labels=rng.integers(classes, size=n),
        class_names=[str(c) for c in range(classes)],
    )


def network(graph, hidden, seed=0):
    generator = torch.Generator().manual_seed(seed)
    model = GCN(graph.num_features, hidden, graph.num_classes, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for weight in model.weights:
            weight *= 3  # far from uniform predictions
    return model


def around(graph, rank=3, **options):
    return Neighborhood(renormalized(graph.adjacency), rank=rank, **options)


def dense_log_probabilities(model, graph, rank=3):
    """φ -> log p, written out with dense matrices and an eigendecomposition of its own."""
    A = graph.adjacency.toarray() + np.eye(graph.num_nodes)
    A = A / np.sqrt(np.outer(A.sum(1), A.sum(1)))
    w, U = np.linalg.eigh(np.eye(len(A)) - A)
    w, U = torch.tensor(w[::-1][:rank].copy()), torch.tensor(U[:, ::-1][:, :rank].copy())
    X = torch.tensor(graph.features.astype(np.float64))
    X = X / X.sum(1, keepdim=True)
    weights = [each.detach() for each in model.weights]

    def function(phi):
        q = torch.softmax(torch.log(w / w.sum()) + phi, dim=0)
        operator = torch.tensor(A) - (U * (w.sum() * q - w)) @ U.T
        hidden = X
        for layer, weight in enumerate(weights):
            hidden = operator @ hidden @ weight
            if layer < len(weights) - 1:
                hidden = torch.relu(hidden)
        return torch.log_softmax(hidden, dim=1)

    return function


def scores(function, phi):
    """Return log p (n, C) and its derivatives (n, C, k)."""
    phi = torch.as_tensor(phi, dtype=torch.float64)
    return function(phi).numpy(), torch.autograd.functional.jacobian(function, phi).numpy()


HIDDEN = [(), (4,), (4, 3)]
PHI = np.array([0.3, -0.2, 0.5])


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("phi", [np.zeros(3), PHI])
def test_exact_information_is_the_expectation_over_all_labelings(hidden, phi):
    graph = random_graph()
    model = network(graph, hidden)
    log_p, slopes = scores(dense_log_probabilities(model, graph), phi)
    expected = np.zeros((3, 3))
    nodes = np.arange(5)
    for labeling in itertools.product(range(3), repeat=5):
        score = slopes[nodes, labeling].sum(axis=0)
        expected += np.exp(log_p[nodes, labeling].sum()) * np.outer(score, score) / 5
    found = fisher_information(on(model, graph), around(graph), phi)
    assert np.abs(expected).max() > 1e-4
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("nodes", [None, [4, 0, 2]])
def test_empirical_information_is_the_mean_outer_product_of_the_gradients_of_nodes(hidden, nodes):
    graph = random_graph()
    model = network(graph, hidden)
    _, slopes = scores(dense_log_probabilities(model, graph), PHI)
    chosen = range(5) if nodes is None else nodes
    expected = np.mean([np.outer(*[slopes[i, graph.labels[i]]] * 2) for i in chosen], axis=0)
    found = fisher_information(on(model, graph), around(graph), PHI, kind="empirical", nodes=nodes)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.linalg.matrix_rank(found) <= min(len(list(chosen)), 2)


def test_exact_information_of_some_nodes():
    graph = random_graph()
    model = network(graph, (4,))
    log_p, slopes = scores(dense_log_probabilities(model, graph), 0 * PHI)
    expected = np.mean([np.einsum("c,ca,cb->ab", np.exp(log_p[i]), slopes[i], slopes[i]) for i in (1, 3)], axis=0)
    found = fisher_information(on(model, graph), around(graph), nodes=np.array([1, 3]))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_monte_carlo_tends_to_the_exact_information():
    graph = random_graph()
    model = network(graph, (4,))
    exact = fisher_information(on(model, graph), around(graph))
    errors = [
        np.abs(fisher_information(on(model, graph), around(graph), kind="monte-carlo", samples=count) - exact).max()
        for count in (10, 1000, 100_000)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02 * np.abs(exact).max()
    one, other = (
        fisher_information(on(model, graph), around(graph), kind="monte-carlo", samples=5, seed=seed) for seed in (0, 1)
    )
    assert np.abs(one - other).max() > 0
    again = fisher_information(on(model, graph), around(graph), kind="monte-carlo", samples=5, seed=0)
    np.testing.assert_array_equal(one, again)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), depth=st.integers(0, 2), kind=st.sampled_from(["exact", "empirical", "monte-carlo"]))
def test_information_is_symmetric_and_semidefinite_with_null_vector_one(seed, depth, kind):
    graph = random_graph(n=9, seed=seed)
    model = network(graph, HIDDEN[depth], seed)
    phi = np.random.default_rng(seed).standard_normal(4)
    found = fisher_information(on(model, graph), around(graph, rank=4), phi, kind=kind)
    np.testing.assert_array_equal(found, found.T)
    # Saturated predictions leave a G far below the products it is made of, to which rounding is relative.
    size = np.abs(found).max() + 1e-5
    assert np.linalg.eigvalsh(found).min() > -1e-12 * size
    assert np.abs(found @ np.ones(4)).max() < 1e-12 * size
    # φ + c·1 is the same graph.
    np.testing.assert_allclose(
        fisher_information(on(model, graph), around(graph, rank=4), phi + 0.7, kind=kind), found, atol=1e-12 * size
    )


def callable_network(model, graph, shift=0.0):
    X = torch.tensor(graph.features.astype(np.float64))
    X = X / X.sum(1, keepdim=True)

    def function(operator):
        hidden = torch.relu(operator @ (X @ model.weights[0]))
        return operator @ (hidden @ model.weights[1]) + shift

    return function


def test_any_callable_will_do_and_a_constant_added_to_all_logits_changes_nothing():
    graph = random_graph(n=12)
    model = network(graph, (4,))
    expected = fisher_information(on(model, graph), around(graph), PHI)
    shift = torch.randn(12, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 10
    for function in (callable_network(model, graph), callable_network(model, graph, shift)):
        np.testing.assert_allclose(fisher_information(on(function, graph), around(graph), PHI), expected, atol=1e-13)


def test_a_callable_works_in_its_own_precision():
    graph = random_graph(n=12)
    model = network(graph, (4,))
    expected = fisher_information(on(model, graph), around(graph))
    weights = [each.detach().float() for each in model.weights]
    X = torch.tensor(graph.features / graph.features.sum(1, keepdims=True))
    found = fisher_information(
        on(lambda operator: operator @ (torch.relu(operator @ (X @ weights[0])) @ weights[1]), graph),
        around(graph).to(dtype=torch.float32),
    )
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_a_network_that_does_not_look_at_the_graph_feels_nothing():
    graph = random_graph()
    found = fisher_information(on(lambda operator: torch.eye(5, 3, dtype=torch.float64), graph), around(graph))
    np.testing.assert_array_equal(found, np.zeros((3, 3)))


def test_second_order_of_the_divergence_is_half_of_the_information():
    graph = random_graph(n=12)
    model = network(graph, (4,))
    function = dense_log_probabilities(model, graph)
    before = function(torch.zeros(3, dtype=torch.float64))
    direction = torch.tensor(PHI)
    fisher = fisher_information(on(model, graph), around(graph))
    step = 1e-4
    change = [float((before.exp() * (before - function(sign * step * direction))).sum(1).mean()) for sign in (1, -1)]
    assert np.mean(change) / step**2 == pytest.approx(PHI @ fisher @ PHI / 2, rel=1e-4)


def test_features_may_come_unnormalized_and_models_in_single_precision():
    graph = random_graph()
    model = network(graph, (4,))
    rows = graph.features.astype(np.float64)
    scaled = graph.replace(features=(rows / rows.sum(1, keepdims=True)).astype(np.float32))
    found = fisher_information(on(model, scaled, scaling="none"), around(graph))
    np.testing.assert_allclose(found, fisher_information(on(model, graph), around(graph)), rtol=1e-5)
    single = network(graph, (4,)).float()
    np.testing.assert_allclose(fisher_information(on(single, graph), around(graph)), found, rtol=1e-4, atol=1e-9)
    assert single.weights[0].dtype == torch.float32


def test_bad_input_is_one_sentence():
    graph = random_graph()
    model, near = network(graph, (4,)), around(graph)
    cases = {
        r"kind must be one of 'exact', .* got 'exakt'": {"kind": "exakt"},
        r"phi must be a number or 3 finite numbers, got shape \(2,\)": {"phi": [0.0, 1.0]},
        r"phi must be .* with NaN": {"phi": np.nan},
        r"nodes must be between 0 and 4, got 5": {"nodes": [0, 5]},
        r"nodes must be different": {"nodes": [1, 1]},
        r"nodes must be a list of node indices": {"nodes": []},
        r"samples must be at least 1": {"kind": "monte-carlo", "samples": 0},
    }
    for message, options in cases.items():
        with pytest.raises(InputError, match=message):
            fisher_information(on(model, graph), near, **options)
    with pytest.raises(InputError, match=r"must have 4 features, got 2"):
        fisher_information(on(model, graph.replace(features=graph.features[:, :2])), near)
    with pytest.raises(InputError, match=r"it knows 3 classes, not 4"):
        fisher_information(on(model, graph.replace(labels=[0, 1, 2, 3, 0], class_names=None)), near)
    with pytest.raises(InputError, match=r"has no features"):
        fisher_information(on(model, graph.replace(features=None)), near)
    with pytest.raises(InputError, match=r"same nodes, got 5 and 7 nodes"):
        fisher_information(on(model, graph), around(random_graph(7)))
    with pytest.raises(InputError, match=r"neighborhood must be a Neighborhood, got csr_array"):
        fisher_information(on(model, graph), graph.adjacency)
    with pytest.raises(InputError, match=r"graph must be a Graph"):
        fisher_information(on(model, graph.adjacency), near)
    with pytest.raises(InputError, match=r"model must be a TrainedModel, got GCN; TrainedModel.from_network"):
        fisher_information(model, near)
    with pytest.raises(InputError, match=r"network must be a GCN or map an operator to logits, got int"):
        fisher_information(on(3, graph), near)
    with pytest.raises(InputError, match=r"logits of shape \(5, C\), got \(4, 2\)"):
        fisher_information(on(lambda operator: torch.zeros(4, 2), graph), near)
    with pytest.raises(InputError, match=r"has no labels"):
        fisher_information(on(model, graph.replace(labels=None)), near, kind="empirical")
    unknown = graph.replace(labels=[0, -1, 1, 2, 0])
    with pytest.raises(InputError, match=r"node 1 has no label"):
        fisher_information(on(model, unknown), near, kind="empirical", nodes=[0, 1])
    assert np.isfinite(fisher_information(on(model, unknown), near, kind="empirical")).all()
