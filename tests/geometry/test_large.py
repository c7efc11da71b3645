"""Distances of large graphs, against dense algebra on graphs that are just small enough for it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.geometry import intrinsic
from fishergcn.graph import Graph

#: The Laplacians that make a density matrix.
DENSITIES = [kind for kind in intrinsic.LAPLACIANS if kind != "bethe-hessian"]
estimated = partial(intrinsic.graph_distance, compute="estimate")


def random_graph(n, links, seed):
    ends = np.random.default_rng(seed).integers(0, n, size=(links, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    half = sparse.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    graph = sparse.csr_array(half + half.T)
    graph.data[:] = 1.0
    return graph


def rewired(graph, gone, new=0, seed=0):
    """A copy that lacks some links and has some new ones."""
    generator = np.random.default_rng(seed)
    upper = sparse.triu(graph, 1).tocoo()
    kept = np.sort(generator.permutation(upper.nnz)[gone:])
    rows, columns = (index[kept] for index in upper.coords)
    ends = generator.integers(0, graph.shape[0], size=(new, 2))
    ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
    rows, columns = np.concatenate([rows, ends[:, 0]]), np.concatenate([columns, ends[:, 1]])
    half = sparse.coo_array((np.ones(rows.size), (rows, columns)), shape=graph.shape).tocsr()
    half.data[:] = 1.0
    return sparse.csr_array(half + half.T)


def exact(a, b, kind):
    return intrinsic.bures_distance(
        *(intrinsic.density_matrix(intrinsic.graph_laplacian(each, kind)) for each in (a, b))
    )


#: 500 nodes, many without links, many components.
SPARSE = random_graph(500, 600, seed=0)
#: 500 nodes in one component.
DENSE = random_graph(500, 2500, seed=1)


@pytest.mark.parametrize("kind", DENSITIES)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (SPARSE, random_graph(500, 600, seed=2)),
        (DENSE, SPARSE),
        (DENSE, rewired(DENSE, 100)),
        (DENSE, rewired(DENSE, 100, 100)),
        (SPARSE, rewired(SPARSE, 60)),
        (SPARSE, rewired(SPARSE, 0, 60)),
        (SPARSE, rewired(SPARSE, 30, 30)),
    ],
    ids=["other", "sparser", "gone", "rewired", "gone in pieces", "joined pieces", "rewired pieces"],
)
def test_estimates_agree_with_dense_algebra(a, b, kind):
    found, expected = estimated(a, b, kind, probes=40), exact(a, b, kind)
    assert found.method == "probes"
    squared = (2 * found.standard_error + found.bias) * 2
    # Four standard errors: this is one of many.
    assert abs(found.distance**2 - expected**2) < 2 * squared
    assert found.fidelity == pytest.approx(1 - expected**2 / 2, abs=0.01)
    assert found.distance == pytest.approx(expected, rel=0.1)
    assert found.distance_interval[0] < found.distance < found.distance_interval[1]


@pytest.mark.parametrize("kind", ["renormalized", "normalized", "combinatorial"])
@pytest.mark.parametrize("graph", [SPARSE, DENSE], ids=["pieces", "whole"])
@pytest.mark.parametrize(("gone", "new"), [(1, 0), (0, 1), (3, 0), (2, 2)])
def test_a_few_links_are_exact(graph, gone, new, kind):
    other = rewired(graph, gone, new)
    found = estimated(graph, other, kind)
    assert found.method == "low rank"
    assert found.standard_error == 0
    assert found.distance == pytest.approx(exact(graph, other, kind), rel=1e-5)


def test_a_changed_weight_is_exact_and_equal_graphs_are_equal():
    other = DENSE.copy()
    i, j = other.nonzero()
    other[i[0], j[0]] = other[j[0], i[0]] = 1.5
    found = estimated(DENSE, other)
    assert found.distance == pytest.approx(exact(DENSE, other, "renormalized"), rel=1e-5)
    same = estimated(DENSE, DENSE.copy())
    assert (same.method, same.distance, same.fidelity) == ("equal", 0.0, 1.0)
    assert estimated(DENSE, 3 * DENSE, "normalized").distance == 0


def test_three_thousand_nodes_in_pieces():
    # On a graph of pieces the unnormalized fidelity is the sum of those of the pieces.
    pieces = [random_graph(500, 1200, seed) for seed in range(6)]
    others = [rewired(piece, 40, 40, seed) for seed, piece in enumerate(pieces)]
    laplacians = [[intrinsic.graph_laplacian(each, "normalized") for each in graphs] for graphs in (pieces, others)]
    traces = np.array([[each.trace() for each in side] for side in laplacians])
    overlaps = [intrinsic.fidelity(*(side[i] / side[i].trace() for side in laplacians)) for i in range(6)]
    expected = (np.sqrt(traces.prod(axis=0)) * overlaps).sum() / np.sqrt(traces.sum(axis=1).prod())
    found = estimated(*map(sparse.block_diag, (pieces, others)), "normalized")
    assert abs(found.fidelity - expected) < 2 * (2 * found.standard_error + found.bias)
    assert found.distance == pytest.approx(np.sqrt(2 - 2 * expected), rel=0.02)


@pytest.mark.parametrize(("gone", "new"), [(150, 150), (40, 40), (0, 40)])
def test_estimates_have_no_bias_and_an_honest_error(gone, new):
    graph = random_graph(150, 400, seed=7)
    other = rewired(graph, gone, new)
    expected = 1 - exact(graph, other, "normalized") ** 2 / 2
    found = [estimated(graph, other, "normalized", seed=seed) for seed in range(40)]
    scores = np.array([(each.fidelity - expected) / each.standard_error for each in found])
    assert abs(scores.mean()) < 4 / np.sqrt(40)
    assert 0.6 < scores.std() < 1.6


def test_the_same_seed_gives_the_same_estimate_and_the_order_does_not_matter():
    other = random_graph(500, 2500, seed=3)
    first, again, swapped = (estimated(a, b, probes=10) for a, b in [(DENSE, other), (DENSE, other), (other, DENSE)])
    assert first == again
    assert swapped.fidelity == pytest.approx(first.fidelity, abs=4 * first.standard_error + 2 * first.bias)
    assert estimated(DENSE, other, probes=10, seed=1) != first


def test_orthogonal_graphs():
    a, b = np.zeros((60, 60)), np.zeros((60, 60))
    for i in range(30):
        a[i, (i + 1) % 30] = a[(i + 1) % 30, i] = 1.0
        b[30 + i, 30 + (i + 1) % 30] = b[30 + (i + 1) % 30, 30 + i] = 1.0
    found = estimated(a, b, "normalized")
    assert found.fidelity == pytest.approx(0, abs=2 * (2 * found.standard_error + found.bias) + 1e-12)


def test_the_unit_is_the_root_mean_square_over_links():
    graph = random_graph(80, 120, seed=4)
    upper = sparse.triu(graph, 1).tocoo()
    found = []
    for i, j in zip(*upper.coords, strict=True):
        other = graph.copy()
        other[i, j] = other[j, i] = 0.0
        found.append(exact(graph, sparse.csr_array(other), "normalized"))
    assert intrinsic.link_distance(graph, "normalized", links=1000) == pytest.approx(
        np.sqrt(np.mean(np.square(found))), rel=1e-5
    )
    assert intrinsic.link_distance(graph, links=5) == intrinsic.link_distance(graph, links=5)


def test_the_exact_distance_is_taken_up_to_6000_nodes():
    other = rewired(DENSE, 100)
    for compute in ("auto", "exact"):
        found = intrinsic.graph_distance(DENSE, other, compute=compute)
        assert (found.method, found.standard_error, found.bias) == ("dense", 0.0, 0.0)
        assert found.distance == exact(DENSE, other, "renormalized")
        assert found.fidelity == 1 - found.distance**2 / 2
        np.testing.assert_allclose(found.distance_interval, found.distance, rtol=1e-15)
    assert estimated(DENSE, other).method == "probes"
    large = random_graph(intrinsic.DENSE_LIMIT + 1, 9000, seed=3)
    fewer = rewired(large, 1)
    assert intrinsic.graph_distance(large, fewer) == estimated(large, fewer)
    with pytest.raises(InputError, match="at most 6000 rows"):
        intrinsic.graph_distance(large, fewer, compute="exact")


@pytest.mark.parametrize("compute", ["exact", "estimate"])
def test_a_comparison_has_all_of_both_graphs(compute):
    a, b = DENSE, rewired(DENSE, 100)
    found = intrinsic.compare_graphs(a, b, "combinatorial", compute=compute, rank=3, links=5)
    assert found.distance == intrinsic.graph_distance(a, b, "combinatorial", compute=compute)
    assert found.link_distance == intrinsic.link_distance(a, "combinatorial", links=5)
    for graph, trace, entropy, top in zip((a, b), found.traces, found.entropies, found.eigenvalues, strict=True):
        laplacian = intrinsic.graph_laplacian(graph, "combinatorial")
        assert trace == laplacian.trace()
        assert entropy == pytest.approx(intrinsic.von_neumann_entropy(laplacian / trace), abs=0.02)
        np.testing.assert_allclose(top, np.linalg.eigvalsh(laplacian.toarray())[:-4:-1], rtol=1e-9)
    assert intrinsic.compare_graphs(a, b, compute=compute, rank=1, links=0).link_distance is None
    for arguments, words in (({"rank": 501}, "rank must be"), ({"links": -1}, "links must be")):
        with pytest.raises(InputError, match=words):
            intrinsic.compare_graphs(a, b, compute=compute, **arguments)


def test_graphs_with_ids_must_have_the_same_ones():
    pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    one, other = Graph(pair, node_ids=["x", "y"], name="one"), Graph(pair, node_ids=["y", "x"])
    assert intrinsic.graph_distance(one, one).distance == intrinsic.graph_distance(one, pair).distance == 0
    with pytest.raises(InputError, match="node 0 is 'x' in one and 'y' in b"):
        intrinsic.graph_distance(one, other)


def test_bad_input():
    pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(InputError, match="same nodes, but a has 500 and b has 2"):
        estimated(DENSE, pair)
    with pytest.raises(InputError, match="b must be symmetric"):
        estimated(pair, [[0.0, 1.0], [0.0, 0.0]])
    with pytest.raises(InputError, match="a must be finite"):
        estimated([[0.0, np.nan], [np.nan, 0.0]], pair)
    with pytest.raises(InputError, match="without links"):
        estimated(np.zeros((2, 2)), pair)
    with pytest.raises(InputError, match="laplacian must be one of"):
        estimated(pair, pair, "magnetic")
    for arguments in ({"probes": 1}, {"steps": 5}, {"seed": -1}):
        with pytest.raises(InputError, match=f"{next(iter(arguments))} must be"):
            estimated(pair, pair, **arguments)
    with pytest.raises(InputError, match="compute must be one of"):
        intrinsic.graph_distance(pair, pair, compute="guess")
    with pytest.raises(InputError, match=r"at least 2 links.*got 1"):
        intrinsic.link_distance(pair)
    with pytest.raises(InputError, match="laplacian must be one of 'renormalized', 'normalized', 'combinatorial'"):
        intrinsic.link_distance(DENSE, "high-order")


# Projection -----------------------------------------------------------------------------------------------


def test_projection_of_a_sparse_matrix_is_not_dense(monkeypatch):
    rho = intrinsic.density_matrix(intrinsic.graph_laplacian(random_graph(900, 3000, seed=5)))
    expected = intrinsic.rank_projection(rho.toarray(), 5)

    def refuse(*_):
        raise AssertionError("dense")

    monkeypatch.setattr(scipy.linalg, "eigh", refuse)
    found = intrinsic.rank_projection(rho, 5)
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-12)
    assert found.distance == pytest.approx(expected.distance, rel=1e-12)
    assert found.gap == pytest.approx(expected.gap, rel=1e-9)
    np.testing.assert_allclose(np.abs((found.eigenvectors * expected.eigenvectors).sum(axis=0)), 1, atol=1e-9)


def test_projection_finds_repeated_eigenvalues():
    # 300 separate pairs: every positive eigenvalue is there 300 times.
    rho = intrinsic.density_matrix(intrinsic.graph_laplacian(sparse.block_diag([np.ones((2, 2))] * 300), "normalized"))
    found = intrinsic.rank_projection(rho, 7)
    assert found.captured_mass == pytest.approx(7 / 300, rel=1e-12)
    assert found.gap == pytest.approx(0, abs=1e-15)


def test_few_probes_have_the_interval_of_so_few():
    """Two standard errors of three probes held the distance in 76 to 86% of all cases; t(0.975, 2) is 4.3."""
    found = intrinsic.GraphDistance(0.9, 0.2**0.5, 0.005, 0.001, "probes", 3)
    assert found.distance_interval[1] == pytest.approx((0.2 + 2 * (4.302652729911275 * 0.005 + 0.001)) ** 0.5)
    assert intrinsic.GraphDistance(0.9, 0.2**0.5, 0.0, 0.0, "dense").distance_interval == (0.2**0.5, 0.2**0.5)
