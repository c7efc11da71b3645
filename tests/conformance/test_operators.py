"""What every operator obeys, found by being exported: a dense oracle, derivatives, the transpose, places, networks."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

import fishergcn.operators
from fishergcn import renormalized
from fishergcn.nn import GCN
from fishergcn.operators import (
    BlockOperator,
    CongruenceOperator,
    DenseOperator,
    IdentityOperator,
    LinkOperator,
    NodeBlockOperator,
    Operator,
    PolynomialOperator,
    PooledOperator,
    SparseMatrix,
    SparsePlusLowRank,
)

NODES, PART, BATCH, WIDTH = 9, 5, 3, 4
EXPORTED = {
    each
    for each in vars(fishergcn.operators).values()
    if inspect.isclass(each) and hasattr(each, "propagate") and each is not Operator
}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def adjacency() -> Any:
    links = np.triu(np.random.default_rng(0).random((NODES, NODES)) < 0.4, 1).astype(float)
    return sparse.csr_array(links + links.T)


MATRIX = renormalized(adjacency())
PLAIN = torch.tensor(MATRIX.toarray())
WHOLE, ROWS = SparseMatrix.from_scipy(MATRIX), SparseMatrix.from_scipy(MATRIX[:PART])
BASIS, LEFT = normal(NODES, 2), normal(PART, 2, seed=2)
EYE = torch.eye(NODES, dtype=torch.float64)


@dataclass
class Case:
    """How an operator is made of the tensors that get gradients, and what it stands for, written out.

    ``neutral`` holds tensors that make it the plain matrix.
    """

    kind: type
    make: Callable[..., Any]
    dense: Callable[..., Tensor]
    leaves: tuple[Tensor, ...] = ()
    neutral: tuple[Tensor, ...] | None = None


class Diagonal:
    """A factor of a congruence as a stranger would write it: M = diag(m), m of shape (n, B)."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    def times(self, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        return self.weights.unsqueeze(-1) * dense

    def to(self, device: torch.device, dtype: torch.dtype) -> Diagonal:
        return Diagonal(self.weights.to(device, dtype))


def low_rank(left: Tensor, c: Tensor, right: Tensor) -> Tensor:
    return torch.einsum("ik,bk,jk->bij", left, c, right)


def congruence(m: Tensor, s: Tensor) -> Tensor:
    factors = torch.diag_embed(m.T)
    return EYE - s[:, None, None] * (factors @ (EYE - PLAIN) @ factors)


def polynomial(b: Tensor) -> Tensor:
    powers = torch.stack([EYE, PLAIN, 2 * PLAIN @ PLAIN - EYE])  # T_0, T_1, T_2
    return torch.einsum("ab,aij->bij", b[..., 0], powers)


PAIRS = sparse.coo_array(sparse.triu(adjacency(), 1))
ENDS = torch.tensor(np.stack(PAIRS.coords).astype(np.int64))
ADDED = torch.tensor([[[0, 1, 2]], [[8, 7, 6]]])


def graph_of_links(kept: Tensor, added: Tensor = ADDED) -> Tensor:
    found = []
    for b in range(BATCH):
        links = torch.zeros(NODES, NODES, dtype=torch.float64).index_put((ENDS[0], ENDS[1]), kept[:, b])
        links = links.index_put((added[0, :, b], added[1, :, b]), torch.ones(added.shape[1]).double(), accumulate=True)
        full = links + links.T + EYE
        root = full.sum(1).rsqrt()
        found.append(root[:, None] * full * root)
    return torch.stack(found)


