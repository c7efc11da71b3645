"""Motions of an embedding: rigid ones, those that cost least and most, and the graphs that random ones lead to."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.execution import count_cores
from fishergcn.geometry.embedding._information import FisherOperator, Information, fisher_operator
from fishergcn.geometry.embedding._similarities import (
    MEMORY_LIMIT,
    check_embedding,
    model_rows,
    row_slices,
    similarities,
)

# Up to this many coordinates (n·d) a dense eigensolver is the faster one.
DENSE_COORDINATES = 1500
# Restarts of the Lanczos method before it gives up; 40 products each.
LANCZOS_RESTARTS = 250


def rigid_motions(Y: MatrixLike) -> FloatArray:
    """Orthonormal basis, (n·d, r), of the translations and infinitesimal rotations of Y, as flattened n x d motions."""
    positions = check_embedding(Y)
    positions = positions - positions.mean(axis=0)
    nodes, dim = positions.shape
    motions = [np.outer(np.ones(nodes), axis) for axis in np.eye(dim)]
    for first in range(dim):
        for second in range(first):
            rotation = np.zeros_like(positions)
            rotation[:, first], rotation[:, second] = -positions[:, second], positions[:, first]
            motions.append(rotation / max(float(np.linalg.norm(rotation)), np.finfo(float).tiny))
    return np.asarray(linalg.orth(np.stack([motion.ravel() for motion in motions], axis=1)))


@dataclass(frozen=True)
class ExtremeMotions:
    """Unit motions, orthogonal to all rigid ones, of least and of largest ds²; see :func:`extreme_motions`."""

    smallest: float
    largest: float
    smallest_motion: FloatArray
    largest_motion: FloatArray
    residual: float

    __repr__ = one_line


def extreme_motions(
    W: MatrixLike,
    Y: MatrixLike,
    kind: Information = "expected",
    *,
    tolerance: float = 1e-6,
    memory_limit: int = MEMORY_LIMIT,
) -> ExtremeMotions:
    """Minimize and maximize vᵀGv over unit motions v orthogonal to the rigid motions of Y.

    Rigid motions cost nothing under the expected information (and under the observed one at a stationary point), so the
    smallest value is the price of the cheapest motion that changes the shape. ``tolerance`` is the accuracy asked of
    the eigenvectors, relative to the largest value, without which there is a ConvergenceError; the other arguments are
    those of :func:`fisher_operator`.

    Returns
    -------
    ExtremeMotions
        ``smallest`` and ``largest``, ds² = vᵀGv of the two motions; ``smallest_motion`` and ``largest_motion``, (n, d),
        of Frobenius norm 1 and arbitrary sign; ``residual``, the larger of ‖Gv - (vᵀGv)v‖, relative to ``largest``.

    Examples
    --------
    >>> import numpy as np
    >>> from fishergcn.geometry.embedding import length
    >>> W = (np.ones((4, 4)) - np.eye(4)) / 3
    >>> Y = np.array([[0.0, 0.0], [1.0, 0.1], [0.0, 1.3], [1.2, 1.2]])
    >>> found = extreme_motions(W, Y)
    >>> 0 < found.smallest < found.largest, bool(np.isclose(length(W, Y, found.smallest_motion), found.smallest))
    (True, True)
    """
    check_real("tolerance", tolerance, above=0)
    operator = fisher_operator(W, Y, kind, memory_limit=memory_limit)
    positions = check_embedding(Y)
    rigid = rigid_motions(positions)
    if operator.shape[0] <= DENSE_COORDINATES:
        low, high = _dense_extremes(operator, rigid)
    else:
        low, high = _lanczos_extremes(operator, rigid, tolerance)
    values, residuals = [], []
    for vector in (low, high):
        image = _without(operator @ vector, rigid)
        values.append(float(vector @ image))
        residuals.append(float(np.linalg.norm(image - values[-1] * vector)))
    residual = max(residuals) / max(abs(values[1]), np.finfo(float).tiny)
    if residual > tolerance:
        raise ConvergenceError(f"The extreme motions must be within {tolerance:g}, got a residual of {residual:.2g}.")
    shape = positions.shape
    return ExtremeMotions(values[0], values[1], low.reshape(shape), high.reshape(shape), residual)


def _without(vectors: FloatArray, rigid: FloatArray) -> FloatArray:
    return np.asarray(vectors - rigid @ (rigid.T @ vectors))


def _dense_extremes(operator: FisherOperator, rigid: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvectors of the projected matrix, the rigid motions moved to the middle of its spectrum."""
    matrix = operator.todense()
    matrix = _without(_without(matrix, rigid).T, rigid)
    # The mean of the other eigenvalues lies between their extremes, so a rigid motion is never one of them.
    matrix += (np.trace(matrix) / max(1, len(matrix) - rigid.shape[1])) * (rigid @ rigid.T)
    last = len(matrix) - 1
    _, low = linalg.eigh(matrix, subset_by_index=[0, 0])
    _, high = linalg.eigh(matrix, subset_by_index=[last, last])
    return low[:, 0], high[:, 0]


