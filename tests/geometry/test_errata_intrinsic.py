"""The table of corrections in docs/mathematics.md, row by row: intrinsic geometry and projection."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

from fishergcn import datasets
from fishergcn.geometry import intrinsic
from fishergcn.propagation import renormalized


@pytest.fixture(scope="module")
def cora():
    return datasets.load("cora").adjacency


def random_spectrum(n, seed):
    return np.random.default_rng(seed).dirichlet(np.full(n, 0.5))


def random_orthogonal(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def two_components():
    adjacency = np.zeros((7, 7))
    for i, j in [(0, 1), (1, 2), (2, 0), (2, 3), (4, 5), (5, 6)]:
        adjacency[i, j] = adjacency[j, i] = 1
    return adjacency


def squared_distance(a, b):
    """D_B² of two mpmath matrices, exactly as defined."""
    values, vectors = mpmath.eigsy(a)
    root = vectors * mpmath.diag([mpmath.sqrt(max(value, 0)) for value in values]) * vectors.T
    product = root * b * root
    overlap = mpmath.eigsy((product + product.T) / 2, eigvals_only=True)
    return 2 - 2 * sum(mpmath.sqrt(max(value, 0)) for value in overlap)


# Bures metric: the infinitesimal limit, the kernel, the factor 4 -------------------------------------------


@pytest.mark.parametrize("n", [2, 4, 6])
def test_metric_is_the_limit_of_the_squared_distance(n):
    generator = np.random.default_rng(n)
    factor, square = generator.standard_normal((n, n + 2)), generator.standard_normal((n, n))
    with mpmath.workdps(60):
        # Exact rationals, so that trace one and trace zero hold to 60 digits.
        gram = mpmath.matrix((factor @ factor.T).tolist())
        gram = (gram + gram.T) / 2
        rho = gram / sum(gram[i, i] for i in range(n))
        tangent = mpmath.matrix((square + square.T).tolist())
        tangent -= mpmath.eye(n) * (sum(tangent[i, i] for i in range(n)) / n)
        step = mpmath.mpf("1e-14")
        limit = float(squared_distance(rho, rho + step * tangent) / step**2)
        dense_rho = np.array(rho.tolist(), dtype=float)
        dense_tangent = np.array(tangent.tolist(), dtype=float)
    assert intrinsic.bures_metric(dense_rho, dense_tangent) == pytest.approx(limit, rel=1e-10)


def test_on_singular_matrices_the_sum_skips_pairs_in_the_kernel():
    # A rotation of a pure state: the rank stays one and D_B²/t² has a limit, although λ_2 = λ_3 = 0.
    rho, tangent = np.diag([1.0, 0.0, 0.0]), np.zeros((3, 3))
    tangent[0, 1] = tangent[1, 0] = 1.0
    step = 1e-4
    vector = np.array([np.cos(step), np.sin(step), 0.0])
    squared = intrinsic.bures_distance(rho, np.outer(vector, vector)) ** 2
    assert intrinsic.bures_metric(rho, tangent) == 1.0
    assert squared / step**2 == pytest.approx(1.0, rel=1e-7)
    assert intrinsic.kernel_rate(rho, tangent) == 0.0


@pytest.mark.parametrize("step", [1e-3, 1e-5, 1e-7])
def test_where_the_kernel_fills_up_the_squared_distance_grows_linearly(step):
    before, after = np.diag([1.0, 0.0]), np.diag([1 - step, step])
    assert intrinsic.bures_distance(before, after) ** 2 == pytest.approx(step, rel=step)
    assert intrinsic.kernel_rate(before, after - before) == pytest.approx(step, rel=1e-9)


def test_kernel_rate_of_a_general_direction():
    factor = np.random.default_rng(0).standard_normal((6, 3))
    rho, other = factor @ factor.T / np.square(factor).sum(), np.eye(6) / 6
    rate = intrinsic.kernel_rate(rho, other - rho)
    assert rate == pytest.approx(0.5, abs=1e-12)
    squared = intrinsic.bures_distance(rho, (1 - 1e-8) * rho + 1e-8 * other) ** 2
    assert squared / 1e-8 == pytest.approx(rate, rel=1e-5)


def test_quantum_fisher_information_is_four_times_the_metric():
    generator = np.random.default_rng(1)
    factor, square = generator.standard_normal((5, 8)), generator.standard_normal((5, 5))
    rho = factor @ factor.T / np.square(factor).sum()
    tangent = square + square.T - 2 * np.trace(square) / 5 * np.eye(5)
    logarithmic = scipy.linalg.solve_continuous_lyapunov(rho, 2 * tangent)
    fisher = np.trace(rho @ logarithmic @ logarithmic)
    assert fisher / intrinsic.bures_metric(rho, tangent) == pytest.approx(4, rel=1e-11)
    # The block of the eigenvalues is a quarter of the classical Fisher information.
    values = random_spectrum(5, seed=2)
    np.testing.assert_allclose(4 * intrinsic.spectral_metric(values), np.diag(1 / values), rtol=1e-13)


# Theorem 1 and Corollary 2: coordinates --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_metric_splits_into_spectrum_and_rotations_without_cross_terms(seed):
    n = 3 + seed % 4
    generator = np.random.default_rng(seed)
    values, basis = generator.dirichlet(np.full(n, 3.0)), random_orthogonal(n, seed)
    change = generator.standard_normal(n)
    change -= change.mean()
    omega = np.triu(generator.standard_normal((n, n)), 1)
    omega = omega - omega.T
    spin = omega @ np.diag(values) - np.diag(values) @ omega
    tangent = basis @ (np.diag(change) + spin) @ basis.T
    rho = basis @ np.diag(values) @ basis.T
    found = intrinsic.bures_metric((rho + rho.T) / 2, (tangent + tangent.T) / 2)
    spectrum_part = change @ intrinsic.spectral_metric(values) @ change
    rotation_part = (np.triu(intrinsic.rotation_metric(values), 1) * omega**2).sum()
    assert found == pytest.approx(spectrum_part + rotation_part, rel=1e-11)


def test_half_of_a_rotation_is_booked_to_each_vector():
    values = np.array([0.6, 0.3, 0.1])
    costs = intrinsic.rotation_metric(values)
    # du_0 = u_1 Ω_10 and du_1 = u_0 Ω_01: the sum of du_iᵀ G(u_i) du_i over both is the whole cost.
    assert costs[0, 1] / 2 + costs[1, 0] / 2 == pytest.approx((0.6 - 0.3) ** 2 / 0.9, rel=1e-15)
    np.testing.assert_allclose(rotation_traces(values), costs.sum(axis=1) / 2)


def test_log_coordinates_hold_on_the_tangent_of_the_simplex():
    values = random_spectrum(6, seed=3)
    move = np.random.default_rng(3).standard_normal(6)
    move -= values @ move  # Σ e^θ dθ = 0
    exact = intrinsic.bures_metric(np.diag(values), np.diag(values * move))
    assert move @ intrinsic.spectral_metric(values, "log") @ move == pytest.approx(exact, rel=1e-10)
    # Off the tangent the diagonal form is wrong, and the softmax form right.
    shifted = move + 1.0
    assert shifted @ intrinsic.spectral_metric(values, "log") @ shifted > exact + 0.2
    assert shifted @ intrinsic.spectral_metric(values, "softmax") @ shifted == pytest.approx(exact, rel=1e-10)


def test_softmax_metric_ignores_a_shift_and_is_a_quarter_of_a_variance():
    values = random_spectrum(8, seed=4)
    metric = intrinsic.spectral_metric(values, "softmax")
    np.testing.assert_allclose(metric @ np.ones(8), 0, atol=1e-16)
    move = np.random.default_rng(4).standard_normal(8)
    variance = values @ move**2 - (values @ move) ** 2
    assert move @ metric @ move == pytest.approx(variance / 4, rel=1e-12)
    step = 1e-5
    moved = values * np.exp(step * move)
    squared = intrinsic.bures_distance(np.diag(values), np.diag(moved / moved.sum())) ** 2
    assert squared / step**2 == pytest.approx(variance / 4, rel=1e-4)


# Scale of the metric ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_trace_of_the_spectral_metric_on_full_support(seed):
    values = np.random.default_rng(seed).dirichlet(np.ones(6))
    assert np.trace(intrinsic.spectral_metric(values)) >= 36 / 4
    assert np.trace(intrinsic.spectral_metric(np.full(6, 1 / 6))) == pytest.approx(9, rel=1e-14)


@pytest.mark.parametrize("kind", intrinsic.LAPLACIANS)
def test_on_a_disconnected_graph_the_trace_is_finite_and_counts_the_support(kind):
    rho = intrinsic.density_matrix(intrinsic.graph_laplacian(two_components(), kind)).toarray()
    values = np.clip(np.linalg.eigvalsh(rho), 0, None)
    trace = np.trace(intrinsic.spectral_metric(values))
    support = 7 - 2
    assert np.isfinite(trace)
    assert trace >= support**2 / 4
    assert np.count_nonzero(np.diagonal(intrinsic.spectral_metric(values))) == support
    assert intrinsic.von_neumann_entropy(rho) <= np.log(support)


def rotation_traces(values):
    """tr G(u_i) = ½ Σ_j a_ij."""
    return intrinsic.rotation_metric(values).sum(axis=1) / 2


def tight_bounds(values):
    """tr G(u_i) ≤ ½(1 + (n-2)λ_i) and tr G(U) ≤ n - 1/λ_max."""
    n = len(values)
    return (1 + (n - 2) * values) / 2, n - 1 / values.max()


@pytest.mark.parametrize("n", [3, 4, 10, 100])
def test_corollary_3_is_false_at_a_pure_state(n):
    values = np.eye(n)[0]
    traces, (vectors, total) = rotation_traces(values), tight_bounds(values)
    assert traces[0] == (n - 1) / 2 > 0.5
    assert traces.sum() == n - 1 > n / 2
    # There the true bounds are attained.
    np.testing.assert_array_equal(traces, vectors)
    assert traces.sum() == total


def test_corollary_3_is_right_for_two_nodes():
    for seed in range(20):
        traces = rotation_traces(random_spectrum(2, seed))
        assert traces.max() <= 0.5
        assert traces.sum() <= 1


@pytest.mark.parametrize("seed", range(30))
def test_tight_bounds_hold_and_the_total_has_its_closed_form(seed):
    n = 2 + seed % 9
    values = random_spectrum(n, seed)
    traces, (vectors, total) = rotation_traces(values), tight_bounds(values)
    assert (traces <= vectors + 1e-14).all()
    assert (vectors <= (n - 1) / 2 + 1e-14).all() or n == 2
    assert traces.sum() <= total + 1e-13
    assert total <= n - 1 + 1e-13
    sums = values[:, None] + values[None, :]
    assert traces.sum() == pytest.approx(n - 2 * (np.outer(values, values) / sums).sum(), rel=1e-12)


def test_total_bound_is_attained_by_the_flat_spectrum_too():
    values = np.full(5, 0.2)
    assert rotation_traces(values).sum() == 0
    assert tight_bounds(values)[1] == pytest.approx(0, abs=1e-14)


def test_corollary_3_is_false_on_cora(cora):
    rho = intrinsic.density_matrix(intrinsic.graph_laplacian(cora, "combinatorial"))
    values = scipy.linalg.eigvalsh(rho.toarray())
    traces = rotation_traces(values)
    assert traces.max() == pytest.approx(20.3, abs=0.05)
    vectors, total = tight_bounds(values)
    assert (traces <= vectors + 1e-12).all()
    assert traces.sum() <= total


# Scaling all weights ---------------------------------------------------------------------------------------


def weighted_graph():
    generator = np.random.default_rng(5)
    weights = np.triu(generator.uniform(0.5, 2, size=(12, 12)) * (generator.random((12, 12)) < 0.4), 1)
    return weights + weights.T


@pytest.mark.parametrize("kind", ["combinatorial", "normalized", "high-order"])
def test_scaling_all_links_moves_nothing(kind):
    graph = weighted_graph()
    before, after = (intrinsic.density_matrix(intrinsic.graph_laplacian(c * graph, kind)) for c in (1.0, 3.0))
    assert intrinsic.bures_distance(before, after) < 1e-12


def test_scaling_all_links_moves_the_renormalized_graph():
    graph = weighted_graph()
    before, after = (intrinsic.density_matrix(intrinsic.graph_laplacian(c * graph, "renormalized")) for c in (1.0, 3.0))
    assert intrinsic.bures_distance(before, after) > 0.01


# Theorem 4: rank projection --------------------------------------------------------------------------------


def full_rank(n, seed):
    factor = np.random.default_rng(seed).standard_normal((n, n + 1))
    return factor @ factor.T / np.square(factor).sum()


@pytest.mark.parametrize(("n", "rank"), [(4, 1), (5, 2), (6, 3)])
def test_projection_is_the_numerical_minimum(n, rank):
    rho = full_rank(n, seed=n)
    root = scipy.linalg.sqrtm(rho).real
    generator = np.random.default_rng(n)

    def squared(flat):
        """D_B² as a function of a factor of the candidate, and its gradient."""
        norm = np.linalg.norm(flat)
        left, overlaps, right = np.linalg.svd(root @ flat.reshape(n, rank), full_matrices=False)
        gradient = (root @ left @ right).ravel() / norm - overlaps.sum() * flat / norm**3
        return 2 - 2 * overlaps.sum() / norm, -2 * gradient

    starts = generator.standard_normal((6, n * rank))
    found = min(
        (scipy.optimize.minimize(squared, start, jac=True, method="BFGS", options={"gtol": 1e-10}) for start in starts),
        key=lambda outcome: outcome.fun,
    )
    projection = intrinsic.rank_projection(rho, rank)
    assert projection.distance**2 == pytest.approx(found.fun, abs=1e-12)
    factor = found.x.reshape(n, rank) / np.linalg.norm(found.x)
    np.testing.assert_allclose(projection.to_dense(), factor @ factor.T, atol=1e-7)


@pytest.mark.parametrize("rank", range(1, 7))
def test_projection_is_the_renormalized_top_at_the_closed_form_distance(rank):
    rho = full_rank(6, seed=0)
    values, vectors = np.linalg.eigh(rho)
    mass = values[-rank:].sum()
    expected = (vectors[:, -rank:] * (values[-rank:] / mass)) @ vectors[:, -rank:].T
    projection = intrinsic.rank_projection(rho, rank)
    np.testing.assert_allclose(projection.to_dense(), expected, atol=1e-13)
    assert projection.captured_mass == pytest.approx(mass, rel=1e-13)
    assert projection.distance**2 == pytest.approx(2 * (1 - np.sqrt(mass)), abs=1e-13)
    assert intrinsic.bures_distance(rho, projection.to_dense()) == pytest.approx(projection.distance, abs=1e-12)
    assert projection.eigenvalues.sum() == pytest.approx(1, abs=1e-14)
    assert (np.diff(projection.eigenvalues) <= 0).all()


def test_projection_is_unique_exactly_when_there_is_a_gap():
    rho = np.diag([0.4, 0.3, 0.3])
    assert intrinsic.rank_projection(rho, 1).gap == pytest.approx(0.1, abs=1e-15)
    tied = intrinsic.rank_projection(rho, 2)
    assert tied.gap == pytest.approx(0, abs=1e-15)
    for keep in ([0, 1], [0, 2]):
        other = np.zeros((3, 3))
        other[keep, keep] = np.array([0.4, 0.3]) / 0.7
        assert intrinsic.bures_distance(rho, other) == pytest.approx(tied.distance, abs=1e-14)


def test_projection_on_cora_is_nearly_orthogonal_to_the_graph(cora):
    laplacian = intrinsic.graph_laplacian(cora, "renormalized")
    values = scipy.linalg.eigvalsh(laplacian.toarray() / laplacian.trace(), subset_by_index=[2698, 2707])
    mass = values.sum()
    assert mass == pytest.approx(0.00745, abs=5e-6)
    assert np.sqrt(2 * (1 - np.sqrt(mass))) > 0.95 * np.sqrt(2)


def test_large_sparse_projection_agrees_with_the_known_spectrum_of_a_grid():
    from scipy import sparse

    # The Laplacian of a path is diagonalized by cosines, that of a grid by their sums.
    shape = (61, 113)
    paths = [sparse.diags_array([-np.ones(n - 1), np.full(n, 2.0), -np.ones(n - 1)], offsets=[-1, 0, 1]) for n in shape]
    grid = sparse.kronsum(paths[1], paths[0])
    rho = intrinsic.density_matrix(grid)
    assert rho.shape[0] > intrinsic.DENSE_LIMIT
    waves = [2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1)) for n in shape]
    values = np.sort(np.add.outer(*waves).ravel())[::-1]
    values /= values.sum()
    projection = intrinsic.rank_projection(rho, 5)
    np.testing.assert_allclose(projection.eigenvalues, values[:5] / values[:5].sum(), rtol=1e-10)
    assert projection.captured_mass == pytest.approx(values[:5].sum(), rel=1e-10)
    assert projection.gap == pytest.approx(values[4] - values[5], rel=1e-5)
    residual = rho @ projection.eigenvectors - projection.eigenvectors * values[:5]
    assert np.abs(residual).max() < 1e-14


# Entropy and powers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_entropy_falls_with_the_power_at_its_known_rate(seed):
    values = random_spectrum(6, seed)
    rho = np.diag(values)
    omegas = np.linspace(0.25, 6, 12)
    entropies = [intrinsic.von_neumann_entropy(intrinsic.power(rho, omega)) for omega in omegas]
    assert (np.diff(entropies) < 0).all()
    omega, step = 1.5, 1e-5
    weights = values**omega / (values**omega).sum()
    logs = np.log(values)
    expected = -omega * (weights @ logs**2 - (weights @ logs) ** 2)
    ahead, behind = (intrinsic.von_neumann_entropy(intrinsic.power(rho, omega + s)) for s in (step, -step))
    assert (ahead - behind) / (2 * step) == pytest.approx(expected, rel=1e-6)


def test_entropy_of_a_flat_spectrum_does_not_fall():
    flat = np.diag([0.5, 0.5, 0.0])
    assert intrinsic.von_neumann_entropy(intrinsic.power(flat, 9)) == pytest.approx(np.log(2), abs=1e-14)


def test_the_limit_of_powers_is_the_average_over_the_top_eigenspace():
    basis = random_orthogonal(5, seed=6)
    rho = (basis * np.array([0.3, 0.3, 0.2, 0.15, 0.05])) @ basis.T
    limit = basis[:, :2] @ basis[:, :2].T / 2
    np.testing.assert_allclose(intrinsic.power((rho + rho.T) / 2, 400), limit, atol=1e-12)


def test_powers_of_rho_and_of_the_propagation_matrix_run_opposite_ways():
    adjacency = two_components()[:4, :4]
    propagation = renormalized(adjacency).toarray()
    laplacian = np.eye(4) - propagation
    values, vectors = np.linalg.eigh(laplacian)
    signal = np.random.default_rng(0).standard_normal(4)

    def cosine(x, y):
        return abs(x @ y) / np.linalg.norm(x) / np.linalg.norm(y)

    through_rho = intrinsic.power(intrinsic.density_matrix(laplacian), 300) @ signal
    through_propagation = np.linalg.matrix_power(propagation, 300) @ signal
    assert values[0] == pytest.approx(0, abs=1e-14)
    assert cosine(through_rho, vectors[:, -1]) == pytest.approx(1, abs=1e-10)
    assert cosine(through_propagation, vectors[:, 0]) == pytest.approx(1, abs=1e-10)
    assert cosine(through_propagation, vectors[:, -1]) < 1e-8
