"""The exponential map, its inverse and the congruence theorem, against dense algebra and 50-digit arithmetic."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.geometry import intrinsic

laws = settings(max_examples=40)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 9)
#: Two triangles, a path of two and a node alone: three components with links, and a zero row.
PIECES = scipy.linalg.block_diag(np.ones((3, 3)) - np.eye(3), np.ones((3, 3)) - np.eye(3), np.eye(2)[::-1], [[0.0]])

#: The Laplacians that make a density matrix.
DENSITIES = [kind for kind in intrinsic.LAPLACIANS if kind != "bethe-hessian"]


def density(generator, n, rank=None):
    rank = rank or int(generator.integers(1, n + 1))
    factor = generator.standard_normal((n, rank)) * 10 ** generator.uniform(-1, 0, size=rank)
    return factor @ factor.T / np.square(factor).sum()


def direction(generator, rho, size=0.9):
    """A random X with tr ρX = 0 and I + X p.s.d."""
    n = len(rho)
    x = generator.standard_normal((n, n))
    x = intrinsic.center(rho, x + x.T)
    return size * x / np.abs(np.linalg.eigvalsh(x)).max()


def exact_angle(a, b, digits=50):
    with mpmath.workdps(digits):
        a, b = mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist())
        values, vectors = mpmath.eigsy(a)
        root = vectors * mpmath.diag([mpmath.sqrt(max(value, 0)) for value in values]) * vectors.T
        product = root * b * root
        overlap = sum(
            mpmath.sqrt(max(v, 0)) for v in mpmath.eigsy((product + product.T) / 2, eigvals_only=True)
        ) / mpmath.sqrt(sum(a[i, i] for i in range(a.rows)) * sum(b[i, i] for i in range(a.rows)))
        return float(mpmath.acos(min(overlap, 1)))


@laws
@given(seeds, sizes, st.floats(-1, 1))
def test_the_congruence_theorem(seed, n, t):
    generator = np.random.default_rng(seed)
    rho = density(generator, n)
    x = direction(generator, rho)
    kappa = intrinsic.tangent_norm(rho, x)
    moved = intrinsic.exponential_map(rho, x, t)
    by_hand = (np.eye(n) + t * x) @ rho @ (np.eye(n) + t * x) / (1 + (t * kappa) ** 2)
    np.testing.assert_allclose(moved, by_hand, atol=1e-13)
    assert intrinsic.bures_angle(rho, moved) == pytest.approx(abs(np.arctan(t * kappa)), abs=1e-7)
    distance = intrinsic.bures_distance(rho, moved)
    assert distance**2 == pytest.approx(2 - 2 / np.sqrt(1 + (t * kappa) ** 2), abs=1e-10)
    assert intrinsic.congruence_distance(rho, np.eye(n) + t * x) == pytest.approx(distance, abs=1e-7)


@laws
@given(seeds, sizes, st.floats(0, 1), st.floats(0, 1))
def test_the_path_is_a_geodesic_between_any_two_of_its_points(seed, n, s, t):
    generator = np.random.default_rng(seed)
    rho = density(generator, n)
    x = direction(generator, rho)
    kappa = intrinsic.tangent_norm(rho, x)
    points = [intrinsic.exponential_map(rho, x, time) for time in (s, t)]
    expected = abs(np.arctan(s * kappa) - np.arctan(t * kappa))
    assert intrinsic.bures_angle(*points) == pytest.approx(expected, abs=1e-7)
    end, whole = intrinsic.exponential_map(rho, x), np.arctan(kappa)
    share = np.arctan(s * kappa) / whole
    np.testing.assert_allclose(intrinsic.geodesic(rho, end, share), points[0], atol=1e-7)


@laws
@given(seeds, sizes)
def test_the_logarithm_inverts_the_exponential(seed, n):
    generator = np.random.default_rng(seed)
    a = density(generator, n)
    rank = np.linalg.matrix_rank(a, tol=1e-12)
    b = density(generator, n, int(generator.integers(1, rank + 1)))
    x = intrinsic.logarithmic_map(a, b)
    np.testing.assert_allclose(intrinsic.exponential_map(a, intrinsic.center(a, x)), b, atol=1e-9)
    assert intrinsic.tangent_norm(a, x) == pytest.approx(np.tan(intrinsic.bures_angle(a, b)), rel=1e-8)
    kernel = scipy.linalg.null_space(a, rcond=1e-10)
    assert np.abs(kernel.T @ x @ kernel).max(initial=0) < 1e-8


@laws
@given(seeds, sizes)
def test_the_exponential_inverts_the_logarithm_on_full_rank(seed, n):
    generator = np.random.default_rng(seed)
    rho = density(generator, n, n + 2)
    x = direction(generator, rho)
    np.testing.assert_allclose(intrinsic.logarithmic_map(rho, intrinsic.exponential_map(rho, x)), x, atol=1e-7)


@laws
@given(seeds, sizes)
def test_the_metric_of_the_velocity_is_the_squared_norm(seed, n):
    generator = np.random.default_rng(seed)
    rho = density(generator, n)
    x = direction(generator, rho)
    velocity = rho @ x + x @ rho
    kappa = intrinsic.tangent_norm(rho, x)
    # On a singular ρ the part of X between kernel vectors moves nothing, and neither side sees it.
    assert intrinsic.bures_metric(rho, velocity) == pytest.approx(kappa**2, rel=1e-8)
    lifted = intrinsic.solve_lyapunov(rho, velocity)
    np.testing.assert_allclose(rho @ lifted + lifted @ rho, velocity, atol=1e-12)
    assert intrinsic.tangent_norm(rho, lifted) == pytest.approx(kappa, rel=1e-8)
    step = 1e-5
    slope = (intrinsic.exponential_map(rho, x, step) - intrinsic.exponential_map(rho, x, -step)) / (2 * step)
    np.testing.assert_allclose(slope, velocity, atol=1e-9)


@pytest.mark.parametrize("rank", [3, 5])
def test_angle_against_fifty_digits(rank):
    generator = np.random.default_rng(rank)
    rho = density(generator, 5, rank)
    x = direction(generator, rho)
    for t in (1e-6, 0.3, 1.0):
        move = np.eye(5) + t * x
        expected = exact_angle(rho, move @ rho @ move)
        assert np.arctan(t * intrinsic.tangent_norm(rho, x)) == pytest.approx(expected, rel=1e-9, abs=1e-8)


def test_lyapunov_against_scipy():
    generator = np.random.default_rng(0)
    rho = density(generator, 7, 12)
    right = generator.standard_normal((7, 7))
    right = right + right.T
    expected = scipy.linalg.solve_continuous_lyapunov(rho, right)
    np.testing.assert_allclose(intrinsic.solve_lyapunov(rho, right), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", DENSITIES)
def test_disconnected_graphs_with_diagonal_moves_stay_sparse(kind):
    laplacian = intrinsic.graph_laplacian(PIECES, kind)
    rho = intrinsic.density_matrix(laplacian)
    weights = np.random.default_rng(1).uniform(0.2, 2, size=9)
    x = intrinsic.center(rho, weights)
    moved = intrinsic.exponential_map(rho, x, 0.3)
    assert isinstance(moved, sparse.csr_array)
    assert set(zip(*moved.nonzero(), strict=True)) == set(zip(*rho.nonzero(), strict=True))
    kappa = np.sqrt(rho.diagonal() @ x**2)
    assert intrinsic.tangent_norm(rho, x) == pytest.approx(kappa, rel=1e-14)
    assert intrinsic.bures_angle(rho, moved) == pytest.approx(np.arctan(0.3 * kappa), abs=1e-10)
    for container in (np.diag, sparse.diags_array):
        other = intrinsic.exponential_map(rho, container(x), 0.3)
        np.testing.assert_allclose(other.toarray() if sparse.issparse(other) else other, moved.toarray(), atol=1e-15)
        assert intrinsic.congruence_distance(rho, container(weights)) == pytest.approx(
            intrinsic.congruence_distance(rho, weights), rel=1e-12
        )


def test_a_move_on_links_and_a_move_of_low_rank():
    rho = intrinsic.density_matrix(intrinsic.graph_laplacian(PIECES, "normalized"))
    weights = np.random.default_rng(3).uniform(size=(9, 9))
    on_links = intrinsic.center(rho, sparse.csr_array(0.1 * PIECES * (weights + weights.T)))
    moved = intrinsic.exponential_map(rho, on_links)
    assert isinstance(moved, sparse.csr_array)
    assert intrinsic.bures_distance(rho, moved) == pytest.approx(
        intrinsic.congruence_distance(rho, np.eye(9) + on_links.toarray()), abs=1e-10
    )
    vectors = np.random.default_rng(2).standard_normal((9, 2))
    low_rank = np.eye(9) + vectors @ np.diag([0.1, 0.05]) @ vectors.T
    moved = low_rank @ rho.toarray() @ low_rank
    assert intrinsic.congruence_distance(rho, low_rank) == pytest.approx(
        intrinsic.bures_distance(rho, moved / np.trace(moved)), abs=1e-10
    )


def test_nearby_congruences_lose_no_digits():
    rho = np.diag([0.5, 0.5])
    assert intrinsic.congruence_distance(rho, [1 + 1e-12, 1 - 1e-12]) == pytest.approx(1e-12, rel=1e-3)
    assert intrinsic.congruence_distance(rho, [3.0, 3.0]) == 0


def test_definiteness_counts_on_the_support_alone():
    # The kernel of a pair's Laplacian is (1, 1): M = diag(2, -1) has the mean ½ on the support, and so is fine.
    rho = np.array([[0.5, -0.5], [-0.5, 0.5]])
    moved = np.diag([2.0, -1.0]) @ rho @ np.diag([2.0, -1.0])
    expected = intrinsic.bures_distance(rho, moved / np.trace(moved))
    assert intrinsic.congruence_distance(rho, [2.0, -1.0]) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(InputError, match=r"m must be positive semi-definite.*eigenvalue of -0\.5"):
        intrinsic.congruence_distance(rho, [1.0, -2.0])


def test_large_sparse_matrices():
    n = 7000
    ring = sparse.eye_array(n, k=1) + sparse.eye_array(n, k=1 - n)
    rho = intrinsic.density_matrix(intrinsic.graph_laplacian(sparse.csr_array(ring + ring.T), "combinatorial"))
    x = np.cos(2 * np.pi * np.arange(n) / n)
    assert intrinsic.tangent_norm(rho, x) == pytest.approx(np.sqrt(0.5), rel=1e-12)
    assert intrinsic.exponential_map(rho, x, 0.9).trace() == pytest.approx(1, abs=1e-12)
    on_links = sparse.csr_array(rho / rho.diagonal()[0])
    on_links.setdiag(0)
    assert intrinsic.exponential_map(rho, intrinsic.center(rho, on_links), 0.2).nnz > rho.nnz
    with pytest.raises(InputError, match=r"positive semi-definite.*t must be between -1 and 1"):
        intrinsic.exponential_map(rho, x, 1.5)
    crooked = rho.copy()
    crooked[0, 1] *= 2
    with pytest.raises(InputError, match="rho must be symmetric"):
        intrinsic.exponential_map(crooked, x, 0.5)
    crooked[0, 1] = np.nan
    with pytest.raises(InputError, match="rho must be finite"):
        intrinsic.tangent_norm(crooked, x)
    with pytest.raises(InputError, match="rho must be a square matrix of real numbers"):
        intrinsic.tangent_norm(rho.astype(complex), x)
    with pytest.raises(InputError, match=r"diagonal has an entry of -"):
        intrinsic.congruence_distance(-rho, x)
    with pytest.raises(InputError, match=r"positive semi-definite.*t must be between"):
        intrinsic.exponential_map(rho, intrinsic.center(rho, on_links), 5)


HALF = np.eye(2) / 2


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([2.0, 0.0], r"x must have tr\(rho x\) = 0, got 1; center\(rho, x\)"),
        (np.array([[0.0, 1.0], [0.0, 0.0]]), r"x must be symmetric.*differ by 1"),
        (sparse.csr_array([[0.0, 1.0], [0.0, 0.0]]), r"x must be symmetric.*differ by 1"),
        ([np.nan, 0.0], r"x must be finite, but entry 0 is nan"),
        (np.array([[np.nan, 0.0], [0.0, 0.0]]), r"x must be finite"),
        (sparse.csr_array([[np.inf, 0.0], [0.0, 0.0]]), r"x must be finite"),
        ([1.0, -1.0, 0.0], r"x must be of the size of rho, \(2,\).*got shape \(3,\)"),
        (np.zeros((3, 3)), r"x must be of the size of rho.*got shape \(3, 3\)"),
        (np.zeros((2, 3)), r"x must be a square matrix"),
        (np.array(["a", "b"]), r"x must hold real numbers"),
    ],
)
def test_bad_directions(x, words):
    for call in (intrinsic.exponential_map, intrinsic.tangent_norm):
        with pytest.raises(InputError, match=words):
            call(HALF, x)


def test_what_leaves_the_cone_is_told_how_far_it_may_go():
    with pytest.raises(InputError, match=r"eigenvalue of -1 there; t must be between -1 and 1"):
        intrinsic.exponential_map(HALF, [1.0, -1.0], 2)
    rho = np.diag([0.8, 0.2])
    with pytest.raises(InputError, match=r"eigenvalue of -1 there; t must be between -1 and 0\.25"):
        intrinsic.exponential_map(rho, [1.0, -4.0], 0.5)
    with pytest.raises(InputError, match=r"eigenvalue of -0\.5 there; t must be between -1 and 0\.25"):
        intrinsic.exponential_map(rho, [1.0, -4.0], -1.5)
    intrinsic.exponential_map(rho, [1.0, -4.0], 0.25)
    for t in (np.nan, np.inf):
        with pytest.raises(InputError, match="t must be"):
            intrinsic.exponential_map(HALF, [1.0, -1.0], t)


@pytest.mark.parametrize("n", [5, 600])
def test_a_sparse_matrix_with_a_negative_eigenvalue_is_found(n):
    # Every 2 x 2 minor is fine, and yet the vector of ones has a negative Rayleigh quotient.
    rho = sparse.csr_array((np.eye(n) - 0.6 * (np.ones((n, n)) - np.eye(n))) / n)
    for call in (
        lambda: intrinsic.exponential_map(rho, np.zeros((n, n))),
        lambda: intrinsic.congruence_distance(rho, np.ones(n)),
        lambda: intrinsic.rank_projection(rho, 2),
    ):
        with pytest.raises(InputError, match=r"rho must be positive semi-definite.*eigenvalue"):
            call()


def test_bad_pairs_and_bad_right_sides():
    with pytest.raises(InputError, match=r"rank of a.*ranks are 2 and 1"):
        intrinsic.logarithmic_map(np.diag([1.0, 0.0]), HALF)
    with pytest.raises(InputError, match="orthogonal ranges"):
        intrinsic.logarithmic_map(np.diag([1.0, 0.0]), np.diag([0.0, 1.0]))
    with pytest.raises(InputError, match=r"same shape, got \(2, 2\) and \(3, 3\)"):
        intrinsic.logarithmic_map(HALF, np.eye(3) / 3)
    with pytest.raises(InputError, match=r"right must vanish between vectors of the kernel.*entry of 1"):
        intrinsic.solve_lyapunov(np.diag([1.0, 0.0]), np.diag([0.0, 1.0]))
    with pytest.raises(InputError, match=r"m must not vanish"):
        intrinsic.congruence_distance(HALF, [0.0, 0.0])
    for rho in (np.eye(2), sparse.eye_array(2, format="csr")):
        with pytest.raises(InputError, match="rho must have trace 1"):
            intrinsic.congruence_distance(rho, [1.0, 1.0])
    for rho in (np.diag([1.5, -0.5]), sparse.csr_array(np.diag([1.5, -0.5]))):
        with pytest.raises(InputError, match="rho must be positive semi-definite"):
            intrinsic.tangent_norm(rho, [0.0, 0.0])
