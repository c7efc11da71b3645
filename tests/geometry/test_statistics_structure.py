"""Clusters, scaling, principal components and lines of graphs, against geodesics, brute force and other libraries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from fishergcn.errors import InputError
from fishergcn.geometry import intrinsic
from fishergcn.geometry.statistics import (
    GraphCollection,
    cluster,
    embed,
    geodesic_regression,
    mean,
    pairwise,
    tangent_pca,
)


def random_graphs(count: int, nodes: int, share: float = 0.5, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    upper = [np.triu((rng.random((nodes, nodes)) < share) * rng.random((nodes, nodes)), 1) for _ in range(count)]
    return [each + each.T for each in upper]


def density(graph: np.ndarray) -> np.ndarray:
    matrix = intrinsic.graph_laplacian(graph, "combinatorial").toarray()
    return matrix / np.trace(matrix)


def rings(*weights: float) -> np.ndarray:
    """A circulant graph on 11 nodes; all of them commute."""
    shifts = [np.roll(np.eye(11), k, axis=1) for k in range(1, 1 + len(weights))]
    return sum(w * (shift + shift.T) for w, shift in zip(weights, shifts, strict=True))


@pytest.fixture(scope="module")
def on_a_geodesic() -> list[np.ndarray]:
    """Commuting graphs whose roots lie on a great circle: points of one geodesic, at equal steps."""
    start, end = rings(1.0, 0.6, 0.5, 0.5, 0.5), rings(0.6, 1.0, 0.5, 0.5, 0.5)
    found = []
    for time in (0.0, 0.25, 0.5, 0.75, 1.0):
        point = intrinsic.geodesic(density(start), density(end), time)
        graph = -point
        np.fill_diagonal(graph, 0.0)
        assert graph.min() > -1e-12  # a graph again
        found.append(np.maximum(graph, 0.0))
    return found


@pytest.fixture(scope="module")
def two_kinds() -> GraphCollection:
    """Graphs with two communities, of one kind or another, whose degrees are alike."""
    rng = np.random.default_rng(3)
    graphs = []
    for at in range(10):
        side = np.arange(16) % 2 if at % 3 else np.arange(16) // 8
        upper = np.triu(rng.random((16, 16)) < np.where(np.equal.outer(side, side), 0.8, 0.1), 1)
        graphs.append((upper | upper.T) * 1.0)
    return GraphCollection(graphs)


@pytest.mark.parametrize("around", ["means", "medoids"])
def test_clusters_are_the_planted_ones(two_kinds: GraphCollection, around: str) -> None:
    found = cluster(two_kinds, around=around)
    assert found.labels.tolist() == [1, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    assert found.method == around
    assert found.silhouette > 0.2
    assert all(found.labels[at] == label for label, at in enumerate(found.medoids))


def test_medoids_are_the_best_of_all_choices() -> None:
    from itertools import combinations

    values = pairwise(random_graphs(9, 8)).values
    found = cluster(values, 3)
    wanted = min((values[:, list(each)].min(axis=1) ** 2).sum() for each in combinations(range(9), 3))
    assert abs(found.objective - wanted) < 1e-12
    assert found.distances[found.medoids].tolist() == [0, 0, 0]


def test_silhouettes_are_those_of_scikit_learn(two_kinds: GraphCollection) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    values = pairwise(two_kinds).values
    found = cluster(values, 3)
    np.testing.assert_allclose(
        found.silhouettes, metrics.silhouette_samples(values, found.labels, metric="precomputed"), atol=1e-12
    )


def test_distances_from_means_are_those_of_the_means(two_kinds: GraphCollection) -> None:
    found = cluster(two_kinds, 2, around="means")
    for label in (0, 1):
        members = np.flatnonzero(found.labels == label)
        np.testing.assert_allclose(found.distances[members], mean(two_kinds[members]).distances, atol=1e-6)
    assert cluster(two_kinds, 10).objective < 1e-9  # each graph its own mean
    one = cluster(pairwise(two_kinds), 1)
    assert one.medoids[0] == np.argmin((pairwise(two_kinds).values ** 2).sum(axis=0))


def test_scaling_recovers_points_and_bounds_its_error() -> None:
    points = np.random.default_rng(0).standard_normal((7, 3))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    found = embed(distances, 3)
    again = np.linalg.norm(found.coordinates[:, None] - found.coordinates, axis=2)
    np.testing.assert_allclose(again, distances, atol=1e-12)
    assert abs(found.shares.sum() - 1) < 1e-12
    assert found.error == 0


@pytest.mark.slow
def test_estimated_distances_hold_what_their_error_bars_say() -> None:
    graphs = random_graphs(4, 150, share=0.06)
    exact = pairwise(graphs, compute="exact")
    apart = np.triu_indices(4, 1)
    held = []
    for seed in range(5):
        found = pairwise(graphs, compute="estimate", probes=6, steps=40, seed=seed)
        assert found.method == "estimate"
        assert (found.errors[apart] > 0).all()
        held.extend(((found.low <= exact.values) & (exact.values <= found.high))[apart])
    assert np.mean(held) >= 0.8  # 95% intervals; pairs share their probes
    assert found.errors[apart].max() < 0.15 * exact.values[apart].min()
    rough = embed(found)
    assert np.abs(embed(exact).eigenvalues - rough.eigenvalues).max() <= rough.error


def test_components_of_points_on_a_geodesic(on_a_geodesic: list[np.ndarray]) -> None:
    found = tangent_pca(on_a_geodesic, components=2)
    assert found.shares[0] > 1 - 1e-9
    whole = intrinsic.bures_angle(density(on_a_geodesic[0]), density(on_a_geodesic[-1]))
    scores = found.scores[:, 0] * np.sign(found.scores[-1, 0])
    np.testing.assert_allclose(scores, whole * np.array([-0.5, -0.25, 0, 0.25, 0.5]), atol=1e-6)
    # Unit speed in the Bures metric, and link changes that lead along the geodesic.
    assert abs(intrinsic.bures_metric(found.mean.matrix(), found.tangents[0]) - 1) < 1e-6
    changes = found.link_changes(0) * np.sign(found.scores[-1, 0])
    moved = (on_a_geodesic[3] / on_a_geodesic[3].sum() - on_a_geodesic[1] / on_a_geodesic[1].sum()) / (
        scores[3] - scores[1]
    )
    np.testing.assert_allclose(changes / np.sqrt(found.variances[0]), moved, atol=0.02 * np.abs(moved).max())


def test_norms_of_tangents_are_angles_and_their_products_the_metric() -> None:
    graphs = random_graphs(4, 9)
    found = tangent_pca(graphs, components=3)
    middle = found.mean.matrix()
    for tangent in found.tangents:
        assert abs(np.trace(tangent)) < 1e-10
        assert abs(intrinsic.bures_metric(middle, tangent) - 1) < 1e-8
    assert abs(intrinsic.bures_metric(middle, found.tangents[0] + found.tangents[1]) - 2) < 1e-8
    angles = [intrinsic.bures_angle(density(graph), middle) for graph in graphs]
    # Scores are centered; the center is close to the mean.
    np.testing.assert_allclose(np.linalg.norm(found.scores, axis=1), angles, atol=0.02 * max(angles))
    np.testing.assert_allclose(found.scores.mean(axis=0), 0, atol=1e-10)


def test_links_of_pseudoinverses_are_links_of_graphs() -> None:
    ring = np.roll(np.eye(8), 1, axis=1)
    graphs = []
    for weight in (0.9, 1.0, 1.1):
        graphs.append(ring + ring.T)
        graphs[-1][2, 3] = graphs[-1][3, 2] = weight
    found = tangent_pca(graphs, components=1, geometry="pseudoinverse")
    pairs, changes = found.top_links(0, 1)
    assert pairs.tolist() == [[2, 3]]
    # One standard deviation of 0.1 (2/3)^½ where the degrees have the sum 16, less what that sum grows by.
    assert abs(abs(changes[0]) - 0.1 * np.sqrt(2 / 3) / 16 * (1 - 2 / 16)) < 1e-4
    single = mean([graphs[0]], geometry="pseudoinverse").adjacency().toarray()
    np.testing.assert_allclose(single, graphs[0] / graphs[0].sum(), atol=1e-10)


def test_a_line_through_points_on_a_geodesic_is_that_geodesic(on_a_geodesic: list[np.ndarray]) -> None:
    times = [10.0, 12.0, 14.0, 16.0, 18.0]
    line = geodesic_regression(on_a_geodesic, times)
    assert line.explained > 1 - 1e-7
    for time, graph in zip(times, on_a_geodesic, strict=True):
        np.testing.assert_allclose(line.at(time), density(graph), atol=1e-4)
    whole = intrinsic.bures_angle(density(on_a_geodesic[0]), density(on_a_geodesic[-1]))
    assert abs(line.speed - whole / 8) < 1e-5
    assert line.p_value <= 0.05
    np.testing.assert_allclose(line.at(14.0), line.factor @ line.factor.T, atol=1e-12)


def test_no_other_geodesic_is_closer() -> None:
    graphs = random_graphs(5, 5, share=0.8)
    times = np.arange(5.0)
    line = geodesic_regression(graphs, times)
    matrices = [density(graph) for graph in graphs]
    # Points of the line are of one geodesic: the angle between them is the speed times the time.
    assert abs(intrinsic.bures_angle(line.at(0), line.at(4)) - 4 * line.speed) < 1e-6
    wanted = np.mean([intrinsic.bures_distance(line.at(t), each) ** 2 for t, each in zip(times, matrices, strict=True)])
    assert abs(np.mean(line.distances**2) - wanted) < 1e-9
    roots = [torch.tensor(np.linalg.svd(each)[0] * np.sqrt(np.linalg.svd(each)[1])) for each in matrices]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        given = torch.tensor(flat, requires_grad=True)
        base, move = given.reshape(2, 5, 5)
        base = base / base.norm()
        moved = (move + move.T) @ base
        moved = moved - (moved * base).sum() * base
        speed = moved.norm()
        points = [torch.cos(speed * (t - 2)) * base + torch.sin(speed * (t - 2)) * moved / speed for t in times]
        value = sum(2 - 2 * torch.linalg.svdvals(root.T @ x).sum() for root, x in zip(roots, points, strict=True)) / 5
        value.backward()
        return float(value.detach()), given.grad.numpy()

    rng = np.random.default_rng(0)
    for _ in range(3):
        start = np.concatenate([np.eye(5).ravel() + 0.3 * rng.standard_normal(25), 0.3 * rng.standard_normal(25)])
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
        assert found.fun > np.mean(line.distances**2) - 1e-6


def test_p_values_of_lines_do_not_reject_what_is_random() -> None:
    found = [geodesic_regression(random_graphs(6, 5, seed=s), range(6), permutations=99).p_value for s in range(24)]
    assert 0.3 < np.mean(found) < 0.7


@pytest.mark.parametrize(("call", "message"), [
    (lambda g: cluster(g, 7), "number must be between 1 and 6, got 7"),
    (lambda g: cluster(pairwise(g), 2, around="means"), "around must be 'medoids' where distances alone are given"),
    (lambda g: cluster(g, 2, distances=pairwise(g[:3])), "distances must be those of the 6 graphs, got 3"),
    (lambda g: cluster(g[:1]), "at least 2 graphs for clusters, got 1"),
    (lambda g: embed(pairwise(g), 6), "dimensions must be between 1 and 5, got 6"),
    (lambda g: tangent_pca(g, components=6), "components must be between 1 and 5, got 6"),
    (lambda g: geodesic_regression(g), "times must be given, one for each graph, since the graphs have none"),
    (lambda g: geodesic_regression(g, [1] * 6), "times must not all be equal, got 1 for all graphs"),
    (lambda g: geodesic_regression(g, [1, 2]), "times must be one for each graph, 6, got 2"),
    (lambda g: geodesic_regression(g[:2], [1, 2]), "at least 3 graphs for a line, got 2"),
])  # fmt: skip
def test_bad_input_is_refused(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(random_graphs(6, 5))
