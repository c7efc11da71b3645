"""bfloat16, float16 and autocast: sums in float32, results as near to a dense float64 computation as their digits."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.nn import GCN, make_features
from fishergcn.operators import BlockOperator, DenseOperator, SparseMatrix, SparsePlusLowRank

NODES, FEATURES, CLASSES = 60, 40, 4
HALVES = (torch.bfloat16, torch.float16)
DEVICES = ("cpu", *(("cuda",) if torch.cuda.is_available() else ()))


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def matrix():
    links = np.triu(np.random.default_rng(0).random((NODES, NODES)) < 0.2, 1) * 1.0
    return SparseMatrix.from_scipy(renormalized(links + links.T))


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(1)
    return (rng.random((NODES, FEATURES)) < 0.3) * rng.random((NODES, FEATURES))


def perturbed(matrix):
    return SparsePlusLowRank(matrix, torch.linalg.qr(normal(NODES, 3, seed=9))[0], 0.3 * normal(2, 3, seed=8))


def operators(matrix):
    dense = DenseOperator(matrix.to_dense())
    return {"scipy": matrix.scipy, "sparse": matrix, "low rank": perturbed(matrix), "dense": dense}


def network(dtype=torch.float32):
    model = GCN(FEATURES, (16,), CLASSES, generator=torch.Generator().manual_seed(0), dtype=torch.float32, bias=True)
    with torch.no_grad():
        for each in model.biases:
            each.normal_(generator=torch.Generator().manual_seed(3))
    return model.to(dtype).eval()


def plain(model, x, dense):
    """The network in float64 with the weights as they are rounded; of shape (..., n, C)."""
    first, second = (each.detach().double() for each in model.weights)
    one, two = (each.detach().double() for each in model.biases)
    return dense @ (torch.relu(dense @ (torch.as_tensor(x).double() @ first) + one) @ second) + two


def digits(dtype):
    return torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ["sparse", "low rank", "block"])
def test_products_are_rounded_once(matrix, dtype, name):
    """S Z of the rounded Z, with S in float32: only the result is rounded, half a unit of the last digit."""
    low_rank = perturbed(matrix)
    if name == "sparse":
        operator, dense = matrix, matrix.to_dense().expand(2, -1, -1)
    elif name == "low rank":
        operator, dense = low_rank, low_rank.to_dense()
    else:
        operator = BlockOperator(matrix, low_rank.basis, low_rank.basis, low_rank.coefficients)
        dense = low_rank.to_dense()
    half = operator.to(dtype=dtype)
    assert half.dtype == dtype
    z = normal(NODES, 2, 5, seed=4).to(dtype).requires_grad_()
    out = half.propagate(z)
    assert out.dtype == dtype
    exact = torch.stack([dense[at] @ z.detach().double()[:, at] for at in range(2)], 1)
    # The basis and the coefficients are rounded too, which costs as much again where there are any.
    bound = (0.51 if name == "sparse" else 4) * digits(dtype)
    assert ((out.double() - exact).abs() <= bound * exact.abs().clamp(min=0.05 if name == "sparse" else 1.0)).all()
    out.sum().backward()
    assert z.grad.dtype == dtype
    slopes = dense.sum(1).T.unsqueeze(-1).expand_as(exact)
    assert (z.grad.double() - slopes).abs().max() <= 4 * digits(dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_product_operator_too(matrix, dtype):
    z = normal(NODES, 3, seed=4).to(dtype)
    for operator in (matrix, perturbed(matrix)):
        half = operator.to(dtype=dtype)
        exact = operator.to_dense() @ z.double()
        assert (half @ z).dtype == dtype
        assert ((half @ z).double() - exact).abs().max() <= 8 * digits(dtype)
        with pytest.raises(InputError, match=r"must be torch.*float16.*got torch.float32"):
            half @ z.float()
    with pytest.raises(InputError, match=r"activations must be torch\.bfloat16, got torch\.float32"):
        matrix.to(dtype=torch.bfloat16).propagate(torch.zeros(NODES, 1, 2))


def test_conversions_lose_nothing_and_are_kept(matrix):
    single = matrix.to(dtype=torch.float32)
    half = single.to(dtype=torch.bfloat16)
    assert half is single.to(dtype=torch.bfloat16)
    assert half.wide is single
    assert half.to(dtype=torch.float64).forward.values().equal(matrix.forward.values())
    assert matrix.wide is matrix


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", ["tensor", "scipy", "prepared"])
@pytest.mark.parametrize("kind", ["scipy", "sparse", "low rank", "dense"])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_network_in_half_precision(matrix, x, dtype, form, kind, device):
    model = network(dtype).to(device)
    features = {
        "tensor": torch.tensor(x),
        "scipy": sparse.csr_array(x),
        "prepared": make_features(sparse.csr_array(x), scaling="none", dtype=dtype, device=device),
    }[form]
    operator = operators(matrix)[kind]
    dense = operator.to_dense() if kind == "low rank" else matrix.to_dense()
    out = model(features, operator)
    expected = plain(copy.deepcopy(model).cpu(), x, dense)
    assert out.dtype == dtype
    assert out.shape == expected.shape
    assert (out.double().cpu() - expected).abs().max() <= 8 * digits(dtype) * expected.abs().max()
    out.float().square().sum().backward()
    wide = network().double()
    with torch.no_grad():
        for ours, theirs in zip(wide.parameters(), model.parameters(), strict=True):
            ours.copy_(theirs)
    wide(x, perturbed(matrix) if kind == "low rank" else matrix).square().sum().backward()
    for ours, theirs in zip(model.parameters(), wide.parameters(), strict=True):
        assert ours.grad.dtype == dtype
        gap = (ours.grad.double().cpu() - theirs.grad).norm() / theirs.grad.norm()
        assert gap <= 8 * digits(dtype)


@pytest.mark.parametrize("form", [sparse.csr_array, torch.tensor])
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
def test_dropout_in_half_precision_has_the_masks_of_any_other(matrix, x, dtype, form):
    wide = network().double().train()
    model = copy.deepcopy(wide).to(dtype)
    outs = []
    for each in (wide, model):
        torch.manual_seed(1)
        outs.append(each(form(x), perturbed(matrix)).double())
    assert (outs[0] - outs[1]).abs().max() <= 8 * digits(dtype) * outs[0].abs().max()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", ["tensor", "scipy"])
@pytest.mark.parametrize("kind", ["scipy", "sparse", "low rank", "dense"])
@pytest.mark.parametrize("dtype", HALVES)
def test_autocast(matrix, x, dtype, form, kind, device):
    """Products with weights in half precision, those with the graph in float32; the parameters stay as they are."""
    model = network().to(device)
    features = torch.tensor(x, dtype=torch.float32) if form == "tensor" else sparse.csr_array(x)
    operator = operators(matrix)[kind]
    expected = plain(network(), x, operator.to_dense() if kind == "low rank" else matrix.to_dense())
    with torch.autocast(device, dtype=dtype):
        out = model(features, operator)
    gap = (out.double().cpu() - expected).abs().max()
    assert gap <= 8 * digits(dtype) * expected.abs().max()
    assert gap > 1e-6  # something ran in half precision
    reference = network().to(device)
    reference(features, operator).square().sum().backward()
    for inside in (False, True):
        model.zero_grad()
        with torch.autocast(device, dtype=dtype):
            loss = model(features, operator).float().square().sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
            assert ours.grad.dtype == torch.float32
            assert (ours.grad - theirs.grad).norm() <= 8 * digits(dtype) * theirs.grad.norm()
    model.train()
    with torch.autocast(device, dtype=dtype):
        loss = model(features, operator).float().square().sum()
    loss.backward()
    assert all(each.grad.isfinite().all() for each in model.parameters())


@pytest.mark.parametrize("dtype", HALVES)
def test_operators_under_autocast_keep_their_precision(matrix, dtype):
    """As torch's operations that are listed for float32 do: what comes in may be half, what goes out is not."""
    single = matrix.to(dtype=torch.float32)
    z = normal(NODES, 3, seed=4).float()
    for operator in (single, perturbed(single)):
        exact = operator.to_dense().double() @ z.double()
        with torch.autocast("cpu", dtype=dtype):
            out = operator @ z
            rounded = operator @ z.to(dtype)
        assert out.dtype == rounded.dtype == torch.float32
        assert (out.double() - exact).abs().max() < 1e-5
        again = operator.to_dense().double() @ z.to(dtype).double()
        assert (rounded.double() - again).abs().max() < 1e-5
        with torch.autocast("cpu", dtype=dtype), pytest.raises(InputError, match=r"got torch\.float64"):
            operator @ z.double()


def test_block_shares_of_other_processes_under_autocast(matrix):
    low_rank = perturbed(matrix.to(dtype=torch.float32))
    alone = BlockOperator(low_rank.sparse, low_rank.basis, low_rank.basis, low_rank.coefficients)
    shared = BlockOperator(*(alone.matrix, alone.left, alone.right, alone.coefficients), add=lambda moments: moments)
    z = normal(NODES, 2, 3).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(shared.propagate(z), alone.propagate(z))
