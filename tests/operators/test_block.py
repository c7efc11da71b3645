"""The rectangular part of a perturbed graph that a layer of a mini-batch multiplies with."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized, top_spectrum
from fishergcn.errors import InputError
from fishergcn.operators import BlockOperator, SparseMatrix, SparsePlusLowRank

NODES = 40


@pytest.fixture(scope="module")
def parts():
    links = sparse.random_array((NODES, NODES), density=0.1, rng=np.random.default_rng(0))
    matrix = renormalized(links + links.T)
    spectrum = top_spectrum(matrix, 3)
    generator = torch.Generator().manual_seed(0)
    coefficients = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    dense = torch.randn(NODES, 2, 5, generator=generator, dtype=torch.float64)
    return matrix, torch.tensor(spectrum.eigenvectors), coefficients, dense


def test_is_the_rectangular_part_of_the_dense_matrix(parts):
    matrix, basis, coefficients, dense = parts
    rows, columns = np.array([1, 8, 30]), np.arange(0, NODES, 2)
    block = SparseMatrix.from_scipy(matrix[rows][:, columns])
    for add in (None, lambda moments: moments):
        operator = BlockOperator(block, basis[rows], basis[columns], coefficients, add)
        found = operator.propagate(dense[columns])
        for b in range(2):
            whole = matrix.toarray() - (basis * coefficients[b]).numpy() @ basis.numpy().T
            expected = whole[np.ix_(rows, columns)] @ dense[columns, b].numpy()
            np.testing.assert_allclose(found[:, b].numpy(), expected, atol=1e-13)


def test_covering_all_nodes_it_is_the_perturbed_graph(parts):
    matrix, basis, coefficients, dense = parts
    whole = SparsePlusLowRank(matrix, basis, coefficients).propagate(dense)
    found = BlockOperator(SparseMatrix.from_scipy(matrix), basis, basis, coefficients).propagate(dense)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-13)


@pytest.mark.parametrize("add", [None, lambda moments: 2 * moments])
def test_derivatives(parts, add):
    matrix, basis, coefficients, dense = parts
    rows, columns = np.arange(4), np.arange(10)
    block = SparseMatrix.from_scipy(matrix[rows][:, columns])

    def product(c, z):
        return BlockOperator(block, basis[rows], basis[columns], c, add).propagate(z)

    inputs = (coefficients.clone().requires_grad_(), dense[:10].clone().requires_grad_())
    assert torch.autograd.gradcheck(product, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(product, inputs)


def test_the_bases_are_constants(parts):
    matrix, basis, coefficients, dense = parts
    left, right = basis.clone().requires_grad_(), basis.clone().requires_grad_()
    out = BlockOperator(SparseMatrix.from_scipy(matrix), left, right, coefficients).propagate(dense)
    assert not out.requires_grad


def test_bases_that_do_not_fit():
    block = SparseMatrix.from_scipy(np.ones((2, 3)))
    with pytest.raises(InputError, match=r"shapes \(2, k\) and \(3, k\), got \(3, 1\) and \(3, 1\)"):
        BlockOperator(block, torch.ones(3, 1), torch.ones(3, 1), torch.ones(1, 1))
