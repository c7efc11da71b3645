"""Input that is not what a function asks for is refused with a sentence that names the offender."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.geometry import intrinsic
from fishergcn.graph import Graph

HALF = np.eye(2) / 2


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.diag([1.2, -0.2]), r"positive semi-definite.*eigenvalue is -0\.2"),
        (np.diag([0.7, 0.5]), r"trace 1.*got 1\.2 \(off by 0\.2\)"),
        (np.array([[0.5, 0.1], [0.0, 0.5]]), r"symmetric.*\(0, 1\) = 0\.1 and \(1, 0\) = 0 differ by 0\.1"),
        (np.array([[0.5, np.nan], [np.nan, 0.5]]), r"finite.*\(0, 1\) is nan"),
        (np.array([[np.inf, 0], [0, 0.5]]), r"finite.*\(0, 0\) is inf"),
        (np.ones((2, 3)), r"square.*\(2, 3\)"),
        (np.ones(3), r"square.*\(3,\)"),
        (np.zeros((0, 0)), r"at least one row"),
        (np.array([[0.5, 0.5j], [-0.5j, 0.5]]), r"real numbers.*complex"),
        (np.array([["a", "b"], ["c", "d"]]), r"real numbers"),
        (sparse.csr_array(np.diag([1.2, -0.2])), r"positive semi-definite.*-0\.2"),
    ],
)
def test_what_is_not_a_density_matrix_is_refused(matrix, words):
    for call in (
        intrinsic.von_neumann_entropy,
        lambda rho: intrinsic.power(rho, 2),
        lambda rho: intrinsic.rank_projection(rho, 1),
        lambda rho: intrinsic.fidelity(rho, rho),
        lambda rho: intrinsic.geodesic(rho, rho, 0.5),
        lambda rho: intrinsic.bures_metric(rho, np.zeros((2, 2))),
    ):
        with pytest.raises(InputError, match=words):
            call(matrix)


def test_errors_name_the_argument():
    with pytest.raises(InputError, match=r"^b must have trace 1"):
        intrinsic.bures_distance(HALF, np.eye(2))
    with pytest.raises(InputError, match=r"^a must be positive"):
        intrinsic.bures_distance(np.diag([2.0, -1.0]), HALF)


def test_shapes_that_differ():
    with pytest.raises(InputError, match=r"same shape, got \(2, 2\) and \(3, 3\)"):
        intrinsic.fidelity(HALF, np.eye(3) / 3)
    with pytest.raises(InputError, match=r"shape of rho, \(2, 2\), got \(3, 3\)"):
        intrinsic.bures_metric(HALF, np.zeros((3, 3)))


def test_rounding_is_forgiven():
    rho = np.array([[0.5, 0.1], [0.1 + 1e-14, 0.5 + 1e-13]])
    assert intrinsic.bures_distance(rho, rho.T) < 1e-13
    assert intrinsic.von_neumann_entropy(np.diag([1 + 1e-15, -1e-15])) == 0


@pytest.mark.parametrize(
    ("tangent", "words"),
    [
        (np.diag([1.0, 0.0]), r"trace 0.*got 1"),
        (np.array([[0.0, 1.0], [0.0, 0.0]]), r"tangent must be symmetric"),
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), r"tangent must be finite"),
    ],
)
def test_bad_tangents(tangent, words):
    for call in (intrinsic.bures_metric, intrinsic.kernel_rate):
        with pytest.raises(InputError, match=words):
            call(HALF, tangent)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5, 0.6], r"sum to 1.*1\.1"),
        ([1.5, -0.5], r"non-negative.*entry 1 is -0\.5"),
        ([0.5, np.nan], r"finite.*entry 1 is nan"),
        ([[0.5, 0.5]], r"vector"),
        ([], r"vector with at least one"),
    ],
)
def test_bad_spectra(values, words):
    for call in (intrinsic.spectral_metric, intrinsic.rotation_metric):
        with pytest.raises(InputError, match=words):
            call(np.array(values, dtype=float))


def test_bad_choices_and_numbers():
    with pytest.raises(InputError, match="coordinates must be one of"):
        intrinsic.spectral_metric([0.5, 0.5], "softmx")
    with pytest.raises(InputError, match="kind must be one of"):
        intrinsic.graph_laplacian(np.zeros((2, 2)), "magnetic")
    for omega in (0, -1, np.nan, np.inf):
        with pytest.raises(InputError, match="omega must be"):
            intrinsic.power(HALF, omega)
    for time in (-0.1, 1.1, np.nan):
        with pytest.raises(InputError, match="t must be"):
            intrinsic.geodesic(HALF, HALF, time)
    for arguments in ({"probes": 1}, {"steps": 1}, {"seed": -1}):
        with pytest.raises(InputError, match=f"{next(iter(arguments))} must be"):
            intrinsic.estimate_entropy(HALF, **arguments)


@pytest.mark.parametrize("rank", [0, -1, 4, 1.5])
def test_ranks_that_cannot_be(rank):
    with pytest.raises(InputError, match="rank must be"):
        intrinsic.rank_projection(np.eye(3) / 3, rank)


def test_a_rank_above_that_of_rho_is_refused():
    with pytest.raises(InputError, match=r"at most the rank of rho, which is 2, got 3"):
        intrinsic.rank_projection(np.diag([0.5, 0.5, 0.0]), 3)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_bad_laplacians(container):
    for matrix, words in [
        ([[1.0, -2.0], [-2.0, 1.0]], r"positive semi-definite.*smallest eigenvalue is -1"),
        ([[0.0, 0.0], [0.0, 0.0]], r"positive trace.*without links"),
        ([[1.0, -1.0], [0.0, 1.0]], r"symmetric"),
        ([[1.0, np.nan], [np.nan, 1.0]], r"finite"),
    ]:
        with pytest.raises(InputError, match=words):
            intrinsic.density_matrix(container(matrix))


def large(n=7000):
    """The Laplacian of a ring that is too large for dense algebra."""
    forward = sparse.eye_array(n, k=1) + sparse.eye_array(n, k=1 - n)
    return sparse.csr_array(2 * sparse.eye_array(n) - forward - forward.T)


def test_large_sparse_matrices_stay_sparse():
    rho = intrinsic.density_matrix(large())
    assert rho.nnz == 21000
    assert rho.trace() == pytest.approx(1, abs=1e-12)
    for call in (intrinsic.von_neumann_entropy, lambda x: intrinsic.fidelity(x, x)):
        with pytest.raises(InputError, match=r"at most 6000 rows.*got 7000"):
            call(rho)


def test_large_sparse_matrices_are_checked_as_far_as_is_cheap():
    bad = large().tolil()
    bad[3, 10] = bad[10, 3] = -5.0
    with pytest.raises(InputError, match=r"\(3, 10\).*geometric mean"):
        intrinsic.density_matrix(bad.tocsr())
    bad[3, 10] = 0.0
    with pytest.raises(InputError, match="symmetric"):
        intrinsic.density_matrix(bad.tocsr())
    bad[10, 3] = np.nan
    with pytest.raises(InputError, match=r"\(10, 3\) is nan"):
        intrinsic.density_matrix(bad.tocsr())
    bad[10, 3], bad[5, 5] = 0.0, -1.0
    with pytest.raises(InputError, match=r"\(5, 5\) is -1"):
        intrinsic.density_matrix(bad.tocsr())


def test_entropy_estimate_finds_a_negative_eigenvalue():
    # Every 2 x 2 minor is fine, and yet the vector of ones has a negative Rayleigh quotient.
    matrix = np.eye(5) - 0.6 * (np.ones((5, 5)) - np.eye(5))
    with pytest.raises(InputError, match=r"eigenvalue of at most -1\.4"):
        intrinsic.estimate_entropy(matrix)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda graph: intrinsic.density_matrix(graph),
            "laplacian must be a matrix, got a Graph; give graph_laplacian",
        ),
        (
            lambda graph: intrinsic.bures_distance(graph, HALF),
            r"a must be a matrix, got a Graph; give density_matrix\(",
        ),
        (
            lambda graph: intrinsic.bures_distance(HALF, graph),
            r"b must be a matrix, got a Graph; give density_matrix\(",
        ),
        (
            lambda graph: intrinsic.rank_projection(graph, 3),
            r"rho must be a matrix, got a Graph; give density_matrix\(",
        ),
        (lambda graph: intrinsic.von_neumann_entropy(graph), r"rho must be a matrix, got a Graph"),
    ],
)
def test_a_graph_is_no_density_matrix(call, words):
    with pytest.raises(InputError, match=words):
        call(Graph.from_edges([(0, 1)]))
