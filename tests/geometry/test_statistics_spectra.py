"""Distances of spectra, against brute force over rotations, copies of graphs, and exact spectra."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import ortho_group

from fishergcn.errors import InputError
from fishergcn.geometry import intrinsic
from fishergcn.geometry.statistics import GraphCollection, pairwise, spectral_distance
from fishergcn.graph import Graph


def random_graph(nodes: int, links: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    upper = np.triu((rng.random((nodes, nodes)) < links / nodes) * rng.random((nodes, nodes)), 1)
    return upper + upper.T


def density(graph: np.ndarray) -> np.ndarray:
    matrix = intrinsic.graph_laplacian(graph, "combinatorial").toarray()
    return matrix / np.trace(matrix)


def test_it_is_the_least_distance_over_rotations() -> None:
    one, other = (random_graph(6, 4, seed) for seed in (0, 1))
    found = spectral_distance([one, other]).values[0, 1]
    rho, sigma = density(one), density(other)
    (_, u), (_, v) = np.linalg.eigh(rho), np.linalg.eigh(sigma)
    best = u @ v.T
    assert abs(found - intrinsic.bures_distance(rho, best @ sigma @ best.T)) < 1e-7
    for turn in ortho_group.rvs(6, size=100, random_state=0):
        assert intrinsic.bures_distance(rho, turn @ sigma @ turn.T) >= found - 1e-9
    assert found <= pairwise([one, other]).values[0, 1]


def test_names_do_not_matter_and_spectra_are_a_metric() -> None:
    graphs = [random_graph(n, 5, n) for n in (9, 12, 12, 20)]
    order = np.random.default_rng(0).permutation(12)
    values = spectral_distance([*graphs, graphs[1][np.ix_(order, order)]]).values
    assert values[1, 4] < 1e-7
    assert (values[:, :, None] + values[None] - values[:, None] >= -1e-9).all()


def test_different_sizes_are_compared_by_copies() -> None:
    one, other = random_graph(4, 3, 0), random_graph(6, 4, 2)
    found = spectral_distance([one, other])
    copies = spectral_distance([np.kron(np.eye(6), one), np.kron(np.eye(4), other)])
    np.testing.assert_allclose(found.values, copies.values, atol=1e-9)
    # An isolated node is a node.
    padded = np.pad(one, ((0, 2), (0, 2)))
    wanted = np.sort(np.linalg.eigvalsh(density(padded))), np.sort(np.linalg.eigvalsh(density(other)))
    roots = [np.sqrt(np.maximum(each, 0)) for each in wanted]
    assert abs(spectral_distance([padded, other]).values[0, 1] - np.linalg.norm(roots[0] - roots[1])) < 1e-7


def test_pseudoinverses_and_named_graphs() -> None:
    one, other = random_graph(7, 5, 0), random_graph(7, 5, 1)
    wanted = []
    for graph in (one, other):
        inverse = np.linalg.pinv(density(graph), hermitian=True)
        wanted.append(np.sqrt(np.maximum(np.linalg.eigvalsh(inverse / np.trace(inverse)), 0)))
    found = spectral_distance({"a": one, "b": other}, geometry="pseudoinverse")
    assert abs(found.values[0, 1] - np.linalg.norm(wanted[0] - wanted[1])) < 1e-7
    assert found.names == ("a", "b")
    apart = [Graph.from_edges([(0, 1), (1, 2)], node_ids=ids) for ids in ("abc", "xyz")]
    assert spectral_distance(apart).values.max() < 1e-7
    assert spectral_distance(GraphCollection([one, other], times=[1, 2])).times == (1.0, 2.0)


@pytest.mark.parametrize("laplacian", ["combinatorial", "normalized"])
def test_estimates_enclose_exact_distances(laplacian: str) -> None:
    graphs = [random_graph(n, links, n) for n, links in ((300, 6), (400, 10), (350, 3))]
    star = np.zeros((250, 250))
    star[0, 1:100] = star[1:100, 0] = 1.0
    exact = spectral_distance([*graphs, star], laplacian=laplacian)
    found = spectral_distance([*graphs, star], laplacian=laplacian, compute="estimate", steps=60)
    assert (exact.method, found.method) == ("exact", "estimate")
    assert (found.low <= exact.values + 1e-7).all()
    assert (exact.values <= found.high + 1e-7).all()
    apart = np.triu_indices(4, 1)
    assert np.abs(found.values - exact.values)[apart].max() < 0.03
    longer = spectral_distance([*graphs, star], laplacian=laplacian, compute="estimate", steps=120)
    assert longer.errors[0, 1] < 0.75 * found.errors[0, 1]


def test_large_graphs_are_estimated() -> None:
    path = sparse.diags_array([np.ones(6999), np.ones(6999)], offsets=[-1, 1]).tocsr()
    ring = path.tolil()
    ring[0, 6999] = ring[6999, 0] = 1.0
    found = spectral_distance([path, ring.tocsr()], probes=2, steps=20)
    assert found.method == "estimate"
    assert found.low[0, 1] == 0
    with pytest.raises(InputError, match="at most 6000 nodes with links for exact spectra, but '0' has 7000"):
        spectral_distance([path, path], compute="exact")


@pytest.mark.parametrize(("graphs", "options", "message"), [
    ([np.ones((2, 2))], {}, "at least 2 graphs for a distance, got 1"),
    ([np.ones((2, 2)), np.zeros((3, 3))], {}, "graph '1' must have a link between two nodes, got none"),
    ([np.ones((2, 2)), -np.ones((3, 3))], {}, "graph '1' must be non-negative"),
    ([np.ones((2, 2))] * 2, {"compute": "estimate", "geometry": "pseudoinverse"}, "compute must be 'exact' for"),
])  # fmt: skip
def test_bad_input_is_refused(graphs, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        spectral_distance(graphs, **options)
