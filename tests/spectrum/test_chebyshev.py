"""Chebyshev-filtered iteration: the eigenpairs of a dense decomposition, up to the tolerance that was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn import renormalized, top_spectrum
from fishergcn.spectrum import bottom_spectrum

pytest.importorskip("numba")


def random_links(nodes: int, degree: int, seed: int) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    row, column = rng.integers(nodes, size=(2, nodes * degree // 2))
    half = sparse.coo_array((np.ones(len(row)), (row, column)), shape=(nodes, nodes)).tocsr()
    links = half + half.T
    links.setdiag(0)
    links.eliminate_zeros()
    links.data[:] = 1.0
    return sparse.csr_array(links)


@pytest.fixture
def _always(monkeypatch):
    """Filter however small the graph is."""
    monkeypatch.setattr("fishergcn.spectrum._krylov.LARGE_GRAPH", 0)
    monkeypatch.setattr("fishergcn.spectrum._krylov.DENSE_SIZE", 0)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("rank", [1, 10])
def test_the_largest_eigenvalues_are_found(seed, rank) -> None:
    propagation = renormalized(random_links(900, 8, seed))
    found = top_spectrum(propagation, rank=rank, component="all", tolerance=1e-4)
    expected = np.linalg.eigvalsh(np.eye(900) - propagation.toarray())[::-1][:rank]
    assert found.solver == "Chebyshev"
    assert found.residual <= 1e-4
    # A residual r of a symmetric matrix puts an eigenvalue within r of the Ritz value.
    np.testing.assert_allclose(found.eigenvalues, expected, atol=1e-4 * expected[0])
    np.testing.assert_allclose(found.eigenvectors.T @ found.eigenvectors, np.eye(rank), atol=1e-10)


@pytest.mark.usefixtures("_always")
def test_the_smallest_are_found_on_a_graph_with_repeated_eigenvalues() -> None:
    copies = sparse.block_diag([random_links(300, 8, 3)] * 3, format="csr")
    propagation = renormalized(copies)
    found = top_spectrum(propagation, rank=6, component="all", tolerance=1e-4)
    expected = np.linalg.eigvalsh(np.eye(900) - propagation.toarray())[::-1][:6]
    np.testing.assert_allclose(found.eigenvalues, expected, atol=1e-4 * expected[0])
    ring = renormalized(random_links(700, 12, 4))
    low = bottom_spectrum(ring, rank=3, tolerance=1e-4)
    assert low.residual <= 1e-4


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize(
    ("nodes", "rank", "tolerance", "chosen"),
    [(900, 10, 1e-4, True), (900, 10, 1e-8, False), (900, 200, 1e-4, False), (100, 10, 1e-4, False)],
)
def test_what_float32_cannot_reach_is_left_to_others(nodes, rank, tolerance, chosen) -> None:
    found = top_spectrum(renormalized(random_links(nodes, 8, 0)), rank=rank, component="all", tolerance=tolerance)
    assert (found.solver == "Chebyshev") == chosen


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("stored", [False, True])
def test_a_diagonal_that_is_not_stored_is_shifted_too(stored) -> None:
    links = random_links(400, 6, 1)
    root = sparse.diags_array(np.maximum(links.sum(axis=1), 1.0) ** -0.5)
    matrix = sparse.csr_array(root @ links @ root)
    assert matrix.diagonal().max() == 0
    propagation = sparse.csr_array((matrix + sparse.eye_array(400)) / 2) if stored else matrix
    found = bottom_spectrum(propagation, rank=5, tolerance=1e-4)
    expected = np.linalg.eigvalsh(np.eye(400) - propagation.toarray())
    inside = expected[expected > 1e-9][:5]
    assert found.solver == "Chebyshev"
    np.testing.assert_allclose(found.eigenvalues[::-1], inside, atol=1e-4)
