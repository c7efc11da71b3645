"""What every perturbation obeys, found by being exported: draws, means, zero noise, places, derivatives."""

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

import fishergcn.perturbation
from fishergcn import renormalized
from fishergcn.operators import Operator
from fishergcn.perturbation import (
    BlockNeighborhood,
    CongruenceNeighborhood,
    GraphPool,
    LinkNoise,
    Neighborhood,
    Perturbation,
    SpectralAdversary,
    pool_weights,
)

NODES, CPU = 24, torch.device("cpu")
KEYS = torch.tensor([7, 8, 11], dtype=torch.int64)
EXPORTED = {
    each
    for each in vars(fishergcn.perturbation).values()
    if inspect.isclass(each) and issubclass(each, Perturbation) and not inspect.isabstract(each)
}


def graph(nodes: int = NODES, seed: int = 0, share: float = 0.25) -> Any:
    """Weighted links, some self-links, a node without links."""
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((nodes, nodes)) < share, 1) * rng.uniform(0.5, 2.0, (nodes, nodes))
    links[0, 1] = 1.0
    links[4] = links[:, 4] = 0.0
    return sparse.csr_array(links + links.T + np.diag((rng.random(nodes) < 0.3) * 1.5))


ADJACENCY, PROPAGATION = graph(), renormalized(graph())
BASIS = np.random.default_rng(5).standard_normal((NODES, 2)) / 4
PARTS = [renormalized(graph(13, 1)), renormalized(graph(11, 2, 0.5))]


@dataclass
class Case:
    """How a perturbation of some size is made; at size 0 every draw is the graph itself.

    ``unknown`` is the share of the way from the graph to the mean of the draws by which the mean operator may miss it:
    Ã of mean weights is not the mean of Ã, and the links that flipping adds are left out of it altogether.
    """

    kind: type[Perturbation]
    make: Callable[[float], Perturbation]
    size: float
    unknown: float = 0.01


def pool(size: float) -> GraphPool:
    louder = sparse.csr_array(ADJACENCY.toarray() * (1.0 + size * np.random.default_rng(2).random((NODES, NODES))))
    symmetric = (louder + louder.T) / 2
    return GraphPool(ADJACENCY, pool_weights(ADJACENCY, [ADJACENCY, symmetric]), CPU, torch.float64)


def links(flip: bool) -> Callable[[float], LinkNoise]:
    return lambda size: LinkNoise(ADJACENCY, size, flip, CPU, torch.float64)


def congruence(directions: Any, noise: Any = "uniform") -> Callable[[float], CongruenceNeighborhood]:
    return lambda size: CongruenceNeighborhood(PROPAGATION, directions, size, noise)


CASES = {
    "high": Case(Neighborhood, lambda size: Neighborhood(PROPAGATION, 5, size), 5.0),
    "low, gaussian": Case(Neighborhood, lambda size: Neighborhood(PROPAGATION, 5, size, "gaussian", "low"), 2.0),
    "random": Case(Neighborhood, lambda size: Neighborhood(PROPAGATION, 5, size, directions="random"), 5.0),
    "block": Case(BlockNeighborhood, lambda size: BlockNeighborhood(PARTS, 4, size), 2.0),
    "nodes": Case(CongruenceNeighborhood, congruence("nodes"), 0.3),
    "polynomial": Case(CongruenceNeighborhood, congruence("polynomial"), 0.2),
    "links": Case(CongruenceNeighborhood, congruence("links", "gaussian"), 0.2),
    "basis": Case(
        CongruenceNeighborhood, lambda size: CongruenceNeighborhood(PROPAGATION, "nodes", size, basis=BASIS), 0.2
    ),
    "links removed": Case(LinkNoise, links(flip=False), 0.1, unknown=0.25),
    "links flipped": Case(LinkNoise, links(flip=True), 0.1, unknown=1.0),
    "pool": Case(GraphPool, pool, 0.5, unknown=0.06),
}
WITH_COORDINATES = {name: each for name, each in CASES.items() if hasattr(each.kind, "sample")}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture(params=WITH_COORDINATES.values(), ids=WITH_COORDINATES)
def with_coordinates(request: pytest.FixtureRequest) -> Case:
    return request.param


def matrices(operator: Operator, batch: int) -> Tensor:
    """An operator as dense matrices (B, n, n), by multiplying the identity."""
    nodes = operator.shape[0]
    eye = torch.eye(nodes, dtype=operator.dtype)[:, None, :].expand(nodes, batch, nodes).contiguous()
    return operator.propagate(eye).movedim(1, 0)


