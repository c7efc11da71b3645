from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import linalg, sparse

from fishergcn import Graph, datasets, high_order, renormalized, top_spectrum
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.graph import largest_component
from fishergcn.operators import SparseMatrix
from fishergcn.spectrum import Spectrum, _lanczos, bottom_spectrum


def two_components(sizes=(30, 20), seed=0, density=0.3):
    """Return Ã of a graph with two weighted components (the larger first) and one isolated node."""
    rng = np.random.default_rng(seed)
    blocks = []
    for size in sizes:
        upper = np.triu(rng.random((size, size)) * (rng.random((size, size)) < density), 1)
        upper[np.arange(size - 1), np.arange(1, size)] += 1  # a path keeps it connected
        blocks.append(upper + upper.T)
    return renormalized(sparse.block_diag([*blocks, np.zeros((1, 1))]))


def dense_oracle(propagation, component="largest", count=None):
    """Return the eigenpairs of L on the component, descending (the ``count`` largest), and its nodes."""
    nodes = np.arange(propagation.shape[0])
    if component == "largest":
        nodes = np.flatnonzero(largest_component(propagation))
    laplacian = np.eye(nodes.size) - propagation[nodes][:, nodes].toarray()
    wanted = None if count is None else [nodes.size - count, nodes.size - 1]
    values, vectors = linalg.eigh(laplacian, subset_by_index=wanted)
    return values[::-1], vectors[:, ::-1], nodes


def distance_to_span(vectors, basis):
    """Return the sine of the largest angle between a subspace and another of the same dimension."""
    return np.linalg.norm(vectors - basis @ (basis.T @ vectors), 2)


@pytest.mark.parametrize("component", ["largest", "all"])
@pytest.mark.parametrize("sizes", [(30, 20), (700, 100)])
def test_equals_dense_eigh(sizes, component):
    propagation = two_components(sizes, density=0.02 if sizes[0] > 500 else 0.3)
    values, vectors, nodes = dense_oracle(propagation, component)
    spectrum = top_spectrum(propagation, 7, component=component)
    np.testing.assert_allclose(spectrum.eigenvalues, values[:7], atol=1e-12)
    assert distance_to_span(spectrum.eigenvectors[nodes], vectors[:, :7]) < 1e-8
    np.testing.assert_allclose(spectrum.eigenvectors.T @ spectrum.eigenvectors, np.eye(7), atol=1e-12)
    outside = np.setdiff1d(np.arange(propagation.shape[0]), nodes)
    assert not spectrum.eigenvectors[outside].any()
    assert spectrum.trace == pytest.approx(propagation.shape[0] - propagation.trace(), rel=1e-14)
    assert spectrum.captured_mass == pytest.approx(values[:7].sum() / spectrum.trace, rel=1e-12)
    assert spectrum.residual < 1e-10
    assert spectrum.rank == 7


@pytest.mark.parametrize("propagate", [renormalized, high_order])
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_equals_dense_eigh_on_data(name, propagate):
    propagation = propagate(datasets.load(name).adjacency)
    values, vectors, nodes = dense_oracle(propagation, count=11)
    assert values[9] - values[10] > 1e-4  # otherwise the subspace would not be unique
    spectrum = top_spectrum(propagation)
    np.testing.assert_allclose(spectrum.eigenvalues, values[:10], atol=1e-12)
    assert distance_to_span(spectrum.eigenvectors[nodes], vectors[:, :10]) < 1e-8


@pytest.mark.slow
def test_dense_factorization_proves_the_top_of_pubmed():
    """The eigenpairs found are eigenpairs, and no other eigenvalue reaches the smallest of them.

    With (w, U) deflated, w_k I - L + U diag(w) Uᵀ is positive definite exactly if that is so; a dense Cholesky
    factorization decides it in a fraction of the time of a dense eigendecomposition.
    """
    propagation = renormalized(datasets.load("pubmed").adjacency)
    spectrum = top_spectrum(propagation)
    w, basis = spectrum.eigenvalues, spectrum.eigenvectors
    np.testing.assert_allclose(basis - propagation @ basis, basis * w, atol=1e-10)
    np.testing.assert_allclose(basis.T @ basis, np.eye(10), atol=1e-12)
    shifted = propagation.toarray()
    for start in range(0, len(shifted), 500):
        shifted[start : start + 500] += (basis[start : start + 500] * w) @ basis.T
    shifted.flat[:: len(shifted) + 1] += w[-1] - 1
    factor, failed_at = linalg.lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)
    assert failed_at == 0
    assert (np.diag(factor) ** 2).min() > 1e-6


