"""The one product: compiled and plain, against dense matrices, with derivatives of every kind."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.operators import BlockOperator, SparseMatrix, SparsePlusLowRank

TOLERANCE = {torch.float64: {"rtol": 0, "atol": 1e-12}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def matrix(rows, columns, dtype=torch.float64, symmetric=False):
    values = sparse.random_array((rows, columns), density=0.3, rng=np.random.default_rng(1)).tolil()
    values[0] = 0
    if symmetric:
        values = values + values.T
    return SparseMatrix.from_scipy(values, dtype=dtype)


def basis(nodes, rank, dtype=torch.float64):
    return torch.linalg.qr(normal(nodes, rank, seed=3))[0].to(dtype)


def product(matrix, z, c=None, left=None, right=None):
    """S Z, or S Z_b - L (c_b ∘ (Rᵀ Z_b))."""
    return matrix.propagate(z) if c is None else BlockOperator(matrix, left, right, c).propagate(z)


def oracle(matrix, z, c, left, right):
    """The same with dense matrices; all of it differentiable."""
    operators = matrix.to_dense() - torch.einsum("pk,bk,nk->bpn", left, c, right)
    return torch.einsum("bpn,nbd->pbd", operators, z.expand(-1, len(c), -1))


@pytest.fixture(params=["compiled", "reference"])
def backend(request, monkeypatch):
    if request.param == "reference":
        monkeypatch.setattr("fishergcn.operators._product.backend_of", lambda _: "reference")


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(("width", "batch"), [(1, 1), (7, 3), (16, 4), (33, 5), (64, 9)])
def test_plain_product(width, batch):
    """A rectangular matrix with an empty row, forward and backward."""
    s, z = matrix(9, 13), normal(13, batch, width).requires_grad_()
    expected = torch.einsum("pn,nbd->pbd", s.to_dense(), z)
    out = product(s, z)
    torch.testing.assert_close(out, expected, **TOLERANCE[torch.float64])
    direction = normal(*out.shape, seed=7)
    ours, theirs = (torch.autograd.grad((each * direction).sum(), z)[0] for each in (out, expected))
    torch.testing.assert_close(ours, theirs, **TOLERANCE[torch.float64])


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("width", "batch"), [(7, 3), (64, 5)])
@pytest.mark.parametrize("shared", [False, True])
def test_perturbed_product(width, batch, dtype, shared):
    """S - L diag(c) Rᵀ for each batch entry; S is not square, so that a missing transpose shows."""
    s, left, right = matrix(10, 12, dtype), normal(10, 4, dtype=dtype, seed=3), basis(12, 4, dtype)
    z, c = normal(12, 1 if shared else batch, width, dtype=dtype), normal(batch, 4, dtype=dtype, seed=2)
    direction = normal(10, batch, width, dtype=dtype, seed=7)
    results = []
    for each in (product, oracle):
        leaves = z.clone().requires_grad_(), c.clone().requires_grad_()
        out = each(s, *leaves, left, right)
        results.append((out.detach(), *torch.autograd.grad((out * direction).sum(), leaves)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, **TOLERANCE[dtype])


def test_no_gradient_is_computed_that_is_not_wanted():
    s, u, c = matrix(12, 12), basis(12, 4), normal(3, 4).requires_grad_()
    z = normal(12, 3, 7)
    out = product(s, z, c, u, u)
    (gradient,) = torch.autograd.grad(out.sum(), c)
    expected = -torch.einsum("nk,kbd->bk", u, torch.einsum("nk,nbd->kbd", u, z))
    torch.testing.assert_close(gradient, expected, **TOLERANCE[torch.float64])
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(product(s, z, c.detach(), u, u).sum(), z)
    assert gradient.shape == z.shape


def test_zero_coefficients_are_the_plain_product_to_the_bit():
    s, z, u = matrix(12, 12), normal(12, 3, 16), basis(12, 4)
    assert torch.equal(product(s, z, torch.zeros(3, 4, dtype=torch.float64), u, u), product(s, z))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("parts", ["plain", "both", "dense", "coefficients", "shared z", "shared c"])
def test_derivatives(parts):
    """Once and twice, in reverse mode, in forward mode, and forward over reverse."""
    s, left, right = matrix(5, 6), normal(5, 2, seed=3), basis(6, 2)
    z, c = normal(6, 3, 2).requires_grad_(), normal(3, 2, seed=2).requires_grad_()
    one_z, one_c = normal(6, 1, 2).requires_grad_(), normal(1, 2).requires_grad_()
    cases = {
        "plain": (lambda z: product(s, z) ** 2, (z,)),
        "both": (lambda z, c: product(s, z, c, left, right) ** 2, (z, c)),
        "dense": (lambda z: product(s, z, c.detach(), left, right) ** 2, (z,)),
        "coefficients": (lambda c: product(s, z.detach(), c, left, right) ** 2, (c,)),
        "shared z": (lambda z, c: product(s, z, c, left, right) ** 2, (one_z, c)),
        "shared c": (lambda z, c: product(s, z, c, left, right) ** 2, (z, one_c)),
    }
    function, inputs = cases[parts]
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=False)
    assert torch.autograd.gradgradcheck(function, inputs, check_fwd_over_rev=True)


def test_third_derivatives():
    s, u, z = matrix(5, 5), basis(5, 2), normal(5, 1, 2)

    def loss(each):
        return lambda c: (each(s, z * c.sum(), c, u, u) ** 3).sum()

    c = normal(1, 2, seed=2)
    ours, theirs = (
        torch.func.jacfwd(torch.func.jacrev(torch.func.jacrev(loss(each))))(c) for each in (product, oracle)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("first", [torch.func.jacfwd, torch.func.jacrev])
@pytest.mark.parametrize("second", [torch.func.jacfwd, torch.func.jacrev])
def test_transforms_nest(first, second):
    s, left, right = matrix(5, 6), normal(5, 2, seed=3), basis(6, 2)
    z, c = normal(6, 3, 2), normal(3, 2, seed=2)
    for argument in (0, 1):
        hessians = [
            second(first(lambda *parts, each=each: (each(s, *parts, left, right) ** 3).sum(), argument), argument)(z, c)
            for each in (product, oracle)
        ]
        torch.testing.assert_close(*hessians, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shapes", [((6, 3, 2), (3, 2)), ((6, 1, 2), (3, 2)), ((6, 3, 2), (1, 2)), ((6, 3, 2), None)])
@pytest.mark.parametrize("in_dims", [(0, 0), (2, 1), (0, None), (None, 0)])
def test_vmap(shapes, in_dims):
    s, left, right = matrix(5, 6), normal(5, 2, seed=3), basis(6, 2)
    given = [None if shape is None else normal(4, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    if given[1] is None and in_dims[0] is None:
        pytest.skip("nothing to map over")
    in_dims = [dim if each is not None else None for dim, each in zip(in_dims, given, strict=True)]

    def function(z, c):
        return product(s, z) if c is None else product(s, z, c, left, right)

    one = [each if each is None or dim is not None else each[0] for each, dim in zip(given, in_dims, strict=True)]
    looped = torch.stack([function(*(each[i] if dim is not None else each for each, dim in
                                     zip(one, in_dims, strict=True))) for i in range(4)])  # fmt: skip
    moved = [each if dim is None else each.movedim(0, dim) for each, dim in zip(one, in_dims, strict=True)]
    found = torch.func.vmap(function, in_dims=tuple(in_dims))(*moved)
    torch.testing.assert_close(found, looped, rtol=0, atol=1e-13)


def test_the_basis_is_a_constant():
    s, u, z, c = matrix(6, 6), basis(6, 2).requires_grad_(), normal(6, 3, 2), normal(3, 2).requires_grad_()
    with pytest.raises(InputError, match="The basis must not require a gradient"):
        SparsePlusLowRank(s, u, c)
    operator = SparsePlusLowRank(s, u.detach(), c)
    for out in (operator @ z.movedim(1, 0), operator.propagate(z)):
        out.sum().backward()
    assert c.grad is not None
    with pytest.raises(InputError, match="The basis is a constant of the operator"):
        torch.func.vmap(lambda u: product(s, z, c, u, u))(u.detach().expand(2, 6, 2))


def test_operands_that_are_views():
    s, z = matrix(9, 13), normal(7, 3, 13)
    view = z.permute(2, 1, 0)
    torch.testing.assert_close(product(s, view), product(s, view.contiguous()), rtol=0, atol=0)


def test_operators_propagate():
    """SparseMatrix and SparsePlusLowRank agree with their own products, sample by sample."""
    s, u, c, z = matrix(12, 12, symmetric=True), basis(12, 4), normal(3, 4, seed=2), normal(12, 3, 7)
    operator = SparsePlusLowRank(s, u, c)
    torch.testing.assert_close(
        operator.propagate(z), (operator @ z.movedim(1, 0)).movedim(0, 1), **TOLERANCE[torch.float64]
    )
    torch.testing.assert_close(s.propagate(z)[:, 1], s @ z[:, 1].contiguous(), **TOLERANCE[torch.float64])


@pytest.mark.parametrize("shape", [(12, 3, 7), (14, 3, 7), (13, 7)])
def test_operands_that_do_not_fit(shape):
    with pytest.raises(InputError, match=r"activations must be torch.float64 of shape \(13, B, d\), got "):
        product(matrix(9, 13), normal(*shape))


def test_a_batch_or_precision_that_does_not_fit():
    operator = SparsePlusLowRank(matrix(12, 12), basis(12, 4), normal(3, 4))
    with pytest.raises(InputError, match=r"activations must be a batch of 3, got 2\."):
        operator.propagate(normal(12, 2, 7))
    with pytest.raises(InputError, match=r"got torch.float32 of shape \(13, 3, 7\)\."):
        product(matrix(9, 13), normal(13, 3, 7, dtype=torch.float32))


@pytest.mark.parametrize(("width", "dtype"), [(64, torch.float32), (7, torch.float32), (36, torch.float64)])
def test_a_table_beyond_the_caches(width, dtype):
    """Where lines are asked for before they are needed, up to the last row, and rows may be empty."""
    number = torch.empty(0, dtype=dtype).element_size()
    nodes = 2**24 // (width * number) + 1000
    rng = np.random.default_rng(0)
    lengths = np.where(np.arange(nodes) < nodes - 3, rng.integers(0, 4, nodes), 20)  # the last rows are long
    lengths[-1] = 0
    indptr = np.append(0, lengths.cumsum())
    columns = rng.integers(0, nodes, indptr[-1])
    matrix = sparse.csr_array((rng.random(indptr[-1]), columns, indptr), shape=(nodes, nodes))
    matrix.sum_duplicates()
    dense = torch.as_tensor(rng.random((nodes, 1, width)), dtype=dtype)
    found = product(SparseMatrix.from_scipy(matrix, dtype=dtype), dense)
    wanted = matrix @ dense[:, 0].double().numpy()
    np.testing.assert_allclose(found[:, 0].double().numpy(), wanted, rtol=1e-5 if number == 4 else 1e-13, atol=0)
