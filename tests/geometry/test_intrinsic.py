"""The intrinsic geometry against independent oracles: qutip, POT, mpmath and plain linear algebra."""

from __future__ import annotations

import mpmath
import numpy as np
import ot
import pytest
import qutip
import scipy.linalg
from scipy import sparse

from fishergcn.geometry import intrinsic


def random_density(n, rank, seed):
    factor = np.random.default_rng(seed).standard_normal((n, rank))
    product = factor @ factor.T
    return product / np.trace(product)


def random_tangent(n, seed):
    square = np.random.default_rng(seed).standard_normal((n, n))
    symmetric = square + square.T
    return symmetric - np.trace(symmetric) / n * np.eye(n)


def exact_distance(a, b, digits=60):
    """D_B in high precision: eigenvalues of a^½ b a^½."""
    with mpmath.workdps(digits):
        a, b = mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist())
        values, vectors = mpmath.eigsy(a)
        root = vectors * mpmath.diag([mpmath.sqrt(max(value, 0)) for value in values]) * vectors.T
        product = root * b * root
        overlap = mpmath.eigsy((product + product.T) / 2, eigvals_only=True)
        traces = sum(a[i, i] + b[i, i] for i in range(a.rows))
        return float(mpmath.sqrt(abs(traces - 2 * sum(mpmath.sqrt(max(value, 0)) for value in overlap))))


PAIRS = [(random_density(n, n, seed), random_density(n, n, seed + 50)) for seed, n in enumerate([2, 3, 5, 8, 20, 40])]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_fidelity_and_distance_agree_with_qutip(a, b):
    left, right = qutip.Qobj(a), qutip.Qobj(b)
    assert intrinsic.fidelity(a, b) == pytest.approx(qutip.fidelity(left, right), abs=1e-11)
    assert intrinsic.bures_distance(a, b) == pytest.approx(qutip.bures_dist(left, right), abs=1e-11)
    assert intrinsic.bures_angle(a, b) == pytest.approx(qutip.bures_angle(left, right), abs=1e-11)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_distance_agrees_with_pot(a, b):
    zeros = np.zeros(len(a))
    expected = ot.gaussian.bures_wasserstein_distance(zeros, zeros, a, b)
    assert intrinsic.bures_distance(a, b) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(("rank_a", "rank_b"), [(3, 5), (2, 2), (1, 8), (1, 1), (7, 8)])
def test_singular_matrices_against_their_known_factors(rank_a, rank_b):
    # The eigenvalues of XXᵀYYᵀ are the squared singular values of XᵀY: no square root of a singular matrix.
    generator = np.random.default_rng(rank_a * 10 + rank_b)
    x, y = generator.standard_normal((8, rank_a)), generator.standard_normal((8, rank_b))
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    overlap = np.linalg.svd(x.T @ y, compute_uv=False).sum()
    a, b = x @ x.T, y @ y.T
    assert intrinsic.fidelity(a, b) == pytest.approx(overlap, abs=1e-12)
    assert intrinsic.bures_distance(a, b) == pytest.approx(np.sqrt(2 - 2 * overlap), abs=1e-12)
    # qutip takes square roots of kernel eigenvalues of 1e-17, so it is the looser one here.
    assert intrinsic.fidelity(a, b) == pytest.approx(qutip.fidelity(qutip.Qobj(a), qutip.Qobj(b)), abs=1e-7)


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9, 1e-12])
def test_nearly_equal_matrices_lose_no_digits_to_cancellation(step):
    a = random_density(5, 12, seed=3)
    b = a + step * random_tangent(5, seed=4) / 20
    distance, expected = intrinsic.bures_distance(a, b), exact_distance(a, b)
    assert abs(distance - expected) < 2e-15 / np.sqrt(np.linalg.eigvalsh(a)[0])
    assert intrinsic.bures_angle(a, b) == pytest.approx(distance, rel=1e-6)


def test_distance_to_itself_is_rounding_noise_also_for_singular_matrices():
    for rank in (1, 3, 30):
        a = random_density(30, rank, seed=rank)
        assert intrinsic.bures_distance(a, a) < 1e-14
        assert intrinsic.fidelity(a, a) == pytest.approx(1, abs=1e-14)
        assert intrinsic.fidelity(a, a) <= 1


