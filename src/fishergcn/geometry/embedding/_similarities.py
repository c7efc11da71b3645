"""Node similarities of a graph: where short random walks end."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fishergcn._base.arrays import check_indices
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import AnyArray, CSRArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.embedding._model import MEMORY_LIMIT
from fishergcn.graph import Graph
from fishergcn.propagation import transition_matrix, walk_matrix


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
    nodes : array of bool or integers, optional
        Build W for the sub-graph of these nodes: a mask, or indices in the wanted order; by default for all nodes. A
        disconnected graph has no best embedding (see :func:`fit`), so pass its
        :func:`~fishergcn.graph.largest_component` there.
    memory_limit : int
        Bytes for the walks, as in :func:`fishergcn.high_order`.

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
    adjacency = graph.adjacency if isinstance(graph, Graph) else check_adjacency(graph)
    walks = walk_matrix(_subgraph(adjacency, nodes), order, threshold, memory_limit=memory_limit)
    return transition_matrix(walks)


def _subgraph(adjacency: CSRArray, nodes: AnyArray | None) -> CSRArray:
    if nodes is None:
        return adjacency
    mask, total = np.asarray(nodes), adjacency.shape[0]
    is_mask = mask.dtype == bool and mask.shape == (total,)
    index = check_indices("nodes", np.flatnonzero(mask) if is_mask else nodes, total)
    if len(index) < 2 or len(np.unique(index)) < len(index):
        raise InputError("nodes must be a mask or a list of at least two different node indices.")
    return sparse.csr_array(adjacency[index][:, index])
