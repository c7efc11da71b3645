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


def test_covering_all_nodes_it_is_the_perturbed_graph(parts):
    matrix, basis, coefficients, dense = parts
    whole = SparsePlusLowRank(matrix, basis, coefficients).propagate(dense)
    found = BlockOperator(SparseMatrix.from_scipy(matrix), basis, basis, coefficients).propagate(dense)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-13)


def test_the_bases_are_constants(parts):
    matrix, basis, coefficients, dense = parts
    left, right = basis.clone().requires_grad_(), basis.clone().requires_grad_()
    out = BlockOperator(SparseMatrix.from_scipy(matrix), left, right, coefficients).propagate(dense)
    assert not out.requires_grad


def test_bases_that_do_not_fit():
    block = SparseMatrix.from_scipy(np.ones((2, 3)))
    with pytest.raises(InputError, match=r"shapes \(2, k\) and \(3, k\), got \(3, 1\) and \(3, 1\)"):
        BlockOperator(block, torch.ones(3, 1), torch.ones(3, 1), torch.ones(1, 1))