def _lanczos_extremes(operator: FisherOperator, rigid: FloatArray, tolerance: float) -> tuple[FloatArray, FloatArray]:
    """Lanczos on the projected operator, its smallest end turned up by a shift."""
    size = operator.shape[0]
    effort: dict[str, Any] = {"ncv": min(40, size), "maxiter": LANCZOS_RESTARTS}
    start = _without(np.random.default_rng(0).standard_normal(size), rigid)

    def largest(product: Callable[[FloatArray], FloatArray]) -> FloatArray:
        projected = sparse_linalg.LinearOperator(
            shape=(size, size), dtype=np.float64, matvec=lambda x: _without(product(_without(x.ravel(), rigid)), rigid)
        )
        try:
            _, vectors = sparse_linalg.eigsh(projected, k=1, which="LA", v0=start, tol=tolerance / 10, **effort)
        except sparse_linalg.ArpackNoConvergence as error:
            raise ConvergenceError(
                f"The extreme motions must be within {tolerance:g}, but the Lanczos method gave up: {error}."
            ) from error
        return np.asarray(vectors[:, 0])

    high = largest(lambda x: operator @ x)
    top = float(high @ (operator @ high))
    # Rigid motions are 0 in both problems and 0 is not the largest value in either.
    low = largest(lambda x: 2 * abs(top) * x - operator @ x)
    return low, high


def moved_graphs(
    adjacency: MatrixLike,
    Y: MatrixLike,
    distance: float,
    samples: int = 1,
    seed: int = 0,
    *,
    memory_limit: int = MEMORY_LIMIT,
) -> list[CSRArray]:
    """a'_ij = a_ij exp((log p'_ij/p_ij + log p'_ji/p_ji) / 2), p' = p(Y + V), for random motions V of a given length.

    The adjacency matrices A' of graphs whose nodes moved at random, so that each link gains or loses weight as the
    model of the embedding says. V is Gaussian, scaled to the Fisher length (vᵀ G v)^½ = ``distance`` at Y, with the
    expected information, so that Σ_i KL(p_i : p'_i) is about distance²/2. No link appears or vanishes, and translations
    and rotations change nothing.

    Parameters
    ----------
    adjacency : sparse matrix of shape (n, n)
        A; a link from a node to itself keeps its weight.
    Y : array_like of shape (n, d)
        Where the nodes are, for instance from :func:`fit`.
    distance : float
        The Fisher length of a motion, at least 0; 0.1 √n changes each p_i by a divergence of about 0.005 in the mean.
    samples, seed, memory_limit : int
        How many graphs, the seed of the motions, and bytes for the dense row blocks that are alive at one time.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    >>> angle = 2 * np.pi * np.arange(5) / 5
    >>> [moved] = moved_graphs(ring, np.stack([np.cos(angle), np.sin(angle)], axis=1), distance=0.2)
    >>> bool((moved != moved.T).nnz == 0), bool(np.allclose(moved.toarray()[ring == 0], 0))
    (True, True)
    """
    matrix = check_adjacency(adjacency)
    positions = check_embedding(Y, matrix.shape[0])
    distance = check_real("distance", distance, minimum=0.0)
    samples = check_integer("samples", samples, minimum=1)
    rng = np.random.default_rng(check_integer("seed", seed, minimum=0))
    motions = [rng.standard_normal(positions.shape) for _ in range(samples)]
    threads = min(samples, count_cores())
    share = max(check_integer("memory_limit", memory_limit, minimum=1) // threads, 1)
    operator = fisher_operator(similarities(matrix), positions, "expected", memory_limit=share)
    links = sparse.coo_array(sparse.triu(matrix, 1))
    own = sparse.diags_array(matrix.diagonal())
    before = _log_model(links, positions, share)

    def moved(motion: FloatArray) -> CSRArray:
        square = float(np.sum(motion * operator.apply(motion)))
        if not square > 0:
            raise InputError("the embedding must have motions that change the model, got nodes that cannot move apart.")
        after = _log_model(links, positions + motion * (distance / math.sqrt(square)), share)
        data = links.data * np.exp((after - before) / 2)
        upper = sparse.coo_array((data, links.coords), shape=matrix.shape)
        return sparse.csr_array(upper + upper.T + own)

    with ThreadPoolExecutor(threads) as pool:  # NumPy lets go of the interpreter in its loops
        return list(pool.map(moved, motions))


def _log_model(links: sparse.coo_array, Y: FloatArray, memory_limit: int) -> FloatArray:
    """Return log p_ij + log p_ji of each link."""
    rows, columns = links.coords
    partitions = [model_rows(Y, part)[1] for part in row_slices(len(Y), memory_limit)]
    log_partition = np.concatenate(partitions)
    squared: FloatArray = np.sum((Y[rows] - Y[columns]) ** 2, axis=1)
    return np.asarray(-2.0 * squared - log_partition[rows] - log_partition[columns])
