"""The Bures mean of graphs, against closed forms, the geodesic, POT and brute force; bounds of many distances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn.errors import ConvergenceError, InputError
from fishergcn.geometry import intrinsic
from fishergcn.geometry.statistics import mean, pairwise, variance


def random_graphs(count: int, nodes: int, share: float = 0.3, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    upper = [np.triu((rng.random((nodes, nodes)) < share) * rng.random((nodes, nodes)), 1) for _ in range(count)]
    return [each + each.T for each in upper]


def density(graph: np.ndarray, geometry: str = "laplacian") -> np.ndarray:
    matrix = intrinsic.graph_laplacian(graph, "combinatorial").toarray()
    if geometry == "pseudoinverse":
        matrix = np.linalg.pinv(matrix, hermitian=True)
    return matrix / np.trace(matrix)


@pytest.mark.parametrize("geometry", ["laplacian", "pseudoinverse"])
def test_mean_of_two_graphs_is_the_midpoint(geometry: str) -> None:
    graphs = random_graphs(2, 20)
    found = mean(graphs, geometry=geometry, tolerance=1e-13)
    middle = intrinsic.geodesic(*(density(graph, geometry) for graph in graphs), 0.5)
    np.testing.assert_allclose(found.matrix(), middle, atol=1e-10)


def test_mean_of_weighted_graphs_lies_on_the_geodesic() -> None:
    graphs = random_graphs(2, 12)
    one, other = (density(graph) for graph in graphs)
    found = mean(graphs, [3.0, 1.0])
    angles = [intrinsic.bures_angle(each, found.density) for each in (one, other)]
    assert abs(sum(angles) - intrinsic.bures_angle(one, other)) < 1e-6
    # The sum of cosines with weights 3 and 1 is largest where 3 sin(one angle) = sin(the other).
    assert abs(3 * np.sin(angles[0]) - np.sin(angles[1])) < 1e-6


def test_mean_of_commuting_graphs_has_the_mean_of_the_roots() -> None:
    shifts = [np.roll(np.eye(11), k, axis=1) for k in (1, 2, 3)]
    rings = [shift + shift.T for shift in shifts]  # circulant: all eigenvectors in common
    weights = np.array([0.5, 0.3, 0.2])
    fourier = np.linalg.eigh(sum(k * ring for k, ring in enumerate(rings, 1)))[1]
    roots = sum(
        w * np.sqrt(np.maximum(np.diag(fourier.T @ density(r) @ fourier), 0))
        for w, r in zip(weights, rings, strict=True)
    )
    wanted = (fourier * roots**2) @ fourier.T
    np.testing.assert_allclose(mean(rings, weights).matrix(), wanted / np.trace(wanted), atol=1e-10)


def test_mean_agrees_with_another_library() -> None:
    gaussian = pytest.importorskip("ot.gaussian")
    graphs = random_graphs(5, 60, share=0.2)
    # Theirs needs full rank: without the common kernel, the constant vector.
    basis = np.linalg.svd(np.ones((1, 60)))[2][1:]
    covariances = np.stack([basis @ density(graph) @ basis.T for graph in graphs])
    weights = np.array([0.4, 0.2, 0.2, 0.1, 0.1])
    _, theirs = gaussian.bures_wasserstein_barycenter(np.zeros((5, 59)), covariances, weights, num_iter=500, eps=1e-14)
    found = basis @ mean(graphs, weights).matrix() @ basis.T
    np.testing.assert_allclose(found, theirs / np.trace(theirs), rtol=0, atol=1e-6 * np.abs(found).max())


def test_nothing_near_the_mean_is_better_and_the_bound_says_so() -> None:
    graphs = random_graphs(4, 10, share=0.5)
    rhos = [density(graph) for graph in graphs]
    found = mean(graphs)
    assert abs(found.variance - np.mean([intrinsic.bures_distance(r, found.matrix()) ** 2 for r in rhos])) < 1e-7
    assert 0 <= found.variance - found.lowest_variance < 1e-7
    assert variance(graphs) == found.variance
    rng = np.random.default_rng(0)
    for size in (0.3, 0.03):
        for _ in range(10):
            move = np.eye(10) + size * rng.standard_normal((10, 10))
            other = move @ found.matrix() @ move.T
            other /= np.trace(other)
            assert np.mean([intrinsic.bures_distance(r, other) ** 2 for r in rhos]) > found.variance
    # A point that is far from the mean has a bound, too, that is below the least variance.
    rough = mean(graphs, tolerance=1.0)
    assert rough.lowest_variance <= found.variance + 1e-9 < rough.variance


def test_fidelities_along_geodesics_and_mixtures() -> None:
    """With angle θ between ρ and τ, F(γ(t), σ) sin θ ≤ F(ρ, σ) sin (1-t)θ + F(τ, σ) sin tθ; F is jointly concave."""
    one, other, third, fourth = (density(graph) for graph in random_graphs(4, 12, share=0.5))
    angle = intrinsic.bures_angle(one, other)
    ends = [intrinsic.fidelity(each, third) for each in (one, other)]
    for time in (0.1, 0.5, 0.8):
        between = intrinsic.geodesic(one, other, time)
        assert intrinsic.bures_angle(one, between) == pytest.approx(time * angle, rel=1e-6)
        most = (np.sin((1 - time) * angle) * ends[0] + np.sin(time * angle) * ends[1]) / np.sin(angle)
        assert intrinsic.fidelity(between, third) < most
        mixed = [(1 - time) * a + time * b for a, b in ((one, other), (third, fourth))]
        parts = intrinsic.fidelity(one, third), intrinsic.fidelity(other, fourth)
        assert intrinsic.fidelity(*mixed) > (1 - time) * parts[0] + time * parts[1]


def test_the_variance_grows_along_every_geodesic_from_the_mean() -> None:
    graphs = random_graphs(5, 12, share=0.5)
    rhos = [density(graph) for graph in graphs]
    found = mean(graphs).matrix()
    for rho in rhos:
        points = [intrinsic.geodesic(found, rho, time) for time in (0.0, 0.1, 0.3, 0.6, 1.0)]
        values = [np.mean([intrinsic.bures_distance(point, each) ** 2 for each in rhos]) for point in points]
        assert (np.diff(values) > 0).all()


def test_extrapolation_saves_iterations_and_ends_at_the_mean() -> None:
    graphs = random_graphs(6, 40, share=0.08)
    found = mean(graphs)
    assert found.iterations <= 17  # 22 without
    assert abs(found.variance - found.lowest_variance) < 1e-8 * found.variance + 1e-8


def test_nodes_may_be_renamed_and_isolated() -> None:
    graphs = random_graphs(3, 12)
    graphs[0][[2, 5]] = graphs[0][:, [2, 5]] = 0.0
    for graph in graphs:
        graph[[7]] = graph[:, [7]] = 0.0
    found = mean(graphs)
    assert found.nodes.tolist() == [node for node in range(12) if node != 7]
    order = np.random.default_rng(1).permutation(12)
    renamed = mean([graph[np.ix_(order, order)] for graph in graphs])
    np.testing.assert_allclose(renamed.matrix(), found.matrix()[np.ix_(order, order)], atol=1e-9)
    links = found.adjacency()
    assert links.shape == (12, 12)
    assert (links.data > 0).all()
    assert links[[7]].nnz == 0


def test_a_graph_is_its_own_mean() -> None:
    [graph] = random_graphs(1, 8, share=0.6)
    found = mean([graph])
    np.testing.assert_allclose(found.matrix(), density(graph), atol=1e-12)
    assert found.variance < 1e-12


def test_bad_input_is_refused() -> None:
    graphs = random_graphs(3, 8, share=0.6)
    with pytest.raises(InputError, match=r"weights\[1\] must be at least 0.0, got -1"):
        mean(graphs, [1, -1, 1])
    with pytest.raises(InputError, match="weights must be one for each graph, 3, got 2"):
        mean(graphs, [1, 1])
    with pytest.raises(InputError, match="weights must not all be zero"):
        mean(graphs, [0, 0, 0])
    with pytest.raises(InputError, match="at least 2 graphs for a variance, got 1"):
        variance(graphs[:1])
    with pytest.raises(ConvergenceError, match="did not converge in 1 iterations: the last one moved it by"):
        mean(graphs, max_iterations=1)


@pytest.mark.parametrize("laplacian", ["combinatorial", pytest.param("normalized", marks=pytest.mark.slow)])
def test_bounds_enclose_exact_distances(laplacian: str, tmp_path) -> None:
    made = random_graphs(5, 70, share=0.12)
    for graph in made[:2]:  # a node that is isolated in some graphs
        graph[4] = graph[:, 4] = 0.0
    graphs = [sparse.csr_array(graph > 0) * 1.0 for graph in made]
    exact = pairwise(graphs, laplacian=laplacian, compute="exact")
    found = pairwise(graphs, laplacian=laplacian, compute="bounds", folder=tmp_path / "distances")
    assert found.method == "bounds"
    assert (found.low <= exact.values).all()
    assert (exact.values <= found.high).all()
    apart = exact.values > 0
    assert 0 < (found.errors[apart] / exact.values[apart]).max() < 4e-3
    assert np.abs(found.values - exact.values).max() < 1e-3 * exact.values.max()
    (tmp_path / "distances" / "row-00000.npz").unlink()
    (tmp_path / "distances" / "row-00001.npz").unlink()
    again = pairwise(graphs, laplacian=laplacian, compute="bounds", folder=tmp_path / "distances", workers=2)
    np.testing.assert_array_equal(again.values, found.values)


def test_bounds_are_for_bures_distances_of_laplacians() -> None:
    with pytest.raises(InputError, match="compute must be 'exact' for measure 'entropy' in geometry 'laplacian', got"):
        pairwise(random_graphs(2, 8), measure="entropy", compute="bounds")


@pytest.mark.parametrize("laplacian", ["combinatorial", "normalized"])
@pytest.mark.parametrize("isolated", [0, 6])
def test_estimated_mean_and_its_certificate_against_dense_algebra(laplacian: str, isolated: int) -> None:
    rng = np.random.default_rng(1)
    graphs = random_graphs(4, 80, share=0.1)
    for graph in graphs:
        gone = rng.choice(80, isolated, replace=False)
        graph[gone] = graph[:, gone] = 0.0
    weights = np.array([1.0, 2.0, 1.0, 0.0])
    found = mean(graphs, weights, laplacian=laplacian, compute="estimate", probes=60)
    tau = found.density.toarray()
    rhos = [intrinsic.graph_laplacian(graph, laplacian).toarray() for graph in graphs]
    rhos = [(rho / np.trace(rho))[np.ix_(found.nodes, found.nodes)] for rho in rhos]
    # The interval of 95% is doubled: four standard errors.
    fidelities = np.array([intrinsic.fidelity(rho, tau) for rho in rhos])
    assert (np.abs(found.fidelities - fidelities) < 2 * found.fidelity_errors).all()
    variance_of_tau = 2 - 2 * float(found.weights @ fidelities)
    assert abs(found.variance - variance_of_tau) < 2 * found.variance_error < 0.3 * variance_of_tau
    # r² = tr EτE with maps T = ρ^½ (ρ^½ τ ρ^½)^-½ ρ^½.
    total = np.zeros_like(tau)
    for weight, rho in zip(found.weights, rhos, strict=True):
        values, vectors = np.linalg.eigh(rho)
        root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
        inner, around = np.linalg.eigh(root @ tau @ root)
        inverse = np.where(inner > 1e-12 * inner[-1], 1 / np.sqrt(np.maximum(inner, 1e-300)), 0.0)
        total += weight * root @ (around * inverse) @ around.T @ root
    apart = total @ tau / float(found.weights @ fidelities) - tau
    values, vectors = np.linalg.eigh(tau)
    kept = values > 1e-12 * values[-1]
    squared = float((np.square(vectors[:, kept].T @ apart.T).sum(axis=1) / values[kept]).sum())
    assert abs(found.residual - np.sqrt(squared)) < 2 * found.residual_error + 0.02 * found.residual
    least = mean(graphs, weights, laplacian=laplacian, tolerance=1e-5)
    if not isolated:  # the step that would follow nearly leads to the mean
        assert abs(intrinsic.bures_distance(tau, least.dense) / found.residual - 1) < 0.15
    assert 0.75 * least.variance < found.lowest_variance < least.variance <= variance_of_tau


def test_estimated_mean_of_one_graph_and_of_sizes_beyond_dense_algebra() -> None:
    [graph] = random_graphs(1, 30)
    alone = mean([graph], compute="estimate", probes=2)
    assert alone.variance < 1e-12
    assert alone.residual < 1e-6
    ring = sparse.diags_array([1.0, 1.0], offsets=[1, -1], shape=(6100, 6100), format="csr")
    chord = sparse.csr_array(ring + sparse.diags_array([0.5, 0.5], offsets=[7, -7], shape=(6100, 6100)))
    found = mean([ring, chord], probes=2, steps=20)
    assert found.method == "estimate"
    assert 0 < found.lowest_variance < found.variance
    links = found.adjacency()
    assert links.nnz == chord.nnz
    assert abs(links.sum() - 1) < 1e-12
    with pytest.raises(InputError, match="too large for a dense matrix"):
        found.matrix()
    with pytest.raises(InputError, match="geometry must be 'laplacian' for an estimated mean"):
        mean([ring, chord], geometry="pseudoinverse")
    with pytest.raises(InputError, match="at most 6000 nodes"):
        mean([ring, chord], compute="exact")
