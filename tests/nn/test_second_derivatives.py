"""Second derivatives of the network: in weights, features and coefficients, with and without dropout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized
from fishergcn.nn import GCN, Dropout, full_view, logits, make_features
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.training import Targets, scores

NODES, FEATURES, CLASSES, RANK = 5, 4, 2, 2


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def matrix():
    links = np.triu(np.random.default_rng(0).random((NODES, NODES)) < 0.4, 1) * 1.0
    return SparseMatrix.from_scipy(renormalized(links + links.T))


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(1)
    return (rng.random((NODES, FEATURES)) < 0.6) * rng.random((NODES, FEATURES))


def sizes(hidden):
    return list(zip((FEATURES, *hidden), (*hidden, CLASSES), strict=True))


def parameters(hidden, runs=1):
    return [normal(runs, *size, seed=seed).requires_grad_() for seed, size in enumerate(sizes(hidden))]


def as_function(matrix, features, basis, dropout, samples=2):
    """The logits as a function of coefficients and weights."""

    def function(c, *weights):
        operator = SparsePlusLowRank(matrix, basis, c)
        masks = Dropout(torch.arange(len(weights[0])), samples, 4, dropout)
        return logits(weights, full_view(features, operator, len(weights)), masks)

    return function


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(("hidden", "runs"), [((3, 2), 1), ((3,), 2)])
def test_gradgradcheck(matrix, x, stored, dropout, hidden, runs):
    features = make_features(sparse.csr_array(x) if stored else x, dtype=torch.float64)
    function = as_function(matrix, features, normal(NODES, RANK, seed=9), dropout)
    inputs = (normal(2 * runs, RANK, seed=8).requires_grad_(), *parameters(hidden, runs))
    options = {"check_batched_grad": False}
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, **options)
    assert torch.autograd.gradgradcheck(function, inputs, check_fwd_over_rev=True, **options)


def plain(model, x, operator):
    """The same network in torch's own operations."""
    hidden = x
    for layer, weight in enumerate(model.weights):
        hidden = operator @ ((torch.relu(hidden) if layer else hidden) @ weight)
    return hidden


def network(hidden=(4,)):
    return GCN(FEATURES, hidden, CLASSES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_module_passes_gradgradcheck(matrix, x, stored, training):
    model = network().train(training)
    features = sparse.csr_array(x) if stored else x
    basis, c = normal(NODES, RANK, seed=9), normal(2, RANK, seed=8).requires_grad_()

    def function(c, *weights):
        torch.manual_seed(3)  # the same masks in every call
        out = torch.func.functional_call(
            model, {f"weights.{index}": each for index, each in enumerate(weights)},
            (features, SparsePlusLowRank(matrix, basis, c)),
        )  # fmt: skip
        return torch.log_softmax(out, -1)

    inputs = (c, *(each.detach().clone().requires_grad_() for each in model.weights))
    assert torch.autograd.gradgradcheck(function, inputs, check_batched_grad=False)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
def test_hessian_is_that_of_plain_torch(matrix, x, stored, hidden):
    model = network(hidden).eval()
    features = make_features(sparse.csr_array(x) if stored else x, scaling="none", dtype=torch.float64)
    dense, given = matrix.to_dense(), torch.tensor(x)
    view = full_view(features, matrix, len(hidden) + 1)

    def ours(*weights):
        return logits([each.unsqueeze(0) for each in weights], view)[:, 0].pow(3).sum()

    def theirs(*weights):
        hidden = given
        for layer, weight in enumerate(weights):
            hidden = dense @ ((torch.relu(hidden) if layer else hidden) @ weight)
        return hidden.pow(3).sum()

    weights = tuple(each.detach() for each in model.weights)
    found, expected = (torch.autograd.functional.hessian(each, weights) for each in (ours, theirs))
    everywhere = range(len(weights))
    for one, other in ((found[i][j], expected[i][j]) for i in everywhere for j in everywhere):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)
        assert hidden == () or other.abs().max() > 1e-3
    mapped = torch.func.hessian(ours, tuple(everywhere))(*weights)
    for one, other in ((mapped[i][j], expected[i][j]) for i in everywhere for j in everywhere):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)


def test_a_gradient_penalty_reaches_every_weight(matrix, x):
    """‖∂loss/∂X‖² and ‖∂loss/∂c‖² as parts of a loss, against plain torch."""
    model, basis = network((4, 3)).eval(), normal(NODES, RANK, seed=9)
    given, c = torch.tensor(x).requires_grad_(), normal(RANK, seed=8).requires_grad_()
    operator = SparsePlusLowRank(matrix, basis, c)
    gradients = []
    for out in (model(given, operator), plain(model, given, operator.to_dense())):
        slopes = torch.autograd.grad(out.pow(2).sum(), (given, c), create_graph=True)
        penalty = sum(slope.square().sum() for slope in slopes)
        gradients.append(torch.autograd.grad(penalty, (*model.weights, given, c)))
    for ours, theirs in zip(*gradients, strict=True):
        assert theirs.abs().max() > 1e-3
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_the_loss_of_training_too(matrix, x):
    """The compiled cross entropy has the second derivative of torch's."""
    features = make_features(x, dtype=torch.float64)
    rows, labels = torch.tensor([[0, 2, 3], [1, 4, 0]]), torch.tensor([[0, 1, 1], [1, 0, 0]])
    targets = Targets(rows, labels, torch.tensor([[1 / 3] * 3, [1 / 2, 1 / 2, 0.0]], dtype=torch.float64))
    function = as_function(matrix, features, normal(NODES, RANK, seed=9), 0.5)
    inputs = (normal(4, RANK, seed=8).requires_grad_(), *parameters((4,), 2))

    def loss(*inputs):
        return scores(function(*inputs), targets)[0]

    assert torch.autograd.gradcheck(loss, inputs, check_batched_grad=False)
    assert torch.autograd.gradgradcheck(loss, inputs, check_batched_grad=False)
