"""Theorem 5 of the paper, its proof and its edge rule, as printed and as they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from fishergcn import renormalized
from fishergcn.geometry.extrinsic import fisher_information, link_sensitivity, weight_fisher
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.nn import GCN
from fishergcn.perturbation import Neighborhood

on = TrainedModel.from_network
DEPTHS = {1: (), 2: (4,), 3: (4, 4)}
SEED = 14
V = np.array([1.0, 0.0, -1.0])  # the curve φ(t) = t V, so that t is the scalar coordinate of the paper


def example(depth):
    """A triangle with a tail of two nodes, three classes, and a network with random weights."""
    rng = np.random.default_rng(SEED)
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)], features=np.eye(5), labels=[0, 1, 2, 0, 1])
    model = GCN(5, DEPTHS[depth], 3, dtype=torch.float64)
    with torch.no_grad():
        for weight in model.weights:
            weight.copy_(torch.tensor(1.5 * rng.standard_normal(tuple(weight.shape))))
    return graph, model, Neighborhood(renormalized(graph.adjacency), rank=3)


def layers(graph, model):
    """Back-propagation written out in NumPy: Ã, H^l, W^l, Δ_l = ∂ℓ/∂H^l, S_l = Δ_{l+1}∘σ', of the total loss ℓ."""
    A = renormalized(graph.adjacency).toarray()
    X = graph.features.astype(np.float64)
    W = [each.detach().numpy() for each in model.weights]
    H, slopes = [X / X.sum(1, keepdims=True)], []
    for l, weight in enumerate(W):
        value = A @ H[l] @ weight
        last = l == len(W) - 1
        slopes.append(np.ones_like(value) if last else (value > 0).astype(float))
        H.append(value if last else np.maximum(value, 0))
    p = np.exp(H[-1]) / np.exp(H[-1]).sum(1, keepdims=True)
    delta = p - np.eye(3)[graph.labels]
    deltas, errors = [delta], []
    for l in reversed(range(len(W))):
        errors.insert(0, delta * slopes[l])
        delta = A.T @ errors[0] @ W[l].T
        deltas.insert(0, delta)
    return A, H[:-1], W, deltas, errors


def operator_slope(near):
    """∂Ã/∂t along φ = tV at 0, from the closed form ∂Ã/∂φ_a = -Σw q_a (u_a u_aᵀ - Σ_b q_b u_b u_bᵀ)."""
    w, U = near.spectrum.eigenvalues, near.spectrum.eigenvectors
    q = w / w.sum()
    mean = (U * q) @ U.T
    return sum(-v * w.sum() * q[a] * (np.outer(U[:, a], U[:, a]) - mean) for a, v in enumerate(V))


def dense_loss(graph, model, operator):
    X = graph.features.astype(np.float64)
    hidden = torch.tensor(X / X.sum(1, keepdims=True))
    for l, weight in enumerate(model.weights):
        hidden = operator @ hidden @ weight.detach()
        hidden = torch.relu(hidden) if l < len(model.weights) - 1 else hidden
    return torch.nn.functional.cross_entropy(hidden, torch.tensor(graph.labels), reduction="none")


def printed(graph, model, near):
    """(1/N) Σ_i (Σ_l (H^l W^l S_lᵀ ∂Ã/∂φ)_ii)², the first expression of Theorem 5, and the numbers squared."""
    _, H, W, _, S = layers(graph, model)
    inside = sum(np.diag(h @ weight @ error.T @ operator_slope(near)) for h, weight, error in zip(H, W, S, strict=True))
    return (inside**2).mean(), inside


def test_closed_form_of_the_slope_of_the_operator():
    _, _, near = example(2)
    step = 1e-5
    difference = near.operator(step * V).to_dense() - near.operator(-step * V).to_dense()
    np.testing.assert_allclose(difference.numpy() / (2 * step), operator_slope(near), atol=1e-10)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_trace_in_theorem_5_is_the_slope_of_the_loss_and_its_entries_are_not_those_of_nodes(depth):
    graph, model, near = example(depth)
    _, inside = printed(graph, model, near)
    slope = torch.tensor(operator_slope(near))
    A = torch.tensor(renormalized(graph.adjacency).toarray())
    per_node = torch.autograd.functional.jacobian(
        lambda t: dense_loss(graph, model, A + t * slope), torch.zeros((), dtype=torch.float64)
    ).numpy()
    assert inside.sum() == pytest.approx(per_node.sum(), abs=1e-12)  # the total is right
    assert np.abs(inside - per_node).max() > 0.05  # what is squared is not


# (as printed, empirical, exact) along V, for one, two and three layers.
NUMBERS = {
    1: (1.97727, 0.429973, 0.135348),
    2: (0.899078, 0.456736, 0.205250),
    3: (0.529666, 0.325848, 0.136306),
}


