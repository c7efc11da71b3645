"""Rigid motions of an embedding, and the motions that cost least and most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse import linalg as sparse_linalg

from fishergcn._base.checks import check_real
from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import ConvergenceError
from fishergcn.geometry.embedding._information import FisherOperator, Information, fisher_operator
from fishergcn.geometry.embedding._model import MEMORY_LIMIT, check_embedding

# Up to this many coordinates (n·d) a dense eigensolver is the faster one.
DENSE_COORDINATES = 1500
# Restarts of the Lanczos method before it gives up; 40 products each.
LANCZOS_RESTARTS = 250


def rigid_motions(Y: MatrixLike) -> FloatArray:
    """Orthonormal basis, of shape (n·d, r), of the translations and infinitesimal rotations of Y.

    r = d + d(d-1)/2 when the points of Y span all d dimensions. Each column is a flattened n x d motion.

    Examples
    --------
    >>> rigid_motions([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]).shape
    (6, 3)
    """
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
    """Unit motions, orthogonal to all rigid ones, of least and of largest ds².

    Attributes
    ----------
    smallest, largest : float
        ds² = vᵀGv of the two motions.
    smallest_motion, largest_motion : ndarray, shape (n, d)
        The motions, of Frobenius norm 1; their sign is arbitrary.
    residual : float
        The larger of ‖Gv - (vᵀGv)v‖, both after projection, relative to ``largest``.

    Examples
    --------
    >>> import numpy as np
    >>> from fishergcn.geometry.embedding import extreme_motions, length, model_similarities
    >>> Y = np.array([[0.0, 0.0], [1.0, 0.1], [0.0, 1.3], [1.2, 1.2]])
    >>> found = extreme_motions(model_similarities(Y), Y)
    >>> cheapest = length(model_similarities(Y), Y, found.smallest_motion)
    >>> bool(np.isclose(cheapest, found.smallest)), found.residual < 1e-6
    (True, True)
    """

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

    Rigid motions cost nothing under the expected information (and under the observed one at a stationary
    point), so the smallest value is the price of the cheapest motion that changes the shape.

    Parameters
    ----------
    W, Y, kind, memory_limit
        As in :func:`fisher_operator`.
    tolerance : float
        Accuracy asked of the eigenvectors, relative to the largest value.

    Raises
    ------
    ConvergenceError
        If the eigensolver does not reach ``tolerance``.

    Examples
    --------
    >>> import numpy as np
    >>> P = np.array([[0, 0.5, 0.5, 0], [0.5, 0, 0, 0.5], [0.5, 0, 0, 0.5], [0, 0.5, 0.5, 0]])
    >>> found = extreme_motions(P, [[0.0, 0.0], [1.0, 0.1], [0.0, 1.3], [1.2, 1.2]])
    >>> 0 < found.smallest < found.largest
    True
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
