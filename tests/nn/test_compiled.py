"""The network by compiled kernels: outputs and derivatives of the plain one, written for autograd."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import sparse

pytest.importorskip("numba")

from fishergcn import renormalized
from fishergcn._kernels import threads
from fishergcn.nn import CompiledNetwork, Dropout, View, full_view, local_view, logits, make_features
from fishergcn.operators import DenseOperator, SparseMatrix, SparsePlusLowRank

NODES, FEATURES = 90, 31
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def example():
    """Links and features."""
    rng = np.random.default_rng(5)
    links = np.triu(rng.random((NODES, NODES)) < 0.08, 1)
    return links, sparse.csr_array((rng.random((NODES, FEATURES)) < 0.2) * rng.random((NODES, FEATURES)))


@pytest.fixture(scope="module")
def graph():
    links, features = example()
    return renormalized(links + links.T.astype(float)), make_features(features, dtype=torch.float64)


def make_weights(runs, sizes, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shapes = pairwise(sizes)
    return [torch.randn(runs, *shape, dtype=torch.float64, generator=generator, requires_grad=True) for shape in shapes]


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def _threads(request, monkeypatch):
    monkeypatch.setattr(threads, "_ROWS_FOR_THREADS", 20)
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("sizes", [(FEATURES, 4), (FEATURES, 16, 4), (FEATURES, 64, 3), (FEATURES, 10, 33, 2)], ids=str)
@pytest.mark.parametrize(("runs", "samples"), [(1, 1), (1, 5), (2, 3), (2, 7)])
@pytest.mark.parametrize("kind", ["some rows", "all rows", "perturbed", "perturbed, some outputs"])
def test_outputs_and_gradients_equal_those_of_autograd(graph, sizes, runs, samples, kind) -> None:
    propagation, features = graph
    depth, weights = len(sizes) - 1, make_weights(runs, sizes)
    dropout = Dropout(torch.arange(7, 7 + runs), samples, epoch=3, rate=0.4)
    matrix = SparseMatrix.from_scipy(propagation)
    operator, coefficients = None, None
    if kind == "some rows":
        view = local_view(features, propagation, np.array([3, 50, 71]), depth, device="cpu", dtype=torch.float64)
        plain = view
    else:
        view = full_view(features, matrix, depth)
        plain = view
    chosen = slice(None)
    if kind.startswith("perturbed"):
        generator = torch.Generator().manual_seed(2)
        basis = torch.randn(NODES, 6, dtype=torch.float64, generator=generator)
        coefficients = torch.randn(runs, samples, 6, dtype=torch.float64, generator=generator, requires_grad=True)
        operator = SparsePlusLowRank(matrix, basis, coefficients)
        plain = full_view(features, operator, depth)
    if kind == "perturbed, some outputs":
        chosen = torch.tensor([3, 50, 71], dtype=torch.int32)
        last = SparseMatrix.from_scipy(propagation[chosen.numpy()])
        view = View(view.features, (*view.operators[:-1], last), (*view.rows[:-1], chosen))
        chosen = chosen.long()
    expected = logits(weights, plain, dropout)[chosen]
    direction = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    wanted = torch.autograd.grad(
        (expected * direction).sum(), [*weights, *([] if coefficients is None else [coefficients])]
    )

    network = CompiledNetwork(view)
    assert CompiledNetwork.fits(view, weights)
    slopes, found = [torch.zeros_like(each) for each in weights], torch.empty_like(expected)

    def slope_of(b, logits):
        found[:, b] = torch.from_numpy(logits)
        return direction[:, b].numpy().copy()

    for_coefficients = network.gradients(weights, slopes, dropout, slope_of, operator)
    torch.testing.assert_close(found.detach(), expected.detach(), **EXACT)
    for slope, each in zip(slopes, wanted, strict=False):
        torch.testing.assert_close(slope, each, **EXACT)
    if coefficients is not None:
        torch.testing.assert_close(for_coefficients.view_as(coefficients), wanted[-1], **EXACT)
    torch.testing.assert_close(network.forward(weights), logits(weights, view).detach(), **EXACT)


def test_single_precision(graph) -> None:
    propagation, exact = graph
    features = make_features(example()[1], dtype=torch.float32)
    weights = make_weights(1, (FEATURES, 64, 7))
    dropout = Dropout(torch.tensor([3]), 5, epoch=1, rate=0.5)
    basis = torch.linalg.qr(torch.randn(NODES, 10, generator=torch.Generator().manual_seed(2)).double())[0]
    coefficients = torch.rand(1, 5, 10, generator=torch.Generator().manual_seed(4)).double()
    found = []
    for prepared, dtype in ((exact, torch.float64), (features, torch.float32)):
        matrix = SparseMatrix.from_scipy(propagation, dtype=dtype)
        operator = SparsePlusLowRank(matrix, basis.to(dtype), coefficients.to(dtype))
        rounded = [each.detach().to(dtype) for each in weights]
        slopes = [torch.zeros_like(each) for each in rounded]
        network = CompiledNetwork(full_view(prepared, matrix, 2))
        found.append(
            [network.gradients(rounded, slopes, dropout, lambda _, logits: np.tanh(logits), operator), *slopes]
        )
    for wanted, rough in zip(*found, strict=True):
        torch.testing.assert_close(rough.double(), wanted, rtol=0, atol=2e-6 * float(wanted.abs().max()))


def test_nan_is_passed_on(graph) -> None:
    propagation, features = graph
    weights = make_weights(1, (FEATURES, 16, 4))
    with torch.no_grad():
        weights[0][0, :, 2] = torch.nan
    view = full_view(features, SparseMatrix.from_scipy(propagation), 2)
    network, seen = CompiledNetwork(view), []
    assert network.forward(weights).isnan().any()
    dropout = Dropout(torch.tensor([1]), 1, epoch=0, rate=0.5)

    def slope_of(_, logits):
        seen.append(np.isnan(logits).any())
        return logits

    network.gradients(weights, [torch.zeros_like(each) for each in weights], dropout, slope_of)
    assert seen == [True]


def test_other_operators_do_not_fit(graph) -> None:
    _, features = graph
    view = full_view(features, DenseOperator(torch.eye(NODES, dtype=torch.float64)), 2)
    assert not CompiledNetwork.fits(view, make_weights(1, (FEATURES, 4, 2)))