def test_every_exported_perturbation_is_held_to_the_laws() -> None:
    assert {each.kind for each in CASES.values()} == EXPORTED, "give each exported perturbation a case here"


def test_draws_depend_on_key_and_epoch_alone(case: Case) -> None:
    around = case.make(case.size)
    together = matrices(around.draw(KEYS, 2, 3), 6)
    for run in range(3):
        alone = case.make(case.size)
        alone.draw(KEYS, 4, 1)  # draws before do not matter
        found = matrices(alone.draw(KEYS[run : run + 1], 2, 3), 2)
        torch.testing.assert_close(found, together[2 * run : 2 * run + 2], rtol=0, atol=1e-14)
    assert torch.equal(matrices(around.draw(KEYS, 2, 3), 6), together)
    epochs = torch.cat([matrices(around.draw(KEYS, 2, epoch), 6) for epoch in range(8)])
    assert len(torch.unique(epochs.flatten(1), dim=0)) == (2 if case.kind is GraphPool else len(epochs))


def test_shapes_and_places(case: Case) -> None:
    around = case.make(case.size)
    operator = around.draw(KEYS, 2, 0)
    assert operator.shape == around.propagation.shape == (NODES, NODES)
    assert math.prod(getattr(operator, "batch_shape")) == 6  # noqa: B009
    assert (around.dtype, around.device) == (operator.dtype, operator.device) == (torch.float64, CPU)
    for each in (around.low_rank, around.local):
        assert isinstance(each, bool)
    text = repr(around)
    assert text.startswith(case.kind.__name__ + "(")
    assert "\n" not in text
    assert f"{NODES} nodes" in text


def test_drawn_graphs_are_symmetric(case: Case) -> None:
    around = case.make(case.size)
    for found in (matrices(around.draw(KEYS, 2, 0), 6), matrices(around.mean_operator(), 1)):
        torch.testing.assert_close(found, found.mT, rtol=0, atol=1e-12)


