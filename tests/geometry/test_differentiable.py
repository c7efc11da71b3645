"""The torch geometry: values against the NumPy one, derivatives against finite differences and against the metric."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.functional import hessian

from fishergcn.errors import InputError
from fishergcn.geometry import differentiable, intrinsic

#: Two components, a triangle with a tail and a path; no two links alike.
LINKS = torch.tensor([[0, 0, 1, 2, 4, 5], [1, 2, 2, 3, 5, 6]])
WEIGHTS = torch.tensor([1.0, 0.7, 1.3, 0.4, 2.0, 0.9], dtype=torch.float64)
OTHER = torch.tensor([0.8, 1.1, 1.0, 0.6, 1.5, 1.2], dtype=torch.float64)
FUNCTIONS = {
    "fidelity": differentiable.fidelity,
    "distance": differentiable.bures_distance,
    "squared": differentiable.squared_bures_distance,
    "geodesic": lambda a, b: differentiable.geodesic(a, b, 0.3),
    "entropy": lambda a, b: differentiable.von_neumann_entropy(a) - differentiable.von_neumann_entropy(b),
}


def random_density(n, rank, seed, count=None, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    shape = (n, rank) if count is None else (count, n, rank)
    root = torch.randn(shape, generator=generator, dtype=torch.float64)
    return differentiable.density_matrix(root @ root.mT).to(dtype)


def of_weights(weights, kind="normalized"):
    """The density matrix of a graph as a function of its link weights; the kernel of a normalized one turns."""
    size = 7
    adjacency = torch.zeros(size, size, dtype=weights.dtype)
    adjacency = adjacency.index_put((LINKS[0], LINKS[1]), weights) + adjacency.index_put((LINKS[1], LINKS[0]), weights)
    degree = adjacency.sum(1)
    if kind == "combinatorial":
        return differentiable.density_matrix(torch.diag(degree) - adjacency)
    added = 1.0 if kind == "renormalized" else 0.0
    scale = (degree + added).rsqrt()
    return differentiable.density_matrix(scale[:, None] * (torch.diag(degree) - adjacency) * scale)


KINDS = ["combinatorial", "normalized", "renormalized"]


@pytest.mark.parametrize(("rank_a", "rank_b"), [(6, 6), (2, 5), (5, 2), (1, 1), (3, 3)])
def test_values_are_those_of_numpy(rank_a, rank_b):
    a, b = random_density(6, rank_a, 1), random_density(6, rank_b, 2)
    left, right = a.numpy(), b.numpy()
    assert differentiable.fidelity(a, b).item() == pytest.approx(intrinsic.fidelity(left, right), abs=1e-12)
    assert differentiable.bures_distance(a, b).item() == pytest.approx(intrinsic.bures_distance(left, right), abs=1e-12)
    assert differentiable.von_neumann_entropy(a).item() == pytest.approx(intrinsic.von_neumann_entropy(left), abs=1e-12)
    for t in (0.0, 0.3, 1.0):
        found = differentiable.geodesic(a, b, t).numpy()
        np.testing.assert_allclose(found, intrinsic.geodesic(left, right, t), atol=1e-10)


def test_nearly_equal_matrices_lose_no_digits():
    a = random_density(5, 9, 3)
    tangent = torch.diag(torch.tensor([1.0, -1.0, 0.0, 0.0, 0.0], dtype=torch.float64))
    for step in (1e-4, 1e-8, 1e-12):
        b = a + step * tangent
        expected = intrinsic.bures_distance(a.numpy(), b.numpy())
        assert differentiable.bures_distance(a, b).item() == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batches_are_their_members_one_by_one(name, dtype):
    function = FUNCTIONS[name]
    ranks = torch.stack([random_density(5, rank, 4) for rank in (1, 3, 5, 5)]).to(dtype)
    other = random_density(5, 4, 5).to(dtype)
    together = function(ranks.requires_grad_(), other)
    assert together.dtype == dtype
    apart = torch.stack([function(each, other) for each in ranks])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)
    together.sum().backward()
    assert ranks.grad.isfinite().all()
    grid = function(ranks.detach()[:, None], torch.stack([other, ranks.detach()[2]]))
    assert grid.shape[:2] == (4, 2)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_empty_batch_stays_empty(name):
    empty = torch.empty(0, 3, 3)
    assert FUNCTIONS[name](empty, empty).shape[0] == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_is_float64_up_to_rounding(name):
    a, b = random_density(6, 6, 6), random_density(6, 8, 7)
    exact, rounded = (FUNCTIONS[name](a.to(dtype), b.to(dtype)) for dtype in (torch.float64, torch.float32))
    torch.testing.assert_close(rounded.double(), exact, rtol=1e-4, atol=1e-5)


# Derivatives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_derivatives_at_full_rank_with_repeated_eigenvalues(name):
    function = FUNCTIONS[name]

    def of_roots(x, y):
        return function(*(differentiable.density_matrix(root @ root.mT) for root in (x, y)))

    flat = torch.eye(3, dtype=torch.float64).requires_grad_()
    root = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    assert gradcheck(of_roots, (flat, root))
    assert gradgradcheck(of_roots, (flat, root))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_derivatives_in_the_links_of_a_disconnected_graph(name, kind):
    def of_links(x, y):
        return FUNCTIONS[name](of_weights(x, kind), of_weights(y, kind))

    weights = (WEIGHTS.clone().requires_grad_(), OTHER.clone().requires_grad_())
    assert gradcheck(of_links, weights)
    assert gradgradcheck(of_links, weights)


def test_two_derivatives_between_matrices_of_different_rank():
    full = random_density(7, 9, 8)
    weights = WEIGHTS.clone().requires_grad_()
    for name, function in FUNCTIONS.items():
        assert gradcheck(lambda x, f=function: f(of_weights(x), full), (weights,)), name
        assert gradgradcheck(lambda x, f=function: f(of_weights(x), full), (weights,)), name
        assert gradgradcheck(lambda x, f=function: f(full, of_weights(x)), (weights,)), name


def test_two_derivatives_of_geodesics_in_time_also_close_to_their_start():
    for near in (OTHER, WEIGHTS):
        time = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
        ends = (WEIGHTS.clone().requires_grad_(), near.clone().requires_grad_())

        def point(x, y, t):
            return differentiable.geodesic(of_weights(x), of_weights(y), t)

        assert gradcheck(point, (*ends, time))
        assert gradgradcheck(point, (*ends, time))


@pytest.mark.parametrize("kind", KINDS)
def test_at_zero_distance_the_second_derivative_is_the_metric(kind):
    weights = WEIGHTS.clone().requires_grad_()
    same = of_weights(WEIGHTS, kind)
    assert gradcheck(lambda x: differentiable.squared_bures_distance(of_weights(x, kind), same), (weights,))
    assert gradgradcheck(lambda x: differentiable.squared_bures_distance(of_weights(x, kind), same), (weights,))
    curvature = hessian(lambda x: differentiable.squared_bures_distance(of_weights(x, kind), same), WEIGHTS)
    slopes = torch.autograd.functional.jacobian(lambda x: of_weights(x, kind), WEIGHTS).movedim(-1, 0)
    expected = intrinsic.quantum_fisher_matrix(same.numpy(), list(slopes.numpy())) / 2
    np.testing.assert_allclose(curvature.numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_of_torch(name):
    def of_links(x):
        return FUNCTIONS[name](of_weights(x), of_weights(OTHER)).square().sum()

    expected = hessian(of_links, WEIGHTS)
    torch.testing.assert_close(torch.func.jacrev(torch.func.jacrev(of_links))(WEIGHTS), expected)
    torch.testing.assert_close(
        torch.func.grad(of_links)(WEIGHTS), torch.autograd.functional.jacobian(of_links, WEIGHTS)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rank", [1, 3, 6])
def test_values_and_derivatives_at_zero_distance_are_finite(rank, dtype):
    a = random_density(6, rank, 9, dtype=dtype).requires_grad_()
    for name, function in FUNCTIONS.items():
        (slope,) = torch.autograd.grad(function(a, a.detach()).sum(), a, create_graph=True)
        (curvature,) = torch.autograd.grad(slope.square().sum(), a, allow_unused=True)
        assert slope.isfinite().all(), name
        assert curvature is None or curvature.isfinite().all(), name
    distance = differentiable.bures_distance(a, a.detach())
    assert distance.item() < 1e-6 if dtype == torch.float32 else distance.item() < 1e-14


def test_orthogonal_ranges_are_finite():
    up = torch.diag(torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64)).requires_grad_()
    down = torch.diag(torch.tensor([0.0, 0.0, 0.5, 0.5], dtype=torch.float64))
    assert differentiable.fidelity(up, down).item() == pytest.approx(0, abs=1e-15)
    for function in FUNCTIONS.values():
        value = function(up, down)
        (slope,) = torch.autograd.grad(value.sum(), up)
        assert value.isfinite().all()
        assert slope.isfinite().all()
    halfway = differentiable.geodesic(up, down, 0.5).detach().numpy()
    assert intrinsic.bures_angle(halfway, down.numpy()) == pytest.approx(np.pi / 4, abs=1e-12)


def test_where_the_overlap_loses_its_rank_the_fidelity_has_a_corner():
    """Pure states a = e₁e₁ᵀ and b(t) of (sin t, cos t): F = |sin t|, with slopes -1 and 1 on both sides of 0."""
    up = torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64))

    def fidelity(angle):
        turned = torch.stack([torch.sin(angle), torch.cos(angle)])
        return differentiable.fidelity(up, torch.outer(turned, turned))

    for sign in (-1.0, 1.0):
        angle = torch.tensor(sign * 1e-3, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(fidelity(angle), angle)
        assert slope.item() == pytest.approx(sign, abs=1e-5)


def test_a_distance_can_be_descended_to_zero():
    goal = of_weights(OTHER)
    weights = WEIGHTS.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights], max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=0, tolerance_change=0
    )

    def closure():
        optimizer.zero_grad()
        loss = differentiable.squared_bures_distance(of_weights(weights), goal)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert differentiable.bures_distance(of_weights(weights), goal).item() < 1e-5


# Input ----------------------------------------------------------------------------------------------------

HALF = torch.eye(2) / 2


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (torch.tensor([[0.5, 0.1], [0.0, 0.5]]), r"a must be symmetric.*0\.1"),
        (torch.full((2, 2), torch.nan), "a must be finite"),
        (torch.eye(2), r"a must have trace 1.*off by 1"),
        (torch.diag(torch.tensor([1.5, -0.5])), r"a must be positive semi-definite.*-0\.5"),
        (torch.ones(2, 3), r"shape \(\.\.\., n, n\)"),
        (torch.ones(2), r"shape \(\.\.\., n, n\)"),
        (torch.eye(2, dtype=torch.int64), "float32 or float64 tensor, got torch.int64"),
        (np.eye(2) / 2, "float32 or float64 tensor, got ndarray"),
        (HALF.to_sparse(), "a must be a dense tensor"),
        (torch.eye(3) / 3, r"of one size, got \(3, 3\) and \(2, 2\)"),
        (HALF.double(), "one dtype and one device"),
    ],
)
def test_bad_matrices(matrix, words):
    for call in (differentiable.fidelity, differentiable.bures_distance, differentiable.squared_bures_distance):
        with pytest.raises(InputError, match=words):
            call(matrix, HALF)


def test_other_bad_input():
    with pytest.raises(InputError, match="leading dimensions that broadcast"):
        differentiable.fidelity(HALF.expand(2, 2, 2), HALF.expand(3, 2, 2))
    with pytest.raises(InputError, match="positive trace"):
        differentiable.density_matrix(torch.zeros(2, 2))
    with pytest.raises(InputError, match="rho must be positive semi-definite"):
        differentiable.von_neumann_entropy(torch.diag(torch.tensor([1.5, -0.5])))
    for t in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="t must be between 0 and 1"):
            differentiable.geodesic(HALF, HALF, t)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_a_gpu(name):
    a, b = (random_density(6, rank, rank, count=3).requires_grad_() for rank in (4, 6))
    here, there = FUNCTIONS[name](a, b), FUNCTIONS[name](a.cuda(), b.cuda())
    torch.testing.assert_close(there.cpu(), here, rtol=1e-9, atol=1e-10)
    slopes = [torch.autograd.grad(value.sum(), (a, b)) for value in (here, there)]
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-6, atol=1e-8)
