"""The network as a module: dense formula, every kind of operator, dropout, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import backend, renormalized
from fishergcn.errors import InputError
from fishergcn.nn import GCN, Dropout, full_view, logits, make_features
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.perturbation import Neighborhood

NODES, FEATURES, CLASSES = 20, 9, 3
CLOSE = {"rtol": 0, "atol": 1e-12}


@pytest.fixture(scope="module")
def operator():
    links = np.triu(np.random.default_rng(0).random((NODES, NODES)) < 0.2, 1) * 1.0
    return renormalized(links + links.T)


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(1)
    return (rng.random((NODES, FEATURES)) < 0.4) * rng.random((NODES, FEATURES))


def network(hidden=(7,), **options):
    generator = torch.Generator().manual_seed(0)
    return GCN(FEATURES, hidden, CLASSES, generator=generator, dtype=torch.float64, **options)


def dense(model, x, operator):
    hidden = torch.as_tensor(x)
    for layer, weight in enumerate(model.weights):
        hidden = operator @ ((torch.relu(hidden) if layer else hidden) @ weight)
        hidden = hidden + model.biases[layer] if len(model.biases) else hidden
    return hidden


@pytest.mark.parametrize("hidden", [(), (7,), (7, 16), (5, 6, 4), 7])
def test_prediction_is_the_dense_formula(x, operator, hidden):
    model = network(hidden).eval()
    expected = dense(model, x, torch.tensor(operator.toarray()))
    assert expected.shape == (NODES, CLASSES)
    for given in (operator, sparse.coo_array(operator), SparseMatrix.from_scipy(operator)):
        torch.testing.assert_close(model(x, given), expected, **CLOSE)


@pytest.mark.parametrize("hidden", [(), (7,), (7, 16)])
def test_biases(x, operator, hidden):
    """At first they are 0; then they are added after the propagation, in each of many perturbed graphs."""
    model = network(hidden, bias=True).eval()
    plain = network(hidden).eval()
    torch.testing.assert_close(model(x, operator), plain(x, operator), rtol=0, atol=0)
    assert [each.shape for each in model.biases] == [(weight.shape[1],) for weight in model.weights]
    assert len(plain.biases) == 0
    assert "biases.0" in model.state_dict()
    generator = torch.Generator().manual_seed(1)
    for each in model.biases:
        torch.nn.init.normal_(each, generator=generator)
    torch.testing.assert_close(model(x, operator), dense(model, x, torch.tensor(operator.toarray())), **CLOSE)
    neighborhood = Neighborhood(operator, rank=3, radius=2.0)
    batched = neighborhood.operator(neighborhood.sample(4))
    torch.testing.assert_close(model(x, batched), dense(model, x, batched.to_dense()), **CLOSE)


@pytest.mark.parametrize("samples", [1, 3])
def test_gradients_of_weights_and_biases(x, operator, samples):
    """Two networks with their own biases, with dropout, against finite differences."""
    view = full_view(make_features(sparse.csr_array(x), dtype=torch.float64), SparseMatrix.from_scipy(operator), 2)
    dropout = Dropout(torch.tensor([7, 8]), samples, 0, 0.5)
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, FEATURES, 4), (2, 4, CLASSES), (2, 4), (2, CLASSES))
    leaves = [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]

    def run(*parameters):
        return logits(parameters[:2], view, dropout, biases=parameters[2:])

    assert torch.autograd.gradcheck(run, leaves)
    assert run(*leaves).shape == (NODES, 2 * samples, CLASSES)


def test_every_kind_of_features(x, operator):
    model = network().eval()
    expected = dense(model, x, torch.tensor(operator.toarray()))
    kinds = [sparse.csr_array(x), sparse.coo_array(x), torch.tensor(x), x, torch.tensor(x).to_sparse()]
    kinds += [make_features(each, scaling="none", dtype=torch.float64) for each in (x, kinds[0])]
    for kind in kinds:
        torch.testing.assert_close(model(kind, operator), expected, **CLOSE)


def test_perturbed_operators(x, operator):
    neighborhood = Neighborhood(operator, rank=3, radius=2.0)
    model = network((7, 5)).eval()
    plain = neighborhood.operator(neighborhood.sample(1)[0])
    torch.testing.assert_close(model(x, plain), dense(model, x, plain.to_dense()), **CLOSE)
    batched = neighborhood.operator(neighborhood.sample(4))
    out = model(sparse.csr_array(x), batched)
    assert out.shape == (4, NODES, CLASSES)
    torch.testing.assert_close(out, dense(model, x, batched.to_dense()), **CLOSE)
    nested = SparsePlusLowRank(batched.sparse, batched.basis, batched.coefficients.view(2, 2, 3))
    assert torch.equal(model(sparse.csr_array(x), nested), out.view(2, 2, NODES, CLASSES))


def test_gradients_reach_weights_coefficients_and_features(x, operator):
    neighborhood = Neighborhood(operator, rank=3)
    model = network((4,)).eval()
    c = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    given = torch.tensor(x).requires_grad_()

    def loss(out):
        return out.square().sum()

    ours = SparsePlusLowRank(neighborhood.propagation, neighborhood.operator().basis, c)
    leaves = [*model.weights, c, given]
    found = torch.autograd.grad(loss(model(given, ours)), leaves)
    expected = torch.autograd.grad(loss(dense(model, given, ours.to_dense())), leaves)
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-11)


def test_initial_weights_are_glorot_uniform():
    model = GCN(300, (200,), 3, generator=torch.Generator().manual_seed(0))
    first = model.weights[0].detach()
    bound = math.sqrt(6 / 500)
    assert first.dtype == torch.float32
    assert first.abs().max() <= bound
    assert first.abs().max() > 0.999 * bound
    assert abs(first.mean()) < 4.5 * bound / math.sqrt(3 * first.numel())
    assert abs(first.var() - bound**2 / 3) < 0.01 * bound**2
    again = GCN(300, (200,), 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(first, again.weights[0])


def test_dropout_is_active_in_training_only(x, operator):
    model = network()
    torch.manual_seed(0)
    first, second = model(x, operator), model(x, operator)
    assert not torch.allclose(first, second)
    torch.manual_seed(0)
    assert torch.equal(model(x, operator), first)
    model.eval()
    assert torch.equal(model(x, operator), model(x, operator))
    without = network(dropout=0.0)
    assert torch.equal(without(x, operator), without.eval()(x, operator))


def test_prediction_leaves_the_generator_alone(x, operator):
    model = network().eval()
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    model(x, operator)
    assert torch.equal(torch.rand(1), expected)


def test_dropout_keeps_the_mean(operator):
    """With one layer the expected output is the output without dropout."""
    model = network((), dropout=0.8)
    x = np.random.default_rng(2).random((NODES, FEATURES))
    batch = SparsePlusLowRank(operator, np.zeros((NODES, 1)), np.zeros((4000, 1)))
    with torch.no_grad():
        drawn = model(sparse.csr_array(x), batch)
        expected = model.eval()(x, operator)
    spread = drawn.std(0) / math.sqrt(len(drawn))
    assert ((drawn.mean(0) - expected).abs() < 5 * spread).all()


def test_state_dict_round_trip(x, operator):
    model, other = network((7, 5)).eval(), GCN(FEATURES, (7, 5), CLASSES, dtype=torch.float64).eval()
    assert not torch.equal(model(x, operator), other(x, operator))
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(x, operator), other(x, operator))


def test_precision(x, operator):
    model = network().eval()
    expected = model(x, operator)
    out = model.float()(x, operator)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("stored", [True, False])
def test_the_whole_network_on_the_reference_path(x, operator, stored):
    """Without any compiled kernel the same numbers come out, with dropout, two runs and three samples."""
    prepared = make_features(sparse.csr_array(x) if stored else x, dtype=torch.float64)
    neighborhood = Neighborhood(operator, rank=3, radius=2.0)
    perturbed = neighborhood.operator(neighborhood.sample(6))
    generator = torch.Generator().manual_seed(0)
    weights = [
        torch.randn(2, *shape, dtype=torch.float64, generator=generator).requires_grad_()
        for shape in ((FEATURES, 7), (7, 33), (33, CLASSES))
    ]
    results = []
    for name in ("auto", "reference"):
        with backend(name):
            dropout = Dropout(torch.tensor([1, 2]), 3, 5, 0.5)
            out = logits(weights, full_view(prepared, perturbed, 3), dropout)
            results.append((out.detach(), *torch.autograd.grad(out.square().sum(), weights)))
    for left, right in zip(*results, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0, (4,), 3), "in_features must be at least 1, got 0."),
        ((4, (0,), 3), "hidden must be at least 1, got 0."),
        ((4, (4,), 0), "num_classes must be at least 1, got 0."),
        ((4, (4.5,), 3), "hidden must be a whole number, got 4.5."),
        ((4, (4,), 3, 1.0), "dropout must be at least 0.0 and less than 1.0, got 1."),
        ((4, (4,), 3, -0.1), "dropout must be at least 0.0 and less than 1.0, got -0.1."),
    ],
)
def test_bad_sizes(arguments, sentence):
    with pytest.raises(InputError) as error:
        GCN(*arguments)
    assert str(error.value) == sentence


def test_bad_inputs(x, operator):
    model = network()
    with pytest.raises(InputError, match=r"features must have 9 columns, got 8\."):
        model(x[:, :8], operator)
    with pytest.raises(InputError, match=r"operator and features must have as many rows, got 20 and 19\."):
        model(x[:19], operator)
    with pytest.raises(InputError, match=r"prepared in torch.float64, got torch.float32\."):
        model(make_features(x), operator)
    with pytest.raises(InputError, match="finite"):
        model(x, operator * np.nan)
