"""Fisher information of links and logarithmic derivatives, against autograd, SciPy and distances themselves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.geometry import intrinsic

KINDS = ["renormalized", "normalized", "combinatorial"]


def weighted_graph(n=12, seed=0, pieces=False, loops=False):
    generator = np.random.default_rng(seed)
    links = np.triu(generator.random((n, n)) < 0.3, 1) * generator.uniform(0.3, 2, size=(n, n))
    if pieces:
        links[: n // 2, n // 2 :] = 0.0
        links[:, -1] = 0.0
    return links + links.T + (np.diag(generator.random(n)) if loops else 0)


def density_of(weights, ends, adjacency, kind):
    """ρ as a function of the weights of some links, in torch."""
    rows, columns = torch.as_tensor(ends.T)
    matrix = torch.as_tensor(adjacency).clone()
    matrix[rows, columns] = 0
    matrix[columns, rows] = 0
    matrix = matrix.index_put((rows, columns), weights).index_put((columns, rows), weights)
    degree = matrix.sum(1)
    laplacian = torch.diag(degree) - matrix
    if kind != "combinatorial":
        degree = degree + 1 if kind == "renormalized" else torch.where(degree > 0, degree, 1.0)
        laplacian = laplacian * degree.rsqrt() * degree.rsqrt()[:, None]
    return laplacian / laplacian.trace()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"pieces": True}, {"loops": True}], ids=["whole", "pieces", "loops"])
def test_links_against_automatic_differentiation(kind, options):
    adjacency = weighted_graph(**options)
    found = intrinsic.link_information(adjacency, kind)
    weights = torch.as_tensor(adjacency[tuple(found.links.T)])
    slopes = torch.autograd.functional.jacobian(lambda w: density_of(w, found.links, adjacency, kind), weights)
    rho = density_of(weights, found.links, adjacency, kind).numpy()
    # The weight of a link that has no neighbor does nothing to a normalized Laplacian; rounding says 1e-18.
    tangents = [np.where(np.abs(slope) > 1e-15, slope, 0.0) for slope in slopes.movedim(-1, 0).numpy()]
    expected = intrinsic.quantum_fisher_matrix(rho, tangents)
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-8, atol=1e-11)
    assert len(found.links) == np.count_nonzero(np.triu(adjacency, 1))
    some = found.links[[4, 1]][:, ::-1]
    np.testing.assert_allclose(
        intrinsic.link_information(sparse.csr_array(adjacency), kind, links=some).matrix,
        found.matrix[np.ix_([4, 1], [4, 1])],
        atol=1e-13,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_links_predict_the_distance_of_small_changes(kind):
    adjacency = weighted_graph(30, seed=1)
    found = intrinsic.link_information(adjacency, kind)
    step = 1e-4 * np.random.default_rng(2).standard_normal(len(found.links))
    moved = adjacency.copy()
    moved[tuple(found.links.T)] += step
    moved[tuple(found.links.T[::-1])] += step
    distance = intrinsic.bures_distance(
        *(intrinsic.density_matrix(intrinsic.graph_laplacian(each, kind)) for each in (adjacency, moved))
    )
    assert distance**2 == pytest.approx(step @ found.matrix @ step / 4, rel=1e-2)


@pytest.mark.parametrize("kind", ["normalized", "combinatorial"])
def test_scaling_all_links_carries_no_information(kind):
    adjacency = weighted_graph(seed=3)
    found = intrinsic.link_information(adjacency, kind)
    weights = adjacency[tuple(found.links.T)]
    assert np.abs(found.matrix @ weights).max() < 1e-12
    assert np.linalg.eigvalsh(found.matrix)[0] > -1e-12


def test_logarithmic_derivative_and_information_matrix():
    generator = np.random.default_rng(4)
    root = generator.standard_normal((6, 9))
    rho = root @ root.T / np.square(root).sum()
    tangents = []
    for _ in range(3):
        square = generator.standard_normal((6, 6))
        tangents.append(square + square.T - 2 * np.trace(square) / 6 * np.eye(6))
    derivatives = [intrinsic.logarithmic_derivative(rho, tangent) for tangent in tangents]
    for tangent, derivative in zip(tangents, derivatives, strict=True):
        expected = scipy.linalg.solve_continuous_lyapunov(rho, 2 * tangent)
        np.testing.assert_allclose(derivative, expected, rtol=1e-9, atol=1e-9)
        assert np.trace(rho @ derivative) == pytest.approx(0, abs=1e-12)
    found = intrinsic.quantum_fisher_matrix(rho, tangents)
    by_definition = [[np.trace(rho @ (s @ t + t @ s)) / 2 for t in derivatives] for s in derivatives]
    np.testing.assert_allclose(found, by_definition, rtol=1e-9)
    assert found[1, 1] == pytest.approx(4 * intrinsic.bures_metric(rho, tangents[1]), rel=1e-12)


def test_bad_input():
    pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(InputError, match="none between 1 and 1"):
        intrinsic.link_information(pair, links=[(1, 1)])
    with pytest.raises(InputError, match="nodes from 0 to 1, got 0 to 5"):
        intrinsic.link_information(pair, links=[(0, 5)])
    for links in ([0, 1], [[0.5, 1.0]], np.empty((0, 2), dtype=int)):
        with pytest.raises(InputError, match=r"integers of shape \(m, 2\)"):
            intrinsic.link_information(pair, links=links)
    with pytest.raises(InputError, match="at least one link"):
        intrinsic.link_information(np.zeros((2, 2)))
    with pytest.raises(InputError, match="laplacian must be one of"):
        intrinsic.link_information(pair, "high-order")
    with pytest.raises(InputError, match="at most 6000 rows"):
        intrinsic.link_information(sparse.eye_array(7000))
    with pytest.raises(InputError, match=r"tangents\[1\] must have trace 0"):
        intrinsic.quantum_fisher_matrix(np.eye(2) / 2, [np.diag([1.0, -1.0]), np.eye(2)])
    with pytest.raises(InputError, match="at least one matrix"):
        intrinsic.quantum_fisher_matrix(np.eye(2) / 2, [])
    with pytest.raises(InputError, match="tangent must vanish between vectors of the kernel"):
        intrinsic.logarithmic_derivative(np.diag([1.0, 0.0]), np.diag([-1.0, 1.0]))