def test_zero_noise_is_the_plain_graph(case: Case) -> None:
    around = case.make(0.0)
    plain = matrices(around.propagation, 1)
    for found in (around.draw(KEYS, 2, 0), around.mean_operator()):
        batch = math.prod(getattr(found, "batch_shape", ()))
        torch.testing.assert_close(matrices(found, batch), plain.expand(batch, -1, -1), rtol=0, atol=1e-14)
    z = torch.randn(NODES, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    if around.low_rank:  # to the bit
        assert torch.equal(around.draw(KEYS, 2, 0).propagate(z), around.propagation.propagate(z))


def test_the_mean_operator_is_the_mean_of_draws(case: Case) -> None:
    around = case.make(case.size)
    drawn = torch.cat([matrices(around.draw(KEYS, 500, epoch), 1500) for epoch in range(4)])
    mean, error = drawn.mean(0), drawn.std(0) * math.sqrt(1 / len(drawn) + 1 / 8192)  # some means are drawn themselves
    found, plain = matrices(around.mean_operator(), 1)[0], around.propagation.to_dense()
    allowed = 5 * error + case.unknown * (mean - plain).abs().max() + 1e-12
    assert ((found - mean).abs() <= allowed).all()
    assert case.unknown == 1.0 or ((plain - mean).abs() > allowed).any()  # which the plain graph is not


def test_another_precision(case: Case) -> None:
    around = case.make(case.size)
    single = around.to(dtype=torch.float32)
    assert (single.dtype, single.device, around.dtype) == (torch.float32, CPU, torch.float64)
    assert type(single) is case.kind
    z = torch.randn(NODES, 6, 3, generator=torch.Generator().manual_seed(0))
    for of in (lambda each: each.draw(KEYS, 2, 0), lambda each: each.mean_operator()):
        low, high = of(single), of(around)
        assert low.dtype == torch.float32
        torch.testing.assert_close(low.propagate(z).double(), high.propagate(z.double()), rtol=1e-5, atol=1e-5)
    back = single.to("cpu", torch.float64).draw(KEYS, 2, 0)
    torch.testing.assert_close(matrices(back, 6), matrices(around.draw(KEYS, 2, 0), 6), rtol=0, atol=1e-14)


class TestCoordinates:
    """The laws of perturbations that have coordinates x, and the adversary on them."""

    def test_gradients_reach_the_coordinates_and_the_shape(self, with_coordinates: Case) -> None:
        around: Any = with_coordinates.make(with_coordinates.size)
        e = around.noise(2, torch.Generator().manual_seed(1))
        x = around.phi(e).requires_grad_()
        shape = torch.full((around.rank,), with_coordinates.size, dtype=torch.float64, requires_grad=True)
        z = torch.randn(NODES, 2, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        z.requires_grad_()

        def product(x: Tensor, z: Tensor) -> Tensor:
            result: Tensor = around.operator(x).propagate(z)
            return result

        assert torch.autograd.gradcheck(product, (x, z))
        assert torch.autograd.gradgradcheck(product, (x, z))
        assert torch.autograd.gradcheck(lambda shape: product(around.phi(e, shape), z.detach()), shape)

    def test_products_are_those_of_the_dense_matrices(self, with_coordinates: Case) -> None:
        around: Any = with_coordinates.make(with_coordinates.size)
        x = around.sample(6, torch.Generator().manual_seed(1))
        found = around.operator(x.view(2, 3, *x.shape[1:]))
        assert found.batch_shape == (2, 3)
        z = torch.randn(NODES, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        expected = torch.einsum("bij,jbd->ibd", found.to_dense().flatten(0, 1), z)
        torch.testing.assert_close(found.propagate(z), expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(matrices(found, 6), found.to_dense().flatten(0, 1), rtol=0, atol=1e-12)
        plain = around.operator()
        torch.testing.assert_close(matrices(plain, 1)[0], around.propagation.to_dense(), rtol=0, atol=0)

    def test_the_trace_is_kept(self, with_coordinates: Case) -> None:
        around: Any = with_coordinates.make(with_coordinates.size)
        dense = around.operator(around.sample(6)).to_dense()
        traces, trace = torch.einsum("bii->b", dense), float(around.propagation.to_dense().trace())
        torch.testing.assert_close(traces, torch.full_like(traces, trace), rtol=0, atol=1e-10)
        assert float(matrices(around.mean_operator(), 1)[0].trace()) == pytest.approx(trace, abs=1e-9)

    def test_noise_has_variance_one_twelfth_and_repeats(self, with_coordinates: Case) -> None:
        first, second = (with_coordinates.make(0.1) for _ in range(2))
        one: Any = first
        other: Any = second
        draw = one.sample(3)
        assert torch.equal(draw, other.sample(3))
        assert not torch.equal(draw, one.sample(3))
        e = one.noise(20_000, torch.Generator().manual_seed(1))
        assert abs(float(e.mean())) < 0.01
        assert abs(float(e.var()) * 12 - 1) < 0.03
        assert torch.equal(
            one.noise(3, torch.Generator().manual_seed(9)), other.noise(3, torch.Generator().manual_seed(9))
        )
        assert torch.equal(
            one.sample(3, torch.Generator().manual_seed(9)), one.phi(one.noise(3, torch.Generator().manual_seed(9)))
        )
        keyed = one.noise_of(KEYS, 500, range(2))
        assert keyed.shape == (2, 3, 500, *e.shape[1:])
        assert abs(float(keyed.var()) * 12 - 1) < 0.1

    def test_an_adversary_takes_it(self, with_coordinates: Case) -> None:
        around: Any = with_coordinates.make(with_coordinates.size)
        adversary = SpectralAdversary(around, samples=3)
        operator: Any = adversary()
        assert operator.batch_shape == (3,)
        operator.propagate(torch.ones(NODES, 3, 1, dtype=torch.float64)).square().sum().backward()
        assert adversary.xi.grad is not None
        assert torch.isfinite(adversary.xi.grad).all()
        assert float(adversary.xi.grad.abs().max()) > 0

    def test_bad_input_is_refused(self, with_coordinates: Case) -> None:
        from fishergcn.errors import InputError

        around: Any = with_coordinates.make(with_coordinates.size)
        shape = around.sample(1).shape[1:]
        with pytest.raises(InputError, match="radius must be at least 0"):
            with_coordinates.make(-0.1)
        with pytest.raises(InputError, match=r"noise must have shape \(\.\.\., "):
            around.phi(torch.zeros(*shape[:-1], shape[-1] + 1))
        with pytest.raises(InputError, match="noise must be finite, got nan"):
            around.phi(np.full(tuple(shape), np.nan))
        with pytest.raises(InputError, match=r"shape must be a number or have shape"):
            around.sample(2, shape=torch.ones(around.rank + 1))
        with pytest.raises(InputError, match="samples must be at least 1, got 0"):
            around.sample(0)
