"""The embedding geometry: how a graph's embedding may move, and what that costs.

A graph is given by row-normalized node similarities W with a zero diagonal. An embedding Y ∈ R^{n x d} models
them by p_ij = exp(-‖y_i - y_j‖²)/Z_i, j ≠ i; row i of W is one observation of the distribution p_i. Then

    KL(W : P(Y)) = Σ_ij w_ij log(w_ij / p_ij)                      :func:`divergence`
    ∂KL/∂Y       = 4 L_sym(W - P) Y                                :func:`gradient`
    Y*           = a minimizer                                     :func:`fit`
    Ĝ(y^k, y^l)  = [k=l] 4 L_sym(W-P) + 8 L_sym(P∘D^kl) - 4 B^kᵀB^l   :func:`fisher_blocks`
    ds²          = Σ_i Var_{p_i}(d‖y_i - y_j‖²)                    :func:`length`

with L_sym(M) the Laplacian of (M + Mᵀ)/2, D^kl_ij = (y_ik - y_jk)(y_il - y_jl), and B^k = diag(C1) - C for
C_ij = p_ij (y_ik - y_jk), which is not symmetrized. An empty row of W is a node without observation: it
carries no term, but others may still be similar to it.
"""

from __future__ import annotations

import numpy as np

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.embedding._fit import EmbeddingFit, RestartSummary, fit
from fishergcn.geometry.embedding._model import MEMORY_LIMIT, Model, check_embedding, model_rows
from fishergcn.geometry.embedding._motions import ExtremeMotions, extreme_motions, rigid_motions
from fishergcn.geometry.embedding._operators import KINDS, FisherOperator, dense_block, fisher_operator
from fishergcn.geometry.embedding._similarities import similarities

__all__ = [
    "EmbeddingFit",
    "ExtremeMotions",
    "FisherOperator",
    "RestartSummary",
    "divergence",
    "extreme_motions",
    "fisher_blocks",
    "fisher_operator",
    "fit",
    "gradient",
    "length",
    "model_similarities",
    "rigid_motions",
    "similarities",
]

# A dense block needs about six n x n arrays while it is built: 1.2 GB at this size.
DENSE_NODES = 5000


def model_similarities(Y: MatrixLike, rows: slice | None = None) -> FloatArray:
    """P(Y): p_ij = exp(-‖y_i - y_j‖²) / Σ_{l≠i} exp(-‖y_i - y_l‖²), p_ii = 0.

    Parameters
    ----------
    Y : array_like, shape (n, d)
        Positions, n ≥ 2.
    rows : slice, optional
        Compute these rows only (step 1), for graphs whose n x n matrix does not fit.

    Returns
    -------
    ndarray, shape (n, n) or (number of rows, n)
        Rows sum to 1. Stable for any distances: the nearest node keeps its share when all others underflow.

    Examples
    --------
    >>> model_similarities([[0.0], [1.0], [100.0]]).round(3)
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 1., 0.]])
    """
    positions = check_embedding(Y)
    if len(positions) < 2:
        raise InputError("Y must have at least 2 rows, got 1.")
    start, stop, step = (rows or slice(None)).indices(len(positions))
    if step != 1 or stop <= start:
        raise InputError(f"rows must be a slice of step 1 that is not empty, got {rows}.")
    return model_rows(positions, slice(start, stop))[0]


def divergence(W: MatrixLike, Y: MatrixLike, *, memory_limit: int = MEMORY_LIMIT) -> float:
    """KL(W : P(Y)) = Σ_ij w_ij log(w_ij / p_ij(Y)), in nats, summed (not averaged) over the rows.

    Parameters
    ----------
    W : array_like or SciPy sparse, shape (n, n)
        Non-negative, zero diagonal, rows that sum to 1 or are empty.
    Y : array_like, shape (n, d)
        Positions.
    memory_limit : int
        Bytes for the row blocks of P(Y).

    Examples
    --------
    >>> Y = [[0.0, 0.0], [1.0, 0.5], [0.2, 2.0]]
    >>> divergence(model_similarities(Y), Y) < 1e-12
    True
    """
    return _value_and_gradient(W, Y, memory_limit)[0]