@pytest.mark.parametrize("depth", DEPTHS)
def test_theorem_5_as_printed_is_neither_the_exact_nor_the_empirical_information(depth):
    graph, model, near = example(depth)
    exact, empirical = (
        V @ fisher_information(on(model, graph), near, kind=kind) @ V for kind in ("exact", "empirical")
    )
    paper, _ = printed(graph, model, near)
    np.testing.assert_allclose([paper, empirical, exact], NUMBERS[depth], rtol=1e-5)
    values = [paper, empirical, exact]
    for one, other in itertools.combinations(values, 2):
        assert abs(one - other) > 0.25 * max(one, other)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_second_equality_has_one_operator_too_many(depth):
    graph, model, near = example(depth)
    A, H, W, delta, S = layers(graph, model)
    slope = operator_slope(near)
    true = sum(np.trace(h @ w @ s.T @ slope) for h, w, s in zip(H, W, S, strict=True))
    with_delta = sum(np.trace(h @ d.T @ slope) for h, d in zip(H, delta[:-1], strict=True))
    with_error = sum(np.trace(h @ (s @ w.T).T @ slope) for h, w, s in zip(H, W, S, strict=True))
    assert with_error == pytest.approx(true, abs=1e-13)
    assert abs(with_delta - true) > 0.05
    for d, w, s in zip(delta[:-1], W, S, strict=True):
        np.testing.assert_allclose(d, A.T @ (s @ w.T), atol=1e-14)  # Δ_l = Ãᵀ E_l


@pytest.mark.parametrize("depth", DEPTHS)
def test_derivative_in_the_operator_is_a_sum_over_layers_and_transposed(depth):
    graph, model, _ = example(depth)
    A, H, W, _, S = layers(graph, model)
    operator = torch.tensor(A, requires_grad=True)
    dense_loss(graph, model, operator).sum().backward()
    true = operator.grad.numpy()
    parts = [s @ (h @ w).T for h, w, s in zip(H, W, S, strict=True)]
    np.testing.assert_allclose(sum(parts), true, atol=1e-12)
    assert np.abs(sum(part.T for part in parts) - true).max() > 0.05  # as printed: H^l W^l S_lᵀ, at best
    if depth > 1:
        assert min(np.abs(part - true).max() for part in parts) > 0.05  # one layer alone
    # The library's factors are the same matrix: entry (i, j) plus entry (j, i), of the mean loss.
    pairs = list(itertools.combinations(range(5), 2))
    found = link_sensitivity(on(model, graph), None, False, links=pairs).values
    np.testing.assert_allclose(found, [(true[i, j] + true[j, i]) / 5 for i, j in pairs], atol=1e-12)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_edge_rule_needs_e_where_the_paper_has_delta(depth):
    graph, model, _ = example(depth)
    A, H, W, delta, S = layers(graph, model)
    E = [s @ w.T for s, w in zip(S, W, strict=True)]
    worst = 0.0
    for i, j in itertools.combinations(range(5), 2):
        step = np.zeros((5, 5))
        step[i, j] = step[j, i] = 1e-5
        up, down = (float(dense_loss(graph, model, torch.tensor(A + sign * step)).sum()) for sign in (1, -1))
        true = (up - down) / 2e-5
        rule, printed_rule = (
            sum(h[i] @ e[j] + e[i] @ h[j] for h, e in zip(H, back, strict=True)) for back in (E, delta[:-1])
        )
        assert rule == pytest.approx(true, abs=1e-7)
        worst = max(worst, abs(printed_rule - true))
    assert worst > 0.05


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_information_of_the_weights_is_not_one_outer_product(depth):
    graph, model, _ = example(depth)
    A, H, _, _, S = layers(graph, model)
    total = (S[0].T @ A @ H[0]).T.ravel()  # vec of the gradient of the total loss, the same for every i
    paper = np.mean([np.outer(total, total) for _ in range(5)], axis=0)
    exact, empirical = (weight_fisher(on(model, graph), 0, kind).todense() for kind in ("exact", "empirical"))
    assert np.linalg.matrix_rank(paper) == 1
    assert np.linalg.matrix_rank(exact) > 3
    assert 1 < np.linalg.matrix_rank(empirical) <= 5
    for true in (exact, empirical):
        assert np.abs(paper - true).max() > 0.1 * np.abs(true).max()


@pytest.mark.parametrize("depth", DEPTHS)
def test_shifting_all_coordinates_moves_nothing(depth):
    graph, model, near = example(depth)
    for kind in ("exact", "empirical"):
        assert np.abs(fisher_information(on(model, graph), near, kind=kind) @ np.ones(3)).max() < 1e-15
