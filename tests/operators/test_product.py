"""Propagation: the compiled kernel against the reference and against dense products."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.operators import SparsePlusLowRank
from fishergcn.operators._product import propagate, reference
from fishergcn.operators._sparse import SparseMatrix

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


@pytest.mark.parametrize(("width", "batch"), [(1, 1), (7, 3), (16, 4), (33, 5), (64, 9)])
def test_plain_product(width, batch):
    """A rectangular matrix with an empty row, forward and backward."""
    s, z = matrix(9, 13), normal(13, batch, width).requires_grad_()
    expected = torch.einsum("pn,nbd->pbd", s.to_dense(), z)
    out = propagate(s, z)
    torch.testing.assert_close(out, expected, **TOLERANCE[torch.float64])
    torch.testing.assert_close(reference(s, z), expected, **TOLERANCE[torch.float64])
    direction = normal(*out.shape, seed=7)
    ours, theirs = (torch.autograd.grad((each * direction).sum(), z)[0] for each in (out, expected))
    torch.testing.assert_close(ours, theirs, **TOLERANCE[torch.float64])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("width", "batch"), [(7, 3), (64, 5)])
def test_perturbed_product(width, batch, dtype):
    """S - U diag(c) Uᵀ for each batch entry; S is not symmetric, so that a missing transpose shows."""
    s, u = matrix(12, 12, dtype), basis(12, 4, dtype)
    z, c = normal(12, batch, width, dtype=dtype), normal(batch, 4, dtype=dtype, seed=2)
    direction = normal(12, batch, width, dtype=dtype, seed=7)

    def dense(matrix, z, u, c):
        operators = matrix.to_dense() - torch.einsum("nk,bk,mk->bnm", u, c, u)
        return torch.einsum("bnm,mbd->nbd", operators, z)

    results = []
    for product in (propagate, reference, dense):
        leaves = z.clone().requires_grad_(), c.clone().requires_grad_()
        out = product(s, leaves[0], u, leaves[1])
        results.append((out.detach(), *torch.autograd.grad((out * direction).sum(), leaves)))
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            torch.testing.assert_close(ours, theirs, **TOLERANCE[dtype])


def test_no_gradient_is_computed_that_is_not_wanted():
    s, u, c = matrix(12, 12), basis(12, 4), normal(3, 4).requires_grad_()
    z = normal(12, 3, 7)
    out = propagate(s, z, u, c)
    (gradient,) = torch.autograd.grad(out.sum(), c)
    expected = -torch.einsum("nk,kbd->bk", u, torch.einsum("nk,nbd->kbd", u, z))
    torch.testing.assert_close(gradient, expected, **TOLERANCE[torch.float64])
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(propagate(s, z, u, c.detach()).sum(), z)
    assert gradient.shape == z.shape


def test_zero_coefficients_are_the_plain_product_to_the_bit():
    s, z = matrix(12, 12), normal(12, 3, 16)
    assert torch.equal(propagate(s, z, basis(12, 4), torch.zeros(3, 4, dtype=torch.float64)), propagate(s, z))


@pytest.mark.parametrize("parts", ["plain", "both", "dense", "coefficients"])
def test_derivatives(parts):
    s, u = matrix(6, 6), basis(6, 2)
    z, c = normal(6, 3, 2).requires_grad_(), normal(3, 2, seed=2).requires_grad_()
    cases = {
        "plain": (lambda z: propagate(s, z) ** 2, (z,)),
        "both": (lambda z, c: propagate(s, z, u, c) ** 2, (z, c)),
        "dense": (lambda z: propagate(s, z, u, c.detach()) ** 2, (z,)),
        "coefficients": (lambda c: propagate(s, z.detach(), u, c) ** 2, (c,)),
    }
    function, inputs = cases[parts]
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=False)


def test_operands_that_are_views():
    s, z = matrix(9, 13), normal(7, 3, 13)
    view = z.permute(2, 1, 0)
    torch.testing.assert_close(propagate(s, view), propagate(s, view.contiguous()), rtol=0, atol=0)


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
        propagate(matrix(9, 13), normal(*shape))


def test_a_batch_or_precision_that_does_not_fit():
    with pytest.raises(InputError, match=r"activations must be a batch of 3, got 2\."):
        propagate(matrix(12, 12), normal(12, 2, 7), basis(12, 4), normal(3, 4))
    with pytest.raises(InputError, match=r"got torch.float32 of shape \(13, 3, 7\)\."):
        propagate(matrix(9, 13), normal(13, 3, 7, dtype=torch.float32))
