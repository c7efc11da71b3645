"""Node similarities of a graph: where short random walks end."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.embedding._model import MEMORY_LIMIT
from fishergcn.graph import Graph, check_adjacency
from fishergcn.propagation import MAX_ORDER

__all__ = ["largest_component", "similarities"]


def largest_component(graph: Graph | MatrixLike) -> IntArray:
    """Indices, ascending, of the nodes in the largest connected component (the first one among equals).

    Examples
    --------
    >>> import numpy as np
    >>> A = np.zeros((5, 5))
    >>> A[0, 3] = A[3, 0] = A[1, 2] = A[2, 1] = A[2, 4] = A[4, 2] = 1
    >>> largest_component(A)
    array([1, 2, 4])
    """
    _, labels = connected_components(_adjacency(graph), directed=False)
    return np.flatnonzero(labels == np.bincount(labels).argmax()).astype(np.int64)


def similarities(
    graph: Graph | MatrixLike,
    order: int = 5,
    threshold: float = 1e-4,
    *,
    nodes: AnyArray | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> CSRArray:
    """Node similarities W: where random walks of up to T steps end.

    S = (P + P² + … + P^T)/T with P = D^-1 A; the diagonal is set to zero, entries ≤ ν are dropped, and every
    row that is not empty is divided by its sum. This is the matrix of Algorithm 1 before it is symmetrized.

    Parameters
    ----------
    graph : Graph or adjacency matrix, shape (n, n)
        Links and their weights.
    order : int
        T, the longest walk.
    threshold : float
        ν in [0, 1); entries of S up to this are dropped before normalization. 0 keeps all of them.
    nodes : integer array, optional
        Build W for the sub-graph of these nodes, in this order; by default for all nodes. A disconnected
        graph has no best embedding (see :func:`fit`), so pass :func:`largest_component` there.
    memory_limit : int
        Bytes for the intermediate powers, which are computed in row blocks.

    Returns
    -------
    csr_array, shape (m, m)
        Non-negative, zero diagonal; rows sum to 1. The row of a node without links to others, or with
        similarities all below the threshold, is empty and carries no observation.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> similarities(path, order=2).toarray()
    array([[0.        , 0.66666667, 0.33333333],
           [0.5       , 0.        , 0.5       ],
           [0.33333333, 0.66666667, 0.        ]])
    """
    steps = check_integer("order", order, minimum=1, maximum=MAX_ORDER)
    cutoff = check_real("threshold", threshold, minimum=0, below=1)
    limit = check_integer("memory_limit", memory_limit, minimum=1)
    adjacency = _subgraph(_adjacency(graph), nodes)
    walk = _row_normalized(adjacency)
    count = adjacency.shape[0]
    # A power of P may fill up: count a full row, twice (the power and the sum), at 12 bytes an entry.
    size = max(1, limit // (24 * count))
    parts = [_walk_rows(walk, slice(start, start + size), steps, cutoff) for start in range(0, count, size)]
    return _row_normalized(sparse.csr_array(sparse.vstack(parts, format="csr")))


def _adjacency(graph: Graph | MatrixLike) -> CSRArray:
    return graph.adjacency if isinstance(graph, Graph) else check_adjacency(graph)


def _subgraph(adjacency: CSRArray, nodes: AnyArray | None) -> CSRArray:
    if nodes is None:
        return adjacency
    index = np.asarray(nodes)
    total = adjacency.shape[0]
    if index.ndim != 1 or index.dtype.kind not in "iu" or len(index) < 2 or len(np.unique(index)) < len(index):
        raise InputError("nodes must be a list of at least two different node indices.")
    if index.min() < 0 or index.max() >= total:
        raise InputError(f"nodes must be between 0 and {total - 1}, got {index.min()} to {index.max()}.")
    return sparse.csr_array(adjacency[index][:, index])


def _row_normalized(matrix: CSRArray) -> CSRArray:
    sums: FloatArray = np.asarray(matrix.sum(axis=1)).ravel()
    inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sparse.csr_array(sparse.diags_array(inverse) @ matrix)


def _walk_rows(walk: CSRArray, rows: slice, steps: int, cutoff: float) -> CSRArray:
    """Rows of (P + … + P^T)/T without the diagonal and without entries up to the cutoff."""
    power = sparse.csr_array(walk[rows])
    total = power
    for _ in range(steps - 1):
        power = sparse.csr_array(power @ walk)
        total = total + power
    kept = sparse.coo_array(total / steps)
    inside = (kept.row + rows.start != kept.col) & (kept.data > cutoff)
    entries = (kept.data[inside], (kept.row[inside], kept.col[inside]))
    return sparse.csr_array(entries, shape=total.shape)