POOL = [SparseMatrix.from_scipy(each) for each in (MATRIX, 2 * MATRIX, MATRIX @ MATRIX)]
CHOSEN = torch.tensor([2, 0, 2])
C, ONES = normal(BATCH, 2, seed=1), torch.ones(BATCH, dtype=torch.float64)
M, S = 1.0 + 0.2 * normal(NODES, BATCH, seed=3), torch.tensor([0.9, 1.0, 1.2], dtype=torch.float64)
PLACE = torch.tensor([1, 4, 0, 8, 3])
UNEVEN = SparseMatrix.from_scipy(sparse.random_array((PART, NODES), density=0.4, rng=np.random.default_rng(4)))
SQUARE = SparseMatrix.from_scipy(sparse.random_array((NODES, NODES), density=0.4, rng=np.random.default_rng(6)))
CASES = {
    "sparse": Case(SparseMatrix, lambda: WHOLE, lambda: PLAIN, (), ()),
    "sparse, rectangular": Case(SparseMatrix, lambda: UNEVEN, UNEVEN.to_dense),
    "low rank": Case(
        SparsePlusLowRank,
        lambda c: SparsePlusLowRank(WHOLE, BASIS, c),
        lambda c: PLAIN - low_rank(BASIS, c, BASIS),
        (C,),
        (torch.zeros_like(C),),
    ),
    "low rank, not symmetric": Case(
        SparsePlusLowRank,
        lambda c: SparsePlusLowRank(SQUARE, BASIS, c),
        lambda c: SQUARE.to_dense() - low_rank(BASIS, c, BASIS),
        (C,),
    ),
    "block": Case(
        BlockOperator,
        lambda c: BlockOperator(ROWS, LEFT, BASIS, c),
        lambda c: PLAIN[:PART] - low_rank(LEFT, c, BASIS),
        (C,),
        (torch.zeros_like(C),),
    ),
    "block of several processes": Case(
        BlockOperator,
        lambda c: BlockOperator(ROWS, LEFT, BASIS, c, lambda moments: 2 * moments),
        lambda c: PLAIN[:PART] - 2 * low_rank(LEFT, c, BASIS),
        (C,),
        (torch.zeros_like(C),),
    ),
    "dense": Case(DenseOperator, DenseOperator, lambda matrix: matrix, (normal(PART, NODES),)),
    "identity": Case(
        IdentityOperator, lambda: IdentityOperator((NODES, NODES), torch.device("cpu"), torch.float64), lambda: EYE
    ),
    "links": Case(
        LinkOperator,
        lambda kept: LinkOperator(ENDS, kept, ADDED, torch.ones(NODES).double()),
        graph_of_links,
        (normal(ENDS.shape[1], BATCH).square(),),
    ),
    "links, none changed": Case(
        LinkOperator,
        lambda kept: LinkOperator(ENDS, kept, ADDED[:, :0], torch.ones(NODES).double()),
        lambda kept: graph_of_links(kept, ADDED[:, :0]),
        ((normal(ENDS.shape[1], BATCH) > -0.5).double(),),
        (torch.ones(ENDS.shape[1], BATCH).double(),),
    ),
    "pooled": Case(
        PooledOperator,
        lambda: PooledOperator(POOL, CHOSEN),
        lambda: torch.stack([POOL[k].to_dense() for k in CHOSEN.tolist()]),
    ),
    "congruence": Case(
        CongruenceOperator,
        lambda m, s: CongruenceOperator(WHOLE, Diagonal(m), s),
        congruence,
        (M, S),
        (torch.ones_like(M), ONES),
    ),
    "polynomial": Case(
        PolynomialOperator,
        lambda: PolynomialOperator(WHOLE, [0.5, -1.0, 2.0]),
        lambda: 0.5 * EYE - PLAIN + 2.0 * (2 * PLAIN @ PLAIN - EYE),
    ),
    "polynomials of a batch": Case(
        PolynomialOperator,
        lambda b: PolynomialOperator(WHOLE, b.unbind(0)),
        polynomial,
        (normal(3, BATCH, 1),),
        (torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)[:, None, None].repeat(1, BATCH, 1),),
    ),
    "nodes of a batch": Case(
        NodeBlockOperator,
        lambda m, s: NodeBlockOperator(SparseMatrix.from_scipy(MATRIX[PLACE.numpy()]), PLACE, m[PLACE], m, s),
        lambda m, s: congruence(m, s)[:, PLACE],
        (M, S),
        (torch.ones_like(M), ONES),
    ),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_every_exported_operator_is_held_to_the_laws() -> None:
    assert {each.kind for each in CASES.values()} == EXPORTED, "give each exported operator a case here"


def oracle(case: Case, leaves: tuple[Tensor, ...], z: Tensor) -> Tensor:
    return torch.einsum("...bij,jbd->ibd", case.dense(*leaves).expand(BATCH, -1, -1), z)