def test_commuting_matrices_give_the_hellinger_distance():
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.1, 0.3, 0.5])
    hellinger = np.sqrt(((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2)
    assert intrinsic.bures_distance(np.diag(p), np.diag(q)) == pytest.approx(np.sqrt(2) * hellinger, abs=1e-14)


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, np.ndarray.tolist])
def test_every_container_gives_the_same_numbers(container):
    a, b = random_density(6, 6, seed=1), random_density(6, 4, seed=2)
    assert intrinsic.bures_distance(container(a), container(b)) == intrinsic.bures_distance(a, b)
    assert intrinsic.von_neumann_entropy(container(a)) == intrinsic.von_neumann_entropy(a)
    assert intrinsic.rank_projection(container(a), 2).distance == intrinsic.rank_projection(a, 2).distance


def test_density_matrix_keeps_the_container():
    laplacian = np.array([[2.0, -1, -1], [-1, 1, 0], [-1, 0, 1]])
    dense, kept = intrinsic.density_matrix(laplacian), intrinsic.density_matrix(sparse.csc_array(laplacian))
    assert isinstance(dense, np.ndarray)
    assert isinstance(kept, sparse.csr_array)
    assert kept.nnz == 7
    np.testing.assert_array_equal(kept.toarray(), dense)
    np.testing.assert_array_equal(dense, laplacian / 4)


def test_integers_lists_and_repeated_entries_are_taken_as_they_mean():
    expected = np.array([[0.5, -0.5], [-0.5, 0.5]])
    np.testing.assert_array_equal(intrinsic.density_matrix([[1, -1], [-1, 1]]), expected)
    half = np.array([1, 1, -2, -2, 2])  # entry (0, 0) comes in two parts
    repeated = sparse.csr_array((half, [0, 0, 1, 0, 1], [0, 3, 5]), shape=(2, 2))
    np.testing.assert_array_equal(intrinsic.density_matrix(repeated).toarray(), expected)
    canonical = intrinsic.estimate_entropy(np.array([[2, -2], [-2, 2]]))
    assert intrinsic.estimate_entropy(repeated) == canonical
    assert repeated.nnz == 5  # the caller's matrix is left alone
    assert intrinsic.estimate_entropy(repeated.tolil()) == canonical


def test_one_node():
    assert intrinsic.bures_distance([[1.0]], [[1.0]]) == 0
    assert intrinsic.von_neumann_entropy([[1.0]]) == 0
    assert intrinsic.rank_projection([[1.0]], 1).distance == 0
    assert intrinsic.rotation_metric([1.0]) == 0


# Metric ---------------------------------------------------------------------------------------------------


def test_metric_equals_the_symmetric_logarithmic_derivative():
    rho, tangent = random_density(6, 9, seed=5), random_tangent(6, seed=6)
    # dρ = (ρS + Sρ)/2 is a Lyapunov equation.
    logarithmic = scipy.linalg.solve_continuous_lyapunov(rho, 2 * tangent)
    expected = np.trace(rho @ logarithmic @ logarithmic)
    assert intrinsic.quantum_fisher_matrix(rho, [tangent]) == pytest.approx(expected, rel=1e-11)
    assert intrinsic.bures_metric(rho, tangent) == pytest.approx(expected / 4, rel=1e-11)


def test_metric_is_a_quadratic_form():
    rho, tangent = random_density(5, 9, seed=5), random_tangent(5, seed=6)
    assert intrinsic.bures_metric(rho, np.zeros((5, 5))) == 0
    assert intrinsic.bures_metric(rho, -3 * tangent) == pytest.approx(
        9 * intrinsic.bures_metric(rho, tangent), rel=1e-13
    )


def test_metric_warns_where_it_is_not_the_whole_story():
    with pytest.warns(UserWarning, match="kernel_rate"):
        assert intrinsic.bures_metric(np.diag([1.0, 0.0]), np.diag([-1.0, 1.0])) == 0.25


def test_spectral_metric_transforms_between_its_coordinates():
    values = np.array([0.5, 0.3, 0.15, 0.05])
    jacobian = np.diag(values) - np.outer(values, values)  # dλ / dθ of the softmax
    in_eigenvalues = intrinsic.spectral_metric(values, "eigenvalue")
    np.testing.assert_allclose(
        intrinsic.spectral_metric(values, "softmax"), jacobian.T @ in_eigenvalues @ jacobian, atol=1e-15
    )
    np.testing.assert_allclose(
        intrinsic.spectral_metric(values, "log"),
        np.diag(values) @ in_eigenvalues @ np.diag(values),
        atol=1e-15,
    )


