"""What every operator obeys, whatever it is made of: a dense oracle, places, precisions, derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized
from fishergcn.nn import GCN
from fishergcn.operators import (
    BlockOperator,
    DenseOperator,
    IdentityOperator,
    LinkOperator,
    SparseMatrix,
    SparsePlusLowRank,
    as_operator,
)

NODES, BATCH, WIDTH = 9, 3, 4


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def graph():
    links = np.triu(np.random.default_rng(0).random((NODES, NODES)) < 0.4, 1).astype(float)
    return sparse.csr_array(links + links.T)


def sparse_matrix():
    matrix = renormalized(graph())
    return SparseMatrix.from_scipy(matrix), torch.tensor(matrix.toarray()).expand(BATCH, NODES, NODES)


def low_rank():
    matrix, dense = sparse_matrix()
    basis, c = normal(NODES, 2), normal(BATCH, 2, seed=1)
    return SparsePlusLowRank(matrix, basis, c), dense - torch.einsum("ik,bk,jk->bij", basis, c, basis)


def block():
    matrix, dense = sparse_matrix()
    part = SparseMatrix.from_scipy(matrix.scipy[:5])
    left, right, c = normal(5, 2), normal(NODES, 2, seed=2), normal(BATCH, 2, seed=1)
    return BlockOperator(part, left, right, c), dense[:, :5] - torch.einsum("ik,bk,jk->bij", left, c, right)


def links():
    pairs = sparse.coo_array(sparse.triu(graph(), 1))
    ends = torch.tensor(np.stack(pairs.coords).astype(np.int64))
    kept = (normal(ends.shape[1], BATCH) > -0.5).double()
    added = torch.tensor([[[0, 1, 2]], [[8, 7, 6]]])
    whole = []
    for b in range(BATCH):
        dense = np.zeros((NODES, NODES))
        for t in range(ends.shape[1]):
            dense[ends[0, t], ends[1, t]] += kept[t, b]
        dense[added[0, 0, b], added[1, 0, b]] += 1.0
        whole.append(renormalized(dense + dense.T).toarray())
    return LinkOperator(ends, kept, added, torch.ones(NODES, dtype=torch.float64)), torch.tensor(np.array(whole))


def dense():
    matrix = normal(5, NODES)
    return DenseOperator(matrix), matrix.expand(BATCH, 5, NODES)


def identity():
    operator = as_operator(sparse.eye_array(NODES, format="csr"), device="cpu", dtype=torch.float64)
    return operator, torch.eye(NODES, dtype=torch.float64).expand(BATCH, NODES, NODES)


@pytest.fixture(params=[sparse_matrix, low_rank, block, links, dense, identity], ids=lambda make: make.__name__)
def pair(request):
    """An operator and the dense matrices that it stands for."""
    return request.param()


def test_product_is_that_of_the_dense_matrices(pair):
    operator, whole = pair
    z = normal(NODES, BATCH, WIDTH, seed=5)
    expected = torch.einsum("bij,jbd->ibd", whole, z)
    torch.testing.assert_close(operator.propagate(z), expected, rtol=0, atol=1e-13)
    assert operator.shape == tuple(whole.shape[1:])
    assert (operator.dtype, operator.device) == (torch.float64, torch.device("cpu"))


def test_another_precision(pair):
    operator, whole = pair
    single = operator.to(dtype=torch.float32)
    assert (single.shape, single.dtype, single.device) == (operator.shape, torch.float32, torch.device("cpu"))
    z = normal(NODES, BATCH, WIDTH, seed=5)
    found = single.propagate(z.float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), torch.einsum("bij,jbd->ibd", whole, z), rtol=0, atol=1e-5)
    assert operator.to("cpu").dtype == torch.float64


def test_derivatives(pair):
    operator, _ = pair
    z = normal(NODES, BATCH, 2, seed=5).requires_grad_()

    def squared(z):
        return operator.propagate(z) ** 2

    assert torch.autograd.gradcheck(squared, z, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(squared, z)


def test_a_network_takes_it(pair):
    operator, whole = pair
    if operator.shape[0] != NODES:
        pytest.skip("a network needs a square operator")
    model = GCN(3, (4,), 2, dtype=torch.float64).eval()
    x = normal(NODES, 3)
    found = model(x, operator)
    first, second = model.weights
    expected = whole @ torch.relu(whole @ x @ first) @ second
    torch.testing.assert_close(found.expand_as(expected), expected, rtol=0, atol=1e-12)


def test_only_the_identity_is_taken_for_it():
    eye = sparse.eye_array(NODES, format="csr")
    others = [2 * eye, eye[::-1], sparse.csr_array(eye[:5]), renormalized(graph())]
    kinds = [type(as_operator(sparse.csr_array(each), device="cpu", dtype=torch.float64)) for each in (eye, *others)]
    assert kinds == [IdentityOperator] + [SparseMatrix] * len(others)
