"""What the paper says about the embedding geometry, against what is true."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fishergcn.errors import InputError
from fishergcn.geometry import embedding as geometry


def torch_divergence(W: np.ndarray, Y: torch.Tensor) -> torch.Tensor:
    diagonal = torch.eye(len(Y), dtype=torch.bool)
    squared = ((Y[:, None] - Y[None]) ** 2).sum(-1).masked_fill(diagonal, torch.inf)
    weights = torch.from_numpy(W)
    log_model = torch.log_softmax(-squared, dim=1).masked_fill(diagonal, 0)
    return (torch.special.xlogy(weights, weights) - weights * log_model).sum()


def problem(dim: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    W = rng.random((8, 8))
    np.fill_diagonal(W, 0)
    return W / W.sum(axis=1, keepdims=True), 0.8 * rng.standard_normal((8, dim))


def laplacian(M: np.ndarray, symmetrize: bool = True) -> np.ndarray:
    M = (M + M.T) / 2 if symmetrize else M
    return np.diag(M.sum(axis=1)) - M


def theorem(W: np.ndarray, Y: np.ndarray, k: int, *, pull_symmetrized: bool, others_symmetrized: bool) -> np.ndarray:
    """Theorem 6 with every Laplacian read one way or the other."""
    P = geometry.model_similarities(Y)
    difference = Y[:, k, None] - Y[:, k]
    B = laplacian(P * difference, symmetrize=pull_symmetrized)
    return 4 * laplacian(W - P, others_symmetrized) + 8 * laplacian(P * difference**2, others_symmetrized) - 4 * B.T @ B


def test_theorem_6_needs_two_symmetrized_laplacians_and_one_that_is_not() -> None:
    W, Y = problem()
    exact = torch.autograd.functional.hessian(lambda y: torch_divergence(W, y), torch.from_numpy(Y)).numpy()
    for k in range(2):
        right = theorem(W, Y, k, pull_symmetrized=False, others_symmetrized=True)
        np.testing.assert_allclose(right, exact[:, k, :, k], atol=1e-10)
        np.testing.assert_allclose(geometry.fisher_blocks(W, Y, k), right, atol=1e-12)
        for pull, others in ((True, True), (False, False), (True, False)):
            wrong = theorem(W, Y, k, pull_symmetrized=pull, others_symmetrized=others)
            assert np.abs(wrong - exact[:, k, :, k]).max() > 0.1


def test_off_diagonal_blocks_that_the_proof_ignores_are_not_small() -> None:
    W, Y = problem()
    exact = torch.autograd.functional.hessian(lambda y: torch_divergence(W, y), torch.from_numpy(Y)).numpy()
    cross = geometry.fisher_blocks(W, Y, 0, 1)
    np.testing.assert_allclose(cross, exact[:, 0, :, 1], atol=1e-10)
    assert np.abs(cross).max() > 0.3 * np.abs(geometry.fisher_blocks(W, Y, 0)).max()


def test_the_observed_information_is_the_expected_one_where_the_model_is_true() -> None:
    W, Y = problem()
    P = geometry.model_similarities(Y)
    for k, l in ((0, 0), (0, 1), (1, 1)):
        observed, expected = (geometry.fisher_blocks(P, Y, k, l, kind) for kind in ("observed", "expected"))
        np.testing.assert_allclose(observed, expected, atol=1e-14)
    assert np.abs(geometry.fisher_blocks(W, Y, 0) - geometry.fisher_blocks(W, Y, 0, kind="expected")).max() > 0.1


@pytest.mark.parametrize("kind", ["expected", "observed"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_translation_costs_nothing(kind: str, dim: int) -> None:
    W, Y = problem(dim)
    motion = np.tile(np.arange(1.0, dim + 1), (8, 1))
    assert abs(geometry.length(W, Y, motion, kind)) < 1e-25
    for k in range(dim):  # block by block as well
        assert np.abs(geometry.fisher_blocks(W, Y, k, kind=kind) @ np.ones(8)).max() < 1e-13


def test_a_rotation_costs_nothing_with_all_blocks_but_something_with_the_diagonal_ones() -> None:
    W, Y = problem()
    P = geometry.model_similarities(Y)
    motion = Y @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert geometry.length(W, Y, motion) < 1e-12
    assert abs(geometry.length(P, Y, motion, "observed")) < 1e-12
    diagonal_only = sum(
        motion[:, k] @ geometry.fisher_blocks(W, Y, k, kind="expected") @ motion[:, k] for k in range(2)
    )
    assert diagonal_only > 1


def test_a_rotation_is_free_for_the_observed_information_at_stationary_points_only() -> None:
    W, Y = problem()
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert abs(geometry.length(W, Y, Y @ turn, "observed")) > 0.1
    # The second derivative along a straight line differs from that along the circle by the gradient.
    along_normal = np.sum(geometry.gradient(W, Y) * (Y @ turn @ turn))
    assert geometry.length(W, Y, Y @ turn, "observed") == pytest.approx(-along_normal, rel=1e-10)
    best = geometry.fit(W, restarts=2, tolerance=1e-9).embedding
    assert abs(geometry.length(W, best, best @ turn, "observed")) < 1e-6


def test_a_scaling_costs_four_times_the_variance_of_the_squared_distances() -> None:
    W, Y = problem()
    P = geometry.model_similarities(Y)
    D = ((Y[:, None] - Y[None]) ** 2).sum(-1)
    variance = (P * D**2).sum(axis=1) - (P * D).sum(axis=1) ** 2
    scaling = geometry.length(W, Y, Y)
    assert scaling == pytest.approx(4 * variance.sum(), rel=1e-12)
    # Not small: the price of an average motion of the same norm is of the same order.
    average = np.trace(geometry.fisher_operator(W, Y).todense()) / Y.size
    assert scaling / np.sum(Y**2) > 0.5 * average


def test_a_disconnected_graph_has_no_best_embedding() -> None:
    pairs = np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3)) / 2
    Y = np.random.default_rng(0).standard_normal((6, 2))
    apart = np.repeat([[0.0, 0.0], [1.0, 0.0]], 3, axis=0)
    values = [geometry.divergence(pairs, Y + distance * apart) for distance in (2.0, 3.0, 4.0, 5.0)]
    assert (np.diff(values) < 0).all()
    with pytest.raises(InputError, match=r"connected, got 2 parts \(the largest has 3 of 6 nodes\)"):
        geometry.fit(pairs)


def test_a_connected_graph_may_have_no_best_embedding_either() -> None:
    path = np.array([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
    Y = np.array([[-1.0], [0.0], [1.0]])
    values = [geometry.divergence(path, scale * Y) for scale in (0.5, 1, 1.5, 2)]
    assert (np.diff(values) < 0).all()
    # Row by row: log(1 + exp(-3 s²)) for the ends and 0 for the middle, so the infimum 0 is not attained.
    assert values[1] == pytest.approx(2 * np.log1p(np.exp(-3)), rel=1e-12)
    assert not geometry.fit(path, dim=1, restarts=1).minimizer_known


def test_full_similarities_of_many_nodes_have_a_best_embedding() -> None:
    W, _ = problem()
    assert geometry.fit(W, dim=2, restarts=1).minimizer_known  # 7 similar nodes: more than 6 disks touch one
    assert not geometry.fit(W, dim=3, restarts=1).minimizer_known  # 12 balls may touch one


def test_links_that_no_row_joins_leave_existence_open() -> None:
    W = np.zeros((20, 20))
    W[:10, :10] = W[10:, 10:] = (np.ones((10, 10)) - np.eye(10)) / 9
    # Two cliques, and one link that only node 0 sees.
    W[0, :10] *= 0.5
    W[0, 10] = 0.5
    assert geometry.fit(W, restarts=1, max_iterations=5).minimizer_known is False
