"""Classical scaling: graphs as points whose distances are as close as can be to those of the graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fishergcn._base.checks import check_integer
from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray
from fishergcn.geometry.statistics._redraws import redrawn
from fishergcn.geometry.statistics._tests import check_distances


@dataclass(frozen=True, eq=False)
class Embedding:
    """Graphs as points; see :func:`embed`."""

    coordinates: FloatArray
    eigenvalues: FloatArray
    shares: FloatArray
    error: float
    spreads: FloatArray
    __repr__ = one_line


def embed(distances: Any, dimensions: int = 2) -> Embedding:
    """Classical scaling of distances D: coordinates X with the least ‖XXᵀ - B‖, B = -½ J D² J, J = I - 11ᵀ/m.

    B is the matrix of inner products of centered points where D can be had in a Euclidean space. Where it cannot, as
    with Bures distances in general, B has negative eigenvalues, which no coordinates show.

    Parameters
    ----------
    distances : (m, m) array, or Distances
        Of all graphs.
    dimensions : int
        How many coordinates, from 1 to m - 1.

    Returns
    -------
    Embedding
        ``coordinates``, (m, dimensions), those of the largest eigenvalues first and centered; all ``eigenvalues`` of B,
        descending; ``shares``, what each dimension has of their absolute values' sum. ``error`` bounds by how much
        the error bars of the distances can move any eigenvalue (Weyl), and ``spreads`` are root mean squares of how far
        each graph moves if the distances are drawn anew within their error bars, 20 times, and the map is turned back
        onto this one (Procrustes). Both are 0 for exact distances.

    Examples
    --------
    >>> import numpy as np
    >>> corners = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0], [0.0, 4.0]])
    >>> distances = np.linalg.norm(corners[:, None] - corners, axis=2)
    >>> found = embed(distances)
    >>> found.shares.round(2), np.linalg.norm(found.coordinates[0] - found.coordinates[2]).round(6)
    (array([0.64, 0.36]), np.float64(5.0))
    """
    values = check_distances(distances)
    size = len(values)
    check_integer("dimensions", dimensions, minimum=1, maximum=size - 1)
    spectrum, kept = _decomposed(values, dimensions)
    top = spectrum[:dimensions]
    kept = kept * np.where(kept[np.argmax(np.abs(kept), axis=0), np.arange(dimensions)] < 0, -1.0, 1.0)
    total = float(np.abs(spectrum).sum()) or 1.0
    error = 0.0
    if hasattr(distances, "high"):
        squares = np.maximum(distances.high**2 - values**2, values**2 - distances.low**2)
        error = float(np.linalg.norm(squares)) / 2
    coordinates = kept * np.sqrt(np.maximum(top, 0.0))
    squares, count = np.zeros(size), 0
    for drawn in redrawn(distances, values, 0):
        other_spectrum, vectors = _decomposed(drawn, dimensions)
        other = vectors * np.sqrt(np.maximum(other_spectrum[:dimensions], 0.0))
        left, _, right = np.linalg.svd(other.T @ coordinates)
        squares, count = squares + np.square(other @ (left @ right) - coordinates).sum(axis=1), count + 1
    spreads = np.sqrt(squares / max(count, 1))
    return Embedding(coordinates, spectrum, np.maximum(top, 0.0) / total, error, spreads)


def _decomposed(values: FloatArray, dimensions: int) -> tuple[FloatArray, FloatArray]:
    """Return all eigenvalues of B, descending, and the first eigenvectors."""
    centered = -_centered(values**2) / 2
    spectrum, vectors = np.linalg.eigh((centered + centered.T) / 2)
    return spectrum[::-1], vectors[:, ::-1][:, :dimensions]


def _centered(matrix: FloatArray) -> FloatArray:
    """Return JMJ."""
    rows = matrix - matrix.mean(axis=0)
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))
