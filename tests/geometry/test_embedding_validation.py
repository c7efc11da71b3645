"""What the embedding geometry refuses, and what it says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.geometry import embedding as geometry

GOOD_W = np.array([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
GOOD_Y = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])


def broken(row: int, column: int, value: float) -> np.ndarray:
    W = GOOD_W.copy()
    W[row, column] = value
    return W


@pytest.mark.parametrize(
    ("W", "message"),
    [
        (broken(1, 0, 0.4), r"sum to 1 or be empty, got 0\.9 in row 1"),
        (broken(0, 2, -0.1), r"non-negative, got an entry of -0\.1"),
        (broken(1, 1, 0.1), r"zero diagonal, got 0\.1 at node 1"),
        (broken(1, 0, np.nan), "finite"),
        (GOOD_W[:2], "square"),
        ("words", "W"),
    ],
)
def test_bad_similarities_are_named(W: object, message: str) -> None:
    for call in (geometry.divergence, geometry.gradient, geometry.fisher_operator):
        with pytest.raises(InputError, match=message):
            call(W, GOOD_Y)
    with pytest.raises(InputError, match=message):
        geometry.fit(W)


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (GOOD_Y[:2], "3 rows"),
        (GOOD_Y[:, 0], "n x d"),
        (GOOD_Y[:, :0], "d at least 1"),
        (np.where(GOOD_Y > 1, np.inf, GOOD_Y), "finite"),
        ([["a", "b"]], "array of numbers"),
    ],
)
def test_bad_embeddings_are_named(Y: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        geometry.divergence(GOOD_W, Y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: geometry.fisher_blocks(GOOD_W, GOOD_Y, 2), "k must be between 0 and 1, got 2"),
        (lambda: geometry.fisher_blocks(GOOD_W, GOOD_Y, 0, -1), "l must be between 0 and 1, got -1"),
        (lambda: geometry.fisher_blocks(GOOD_W, GOOD_Y, 0, kind="expcted"), "did you mean 'expected'"),
        (lambda: geometry.fisher_operator(GOOD_W, GOOD_Y).block(5), "k must be between 0 and 1, got 5"),
        (lambda: geometry.length(GOOD_W, GOOD_Y, GOOD_Y[:, :1]), "shape of Y"),
        (lambda: geometry.length(GOOD_W, GOOD_Y, np.full((3, 2), np.nan)), "motion must be finite"),
        (lambda: geometry.fit(GOOD_W, dim=0), "dim must be at least 1, got 0"),
        (lambda: geometry.fit(GOOD_W, restarts=0), "restarts must be at least 1"),
        (lambda: geometry.fit(GOOD_W, tolerance=0.0), "tolerance must be greater than 0"),
        (lambda: geometry.similarities(GOOD_W + GOOD_W.T, order=0), "order must be between 1 and 1000"),
        (lambda: geometry.similarities(GOOD_W + GOOD_W.T, threshold=-1), "threshold must be at least 0"),
        (lambda: geometry.similarities(GOOD_W + GOOD_W.T, nodes=[0, 3]), "from 0 to 2"),
        (lambda: geometry.similarities(GOOD_W + GOOD_W.T, nodes=[0, 0]), "different node indices"),
        (lambda: geometry.model_similarities([[1.0]]), "at least 2 rows"),
        (lambda: geometry.model_similarities(GOOD_Y, slice(3, 3)), "not empty"),
    ],
)
def test_bad_arguments_are_named(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_dense_blocks_of_large_graphs_point_to_the_operator() -> None:
    n = 5001
    ring = sparse.csr_array((np.ones(n), (np.arange(n), np.roll(np.arange(n), 1))), shape=(n, n))
    with pytest.raises(InputError, match="at most 5000 nodes, got 5001: use fisher_operator"):
        geometry.fisher_blocks(ring, np.zeros((n, 1)), 0)