def gradient(W: MatrixLike, Y: MatrixLike, *, memory_limit: int = MEMORY_LIMIT) -> FloatArray:
    """∂KL(W : P(Y))/∂Y = 4 L_sym(W - P(Y)) Y, of shape (n, d).

    Parameters
    ----------
    W, Y, memory_limit
        As in :func:`divergence`.

    Examples
    --------
    >>> import numpy as np
    >>> W = [[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]]
    >>> gradient(W, [[-1.0], [0.0], [1.0]]).ravel().round(4)  # still expanding
    array([ 0.2846,  0.    , -0.2846])
    """
    return _value_and_gradient(W, Y, memory_limit)[1]


def fisher_blocks(W: MatrixLike, Y: MatrixLike, k: int, l: int | None = None, kind: str = "observed") -> FloatArray:
    """Return block (k, l) of the Fisher information of an embedding (Theorem 6, and its off-diagonal blocks).

    Ĝ(y^k, y^l) = [k = l] 4 L_sym(W - P) + 8 L_sym(P ∘ D^kl) - 4 B^kᵀ B^l; the expected information is the
    last two terms. Rows and columns are nodes. The observed information is the Hessian ∂²KL/∂y^k∂y^l.

    Parameters
    ----------
    W : array_like or SciPy sparse, shape (n, n)
        Similarities; n is at most 5000, since the result is dense. Beyond that size,
        ``fisher_operator(W, Y).block(k, l)`` is the same block as an operator.
    Y : array_like, shape (n, d)
        Positions.
    k, l : int
        Columns of Y, from 0; ``l`` is ``k`` by default.
    kind : {"observed", "expected"}
        Which information.

    Returns
    -------
    ndarray, shape (n, n)
        Symmetric when k = l; block (l, k) is the transpose of block (k, l).

    Examples
    --------
    >>> W = [[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]]
    >>> fisher_blocks(W, [[-1.0], [0.0], [1.0]], 0, kind="expected").round(3) + 0.0
    array([[ 1.904, -2.181,  0.277],
           [-2.181,  4.361, -2.181],
           [ 0.277, -2.181,  1.904]])
    """
    check_choice("kind", kind, KINDS)
    model = Model(W)
    positions = check_embedding(Y, model.num_nodes)
    nodes, dim = positions.shape
    first = check_integer("k", k, minimum=0, maximum=dim - 1)
    second = first if l is None else check_integer("l", l, minimum=0, maximum=dim - 1)
    if nodes > DENSE_NODES:
        raise InputError(
            f"A dense block needs at most {DENSE_NODES} nodes, got {nodes}: use fisher_operator(W, Y).block(k, l)."
        )
    return dense_block(model, positions, first, second, kind)


def length(
    W: MatrixLike,
    Y: MatrixLike,
    motion: MatrixLike,
    kind: str = "expected",
    *,
    memory_limit: int = MEMORY_LIMIT,
) -> float:
    """ds² = vᵀ G v of an n x d motion v, over all blocks; the *squared* length.

    With the expected information this is Σ_i Var_{p_i}(d‖y_i - y_j‖²), never negative: zero for translations
    and rotations, and 4 Σ_i Var_{p_i}(‖y_i - y_j‖²) for the uniform scaling v = Y. The observed one is the
    second derivative of the divergence along v, which may be negative away from a minimum; hence no root.

    Parameters
    ----------
    W, Y, memory_limit
        As in :func:`divergence`.
    motion : array_like, shape (n, d)
        How each node moves.
    kind : {"expected", "observed"}
        Which information.

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.array([[0.0, 0.0], [1.0, 0.5], [0.2, 2.0], [1.0, 1.0]])
    >>> P = model_similarities(Y)
    >>> round(length(P, Y, Y @ [[0, 1], [-1, 0]]), 12)  # a rotation
    0.0
    >>> length(P, Y, Y) > 1  # a scaling
    True
    """
    operator = fisher_operator(W, Y, kind, memory_limit=memory_limit)
    velocities = check_embedding(motion, name="motion")
    squared = float(np.sum(velocities * operator.apply(velocities)))
    # A variance: only rounding makes it negative.
    return max(squared, 0.0) if kind == "expected" else squared


def _value_and_gradient(W: MatrixLike, Y: MatrixLike, memory_limit: int) -> tuple[float, FloatArray]:
    model = Model(W, check_integer("memory_limit", memory_limit, minimum=1))
    return model.divergence_and_gradient(check_embedding(Y, model.num_nodes))