def test_pubmed_has_no_larger_eigenvalue_than_found():
    # A wider space from another start would show an eigenvalue that the narrow one missed.
    propagation = renormalized(datasets.load("pubmed").adjacency)
    narrow, wide = top_spectrum(propagation, 10), top_spectrum(propagation, 25, seed=1)
    np.testing.assert_allclose(narrow.eigenvalues, wide.eigenvalues[:10], atol=1e-12)
    assert distance_to_span(narrow.eigenvectors, wide.eigenvectors[:, :10]) < 1e-8


def test_captured_mass_of_cora():
    spectrum = top_spectrum(renormalized(datasets.load("cora").adjacency))
    assert spectrum.captured_mass == pytest.approx(0.00745, abs=5e-6)


def test_equal_seeds_give_equal_bits_and_other_seeds_the_same_pairs():
    propagation = two_components((700, 100), density=0.02)
    first, again, other = (top_spectrum(propagation, 5, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.eigenvectors, again.eigenvectors)
    assert np.array_equal(first.eigenvalues, again.eigenvalues)
    np.testing.assert_allclose(first.eigenvectors, other.eigenvectors, atol=1e-7)


def test_signs_do_not_depend_on_rounding():
    # On an even cycle eigenvectors have entries of equal magnitude: the first of them is positive.
    n = 600
    cycle = sparse.diags_array([1.0, 1.0, 1.0, 1.0], offsets=[1, -1, n - 1, 1 - n], shape=(n, n))
    for seed in range(3):
        spectrum = top_spectrum(renormalized(cycle), 1, seed=seed)
        np.testing.assert_allclose(spectrum.eigenvalues, [4 / 3], atol=1e-12)
        np.testing.assert_allclose(spectrum.eigenvectors[:, 0], (-1.0) ** np.arange(n) / np.sqrt(n), atol=1e-7)


SOLVERS = ("lanczos", "_arpack", "_lobpcg", "_block_krylov")


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_finds_the_same(solver, monkeypatch):
    propagation = two_components((700, 100), density=0.02)
    values, vectors, nodes = dense_oracle(propagation)
    for other in set(SOLVERS) - {solver}:
        monkeypatch.setattr(f"fishergcn.spectrum._krylov.{other}", lambda *_: None)
    spectrum = top_spectrum(propagation, 6)
    assert spectrum.solver.lower().replace(" ", "_") == solver.lstrip("_")
    np.testing.assert_allclose(spectrum.eigenvalues, values[:6], atol=1e-10)
    assert distance_to_span(spectrum.eigenvectors[nodes], vectors[:, :6]) < 1e-7


def test_a_poor_answer_is_passed_over_and_none_is_an_error(monkeypatch):
    propagation = two_components((700, 100), density=0.02)

    def poor(matrix, rank, seed, tolerance):
        return np.random.default_rng(seed).standard_normal((matrix.shape[0], rank))

    monkeypatch.setattr("fishergcn.spectrum._krylov.lanczos", poor)
    assert top_spectrum(propagation, 3).solver == "ARPACK"
    monkeypatch.setattr("fishergcn.spectrum._krylov._arpack", poor)
    assert top_spectrum(propagation, 3).solver == "LOBPCG"
    monkeypatch.setattr("fishergcn.spectrum._krylov._lobpcg", lambda *_: None)
    assert top_spectrum(propagation, 3).solver == "block Krylov"
    monkeypatch.setattr("fishergcn.spectrum._krylov._block_krylov", poor)
    with pytest.raises(ConvergenceError, match="larger tolerance or a smaller rank"):
        top_spectrum(propagation, 3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lanczos_vectors_stay_orthonormal_beyond_convergence(seed):
    # One eigenvalue far above a crowd: it converges early, which is when rounding brings it back.
    rng = np.random.default_rng(seed)
    values = np.concatenate([[2.0], 0.04 * (1 + 0.1 * rng.random(899))])
    found = top_spectrum(np.diag(1 - values), 10, seed=seed, component="all", tolerance=1e-10)
    assert found.solver == "Lanczos"
    np.testing.assert_allclose(found.eigenvectors.T @ found.eigenvectors, np.eye(10), atol=1e-12)
    np.testing.assert_allclose(found.eigenvalues, np.sort(values)[::-1][:10], atol=1e-9)
    assert found.residual < 1e-10


def test_lanczos_gives_up_where_the_space_ends():
    values = np.repeat([1.5, 1.0, 0.5], 300)
    assert top_spectrum(np.diag(1 - values), 10, component="all", tolerance=1e-10).solver != "Lanczos"


def test_repeated_eigenvalues_of_small_and_large_graphs_are_all_found():
    for leaves in (40, 900):  # a star: the eigenvalue of L of all leaves but one is the same
        star = sparse.lil_array((leaves + 1, leaves + 1))
        star[0, 1:] = star[1:, 0] = 1.0
        propagation = renormalized(star)
        spectrum = top_spectrum(propagation, 6)
        dense = linalg.eigvalsh(np.eye(leaves + 1) - propagation.toarray())[::-1][:6]
        np.testing.assert_allclose(spectrum.eigenvalues, dense, atol=1e-10)


@pytest.mark.parametrize("copies", [2, 6, 10])
def test_all_of_several_equal_components_are_found(copies):
    one = two_components((1200 // copies - 20, 20), density=0.05)
    propagation = sparse.block_diag([one] * copies, format="csr")
    spectrum = top_spectrum(propagation, 10, component="all")
    dense = linalg.eigvalsh(np.eye(propagation.shape[0]) - propagation.toarray())[::-1][:10]
    np.testing.assert_allclose(spectrum.eigenvalues, dense, atol=1e-10)


@pytest.mark.parametrize(
    ("seed", "copies", "size", "degree", "rank"), [(21, 4, 345, 6, 5), (38, 4, 271, 3, 8), (46, 7, 215, 6, 8)]
)
@pytest.mark.parametrize("shift", range(4))
def test_lanczos_misses_no_copy_of_an_eigenvalue(seed, copies, size, degree, rank, shift):
    links = sparse.random_array((size, size), density=degree / size, rng=np.random.default_rng(seed + shift))
    propagation = sparse.block_diag([renormalized((links + links.T) > 0)] * copies)
    found = top_spectrum(propagation, rank, seed=seed, component="all", tolerance=1e-10)
    assert found.solver == "Lanczos"
    wanted = linalg.eigvalsh(np.eye(copies * size) - propagation.toarray())[-rank:]
    np.testing.assert_allclose(found.eigenvalues[::-1], wanted, atol=1e-8)


def test_a_check_for_copies_that_ends_early_is_no_answer():
    # Beside what is known three eigenvalues differ, fewer than the check has steps.
    matrix = SparseMatrix.from_scipy(np.diag([2.0, 2.0, *np.repeat([1.0, 0.5], 300)])).forward
    with pytest.raises(_lanczos._Unsettled):
        _lanczos._above(matrix, torch.eye(602, dtype=torch.float64)[:1], 2.0, np.random.default_rng(0))


@pytest.fixture
def _block_krylov(monkeypatch):
    """All other solvers fail, however small the graph is."""
    monkeypatch.setattr("fishergcn.spectrum._krylov.DENSE_SIZE", 0)
    for other in SOLVERS[:-1]:
        monkeypatch.setattr(f"fishergcn.spectrum._krylov.{other}", lambda *_: None)


@pytest.mark.usefixtures("_block_krylov")
def test_block_krylov_finds_repeated_eigenvalues():
    # Twelve copies of one path: every eigenvalue of L has multiplicity twelve.
    path = sparse.diags_array([1.0, 1.0], offsets=[1, -1], shape=(50, 50))
    propagation = renormalized(sparse.block_diag([path] * 12))
    found = top_spectrum(propagation, 12, component="all", tolerance=1e-8)
    assert found.solver == "block Krylov"
    wanted = linalg.eigvalsh(np.eye(600) - propagation.toarray())[-12:][::-1]
    np.testing.assert_allclose(found.eigenvalues, wanted, atol=1e-12)


@pytest.mark.usefixtures("_block_krylov")
def test_block_krylov_survives_an_exhausted_space():
    values = np.array([1.5, 1.0, 0.5, *np.zeros(6)])
    found = top_spectrum(np.diag(1 - values), 2, component="all", tolerance=1e-12)
    assert found.solver == "block Krylov"
    np.testing.assert_allclose(found.eigenvalues, [1.5, 1.0], atol=1e-12)


@pytest.mark.parametrize("sizes", [(30, 20), (700, 100)])
def test_bottom_spectrum_skips_the_kernel(sizes):
    propagation = two_components(sizes, density=0.02 if sizes[0] > 500 else 0.3)
    values, vectors, nodes = dense_oracle(propagation)
    spectrum = bottom_spectrum(propagation, 4)
    np.testing.assert_allclose(spectrum.eigenvalues, values[-5:-1], atol=1e-11)
    assert distance_to_span(spectrum.eigenvectors[nodes], vectors[:, -5:-1]) < 1e-7
    assert spectrum.eigenvalues.min() > 1e-3
    # The kernel of L is spanned by the positive vector sqrt(D').
    kernel = np.abs(vectors[:, -1])
    np.testing.assert_allclose(kernel @ spectrum.eigenvectors[nodes], 0, atol=1e-8)


def test_rank_may_equal_the_size_of_a_smaller_component_but_not_n():
    propagation = two_components()
    assert top_spectrum(propagation, 30).eigenvalues[-1] == 0  # the kernel, not -1e-17
    with pytest.raises(InputError, match=r"rank must be between 1 and 30 .* 51 nodes, got 31"):
        top_spectrum(propagation, 31)
    with pytest.raises(InputError, match=r"rank must be between 1 and 50 .* got 51"):
        top_spectrum(propagation, 51, component="all")
    with pytest.raises(InputError, match=r"rank must be between 1 and 29 .* got 30"):
        bottom_spectrum(propagation, 30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be between 1"),
        ({"rank": 2.0}, "rank must be a whole number"),
        ({"component": "larges"}, "did you mean 'largest'"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"tolerance": 0.0}, "tolerance must be greater than 0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        top_spectrum(two_components(), **options)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "propagation must be square"),
        ([[0.5, 0.1], [0.2, 0.5]], "propagation must be symmetric, but entry \\(0, 1\\)"),
        ([[0.5, np.nan], [np.nan, 0.5]], "propagation must be finite"),
        ([[1.0]], "at least 2 nodes"),
        (np.eye(4), "positive trace, got 0"),
        (
            Graph.from_edges([(0, 1)]),
            r"propagation must be a matrix, got a Graph; give renormalized\(graph\.adjacency\)",
        ),
        ("cora", "propagation must be a matrix with 2 dimensions, got str"),
    ],
)
def test_bad_matrix_is_refused(matrix, message):
    with pytest.raises(InputError, match=message):
        top_spectrum(matrix, 1)


def test_spectrum_is_shown_in_one_line():
    spectrum = top_spectrum([[0.5, 0.4, 0.0], [0.4, 0.3, 0.4], [0.0, 0.4, 0.5]], rank=2)
    shown = repr(spectrum)
    assert shown.startswith("Spectrum(3 nodes, 2 eigenvalues from 1.174 to 0.5, trace 1.7, residual ")
    assert shown.endswith(f", solver {spectrum.solver})")
    empty = Spectrum(np.ones(0), np.ones((4, 0)), trace=1.0, residual=0.0)
    assert repr(empty) == "Spectrum(4 nodes, 0 eigenvalues, trace 1, residual 0.0e+00, solver given)"


def test_spectrum_is_immutable():
    values = np.array([1.0, 0.5])
    spectrum = Spectrum(values, np.eye(3)[:, :2], trace=3.0, residual=0.0)
    values[0] = 7
    assert spectrum.eigenvalues[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        spectrum.eigenvectors[0, 0] = 2
    with pytest.raises(AttributeError):
        spectrum.trace = 1.0
    with pytest.raises(InputError, match="shapes"):
        Spectrum(np.ones(3), np.eye(3)[:, :2], trace=3.0, residual=0.0)


def test_compiled_lanczos_steps_equal_plain_ones():
    matrix = SparseMatrix.from_scipy(renormalized(datasets.load("cora").adjacency)).forward
    size = matrix.shape[0]
    found = []
    for extend in (_lanczos._extend, _lanczos.extend_reference):
        basis, projected = torch.zeros(13, size, dtype=torch.float64), torch.zeros(12, 12, dtype=torch.float64)
        rng = np.random.default_rng(3)
        basis[0] = _lanczos._random_beside(basis[:0], rng)
        found.append((extend(matrix, basis, projected, 0), basis, projected))
    (beta, basis, projected), (wanted_beta, wanted, wanted_projected) = found
    assert beta == pytest.approx(wanted_beta, rel=1e-10)
    torch.testing.assert_close(projected, wanted_projected, rtol=0, atol=1e-10)
    torch.testing.assert_close(basis, wanted, rtol=0, atol=1e-8)
    torch.testing.assert_close(basis @ basis.T, torch.eye(13, dtype=torch.float64), rtol=0, atol=1e-12)


def test_eigenvalues_with_hundreds_of_copies_are_all_found():
    """300 copies of each eigenvalue: a solver that starts from one vector sees each of them once."""
    diagonal = np.repeat([0.5, 0.0, -0.5], 300)
    found = top_spectrum(sparse.csr_array(sparse.diags_array(-diagonal)), 10, component="all")
    np.testing.assert_allclose(found.eigenvalues, 1.5, atol=1e-8)
