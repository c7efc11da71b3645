"""PRBCD: the network it differentiates is ours, budgets hold, and what it finds beats random flips."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized
from fishergcn.attacks import LinkWeightGCN, count_links, operator_of, prbcd_flips, toggle_links
from fishergcn.errors import InputError

pytest.importorskip("torch_geometric")


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
    model = trained("gcn")[2].only(0)
    network = LinkWeightGCN(model, order)
    rng = np.random.default_rng(0)
    upper = np.triu(graph.adjacency.toarray(), 1) * rng.random((60, 60))
    upper[:, 7] = upper[7] = 0  # a node without links
    row, column = np.nonzero(upper + upper.T)
    weight = torch.tensor((upper + upper.T)[row, column], requires_grad=True)
    hidden = model.features.times(model.weights["weights.0"], None, 1, 0.0)[:, 0]
    out = network(hidden, torch.as_tensor(np.stack([row, column])), weight)

    adjacency = upper + upper.T + np.diag(graph.adjacency.diagonal())
    matrix = renormalized(sparse.csr_array(adjacency)).toarray() if order is None else uncut(adjacency, order)
    wanted = matrix @ np.maximum(matrix @ hidden.numpy(), 0) @ model.weights["weights.1"][0].numpy()
    assert np.allclose(out.detach(), wanted, rtol=0, atol=1e-12)
    out.square().sum().backward()
    assert weight.grad.abs().min() > 0


@pytest.mark.parametrize("method", ["gcn", "fishergcn", "gcn-t"])
def test_budget_seed_and_harm(graph, trained, method):
    model = trained(method)[2].only(0)
    budget = 12
    arguments = {"block_size": 800, "steps": 30, "seed": 4}
    flips = prbcd_flips(model, budget, **arguments)
    assert flips.shape[0] == 2
    assert 0 < flips.shape[1] <= budget
    assert np.array_equal(prbcd_flips(model, budget, **arguments), flips)

    attacked = toggle_links(graph.adjacency, flips)
    assert abs(count_links(attacked) - count_links(graph.adjacency)) <= budget
    accuracy = float(model.test(operator_of(model, attacked))[1])
    rng = np.random.default_rng(0)
    for _ in range(30):
        pairs = np.sort(np.stack([rng.permutation(60)[:budget], rng.permutation(60)[:budget]]), axis=0)
        pairs = np.unique(pairs[:, pairs[0] < pairs[1]], axis=1)
        random = toggle_links(graph.adjacency, pairs)
        assert accuracy <= float(model.test(operator_of(model, random))[1])
    assert accuracy < float(model.test(operator_of(model, graph.adjacency))[1]) - 0.05


def test_no_budget_no_flips(trained):
    state = torch.random.get_rng_state()
    model = trained("gcn")[2].only(0)
    assert prbcd_flips(model, 0).shape == (2, 0)
    prbcd_flips(model, 2, block_size=200, steps=2)
    assert torch.equal(torch.random.get_rng_state(), state)  # the caller's random numbers are left alone


def test_refusals(graph, trained):
    model = trained("gcn")[2]
    with pytest.raises(InputError, match="holds 2 networks, and one is needed"):
        prbcd_flips(model, 1)
    with pytest.raises(InputError, match="links of weight 1"):
        prbcd_flips(dataclasses.replace(model.only(0), graph=graph.replace(adjacency=2 * graph.adjacency)), 1)
    with pytest.raises(InputError, match="budget must be between"):
        prbcd_flips(model.only(0), 10**6)