# Geodesic -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank_a", "rank_b"), [(6, 6), (2, 5), (1, 1), (2, 2)])
def test_geodesic_runs_at_constant_speed_through_density_matrices(rank_a, rank_b):
    a, b = random_density(6, rank_a, seed=rank_a), random_density(6, rank_b, seed=rank_b + 20)
    angle = intrinsic.bures_angle(a, b)
    times = np.linspace(0, 1, 5)
    points = [intrinsic.geodesic(a, b, time) for time in times]
    np.testing.assert_allclose(points[0], a, atol=1e-14)
    np.testing.assert_allclose(points[-1], b, atol=1e-14)
    for i, first in enumerate(points):
        assert np.trace(first) == pytest.approx(1, abs=1e-14)
        assert np.linalg.eigvalsh(first)[0] > -1e-15
        for j, second in enumerate(points):
            assert intrinsic.bures_angle(first, second) == pytest.approx(abs(times[i] - times[j]) * angle, abs=1e-7)


def test_geodesic_between_pure_states_is_the_great_circle():
    u, v = np.array([1.0, 0.0, 0.0]), np.array([0.6, 0.8, 0.0])
    angle = np.arccos(0.6)
    w = (np.sin(0.25 * angle) * u + np.sin(0.75 * angle) * v) / np.sin(angle)
    found = intrinsic.geodesic(np.outer(u, u), np.outer(v, v), 0.75)
    np.testing.assert_allclose(found, np.outer(w, w), atol=1e-14)


def test_geodesic_between_equal_and_between_orthogonal_matrices():
    a = random_density(4, 4, seed=1)
    np.testing.assert_allclose(intrinsic.geodesic(a, a, 0.3), a, atol=1e-15)
    halfway = intrinsic.geodesic(np.diag([0.5, 0.5, 0, 0]), np.diag([0, 0, 0.5, 0.5]), 0.5)
    assert intrinsic.bures_angle(halfway, np.diag([0.5, 0.5, 0, 0])) == pytest.approx(np.pi / 4, abs=1e-12)


@pytest.mark.parametrize(("shared", "unique"), [(2, True), (1, False)])
def test_the_path_is_unique_where_the_overlap_has_the_smaller_rank(shared, unique):
    """Both have rank 2; every best Q, turned in what the overlap leaves free, gives a shortest path."""
    x = np.eye(4)[:, :2] / np.sqrt(2)
    y = np.eye(4)[:, [0, 1] if shared == 2 else [0, 2]] @ np.diag([0.8, 0.6])
    a, b = x @ x.T, y @ y.T
    angle, middles = intrinsic.bures_angle(a, b), []
    assert np.linalg.matrix_rank(y.T @ x) == shared
    for sign in (1.0, -1.0):
        turned = y @ np.diag([1.0, sign])  # another Q, as good where the second column meets nothing
        if np.sum(x * turned) == pytest.approx(np.cos(angle), abs=1e-12):
            middles.append((x + turned) @ (x + turned).T)
    middles = [each / np.trace(each) for each in middles]
    for middle in middles:
        assert intrinsic.bures_angle(a, middle) == pytest.approx(angle / 2, abs=1e-12)
        assert intrinsic.bures_angle(middle, b) == pytest.approx(angle / 2, abs=1e-12)
    assert len(middles) == (1 if unique else 2)
    if not unique:
        assert np.abs(middles[0] - middles[1]).max() > 0.1


def test_midpoint_is_halfway():
    a, b = random_density(7, 7, seed=1), random_density(7, 7, seed=2)
    middle = intrinsic.geodesic(a, b, 0.5)
    half = intrinsic.bures_angle(a, b) / 2
    assert intrinsic.bures_angle(a, middle) == pytest.approx(half, abs=1e-12)
    assert intrinsic.bures_angle(middle, b) == pytest.approx(half, abs=1e-12)


# Entropy and powers ---------------------------------------------------------------------------------------


def test_entropy_agrees_with_qutip_and_its_extremes():
    rho = random_density(9, 9, seed=8)
    assert intrinsic.von_neumann_entropy(rho) == pytest.approx(qutip.entropy_vn(qutip.Qobj(rho)), abs=1e-12)
    assert intrinsic.von_neumann_entropy(np.eye(7) / 7) == pytest.approx(np.log(7), abs=1e-14)
    assert intrinsic.von_neumann_entropy(np.diag([1.0, 0.0, 0.0])) == 0.0


