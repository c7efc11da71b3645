"""PRBCD: the network it differentiates is ours, budgets hold, and what it finds beats random flips."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized
from fishergcn.attacks._links import count_links, toggle_links
from fishergcn.attacks._operators import operator_of
from fishergcn.attacks._prbcd import EdgeWeightGCN, prbcd_flips
from fishergcn.errors import InputError

pytest.importorskip("torch_geometric")
CPU = torch.device("cpu")


def uncut(adjacency, order):
    """Algorithm 1 without threshold and with the diagonal of S kept, dense."""
    degree = adjacency.sum(axis=1, keepdims=True)
    walk = np.divide(adjacency, degree, out=np.zeros_like(adjacency), where=degree > 0)
    total = sum(np.linalg.matrix_power(walk, t) for t in range(1, order + 1)) / order
    made = total + total.T + 2 * np.eye(len(adjacency))
    root = made.sum(axis=1) ** -0.5
    return root[:, None] * made * root


@pytest.mark.parametrize("order", [None, 1, 4])
def test_the_network_is_ours(graph, trained, order):
    stack = trained("gcn")[2].only(0)
    own = torch.as_tensor(graph.adjacency.diagonal())
    network = EdgeWeightGCN([each[0] for each in stack.weights[1:]], own, order)
    rng = np.random.default_rng(0)
    upper = np.triu(graph.adjacency.toarray(), 1) * rng.random((60, 60))
    upper[:, 7] = upper[7] = 0  # a node without links
    row, column = np.nonzero(upper + upper.T)
    weight = torch.tensor((upper + upper.T)[row, column], requires_grad=True)
    hidden = stack.features.times(stack.weights[0], None, 1, 0.0)[:, 0]
    out = network(hidden, torch.as_tensor(np.stack([row, column])), weight)

    adjacency = upper + upper.T + np.diag(graph.adjacency.diagonal())
    matrix = renormalized(sparse.csr_array(adjacency)).toarray() if order is None else uncut(adjacency, order)
    wanted = matrix @ np.maximum(matrix @ hidden.numpy(), 0) @ stack.weights[1][0].numpy()
    assert np.allclose(out.detach(), wanted, rtol=0, atol=1e-12)
    out.square().sum().backward()
    assert weight.grad.abs().min() > 0


@pytest.mark.parametrize("method", ["gcn", "fishergcn", "gcn-t"])
def test_budget_seed_and_harm(graph, config, trained, method):
    stack = trained(method)[2].only(0)
    high = stack.method.high_order
    budget = 12
    arguments = {"order": config.order, "block_size": 800, "steps": 30, "seed": 4}
    flips = prbcd_flips(stack, graph.adjacency, budget, **arguments)
    assert flips.shape[0] == 2
    assert 0 < flips.shape[1] <= budget
    assert np.array_equal(prbcd_flips(stack, graph.adjacency, budget, **arguments), flips)

    attacked = toggle_links(graph.adjacency, flips)
    assert abs(count_links(attacked) - count_links(graph.adjacency)) <= budget
    accuracy = float(stack.test(operator_of(attacked, high, config, CPU))[1])
    rng = np.random.default_rng(0)
    for _ in range(30):
        pairs = np.sort(np.stack([rng.permutation(60)[:budget], rng.permutation(60)[:budget]]), axis=0)
        pairs = np.unique(pairs[:, pairs[0] < pairs[1]], axis=1)
        random = toggle_links(graph.adjacency, pairs)
        assert accuracy <= float(stack.test(operator_of(random, high, config, CPU))[1])
    assert accuracy < float(stack.test(operator_of(graph.adjacency, high, config, CPU))[1]) - 0.05


def test_no_budget_no_flips(graph, trained):
    state = torch.random.get_rng_state()
    stack = trained("gcn")[2].only(0)
    assert prbcd_flips(stack, graph.adjacency, 0, order=5).shape == (2, 0)
    prbcd_flips(stack, graph.adjacency, 2, order=5, block_size=200, steps=2)
    assert torch.equal(torch.random.get_rng_state(), state)  # the caller's random numbers are left alone


def test_refusals(graph, trained):
    stack = trained("gcn")[2]
    with pytest.raises(InputError, match="one network at a time, got 2"):
        prbcd_flips(stack, graph.adjacency, 1, order=5)
    with pytest.raises(InputError, match="links of weight 1"):
        prbcd_flips(stack.only(0), 2 * graph.adjacency, 1, order=5)
    with pytest.raises(InputError, match="budget must be between"):
        prbcd_flips(stack.only(0), graph.adjacency, 10**6, order=5)
