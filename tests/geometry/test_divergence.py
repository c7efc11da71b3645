"""The von Neumann divergence against qutip and its laws; the Bethe Hessian against networkx and Ihara's determinant."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import qutip
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn.errors import InputError
from fishergcn.geometry import intrinsic

laws = settings(max_examples=40)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 8)


def density(generator, n, rank):
    factor = generator.standard_normal((n, rank))
    return factor @ factor.T / np.square(factor).sum()


@laws
@given(seeds, sizes)
def test_divergence_against_qutip_and_its_definition(seed, n):
    generator = np.random.default_rng(seed)
    a, b = density(generator, n, n + 2), density(generator, n, n + 2)
    found = intrinsic.von_neumann_divergence(a, b)
    assert found == pytest.approx(qutip.entropy_relative(qutip.Qobj(a), qutip.Qobj(b)), rel=1e-8)
    # Bregman: φ(a) - φ(b) - ⟨∇φ(b), a - b⟩ with φ(x) = tr x log x and ∇φ = log x + 1.
    logs = scipy.linalg.logm(a), scipy.linalg.logm(b)
    bregman = np.trace(a @ logs[0]) - np.trace(b @ logs[1]) - np.trace((logs[1] + np.eye(n)) @ (a - b))
    assert found == pytest.approx(bregman, rel=1e-7)


@laws
@given(seeds, sizes)
def test_laws_of_the_divergence(seed, n):
    generator = np.random.default_rng(seed)
    rank = int(generator.integers(1, n + 1))
    a, b = density(generator, n, rank), density(generator, n, n + 1)
    found = intrinsic.von_neumann_divergence(a, b)
    assert intrinsic.von_neumann_divergence(a, a) < 1e-13
    assert found >= np.abs(np.linalg.eigvalsh(a - b)).sum() ** 2 / 2 - 1e-12  # Pinsker
    assert found >= -2 * np.log(intrinsic.fidelity(a, b)) - 1e-12
    rotation = np.linalg.qr(generator.standard_normal((n, n)))[0]
    turned = [(lambda y: (y + y.T) / 2)(rotation @ x @ rotation.T) for x in (a, b)]
    assert intrinsic.von_neumann_divergence(*turned) == pytest.approx(found, rel=1e-8)
    pinched = [np.diag(np.diagonal(x)) for x in (a, b)]
    assert intrinsic.von_neumann_divergence(*pinched) <= found + 1e-12
    if rank < n:
        assert intrinsic.von_neumann_divergence(b, a) == np.inf


def test_graphs_with_the_same_kernel():
    ring = np.roll(np.eye(6), 1, axis=1)
    more = ring.copy()
    more[0, 3] = 1.0
    a, b = (intrinsic.density_matrix(intrinsic.graph_laplacian(x + x.T, "combinatorial")) for x in (ring, more))
    assert 0 < intrinsic.von_neumann_divergence(a, b) < 1
    a, b = (intrinsic.density_matrix(intrinsic.graph_laplacian(x + x.T, "normalized")) for x in (ring, more))
    assert intrinsic.von_neumann_divergence(a, b) == np.inf


def test_bad_pairs():
    with pytest.raises(InputError, match=r"same shape, got \(2, 2\) and \(3, 3\)"):
        intrinsic.von_neumann_divergence(np.eye(2) / 2, np.eye(3) / 3)
    with pytest.raises(InputError, match="b must have trace 1"):
        intrinsic.von_neumann_divergence(np.eye(2) / 2, np.eye(2))


# Bethe Hessian --------------------------------------------------------------------------------------------


def communities(seed=0):
    return networkx.planted_partition_graph(3, 60, 0.2, 0.01, seed=seed)


def non_backtracking(graph):
    links = [link for i, j in graph.edges for link in ((i, j), (j, i))]
    return np.array([[float(j == k and i != m) for k, m in links] for i, j in links])


@pytest.mark.parametrize("r", [1.0, 2.5, -1.5])
def test_bethe_hessian_is_that_of_networkx(r):
    graph = communities()
    adjacency = networkx.to_scipy_sparse_array(graph)
    found = intrinsic.graph_laplacian(adjacency, "bethe-hessian", r=r).toarray()
    np.testing.assert_allclose(found, networkx.bethe_hessian_matrix(graph, r=r).toarray(), atol=1e-12)


def test_bethe_hessian_is_singular_at_eigenvalues_of_the_non_backtracking_matrix():
    graph = networkx.gnm_random_graph(12, 20, seed=3)
    adjacency = networkx.to_numpy_array(graph)
    values = np.linalg.eigvals(non_backtracking(graph))
    real = values[np.abs(values.imag) < 1e-9].real
    largest = real.max()
    for r in real[np.abs(real) > 1.01]:
        singular = np.linalg.eigvalsh(intrinsic.graph_laplacian(adjacency, "bethe-hessian", r=r).toarray())
        assert np.abs(singular).min() < 1e-6
    beyond = intrinsic.graph_laplacian(adjacency, "bethe-hessian", r=largest + 1e-3)
    assert np.linalg.eigvalsh(beyond.toarray())[0] > 0
    intrinsic.density_matrix(beyond)
    below = intrinsic.graph_laplacian(adjacency, "bethe-hessian", r=largest - 1e-2)
    with pytest.raises(InputError, match="positive semi-definite"):
        intrinsic.density_matrix(below)


@pytest.mark.parametrize(("nodes", "weight", "r", "lowest"), [(2, 1.0, 0.5, -0.25), (4, 10.0, 5.0, -96.0)])
def test_beyond_mu_the_bethe_hessian_needs_weights_of_1_and_r_of_at_least_1(nodes, weight, r, lowest):
    """The path of two nodes has μ = 0, four nodes that are all linked have μ = 2."""
    links = np.ones((nodes, nodes)) - np.eye(nodes)
    assert np.linalg.eigvals(non_backtracking(networkx.from_numpy_array(links))).real.max() <= max(0, nodes - 2) + 1e-9
    values = np.linalg.eigvalsh(intrinsic.graph_laplacian(weight * links, "bethe-hessian", r=r).toarray())
    assert values[0] == pytest.approx(lowest, abs=1e-12)


def test_bethe_hessian_counts_communities():
    adjacency = networkx.to_scipy_sparse_array(communities())
    values, vectors = np.linalg.eigh(intrinsic.graph_laplacian(adjacency, "bethe-hessian").toarray())
    assert np.count_nonzero(values < 0) == 3
    # Within a community the informative vectors are nearly constant.
    groups = vectors[:, 1:3].reshape(3, 60, 2)
    assert groups.mean(axis=1).std(axis=0).min() > 2 * groups.std(axis=1).mean()


def test_bethe_hessian_options():
    pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    combinatorial = intrinsic.graph_laplacian(pair, "combinatorial").toarray()
    np.testing.assert_array_equal(intrinsic.graph_laplacian(pair, "bethe-hessian").toarray(), combinatorial)
    assert intrinsic.graph_laplacian(np.zeros((2, 2)), "bethe-hessian").nnz == 0
    with pytest.raises(InputError, match="r must be left out unless kind is 'bethe-hessian'"):
        intrinsic.graph_laplacian(pair, "normalized", r=2.0)
    with pytest.raises(InputError, match="r must be"):
        intrinsic.graph_laplacian(pair, "bethe-hessian", r=np.nan)
    with pytest.raises(InputError, match="laplacian must be one of"):
        intrinsic.graph_distance(pair, pair, "bethe-hessian")
