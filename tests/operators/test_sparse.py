"""Sparse times dense against the dense product, with derivatives nested in every way."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.operators import IdentityOperator, SparseMatrix, as_operator, spmm

SHAPES = [(5, 3), (2, 5, 3), (2, 3, 5, 4), (0, 5, 3)]


def make(rows=7, columns=5, seed=0):
    values = sparse.random_array((rows, columns), density=0.4, rng=np.random.default_rng(seed))
    return SparseMatrix.from_scipy(values)


def operand(*shape, seed=1):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", SHAPES)
def test_product_equals_dense(shape):
    matrix, x = make(), operand(*shape)
    torch.testing.assert_close(spmm(matrix, x), matrix.to_dense() @ x, rtol=0, atol=1e-13)
    y = operand(*shape[:-2], 7, 2)
    torch.testing.assert_close(matrix.T @ y, matrix.to_dense().T @ y, rtol=0, atol=1e-13)


def test_views_are_multiplied_as_they_read():
    matrix, x = make(), operand(3, 2, 5)
    torch.testing.assert_close(spmm(matrix, x.mT), matrix.to_dense() @ x.mT, rtol=0, atol=1e-13)
    torch.testing.assert_close(
        spmm(matrix, x.permute(1, 2, 0)), matrix.to_dense() @ x.permute(1, 2, 0), rtol=0, atol=1e-13
    )
    shared = operand(5, 2).expand(4, 5, 2)
    torch.testing.assert_close(spmm(matrix, shared), matrix.to_dense() @ shared, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_derivatives(shape):
    matrix, x = make(), operand(*shape).requires_grad_()

    def squared(x):
        return spmm(matrix, x) ** 2

    assert torch.autograd.gradcheck(
        squared, x, check_forward_ad=True, check_batched_grad=False, check_batched_forward_grad=False
    )
    assert torch.autograd.gradgradcheck(squared, x, check_fwd_over_rev=True)


def test_nested_transforms_equal_the_dense_hessian():
    matrix, x = make(), operand(5, 2)

    def sparse_loss(x):
        return (spmm(matrix, x) ** 3).sum()

    def dense_loss(x):
        return ((matrix.to_dense() @ x) ** 3).sum()

    expected = torch.func.hessian(dense_loss)(x)
    for first in (torch.func.jacfwd, torch.func.jacrev):
        for second in (torch.func.jacfwd, torch.func.jacrev):
            torch.testing.assert_close(second(first(sparse_loss))(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_vmap_over_any_dimension(dim):
    matrix = make()
    x = operand(4, 5, 3).movedim(0, dim)
    expected = matrix.to_dense() @ x.movedim(dim, 0)
    result = torch.func.vmap(lambda each: spmm(matrix, each), in_dims=dim)(x)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-13)


def test_gradient_is_dense_only_in_the_operand():
    matrix, x = make(), operand(5, 3).requires_grad_()
    spmm(matrix, x).sum().backward()
    assert x.grad.layout == torch.strided
    assert matrix.forward.grad is None


def test_symmetric_matrix_is_stored_once():
    ring = np.roll(np.eye(6), 1, axis=0)
    assert SparseMatrix.from_scipy(ring + ring.T).symmetric
    assert not SparseMatrix.from_scipy(ring).symmetric
    assert SparseMatrix.from_scipy(ring).T.T.to_dense().numpy().tolist() == ring.tolist()


def test_duplicates_are_summed():
    coo = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
    assert SparseMatrix.from_scipy(coo).to_dense().tolist() == [[0.0, 3.0], [0.0, 0.0]]


def test_precision_round_trip_loses_nothing():
    matrix = make()
    there = matrix.to(dtype=torch.float32)
    assert there.dtype == torch.float32
    assert spmm(there, operand(5, 3).float()).dtype == torch.float32
    back = there.to(dtype=torch.float64)
    assert torch.equal(back.forward.values(), matrix.forward.values())
    assert matrix.to() is matrix


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda matrix: pickle.loads(pickle.dumps(matrix))])
def test_copies(clone):
    matrix = make().to(dtype=torch.float32)
    twin = clone(matrix)
    assert twin.dtype == torch.float32
    assert torch.equal(twin.to_dense(), matrix.to_dense())


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(4, 2, dtype=torch.float64), r"shape \(..., 5, d\), got \(4, 2\)"),
        (torch.ones(5, dtype=torch.float64), r"got \(5,\)"),
        (torch.ones(5, 2), "got torch.float32"),
        (np.ones((5, 2)), "torch tensor, got ndarray"),
    ],
)
def test_bad_operands_are_refused(x, message):
    with pytest.raises(InputError, match=message):
        spmm(make(), x)


def test_bad_matrices_are_refused():
    with pytest.raises(InputError, match="finite"):
        SparseMatrix.from_scipy(np.array([[np.nan, 1.0]]))
    with pytest.raises(InputError, match="2 dimensions, got 1"):
        SparseMatrix.from_scipy(np.ones(3))


def test_only_the_identity_is_taken_for_it():
    eye = sparse.eye_array(9, format="csr")
    others = [2 * eye, eye[::-1], sparse.csr_array(eye[:5]), renormalized(np.ones((9, 9)))]
    kinds = [type(as_operator(sparse.csr_array(each), device="cpu", dtype=torch.float64)) for each in (eye, *others)]
    assert kinds == [IdentityOperator] + [SparseMatrix] * len(others)
