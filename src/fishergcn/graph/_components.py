"""Which nodes are connected."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from fishergcn._base.matrices import as_square_csr
from fishergcn._base.types import BoolArray, IntArray, MatrixLike


def components(matrix: MatrixLike) -> IntArray:
    """Return the number, from 0, of the connected component that each node belongs to, shape (n,).

    Parameters
    ----------
    matrix : array_like or SciPy sparse, shape (n, n)
        A link is an entry that is not zero; directions are ignored.

    Examples
    --------
    >>> components([[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    array([0, 1, 1])
    """
    graph: Any = matrix if sparse.issparse(matrix) else as_square_csr(matrix, name="matrix")
    return np.asarray(csgraph.connected_components(graph, directed=False)[1], dtype=np.int64)


def largest_component(matrix: MatrixLike) -> BoolArray:
    """Return which nodes belong to the largest of the :func:`components`, the first among equals, as a mask.

    Examples
    --------
    >>> largest_component([[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    array([False,  True,  True])
    """
    numbers = components(matrix)
    return np.asarray(numbers == np.bincount(numbers).argmax())
