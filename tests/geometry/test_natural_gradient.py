"""The natural gradient of a whole network against a dense Fisher matrix, and against Newton's method."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.func import functional_call, jacrev

from fishergcn import GCN, renormalized
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic import NaturalGradient
from fishergcn.nn import make_features
from fishergcn.operators import SparseMatrix


def problem(hidden=(4,), bias=False, seed=0):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((12, 12)) < 0.3, 1).astype(float)
    matrix = SparseMatrix.from_scipy(renormalized(links + links.T))
    features = torch.tensor(rng.standard_normal((12, 5)))
    labels = torch.tensor(rng.integers(0, 3, 12))
    model = GCN(5, hidden, 3, dropout=0.0, dtype=torch.float64, bias=bias, generator=torch.Generator().manual_seed(1))
    return model, features, matrix, labels


def dense_step(model, features, matrix, labels, damping):
    weights = {name: each.detach() for name, each in model.named_parameters()}

    def logits(values):
        return functional_call(model, values, (features, matrix))

    jacobian = jacrev(logits)(weights)
    wide = torch.cat([each.flatten(2) for each in jacobian.values()], dim=-1)  # (N, C, P)
    shares = torch.softmax(logits(weights), -1)
    metric = torch.diag_embed(shares) - shares.unsqueeze(-1) * shares.unsqueeze(-2)
    fisher = torch.einsum("ncp,ncd,ndq->pq", wide, metric, wide) / len(wide)
    slope = jacrev(lambda values: torch.nn.functional.cross_entropy(logits(values), labels))(weights)
    flat = torch.cat([each.flatten() for each in slope.values()])
    return torch.linalg.solve(fisher + damping * torch.eye(len(fisher), dtype=torch.float64), flat)


@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_step_solves_the_dense_system(hidden, bias):
    model, features, matrix, labels = problem(hidden, bias)
    wanted = dense_step(model, features, matrix, labels, 0.05)
    before = torch.cat([each.detach().flatten().clone() for each in model.parameters()])
    optimizer = NaturalGradient(model.parameters(), lr=0.5, damping=0.05, iterations=200, tolerance=1e-12)

    def closure():
        out = model(features, matrix)
        return torch.nn.functional.cross_entropy(out, labels), out

    loss = optimizer.step(closure)
    after = torch.cat([each.detach().flatten() for each in model.parameters()])
    torch.testing.assert_close(after, before - 0.5 * wanted, rtol=1e-7, atol=1e-9)
    assert float(closure()[0].detach()) < float(loss)


def test_of_one_layer_it_is_newtons_method():
    model, features, matrix, labels = problem(())
    [weight] = model.parameters()

    def loss_of(values):
        smooth = matrix.to_dense() @ features
        return torch.nn.functional.cross_entropy(smooth @ values, labels) + 0.005 * values.square().sum()

    start = weight.detach().clone()
    hessian = torch.autograd.functional.hessian(loss_of, start).reshape(15, 15)
    slope = torch.autograd.functional.jacobian(loss_of, start).flatten()
    newton = start - torch.linalg.solve(hessian, slope).view_as(start)
    optimizer = NaturalGradient([weight], damping=0.01, iterations=100, tolerance=1e-13)  # damped by the weight decay

    def closure():
        out = model(features, matrix)
        return torch.nn.functional.cross_entropy(out, labels) + 0.005 * weight.square().sum(), out

    optimizer.step(closure)
    torch.testing.assert_close(weight.detach(), newton, rtol=1e-7, atol=1e-9)


def test_bad_input():
    weight = torch.nn.Parameter(torch.zeros(2))
    for wrong in ({"lr": 0.0}, {"damping": 0.0}, {"iterations": 0}, {"tolerance": -1.0}):
        with pytest.raises(InputError, match="must be"):
            NaturalGradient([weight], **wrong)
    with pytest.raises(InputError, match="one group"):
        NaturalGradient([{"params": [weight]}, {"params": [torch.nn.Parameter(torch.zeros(1))]}])
    with pytest.raises(InputError, match="closure"):
        NaturalGradient([weight]).step()


def test_a_weight_that_does_not_matter_stays():
    model, features, matrix, labels = problem()
    idle = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = NaturalGradient([*model.parameters(), idle])

    def closure():
        out = model(features, matrix)
        return torch.nn.functional.cross_entropy(out, labels), out

    optimizer.step(closure)
    assert torch.equal(idle, torch.ones(3, dtype=torch.float64))


def test_features_may_be_sparse_and_of_single_precision():
    model = GCN(6, (4,), 2, dropout=0.5)
    matrix = renormalized(np.ones((6, 6)) - np.eye(6))
    features, labels = make_features(np.eye(6)), torch.tensor([0, 1] * 3)
    optimizer = NaturalGradient(model.parameters(), damping=0.01)

    def closure():
        out = model(features, matrix)
        return torch.nn.functional.cross_entropy(out, labels), out

    assert all(torch.isfinite(optimizer.step(closure)) for _ in range(3))
