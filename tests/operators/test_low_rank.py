"""The structured operator against its dense form: products, derivatives of every kind, zero coefficients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.operators import SparseMatrix, SparsePlusLowRank, spmm

N, K, D = 12, 3, 4
BATCHES = [(), (5,), (2, 3)]


def random_sparse(n=N, seed=0):
    """Not symmetric, with empty rows: the operator must not lean on a property of propagation matrices."""
    return sparse.csr_array(sparse.random_array((n, n), density=0.2, rng=np.random.default_rng(seed)))


def make(batch=(), n=N, k=K, seed=0, requires_grad=False, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(n, k, dtype=torch.float64, generator=generator)
    coefficients = torch.randn(*batch, k, dtype=torch.float64, generator=generator)
    matrix = SparseMatrix.from_scipy(random_sparse(n, seed), dtype=dtype)
    return SparsePlusLowRank(matrix, basis, coefficients.to(dtype).requires_grad_(requires_grad))


def dense_form(operator):
    """S - Σ_a c_a u_a u_aᵀ, written out."""
    outer = torch.einsum("ia,ja->aij", operator.basis, operator.basis)
    return operator.sparse.to_dense() - torch.einsum("...a,aij->...ij", operator.coefficients, outer)


def operand(*shape, seed=1):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("batch", BATCHES)
def test_product_equals_dense_form(batch):
    operator = make(batch)
    dense = dense_form(operator)
    torch.testing.assert_close(operator.to_dense(), dense, rtol=0, atol=1e-13)
    assert operator.shape == (N, N)
    assert operator.batch_shape == batch
    for z in (operand(N, D), operand(*batch, N, D)):
        torch.testing.assert_close(operator @ z, dense @ z, rtol=0, atol=1e-12)
        torch.testing.assert_close(operator.T @ z, dense.mT @ z, rtol=0, atol=1e-12)
    vector = operand(N)
    torch.testing.assert_close(operator @ vector, dense @ vector, rtol=0, atol=1e-12)


def test_single_operator_takes_a_batch_of_operands():
    operator, z = make(), operand(5, N, D)
    torch.testing.assert_close(operator @ z, dense_form(operator) @ z, rtol=0, atol=1e-12)


def test_batches_broadcast():
    operator, z = make((2, 3)), operand(3, N, D)
    torch.testing.assert_close(operator @ z, dense_form(operator) @ z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("batch", BATCHES)
def test_numpy_in_numpy_out(batch):
    operator = make(batch, requires_grad=True)
    z = operand(N, D)
    product = operator @ z.numpy()
    assert isinstance(product, np.ndarray)
    assert np.array_equal(product, (operator @ z).detach().numpy())


def test_scipy_and_numpy_parts_are_accepted():
    plain = random_sparse()
    basis, c = np.eye(N)[:, :2], np.array([0.5, -1.0])
    expected = plain.toarray() - basis @ np.diag(c) @ basis.T
    assert np.abs(SparsePlusLowRank(plain, basis, c).to_dense().numpy() - expected).max() < 1e-15


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("shared", [True, False])
def test_gradcheck(batch, shared):
    matrix = SparseMatrix.from_scipy(random_sparse(6))
    basis = operand(6, 2, seed=2)
    c = operand(*batch, 2, seed=3).requires_grad_()
    z = operand(*(() if shared else batch), 6, 2, seed=4).requires_grad_()

    def product(c, z):
        return SparsePlusLowRank(matrix, basis, c) @ z

    assert torch.autograd.gradcheck(
        product, (c, z), check_forward_ad=True, check_batched_grad=False, check_batched_forward_grad=False
    )
    assert torch.autograd.gradgradcheck(product, (c, z), check_fwd_over_rev=True)


def test_forward_mode_and_vmap_equal_the_dense_jacobian():
    operator, z = make(), operand(N, D)
    outer = torch.einsum("ia,ja->aij", operator.basis, operator.basis)

    def product(c):
        return SparsePlusLowRank(operator.sparse, operator.basis, c) @ z

    expected = -torch.einsum("aij,jd->ida", outer, z)
    forward = torch.func.jacfwd(product)(operator.coefficients)
    reverse = torch.func.jacrev(product)(operator.coefficients)
    torch.testing.assert_close(forward, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(reverse, expected, rtol=0, atol=1e-12)
    batch = operand(4, K)
    looped = torch.stack([product(c) for c in batch])
    torch.testing.assert_close(torch.func.vmap(product)(batch), looped, rtol=0, atol=1e-13)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("own", [True, False])
def test_vmap_over_operands_and_coefficients(batch, own):
    operator = make()
    c = operand(4, *batch, K, seed=2)
    z = operand(4, *(batch if own else ()), N, D, seed=3)

    def product(c, z):
        return SparsePlusLowRank(operator.sparse, operator.basis, c) @ z

    for in_dims, pick in (
        ((0, 0), lambda i: (c[i], z[i])),
        ((0, None), lambda i: (c[i], z[0])),
        ((None, 0), lambda i: (c[0], z[i])),
    ):
        mapped = [value if dim == 0 else value[0] for value, dim in zip((c, z), in_dims, strict=True)]
        looped = torch.stack([product(*pick(i)) for i in range(4)])
        result = torch.func.vmap(product, in_dims=in_dims)(*mapped)
        torch.testing.assert_close(result, looped, rtol=0, atol=1e-12)


def test_nested_derivatives_equal_those_of_the_dense_form():
    operator, z = make((2,)), operand(N, 2)
    outer = torch.einsum("ia,ja->aij", operator.basis, operator.basis)

    def structured(c):
        return ((SparsePlusLowRank(operator.sparse, operator.basis, c) @ z) ** 3).sum()

    def dense(c):
        return (((operator.sparse.to_dense() - torch.einsum("ma,aij->mij", c, outer)) @ z) ** 3).sum()

    expected = torch.func.hessian(dense)(operator.coefficients)
    scale = float(expected.abs().max())
    for first in (torch.func.jacfwd, torch.func.jacrev):
        for second in (torch.func.jacfwd, torch.func.jacrev):
            computed = second(first(structured))(operator.coefficients)
            torch.testing.assert_close(computed, expected, rtol=0, atol=1e-12 * scale)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**16),
    batch=st.sampled_from(BATCHES),
    shared=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    columns=st.integers(1, 70),
)
def test_zero_coefficients_are_bit_for_bit_the_plain_product(seed, batch, shared, dtype, columns):
    operator = make(batch, n=40, k=10, seed=seed, dtype=dtype)
    zero = SparsePlusLowRank(operator.sparse, operator.basis, torch.zeros_like(operator.coefficients))
    z = operand(*(() if shared else batch), 40, columns, seed=seed).to(dtype)
    z[..., ::3, :] = -0.0  # signed zeros are where a sum can lose a bit
    plain = spmm(operator.sparse, z)
    bits = torch.int32 if dtype == torch.float32 else torch.int64
    product = zero @ z
    assert torch.equal(product.view(bits), plain.expand_as(product).contiguous().view(bits))


@pytest.mark.parametrize(
    ("basis", "coefficients", "message"),
    [
        (np.ones((N + 1, 2)), np.ones(2), rf"basis must have shape \({N}, k\), got \({N + 1}, 2\)"),
        (np.ones((N, 2)), np.ones(3), r"coefficients must have shape \(..., 2\).* got \(3,\)"),
        (np.ones((N, 2)), np.array(1.0), "coefficients must have shape"),
    ],
)
def test_shapes_that_differ_are_refused(basis, coefficients, message):
    with pytest.raises(InputError, match=message):
        SparsePlusLowRank(random_sparse(), basis, coefficients)


def test_wrong_operands_are_refused():
    operator = make()
    with pytest.raises(InputError, match=r"shape \(..., 12, d\), got \(5, 2\)"):
        operator @ torch.ones(5, 2, dtype=torch.float64)
    with pytest.raises(InputError, match=r"torch.float64 on cpu.*got torch.float32"):
        operator @ torch.ones(N, 2)
    with pytest.raises(TypeError):
        operator @ "graph"
    with pytest.raises(TypeError):
        np.ones((2, N)) @ operator
    with pytest.raises(InputError, match="square"):
        SparsePlusLowRank(sparse.csr_array((3, 4)), np.ones((3, 1)), np.ones(1))


def test_a_basis_that_requires_a_gradient_is_refused():
    """It is a constant: beside another leaf in the loss, nobody would notice that it gets none."""
    basis = torch.eye(N, dtype=torch.float64)[:, :2].requires_grad_()
    coefficients = torch.ones(2, dtype=torch.float64)
    with pytest.raises(InputError, match="The basis must not require a gradient, since it would get none"):
        SparsePlusLowRank(random_sparse(), basis, coefficients)
    SparsePlusLowRank(random_sparse(), basis.detach(), coefficients)
