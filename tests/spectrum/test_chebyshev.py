"""Chebyshev-filtered iteration: the eigenpairs of a dense decomposition, up to the tolerance that was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn import renormalized, top_spectrum
from fishergcn.spectrum import _chebyshev, _krylov, bottom_spectrum

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
    monkeypatch.setattr(_krylov, "LARGE_GRAPH", 0)
    monkeypatch.setattr(_krylov, "DENSE_SIZE", 0)


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


def test_what_float32_cannot_reach_is_left_to_others() -> None:
    matrix = sparse.eye_array(5000, format="csr")
    assert _chebyshev.suits(matrix, 10, 1e-4)
    assert not _chebyshev.suits(matrix, 10, 1e-8)
    assert not _chebyshev.suits(matrix, 1000, 1e-4)
    assert not _chebyshev.suits(sparse.eye_array(100, format="csr"), 10, 1e-4)


def test_a_diagonal_that_is_not_stored_is_shifted_too() -> None:
    matrix = random_links(400, 6, 1).astype(np.float32)
    product = _chebyshev._Product(matrix)
    np.testing.assert_allclose(
        product._shifted(2.0, -0.5).toarray(), 2 * matrix.toarray() - 0.5 * np.eye(400), rtol=1e-6
    )
    with_diagonal = _chebyshev._Product(sparse.csr_array(matrix + sparse.eye_array(400, dtype=np.float32)))
    expected = 2 * with_diagonal.matrix.toarray() - 0.5 * np.eye(400)
    np.testing.assert_allclose(with_diagonal._shifted(2.0, -0.5).toarray(), expected, rtol=1e-6)