def ring_with_chords(n, seed=0):
    generator = np.random.default_rng(seed)
    rows = np.concatenate([np.arange(n), generator.integers(n, size=2 * n)])
    columns = np.concatenate([(np.arange(n) + 1) % n, generator.integers(n, size=2 * n)])
    keep = rows != columns
    upper = sparse.coo_array((np.ones(keep.sum()), (rows[keep], columns[keep])), shape=(n, n)).tocsr()
    upper.data[:] = 1.0
    return upper.maximum(upper.T)


@pytest.mark.parametrize("kind", ["renormalized", "normalized", "combinatorial"])
def test_entropy_estimate_covers_the_exact_value(kind):
    laplacian = intrinsic.graph_laplacian(ring_with_chords(400), kind)
    exact = intrinsic.von_neumann_entropy(intrinsic.density_matrix(laplacian))
    for seed in range(4):
        estimate = intrinsic.estimate_entropy(laplacian, seed=seed)
        assert abs(estimate.value - exact) < 3.5 * estimate.standard_error + 1e-6
        assert 0 < estimate.standard_error < 2e-3


def test_entropy_estimate_repeats_and_its_error_shrinks_with_probes():
    laplacian = intrinsic.graph_laplacian(ring_with_chords(300), "combinatorial")
    assert intrinsic.estimate_entropy(laplacian, seed=5) == intrinsic.estimate_entropy(laplacian, seed=5)
    assert intrinsic.estimate_entropy(laplacian, seed=5) != intrinsic.estimate_entropy(laplacian, seed=6)
    few, many = (intrinsic.estimate_entropy(laplacian, probes=probes).standard_error for probes in (10, 160))
    assert 2 < few / many < 8
    # Scaling the Laplacian changes nothing.
    scaled = intrinsic.estimate_entropy(7 * laplacian, seed=5)
    assert scaled.value == pytest.approx(intrinsic.estimate_entropy(laplacian, seed=5).value, rel=1e-12)


def test_standard_error_is_calibrated():
    laplacian = intrinsic.graph_laplacian(ring_with_chords(200), "combinatorial")
    exact = intrinsic.von_neumann_entropy(intrinsic.density_matrix(laplacian))
    estimates = [intrinsic.estimate_entropy(laplacian, probes=10, seed=seed) for seed in range(60)]
    scores = np.array([(estimate.value - exact) / estimate.standard_error for estimate in estimates])
    assert abs(scores.mean()) < 0.5
    assert 0.7 < scores.std() < 1.5


def test_power_against_matrix_multiplication():
    rho = random_density(5, 5, seed=3)
    cube = rho @ rho @ rho
    np.testing.assert_allclose(intrinsic.power(rho, 3), cube / np.trace(cube), atol=1e-14)
    np.testing.assert_allclose(intrinsic.power(rho, 1), rho, atol=1e-15)
    root = scipy.linalg.sqrtm(rho)
    np.testing.assert_allclose(intrinsic.power(rho, 0.5), root / np.trace(root), atol=1e-13)


def test_power_survives_a_huge_exponent():
    np.testing.assert_allclose(
        intrinsic.power(np.diag([0.3, 0.3, 0.2, 0.2]), 1e6), np.diag([0.5, 0.5, 0, 0]), atol=1e-15
    )


# Laplacians -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", intrinsic.LAPLACIANS)
def test_laplacians_are_positive_semidefinite_with_their_known_kernel(kind):
    adjacency = np.zeros((7, 7))
    for i, j in [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5)]:
        adjacency[i, j] = adjacency[j, i] = 1
    laplacian = intrinsic.graph_laplacian(adjacency, kind)
    values = np.linalg.eigvalsh(laplacian.toarray())
    assert values[0] > -1e-14
    assert (np.abs(values) < 1e-12).sum() == 3  # a triangle, a path and a lone node


def test_laplacians_of_one_link():
    link = np.array([[0.0, 2.0], [2.0, 0.0]])
    shape = np.array([[1.0, -1.0], [-1.0, 1.0]])
    expected = {"combinatorial": 2.0, "normalized": 1.0, "renormalized": 2 / 3, "high-order": None}
    for kind, factor in expected.items():
        laplacian = intrinsic.graph_laplacian(link, kind).toarray()
        np.testing.assert_allclose(laplacian / laplacian[0, 0], shape, atol=1e-14)
        if factor is not None:
            assert laplacian[0, 0] == pytest.approx(factor, abs=1e-14)
