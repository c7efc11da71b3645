"""Node similarities, and the generative model of them behind the embedding geometry, evaluated in row blocks.

Everything quadratic in the number of nodes passes through :meth:`Model.blocks`, so that one number bounds the
memory of all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from fishergcn._base.arrays import check_indices
from fishergcn._base.checks import check_integer
from fishergcn._base.matrices import as_square_csr, check_adjacency
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.propagation import transition_matrix, walk_matrix

# Bytes for the dense row blocks that are alive at one time.
MEMORY_LIMIT = 64 * 2**20
# Dense arrays of this shape that a block computation holds at once (P, a difference, and a product).
ARRAYS_PER_BLOCK = 4
ROW_SUM_TOLERANCE = 1e-8


def similarities(
    graph: Graph | MatrixLike,
    order: int = 5,
    threshold: float = 1e-4,
    *,
    nodes: AnyArray | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> CSRArray:
    """Node similarities W, a csr_array of shape (m, m): where random walks of up to T steps end.

    S = (P + P² + … + P^T)/T with P = D^-1 A; the diagonal is set to zero, entries ≤ ν are dropped, and every row that
    is not empty is divided by its sum. This is the matrix of Algorithm 1 before it is symmetrized. The row of a node
    without links to others, or with similarities all below the threshold, is empty and carries no observation.

    Parameters
    ----------
    graph : Graph or adjacency matrix, shape (n, n)
        Links and their weights.
    order : int
        T, the longest walk.
    threshold : float
        ν in [0, 1); entries of S up to this are dropped before normalization. 0 keeps all of them.
    nodes : array of bool or integers, optional
        Build W for the sub-graph of these nodes: a mask, or indices in the wanted order. A disconnected graph has no
        best embedding (see :func:`fit`), so pass its :func:`~fishergcn.graph.largest_component` there.
    memory_limit : int
        Bytes for the walks, as in :func:`fishergcn.high_order`.

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