def test_product_and_gradients_are_those_of_the_dense_matrices(case: Case) -> None:
    direction, found = None, []
    for product in (lambda leaves, z: case.make(*leaves).propagate(z), lambda leaves, z: oracle(case, leaves, z)):
        inputs = [each.clone().requires_grad_() for each in (*case.leaves, normal(NODES, BATCH, WIDTH, seed=5))]
        out = product(tuple(inputs[:-1]), inputs[-1])
        direction = normal(*out.shape, seed=6) if direction is None else direction
        found.append((out.detach(), *torch.autograd.grad((out * direction).sum(), inputs)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_derivatives_of_every_kind(case: Case) -> None:
    """Once and twice, in reverse mode and in forward mode, in Z and in what the operator is made of."""
    inputs = [each.clone().requires_grad_() for each in (*case.leaves, normal(NODES, BATCH, 2, seed=5))]

    def squared(*given: Tensor) -> Tensor:
        result: Tensor = case.make(*given[:-1]).propagate(given[-1]) ** 2
        return result

    assert torch.autograd.gradcheck(squared, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(squared, inputs)


def test_the_backward_pass_multiplies_with_the_transpose(case: Case) -> None:
    operator, whole = case.make(*case.leaves), case.dense(*case.leaves).expand(BATCH, -1, -1)
    z = normal(NODES, BATCH, WIDTH, seed=5).requires_grad_()
    y = normal(operator.shape[0], BATCH, WIDTH, seed=6)
    (found,) = torch.autograd.grad((operator.propagate(z) * y).sum(), z)
    torch.testing.assert_close(found, torch.einsum("bij,ibd->jbd", whole, y), rtol=0, atol=1e-12)
    if hasattr(operator, "T"):
        torch.testing.assert_close(operator.T.propagate(y), found, rtol=0, atol=1e-12)
        assert operator.T.shape == operator.shape[::-1]
        z = z.detach()
        torch.testing.assert_close(operator.T.T.propagate(z), operator.propagate(z), rtol=0, atol=0)


def test_shapes_and_places(case: Case) -> None:
    operator, whole = case.make(*case.leaves), case.dense(*case.leaves)
    assert operator.shape == tuple(whole.shape[-2:])
    assert (operator.dtype, operator.device) == (torch.float64, torch.device("cpu"))
    batch = getattr(operator, "batch_shape", ())
    assert math.prod(batch) == (BATCH if batch else 1)
    for width in (1, 17):
        assert operator.propagate(normal(NODES, BATCH, width)).shape == (operator.shape[0], BATCH, width)
    text = repr(operator)
    assert text.startswith(case.kind.__name__ + "(")
    assert "\n" not in text
    assert "float64" in text
    if hasattr(operator, "to_dense"):
        torch.testing.assert_close(operator.to_dense().expand_as(whole), whole, rtol=0, atol=1e-13)


def test_another_precision(case: Case) -> None:
    leaves = [each.clone().requires_grad_() for each in case.leaves]
    operator = case.make(*leaves)
    single = operator.to(dtype=torch.float32)
    assert (single.shape, single.dtype, single.device) == (operator.shape, torch.float32, torch.device("cpu"))
    z = normal(NODES, BATCH, WIDTH, seed=5)
    out = single.propagate(z.float())
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), oracle(case, case.leaves, z), rtol=0, atol=1e-5)
    assert operator.to("cpu").dtype == torch.float64
    back = single.to(dtype=torch.float64).propagate(z)
    torch.testing.assert_close(back, oracle(case, case.leaves, z), rtol=0, atol=1e-5)
    if leaves:  # gradients still flow to what it is made of
        gradients = torch.autograd.grad(out.square().sum(), leaves)
        assert all(float(each.abs().max()) > 0 for each in gradients)


def test_without_a_change_it_is_the_plain_matrix(case: Case) -> None:
    if case.neutral is None:
        pytest.skip("nothing to leave out")
    operator, z = case.make(*case.neutral), normal(NODES, BATCH, WIDTH, seed=5)
    rows = PLACE if case.kind is NodeBlockOperator else torch.arange(operator.shape[0])
    plain = SparseMatrix.from_scipy(MATRIX[rows.numpy()]).propagate(z)
    exact = case.kind in (SparseMatrix, SparsePlusLowRank, BlockOperator, NodeBlockOperator)
    torch.testing.assert_close(operator.propagate(z), plain, rtol=0, atol=0 if exact else 1e-14)


def test_a_network_takes_it(case: Case) -> None:
    operator, whole = case.make(*case.leaves), case.dense(*case.leaves)
    if operator.shape[0] != NODES or (whole.ndim == 3 and not hasattr(operator, "batch_shape")):
        pytest.skip("a network needs a square operator that knows its batch")
    model = GCN(3, (4,), 2, dtype=torch.float64).eval()
    x = normal(NODES, 3)
    found = model(x, operator)
    first, second = model.weights
    expected = whole @ torch.relu(whole @ x @ first) @ second
    torch.testing.assert_close(found.expand_as(expected), expected, rtol=0, atol=1e-12)
