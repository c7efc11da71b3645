"""Embedding geometry against automatic differentiation, closed forms and brute force, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fishergcn.geometry import embedding as geometry
from fishergcn.graph import Graph, largest_component

FEW = settings(max_examples=25)


def torch_divergence(W: np.ndarray, Y: torch.Tensor) -> torch.Tensor:
    """KL(W : P(Y)) straight from its definition; an empty row of W carries no term."""
    n = len(Y)
    squared = ((Y[:, None] - Y[None]) ** 2).sum(-1)
    log_model = torch.log_softmax((-squared).masked_fill(torch.eye(n, dtype=torch.bool), -torch.inf), dim=1)
    weights = torch.from_numpy(W)
    kept = weights > 0
    return (weights[kept] * (weights[kept].log() - log_model[kept])).sum()


def random_problem(seed: int, n: int = 7, dim: int = 2, empty_row: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """W with about half of its entries, not symmetric, and positions of order one."""
    rng = np.random.default_rng(seed)
    W = rng.random((n, n)) * (rng.random((n, n)) < 0.6)
    W += np.roll(np.eye(n), 1, axis=1)
    np.fill_diagonal(W, 0)
    W /= W.sum(axis=1, keepdims=True)
    if empty_row:
        W[n // 2] = 0
    return W, 0.8 * rng.standard_normal((n, dim))


def hessian(W: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """∂²KL/∂Y∂Y as an (n, d, n, d) array."""
    return torch.autograd.functional.hessian(lambda y: torch_divergence(W, y), torch.from_numpy(Y)).numpy()


def two_communities(size: int = 8) -> sparse.csr_array:
    """Two cliques joined by one link."""
    clique = np.ones((size, size)) - np.eye(size)
    adjacency = np.kron(np.eye(2), clique)
    adjacency[0, size] = adjacency[size, 0] = 1
    return sparse.csr_array(adjacency)


# --- similarities ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("threshold", [0.0, 0.02])
def test_similarities_are_the_thresholded_mean_of_powers(order: int, threshold: float) -> None:
    rng = np.random.default_rng(0)
    A = np.triu(rng.random((30, 30)) * (rng.random((30, 30)) < 0.15), 1)
    A += A.T
    A[4] = A[:, 4] = 0
    degrees = A.sum(axis=1, keepdims=True)
    P = np.divide(A, degrees, out=np.zeros_like(A), where=degrees > 0)
    S = sum(np.linalg.matrix_power(P, t) for t in range(1, order + 1)) / order
    np.fill_diagonal(S, 0)
    S[threshold >= S] = 0
    sums = S.sum(axis=1, keepdims=True)
    wanted = np.divide(S, sums, out=np.zeros_like(S), where=sums > 0)
    for limit in (4000, 2**26):
        W = geometry.similarities(Graph(A), order, threshold, memory_limit=limit)
        assert isinstance(W, sparse.csr_array)
        np.testing.assert_allclose(W.toarray(), wanted, rtol=0, atol=1e-14)
        assert W.nnz == np.count_nonzero(wanted)
    assert wanted[4].sum() == 0


def test_similarities_of_a_component_are_its_rows_of_the_whole() -> None:
    two = sparse.block_diag([two_communities(3), two_communities(4)], format="csr")
    nodes = largest_component(two)
    np.testing.assert_array_equal(np.flatnonzero(nodes), np.arange(6, 14))
    part = geometry.similarities(two, nodes=nodes).toarray()
    np.testing.assert_allclose(part, geometry.similarities(two).toarray()[6:, 6:], atol=1e-15)
    np.testing.assert_array_equal(geometry.similarities(two, nodes=np.flatnonzero(nodes)).toarray(), part)


def test_a_self_link_alone_gives_an_empty_row() -> None:
    W = geometry.similarities([[0, 1, 0], [1, 0, 0], [0, 0, 1]], order=3)
    np.testing.assert_array_equal(W.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


# --- the model ------------------------------------------------------------------------------------


def test_model_similarities_follow_the_definition_and_survive_large_distances() -> None:
    _, Y = random_problem(1, n=9, dim=3)
    kernel = np.exp(-((Y[:, None] - Y[None]) ** 2).sum(-1))
    np.fill_diagonal(kernel, 0)
    np.testing.assert_allclose(
        geometry.model_similarities(Y), kernel / kernel.sum(1, keepdims=True), rtol=1e-13, atol=1e-16
    )
    np.testing.assert_array_equal(geometry.model_similarities(Y, slice(2, 5)), geometry.model_similarities(Y)[2:5])
    far = geometry.model_similarities(1e6 * Y + 1e9)
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far.sum(axis=1), 1, rtol=1e-14)


@FEW
@given(
    st.integers(0, 10**6),
    st.integers(3, 9),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([1, 700, 2**26]),
)
def test_divergence_and_gradient_match_autograd(
    seed: int, n: int, dim: int, empty_row: bool, memory_limit: int
) -> None:
    W, Y = random_problem(seed, n, dim, empty_row)
    positions = torch.from_numpy(Y).requires_grad_()
    value = torch_divergence(W, positions)
    value.backward()
    got = geometry.divergence(sparse.coo_array(W), Y, memory_limit=memory_limit)
    assert got == pytest.approx(float(value.detach()), rel=1e-12, abs=1e-12)
    slope = geometry.gradient(W, Y, memory_limit=memory_limit)
    np.testing.assert_allclose(slope, positions.grad.numpy(), rtol=0, atol=1e-12)


def test_divergence_is_zero_at_its_own_model() -> None:
    _, Y = random_problem(3)
    P = geometry.model_similarities(Y)
    assert 0 <= geometry.divergence(P, Y) < 1e-13
    assert np.abs(geometry.gradient(P, Y)).max() < 1e-14


# --- Fisher information ---------------------------------------------------------------------------


@FEW
@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(1, 3), st.booleans())
def test_all_observed_blocks_are_the_hessian(seed: int, n: int, dim: int, empty_row: bool) -> None:
    W, Y = random_problem(seed, n, dim, empty_row)
    wanted = hessian(W, Y)
    for k in range(dim):
        for l in range(dim):
            got = geometry.fisher_blocks(W, Y, k, l)
            np.testing.assert_allclose(got, wanted[:, k, :, l], rtol=0, atol=1e-10)
        np.testing.assert_array_equal(geometry.fisher_blocks(W, Y, k), geometry.fisher_blocks(W, Y, k, k))


@pytest.mark.parametrize("empty_row", [False, True])
def test_expected_blocks_are_the_mean_outer_product_of_scores(empty_row: bool) -> None:
    """G = Σ_i Σ_j p_ij s_ij s_ijᵀ, s_ij = ∂ log p_ij/∂Y by autograd, over the observed rows."""
    W, Y = random_problem(5, empty_row=empty_row)
    n, dim = Y.shape
    positions = torch.from_numpy(Y)

    def log_model(y: torch.Tensor) -> torch.Tensor:
        squared = ((y[:, None] - y[None]) ** 2).sum(-1) + 1e3 * torch.eye(n, dtype=torch.float64)
        return torch.log_softmax(-squared, dim=1)

    scores = torch.autograd.functional.jacobian(log_model, positions).numpy()
    P = geometry.model_similarities(Y) * (W.sum(axis=1, keepdims=True) > 0)
    wanted = np.einsum("ij,ijak,ijbl->akbl", P, scores, scores)
    for k in range(dim):
        for l in range(dim):
            got = geometry.fisher_blocks(W, Y, k, l, kind="expected")
            np.testing.assert_allclose(got, wanted[:, k, :, l], rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["expected", "observed"])
@pytest.mark.parametrize("empty_row", [False, True])
@pytest.mark.parametrize("memory_limit", [1, 1000, 2**26])
def test_operator_matches_dense_blocks(kind: str, empty_row: bool, memory_limit: int) -> None:
    W, Y = random_problem(11, n=10, dim=3, empty_row=empty_row)
    operator = geometry.fisher_operator(W, Y + 5, kind, memory_limit=memory_limit)
    n, dim = Y.shape
    dense = np.zeros((n, dim, n, dim))
    for k in range(dim):
        for l in range(dim):
            dense[:, k, :, l] = geometry.fisher_blocks(W, Y, k, l, kind)
    flat = dense.reshape(n * dim, n * dim)
    np.testing.assert_allclose(flat, flat.T, atol=1e-12)
    motions = np.random.default_rng(0).standard_normal((n * dim, 2))
    np.testing.assert_allclose(operator @ motions, flat @ motions, rtol=0, atol=1e-11)
    np.testing.assert_allclose(operator.T @ motions, flat @ motions, rtol=0, atol=1e-11)
    np.testing.assert_allclose(operator.todense(), flat, atol=1e-12)
    moved = operator.apply(motions[:, 0].reshape(n, dim))
    np.testing.assert_allclose(moved.ravel(), flat @ motions[:, 0], atol=1e-11)
    vector = motions[:n, 0]
    np.testing.assert_allclose(operator.block(0, 2) @ vector, dense[:, 0, :, 2] @ vector, atol=1e-11)
    np.testing.assert_allclose(operator.block(0, 2).T @ vector, dense[:, 2, :, 0] @ vector, atol=1e-11)
    np.testing.assert_allclose(operator.block(1) @ vector, dense[:, 1, :, 1] @ vector, atol=1e-11)


@pytest.mark.parametrize("kind", ["expected", "observed"])
def test_length_is_the_quadratic_form(kind: str) -> None:
    W, Y = random_problem(13, dim=3)
    motion = np.random.default_rng(1).standard_normal(Y.shape)
    wanted = sum(
        motion[:, k] @ geometry.fisher_blocks(W, Y, k, l, kind) @ motion[:, l] for k in range(3) for l in range(3)
    )
    assert geometry.length(W, Y, motion, kind) == pytest.approx(wanted, rel=1e-11)
    if kind == "expected":
        P = geometry.model_similarities(Y)
        change = 2 * ((Y[:, None] - Y[None]) * (motion[:, None] - motion[None])).sum(-1)
        variance = (P * change**2).sum(1) - (P * change).sum(1) ** 2
        assert wanted == pytest.approx(variance.sum(), rel=1e-11)


@FEW
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_expected_information_is_positive_semidefinite(seed: int, dim: int) -> None:
    W, Y = random_problem(seed, 8, dim)
    values = np.linalg.eigvalsh(geometry.fisher_operator(W, Y).todense())
    assert values[0] > -1e-12 * values[-1]


# --- motions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_rigid_motions_are_orthonormal_and_free(dim: int) -> None:
    W, Y = random_problem(17, n=9, dim=dim)
    rigid = geometry.rigid_motions(Y + 3)
    assert rigid.shape == (9 * dim, dim + dim * (dim - 1) // 2)
    np.testing.assert_allclose(rigid.T @ rigid, np.eye(rigid.shape[1]), atol=1e-13)
    assert np.abs(geometry.fisher_operator(W, Y) @ rigid).max() < 1e-12


@pytest.mark.parametrize("kind", ["expected", "observed"])
@pytest.mark.parametrize("dense", [True, False])
def test_extreme_motions_bound_the_rayleigh_quotient(kind: str, dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    W, Y = random_problem(19, n=25)
    if not dense:
        monkeypatch.setattr("fishergcn.geometry.embedding._motions.DENSE_COORDINATES", 0)
    found = geometry.extreme_motions(W, Y, kind, tolerance=1e-8)
    rigid = geometry.rigid_motions(Y)
    complement = np.linalg.svd(rigid, full_matrices=True)[0][:, rigid.shape[1] :]
    values = np.linalg.eigvalsh(complement.T @ geometry.fisher_operator(W, Y, kind).todense() @ complement)
    assert found.smallest == pytest.approx(values[0], abs=1e-7 * values[-1])
    assert found.largest == pytest.approx(values[-1], rel=1e-8)
    for value, motion in ((found.smallest, found.smallest_motion), (found.largest, found.largest_motion)):
        assert motion.shape == Y.shape
        assert np.linalg.norm(motion) == pytest.approx(1, abs=1e-10)
        assert np.abs(rigid.T @ motion.ravel()).max() < 1e-8
        assert geometry.length(W, Y, motion, kind) == pytest.approx(value, rel=1e-8, abs=1e-10)
    assert found.residual < 1e-7


# --- fit ------------------------------------------------------------------------------------------


def test_fit_reaches_a_stationary_point_and_says_so() -> None:
    W = geometry.similarities(two_communities(), order=3)
    found = geometry.fit(W, dim=2, seed=4, restarts=3, tolerance=1e-7)
    force = geometry.gradient(W, found.embedding)
    symmetric = (W.toarray() + W.toarray().T) / 2
    attraction = 4 * (np.diag(symmetric.sum(1)) - symmetric) @ found.embedding
    assert found.converged
    assert found.minimizer_known
    assert found.gradient_norm <= 1e-7
    assert np.linalg.norm(force) / np.linalg.norm(attraction) == pytest.approx(found.gradient_norm, abs=1e-10)
    assert found.divergence == pytest.approx(geometry.divergence(W, found.embedding), rel=1e-12)
    assert [run.start for run in found.restarts] == ["spectral", "random", "random"]
    assert found.divergence == min(run.divergence for run in found.restarts)
    assert found.iterations in {run.iterations for run in found.restarts}
    # A minimum along every motion, and the two cliques apart.
    curvature = geometry.extreme_motions(W, found.embedding, "observed")
    assert curvature.smallest > -1e-6 * curvature.largest
    assert found.embedding[:8, 0].mean() * found.embedding[8:, 0].mean() < 0


def test_fit_recovers_a_model_up_to_rigid_motion() -> None:
    _, Y = random_problem(23, n=20)
    found = geometry.fit(geometry.model_similarities(Y), restarts=4, tolerance=1e-9)
    assert found.divergence < 1e-10
    wanted, got = (((x[:, None] - x[None]) ** 2).sum(-1) for x in (Y, found.embedding))
    np.testing.assert_allclose(got, wanted, atol=1e-4)


def test_fit_is_reproducible_and_canonical() -> None:
    W = geometry.similarities(two_communities())
    first, second = (geometry.fit(W, dim=3, seed=1, restarts=2) for _ in range(2))
    np.testing.assert_array_equal(first.embedding, second.embedding)
    np.testing.assert_allclose(first.embedding.mean(axis=0), 0, atol=1e-12)
    spread = first.embedding.T @ first.embedding
    np.testing.assert_allclose(spread, np.diag(np.diag(spread)), atol=1e-9)
    assert (np.diff(np.diag(spread)) <= 0).all()


def test_fit_with_diagonal_conditioning_finds_as_good_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    W = geometry.similarities(two_communities(), order=3)
    dense = geometry.fit(W, seed=4, restarts=3, tolerance=1e-7)
    monkeypatch.setattr("fishergcn.geometry.embedding._fit.DENSE_NODES", 0)
    diagonal = geometry.fit(W, seed=4, restarts=3, tolerance=1e-7)
    assert diagonal.converged
    assert diagonal.divergence == pytest.approx(dense.divergence, rel=1e-3)


def test_fit_says_when_it_did_not_converge() -> None:
    W = geometry.similarities(two_communities())
    found = geometry.fit(W, restarts=1, max_iterations=2)
    assert not found.converged
    assert found.iterations <= 2


def test_fit_reports_progress_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    found = geometry.fit(geometry.similarities(two_communities()), restarts=1, progress=True)
    assert found.converged
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_fit_reaches_a_stationary_point_on_cora() -> None:
    from fishergcn import datasets

    graph = datasets.load("cora")
    W = geometry.similarities(graph, nodes=largest_component(graph.adjacency))
    assert W.shape == (2485, 2485)
    found = geometry.fit(W, dim=2, restarts=1)
    assert found.converged
    assert found.gradient_norm <= 1e-5
    assert found.minimizer_known
    assert found.divergence < 5400
