"""Neighborhoods of graphs against dense linear algebra."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fishergcn
from fishergcn.errors import InputError
from fishergcn.perturbation import Neighborhood, PerturbationWarning


def random_graph(n=300, degree=4, seed=0):
    """Several components: the largest holds most nodes, isolated nodes are left over."""
    rng = np.random.default_rng(seed)
    links = sparse.random_array((n, n), density=degree / n / 2, rng=rng)
    adjacency = ((links + links.T) > 0).astype(float).tolil()
    adjacency.setdiag(0)
    return sparse.csr_array(adjacency)


@pytest.fixture(scope="module", params=["renormalized", "high_order"])
def propagation(request):
    return getattr(fishergcn, request.param)(random_graph())


@pytest.fixture(scope="module")
def neighborhood(propagation):
    return Neighborhood(propagation)


def laplacians(neighborhood, phi):
    operator = neighborhood.operator(phi)
    return np.eye(operator.shape[0]) - operator.to_dense().numpy()


def trace_scaled(propagation, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerturbationWarning)
        return Neighborhood(propagation, scale="trace", **options)


def bures(a, b):
    """D_B by its definition: sqrt(2 (1 - tr sqrt(√a b √a)))."""
    values, vectors = np.linalg.eigh(a)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    inner = np.linalg.eigvalsh(root @ b @ root)
    inner[inner < 1e-12 * inner.max()] = 0.0  # the kernel: the root would blow up its rounding errors
    return math.sqrt(max(0.0, 2 * (1 - np.sqrt(inner).sum())))


def large_moves(neighborhood, samples=6, seed=3):
    """Far enough that nothing holds to first order only."""
    return neighborhood.sample(samples, torch.Generator().manual_seed(seed), shape=1.5)


@pytest.mark.parametrize("directions", ["high", "low"])
def test_trace_kernel_and_definiteness_are_kept(propagation, directions):
    neighborhood = Neighborhood(propagation, directions=directions)
    plain = np.eye(300) - propagation.toarray()
    values, vectors = np.linalg.eigh(plain)
    kernel = vectors[:, values < 1e-9]
    assert kernel.shape[1] > 1
    for laplacian in laplacians(neighborhood, large_moves(neighborhood)):
        assert abs(np.trace(laplacian) - np.trace(plain)) < 1e-11
        assert np.abs(laplacian @ kernel).max() < 1e-10
        assert np.linalg.eigvalsh(laplacian)[0] >= -1e-10
        assert np.abs(laplacian - plain).max() > 1e-3


def test_spectrum_on_the_basis_is_the_closed_form(neighborhood):
    phi = large_moves(neighborhood)
    w = neighborhood.spectrum.eigenvalues
    q = torch.softmax(torch.tensor(np.log(w / w.sum())) + phi, dim=-1).numpy()
    basis = neighborhood.spectrum.eigenvectors
    for laplacian, q_j in zip(laplacians(neighborhood, phi), q, strict=True):
        assert np.abs(basis.T @ laplacian @ basis - np.diag(w.sum() * q_j)).max() < 1e-9
    assert np.abs(neighborhood.perturbed_eigenvalues(phi).numpy() - w.sum() * q).max() < 1e-12
    assert np.abs(neighborhood.coefficients(phi).numpy() - w.sum() * (q - w / w.sum())).max() < 1e-12


@pytest.mark.parametrize("directions", ["high", "low"])
def test_distance_is_the_bures_distance(propagation, directions):
    neighborhood = Neighborhood(propagation, directions=directions)
    phi = large_moves(neighborhood, samples=3)
    plain = np.eye(300) - propagation.toarray()
    rho = plain / np.trace(plain)
    for distance, laplacian in zip(neighborhood.distance(phi), laplacians(neighborhood, phi), strict=True):
        # The definition loses half the digits (a root of a difference), so compare the squares.
        assert abs(float(distance) ** 2 - bures(rho, laplacian / np.trace(laplacian)) ** 2) < 1e-12
    s, lam = neighborhood.captured_mass, neighborhood.projected_spectrum
    q = neighborhood.perturbed_eigenvalues(phi) / neighborhood.spectrum.eigenvalues.sum()
    closed = 2 * s * (1 - (lam * q).sqrt().sum(-1))
    torch.testing.assert_close(neighborhood.distance(phi) ** 2, closed, rtol=1e-10, atol=1e-15)


def test_distance_keeps_its_digits_near_zero(neighborhood):
    """D_B² ≈ (s/4) Var_λ̄(φ), down to moves whose square is below machine precision."""
    lam = neighborhood.projected_spectrum
    phi = 1e-9 * torch.linspace(-1, 1, neighborhood.rank, dtype=torch.float64)
    variance = (lam * phi**2).sum() - (lam * phi).sum() ** 2
    expected = (neighborhood.captured_mass / 4 * variance).sqrt()
    torch.testing.assert_close(neighborhood.distance(phi), expected, rtol=1e-8, atol=0)
    phi = torch.zeros(neighborhood.rank, dtype=torch.float64, requires_grad=True)
    neighborhood.distance(phi).backward()
    assert torch.isfinite(phi.grad).all()


@settings(max_examples=30)
@given(shift=st.floats(-600, 600), seed=st.integers(0, 2**16))
def test_shift_along_one_changes_nothing(shift, seed):
    neighborhood = Neighborhood(fishergcn.renormalized(random_graph(60, seed=1)), rank=5)
    phi = neighborhood.sample(3, torch.Generator().manual_seed(seed))
    rounding = 1e-15 * (1 + abs(shift))
    assert (neighborhood.coefficients(phi + shift) - neighborhood.coefficients(phi)).abs().max() < 10 * rounding
    constant = torch.full((5,), shift, dtype=torch.float64)
    assert torch.equal(neighborhood.coefficients(constant), torch.zeros(5, dtype=torch.float64))


def test_radius_zero_is_the_plain_graph(propagation):
    neighborhood = Neighborhood(propagation, radius=0.0)
    phi = neighborhood.sample(5)
    assert torch.count_nonzero(phi) == 0
    assert torch.count_nonzero(neighborhood.coefficients(phi)) == 0
    assert torch.count_nonzero(neighborhood.distance(phi)) == 0
    z = torch.randn(300, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plain = neighborhood.operator() @ z
    assert torch.equal(neighborhood.operator(phi) @ z, plain.expand(5, 300, 8))
    assert torch.equal(plain, neighborhood.propagation @ z)


@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_noise_has_variance_one_twelfth(neighborhood, kind):
    other = Neighborhood.from_spectrum(neighborhood.propagation.scipy, neighborhood.spectrum, noise=kind, radius=0.3)
    e = other.noise(40_000, torch.Generator().manual_seed(1))
    assert e.shape == (40_000, 10)
    assert (e.mean(0).abs() < 0.01).all()
    assert (e.var(0) * 12 - 1).abs().max() < 0.04
    assert bool((e.abs() <= 0.5).all()) == (kind == "uniform")
    phi = other.phi(e)
    expected = 0.3 * e / torch.tensor(other.spectrum.eigenvalues / other.spectrum.eigenvalues.sum()).sqrt()
    torch.testing.assert_close(phi, expected, rtol=1e-14, atol=0)


def test_gradients_flow_from_operator_to_shape(neighborhood):
    shape = torch.full((10,), 0.5, dtype=torch.float64, requires_grad=True)
    e = neighborhood.noise(2, torch.Generator().manual_seed(0))
    z = torch.randn(300, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def loss(shape):
        return ((neighborhood.operator(neighborhood.phi(e, shape)) @ z) ** 3).sum()

    assert torch.autograd.gradcheck(loss, shape, check_forward_ad=True)
    for function in (neighborhood.coefficients, neighborhood.perturbed_eigenvalues, neighborhood.distance):
        phi = neighborhood.phi(e).detach().requires_grad_()
        assert torch.autograd.gradcheck(function, phi, check_forward_ad=True)


def test_trace_scale_warns_and_multiplies_by_the_trace(propagation, neighborhood):
    with pytest.warns(PerturbationWarning, match="not positive semi-definite"):
        literal = Neighborhood(propagation, scale="trace")
    phi = large_moves(neighborhood)
    ratio = literal.coefficients(phi) / neighborhood.coefficients(phi)
    torch.testing.assert_close(ratio, torch.full_like(ratio, 1 / literal.captured_mass), rtol=1e-12, atol=0)
    values = np.stack([np.linalg.eigvalsh(laplacian) for laplacian in laplacians(literal, phi)])
    expected = literal.perturbed_eigenvalues(phi).numpy()
    assert (expected.min(1) < 0).all()
    assert np.abs(values[:, 0] - expected.min(1)).max() < 1e-9
    with pytest.raises(InputError, match=r"positive semi-definite, got the eigenvalue -"):
        literal.distance(phi)


def test_trace_scale_has_the_bures_distance_while_it_is_a_density_matrix(propagation):
    literal = trace_scaled(propagation)
    phi = 1e-2 * literal.captured_mass * torch.linspace(-1, 1, 10, dtype=torch.float64)
    plain = np.eye(300) - propagation.toarray()
    moved = laplacians(literal, phi)
    expected = bures(plain / np.trace(plain), moved / np.trace(moved))
    assert abs(float(literal.distance(phi)) ** 2 - expected**2) < 1e-12


def test_random_directions_keep_what_they_can(propagation):
    neighborhood = Neighborhood(propagation, directions="random", seed=2)
    u, w = neighborhood.spectrum.eigenvectors, neighborhood.spectrum.eigenvalues
    plain = np.eye(300) - propagation.toarray()
    values, vectors = np.linalg.eigh(plain)
    kernel = vectors[:, values < 1e-9]
    assert np.abs(u.T @ u - np.eye(10)).max() < 1e-12
    assert np.abs(u.T @ kernel).max() < 1e-8
    assert np.abs(np.einsum("ia,ij,ja->a", u, plain, u) - w).max() < 1e-12
    phi = large_moves(neighborhood, samples=3)
    for laplacian, expected in zip(
        laplacians(neighborhood, phi), neighborhood.perturbed_eigenvalues(phi).numpy(), strict=True
    ):
        assert abs(np.trace(laplacian) - np.trace(plain)) < 1e-11
        assert np.abs(laplacian @ kernel).max() < 1e-8
        assert np.abs(np.einsum("ia,ij,ja->a", u, laplacian, u) - expected).max() < 1e-11
    with pytest.raises(InputError, match="got 'random'"):
        neighborhood.distance(phi)
    again = Neighborhood(propagation, directions="random", seed=2).spectrum.eigenvectors
    other = Neighborhood(propagation, directions="random", seed=3).spectrum.eigenvectors
    assert np.array_equal(again, u)
    assert not np.allclose(other, u)


def test_precision_and_sharing(propagation, neighborhood):
    single = neighborhood.to(dtype=torch.float32)
    phi = large_moves(neighborhood)
    assert single.operator(phi).dtype == torch.float32
    assert neighborhood.operator(phi).dtype == torch.float64
    assert torch.equal(single.coefficients(phi), neighborhood.coefficients(phi))
    shared = Neighborhood.from_spectrum(propagation, neighborhood.spectrum, radius=0.2)
    assert shared.spectrum is neighborhood.spectrum
    assert shared.rank == 10
    assert math.isclose(shared.captured_mass, shared.spectrum.eigenvalues.sum() / shared.spectrum.trace)


def test_numpy_coordinates_are_taken(neighborhood):
    phi = large_moves(neighborhood)
    assert torch.equal(neighborhood.coefficients(phi.numpy()), neighborhood.coefficients(phi))
    assert torch.equal(neighborhood.distance(phi.numpy()), neighborhood.distance(phi))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"rank": 400}, "rank must be between 1 and"),
        ({"radius": -0.1}, "radius must be at least 0.0, got -0.1"),
        ({"radius": math.nan}, "radius must be finite"),
        ({"noise": "normal"}, "noise must be one of 'uniform', 'gaussian'"),
        ({"directions": "top"}, "directions must be one of"),
        ({"scale": "sum"}, "scale must be one of"),
        ({"directions": "random", "rank": 300}, "rank must be less than the size of the largest component"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Neighborhood(fishergcn.renormalized(random_graph()), **options)


def test_bad_arrays_are_refused(neighborhood):
    with pytest.raises(InputError, match=r"phi must have shape \(..., 10\), got \(3,\)"):
        neighborhood.coefficients(torch.zeros(3))
    with pytest.raises(InputError, match=r"phi must be finite, got nan at index \(1, 2\)"):
        neighborhood.coefficients(np.where(np.arange(20).reshape(2, 10) == 12, np.nan, 0.0))
    with pytest.raises(InputError, match=r"shape must be a number or have shape \(10,\), got \(4,\)"):
        neighborhood.sample(2, shape=torch.ones(4))
    with pytest.raises(InputError, match="samples must be at least 1, got 0"):
        neighborhood.sample(0)
    with pytest.raises(InputError, match="propagation must be square"):
        Neighborhood(np.ones((2, 3)))
    with pytest.raises(InputError, match="propagation must be symmetric"):
        Neighborhood(np.array([[0.0, 1.0], [0.0, 0.0]]), rank=1)
    with pytest.raises(InputError, match="spectrum must be that of the propagation matrix, of 2 nodes"):
        Neighborhood.from_spectrum(np.full((2, 2), 0.5), neighborhood.spectrum)


def test_kernel_directions_are_refused():
    square = fishergcn.renormalized(np.roll(np.eye(4), 1, 0) + np.roll(np.eye(4), -1, 0))
    values, vectors = np.linalg.eigh(np.eye(4) - square.toarray())
    whole = fishergcn.Spectrum(values[::-1], vectors[:, ::-1], values.sum(), 0.0)
    with pytest.raises(InputError, match=r"positive eigenvalue.*direction 3; choose rank at most 3"):
        Neighborhood.from_spectrum(square, whole)