def check_embedding(Y: MatrixLike, num_nodes: int | None = None, name: str = "Y") -> FloatArray:
    """Return Y as a finite float64 n x d array with d ≥ 1, or raise."""
    try:
        array = np.ascontiguousarray(Y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers, got {type(Y).__name__}.") from error
    if array.ndim != 2 or array.shape[1] < 1:
        raise InputError(f"{name} must be n x d with d at least 1, got shape {array.shape}.")
    if num_nodes is not None and len(array) != num_nodes:
        raise InputError(f"{name} must have {num_nodes} rows, one for each node of W, got {len(array)}.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, got {int((~np.isfinite(array)).sum())} entries that are not.")
    return array


def check_similarities(W: MatrixLike) -> CSRArray:
    """Return a canonical copy of W: non-negative, zero diagonal, rows that sum to 1 or are empty."""
    matrix = as_square_csr(W, name="W")
    if matrix.nnz and matrix.data.min() < 0:
        raise InputError(f"W must be non-negative, got an entry of {matrix.data.min():g}.")
    matrix.eliminate_zeros()
    loops = np.flatnonzero(matrix.diagonal())
    if loops.size:
        raise InputError(f"W must have a zero diagonal, got {matrix.diagonal()[loops[0]]:g} at node {loops[0]}.")
    sums: FloatArray = np.asarray(matrix.sum(axis=1)).ravel()
    wrong = np.flatnonzero((np.abs(sums - 1) > ROW_SUM_TOLERANCE) & (np.diff(matrix.indptr) > 0))
    if wrong.size:
        raise InputError(f"Each row of W must sum to 1 or be empty, got {sums[wrong[0]]:.9g} in row {wrong[0]}.")
    return matrix


def symmetric_laplacian(weights: CSRArray) -> CSRArray:
    """L_sym(M) = diag(M̄1) - M̄ with M̄ = (M + Mᵀ)/2."""
    symmetric = sparse.csr_array((weights + weights.T) / 2)
    degrees: FloatArray = np.asarray(symmetric.sum(axis=1)).ravel()
    return sparse.csr_array(sparse.diags_array(degrees) - symmetric)


def weighted_pull(weights: FloatArray, rows: slice, columns: FloatArray, out: FloatArray) -> None:
    """Add to ``out`` what some rows of M contribute to 2 L_sym(M) V = diag(M1)V + diag(Mᵀ1)V - MV - MᵀV."""
    out[rows] += weights.sum(axis=1, keepdims=True) * columns[rows] - weights @ columns
    out += weights.sum(axis=0)[:, None] * columns - weights.T @ columns[rows]


class Model:
    """W beside the model p_ij = exp(-‖y_i - y_j‖²)/Z_i, j ≠ i.

    A row of W without entries carries no observation: row i of P is dropped wherever P stands beside W. As the model
    sees differences only, positions are centered wherever products of positions appear, which saves digits.
    """

    def __init__(self, W: MatrixLike, memory_limit: int = MEMORY_LIMIT) -> None:
        self.similarities = check_similarities(W)
        self.num_nodes: int = self.similarities.shape[0]
        self.observed = np.diff(self.similarities.indptr) > 0
        self.laplacian = symmetric_laplacian(self.similarities)
        self.memory_limit = memory_limit
        weights = self.similarities.data
        self.negative_entropy = float(np.sum(weights * np.log(weights)))

    def blocks(self, Y: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield ``(rows, P[rows], log Z[rows])`` with unobserved rows of P and log Z set to zero."""
        for rows in row_slices(self.num_nodes, self.memory_limit):
            probabilities, log_partition = model_rows(Y, rows)
            probabilities[~self.observed[rows]] = 0
            log_partition[~self.observed[rows]] = 0
            yield rows, probabilities, log_partition

    def divergence_and_gradient(self, Y: FloatArray) -> tuple[float, FloatArray]:
        """KL(W : P(Y)) and 4 L_sym(W - P) Y, in one pass."""
        centered = Y - Y.mean(axis=0)
        attraction = self.laplacian @ centered
        repulsion = np.zeros_like(centered)
        # Σ w_ij ‖y_i - y_j‖² = 2 tr(Yᵀ L_sym(W) Y).
        value = self.negative_entropy + 2 * float(np.sum(centered * attraction))
        for rows, probabilities, log_partition in self.blocks(centered):
            value += float(log_partition.sum())
            weighted_pull(probabilities, rows, centered, repulsion)
        # A divergence is never negative; rounding may say otherwise where W = P.
        return max(value, 0.0), 4 * attraction - 2 * repulsion


def row_slices(num_nodes: int, memory_limit: int) -> Iterator[slice]:
    """Cut the rows so that the dense arrays of one block fit into ``memory_limit`` bytes."""
    size = max(1, memory_limit // (8 * ARRAYS_PER_BLOCK * num_nodes))
    return (slice(start, min(start + size, num_nodes)) for start in range(0, num_nodes, size))


def model_rows(Y: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
    """Return P[rows] and log Z[rows], stable for any distances."""
    logits = np.zeros((rows.stop - rows.start, len(Y)))
    for column in Y.T:  # differences, not products: exact under translation and for points far from the origin
        difference = column[rows, None] - column
        difference *= difference
        logits -= difference
    logits[np.arange(len(logits)), np.arange(rows.start, rows.stop)] = -np.inf
    largest = logits.max(axis=1, keepdims=True)
    logits -= largest
    np.exp(logits, out=logits)
    partition = logits.sum(axis=1, keepdims=True)
    logits /= partition
    return logits, (np.log(partition) + largest).ravel()


def model_similarities(Y: MatrixLike, rows: slice | None = None) -> FloatArray:
    """P(Y): p_ij = exp(-‖y_i - y_j‖²) / Σ_{l≠i} exp(-‖y_i - y_l‖²), p_ii = 0, as a dense array, or some rows of it."""
    positions = check_embedding(Y)
    if len(positions) < 2:
        raise InputError("Y must have at least 2 rows, got 1.")
    start, stop, step = (rows or slice(None)).indices(len(positions))
    if step != 1 or stop <= start:
        raise InputError(f"rows must be a slice of step 1 that is not empty, got {rows}.")
    return model_rows(positions, slice(start, stop))[0]


def divergence(W: MatrixLike, Y: MatrixLike, *, memory_limit: int = MEMORY_LIMIT) -> float:
    """KL(W : P(Y)) = Σ_ij w_ij log(w_ij / p_ij(Y)), in nats, summed (not averaged) over the rows.

    ``W``, (n, n), dense or sparse, is non-negative with a zero diagonal and rows that sum to 1 or are empty; ``Y``, (n,
    d), are positions, and ``memory_limit`` are the bytes for the row blocks of P(Y).

    Examples
    --------
    >>> round(divergence([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]], [[-1.0], [0.0], [1.0]]), 4)
    0.0972
    """
    return _value_and_gradient(W, Y, memory_limit)[0]


def gradient(W: MatrixLike, Y: MatrixLike, *, memory_limit: int = MEMORY_LIMIT) -> FloatArray:
    """∂KL(W : P(Y))/∂Y = 4 L_sym(W - P(Y)) Y, of shape (n, d). Arguments are those of :func:`divergence`.

    Examples
    --------
    >>> import numpy as np
    >>> W = [[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]]
    >>> gradient(W, [[-1.0], [0.0], [1.0]]).ravel().round(4)  # still expanding
    array([ 0.2846,  0.    , -0.2846])
    """
    return _value_and_gradient(W, Y, memory_limit)[1]


def _value_and_gradient(W: MatrixLike, Y: MatrixLike, memory_limit: int) -> tuple[float, FloatArray]:
    model = Model(W, check_integer("memory_limit", memory_limit, minimum=1))
    return model.divergence_and_gradient(check_embedding(Y, model.num_nodes))
