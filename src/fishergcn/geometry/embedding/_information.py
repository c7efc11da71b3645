"""The Fisher information of an embedding: one dense block, or all blocks as an operator on motions."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.sparse import linalg as sparse_linalg

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.embedding._similarities import MEMORY_LIMIT, Model, check_embedding, model_rows, weighted_pull

Information: TypeAlias = Literal["observed", "expected"]

# A dense block needs about six n x n arrays while it is built: 1.2 GB at this size.
DENSE_NODES = 5000


class FisherOperator(sparse_linalg.LinearOperator):
    """All blocks of the Fisher information at Y as one symmetric operator; see :func:`fisher_operator`."""

    def __init__(self, model: Model, Y: FloatArray, kind: Information) -> None:
        self.kind = kind
        self._model = model
        self._positions = Y - Y.mean(axis=0)
        # The stubs describe __new__ only, which takes other arguments.
        super().__init__(np.dtype(np.float64), (Y.size, Y.size))  # type: ignore[call-arg]

    def apply(self, motion: MatrixLike) -> FloatArray:
        """Return the n x d product of the Fisher information with an n x d motion.

        With dD_ij = 2 (y_i - y_j)ᵀ(v_i - v_j) and M_ij = p_ij (dD_ij - Σ_l p_il dD_il), the expected part is
        4 L_sym(M) Y; the observed one adds 4 L_sym(W - P) V.
        """
        positions, model = self._positions, self._model
        velocities = check_embedding(motion, model.num_nodes, "motion")
        if velocities.shape != positions.shape:
            raise InputError(f"motion must be {positions.shape}, the shape of Y, got {velocities.shape}.")
        velocities = velocities - velocities.mean(axis=0)
        result = np.zeros_like(positions)
        push = np.zeros_like(positions)
        inner = np.sum(positions * velocities, axis=1)
        for rows, probabilities, _ in model.blocks(positions):
            if self.kind == "observed":
                weighted_pull(probabilities, rows, velocities, push)
            change = inner[rows, None] + inner
            change -= positions[rows] @ velocities.T
            change -= velocities[rows] @ positions.T
            change -= np.sum(probabilities * change, axis=1, keepdims=True)
            change *= probabilities
            weighted_pull(change, rows, positions, result)
        result *= 4  # 2 from dD, 2 from 4 L_sym against the 2 L_sym that weighted_pull adds up
        if self.kind == "observed":
            result += 4 * (model.laplacian @ velocities) - 2 * push
        return np.asarray(result)

    def block(self, k: int, l: int | None = None) -> sparse_linalg.LinearOperator:
        """Return block (k, l), by default (k, k), as an n x n operator."""
        nodes, dim = self._positions.shape
        row, column = _check_block(k, l, dim)

        def product(out: int, into: int, vector: Any) -> FloatArray:
            motion = np.zeros((nodes, dim))
            motion[:, into] = np.ravel(vector)
            return np.ascontiguousarray(self.apply(motion)[:, out])

        return sparse_linalg.LinearOperator(
            shape=(nodes, nodes),
            dtype=np.dtype(np.float64),
            matvec=lambda vector: product(row, column, vector),
            rmatvec=lambda vector: product(column, row, vector),
        )

    def todense(self) -> FloatArray:
        """Return all blocks as one dense (n·d) x (n·d) array."""
        nodes, dim = self._positions.shape
        dense = np.zeros((nodes, dim, nodes, dim))
        for k in range(dim):
            for l in range(k + 1):
                block = _dense_block(self._model, self._positions, k, l, self.kind)
                dense[:, k, :, l] = block
                dense[:, l, :, k] = block.T
        return dense.reshape(self.shape)

    def _matvec(self, x: Any) -> FloatArray:
        return self.apply(np.reshape(x, self._positions.shape)).ravel()

    def _adjoint(self) -> FisherOperator:
        return self


def fisher_operator(
    W: MatrixLike, Y: MatrixLike, kind: Information = "expected", *, memory_limit: int = MEMORY_LIMIT
) -> FisherOperator:
    """Fisher information of all coordinates of Y, as an operator that never holds an n x n matrix (Theorem 6).

    Its blocks are Ĝ(y^k, y^l) = [k = l] 4 L_sym(W - P) + 8 L_sym(P ∘ D^kl) - 4 B^kᵀ B^l; rows and columns of a block
    are nodes. With ``kind="expected"`` it is the last two terms, positive semi-definite everywhere; with ``"observed"``
    the Hessian ∂²KL/∂y^k∂y^l. They agree where W = P(Y). The other arguments are those of :func:`divergence`.

    Returns
    -------
    FisherOperator
        A symmetric SciPy ``LinearOperator`` of shape (n·d, n·d). ``operator @ vector`` takes motions flattened row by
        row, ``operator.apply(motion)`` takes and returns n x d motions, ``operator.block(k, l)`` is one n x n block as
        an operator, and ``operator.todense()`` the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> W = (np.ones((4, 4)) - np.eye(4)) / 3
    >>> Y = np.array([[0.0, 0.0], [1.0, 0.1], [0.0, 1.3], [1.2, 1.2]])
    >>> operator = fisher_operator(W, Y)
    >>> operator.shape, operator.block(0, 1).shape
    ((8, 8), (4, 4))
    >>> rotation = Y @ [[0, 1], [-1, 0]]
    >>> bool(np.abs(operator.apply(rotation)).max() < 1e-12), bool(np.abs(operator @ Y.ravel()).max() > 1)
    (True, True)
    """
    check_choice("kind", kind, get_args(Information))
    model = Model(W, check_integer("memory_limit", memory_limit, minimum=1))
    return FisherOperator(model, check_embedding(Y, model.num_nodes), kind)


def fisher_blocks(
    W: MatrixLike, Y: MatrixLike, k: int, l: int | None = None, kind: Information = "observed"
) -> FloatArray:
    """Return block (k, l) of :func:`fisher_operator`, by default (k, k), as a dense array; n is at most 5000."""
    check_choice("kind", kind, get_args(Information))
    model = Model(W)
    positions = check_embedding(Y, model.num_nodes)
    nodes, dim = positions.shape
    first, second = _check_block(k, l, dim)
    if nodes > DENSE_NODES:
        raise InputError(
            f"A dense block needs at most {DENSE_NODES} nodes, got {nodes}: use fisher_operator(W, Y).block(k, l)."
        )
    return _dense_block(model, positions, first, second, kind)


def length(
    W: MatrixLike,
    Y: MatrixLike,
    motion: MatrixLike,
    kind: Information = "expected",
    *,
    memory_limit: int = MEMORY_LIMIT,
) -> float:
    """ds² = vᵀ G v of an n x d ``motion`` v, over all blocks; the *squared* length.

    With the expected information this is Σ_i Var_{p_i}(d‖y_i - y_j‖²), never negative: zero for translations
    and rotations, and 4 Σ_i Var_{p_i}(‖y_i - y_j‖²) for the uniform scaling v = Y. The observed one is the
    second derivative of the divergence along v, which may be negative away from a minimum; hence no root.
    The other arguments are those of :func:`fisher_operator`.

    Examples
    --------
    >>> import numpy as np
    >>> W = (np.ones((4, 4)) - np.eye(4)) / 3
    >>> Y = np.array([[0.0, 0.0], [1.0, 0.5], [0.2, 2.0], [1.0, 1.0]])
    >>> round(length(W, Y, Y @ [[0, 1], [-1, 0]]), 12)  # a rotation
    0.0
    >>> length(W, Y, Y) > 1  # a scaling
    True
    """
    operator = fisher_operator(W, Y, kind, memory_limit=memory_limit)
    velocities = check_embedding(motion, name="motion")
    squared = float(np.sum(velocities * operator.apply(velocities)))
    # A variance: only rounding makes it negative.
    return max(squared, 0.0) if kind == "expected" else squared


def _check_block(k: int, l: int | None, dim: int) -> tuple[int, int]:
    row = check_integer("k", k, minimum=0, maximum=dim - 1)
    return row, row if l is None else check_integer("l", l, minimum=0, maximum=dim - 1)


def _dense_block(model: Model, Y: FloatArray, k: int, l: int, kind: Information) -> FloatArray:
    """[k = l] 4 L_sym(W - P) + 8 L_sym(P ∘ D^kl) - 4 B^kᵀ B^l, the first term for the observed kind only."""
    probabilities = model_rows(Y, slice(0, model.num_nodes))[0]
    probabilities[~model.observed] = 0
    along_k = Y[:, k, None] - Y[:, k]
    along_l = Y[:, l, None] - Y[:, l]
    block = 8 * _laplacian(probabilities * along_k * along_l)
    block -= 4 * _pull(probabilities * along_k).T @ _pull(probabilities * along_l)
    if kind == "observed" and k == l:
        block += 4 * _laplacian(model.similarities.toarray() - probabilities)
    return block


def _laplacian(weights: FloatArray) -> FloatArray:
    symmetric = (weights + weights.T) / 2
    return np.diag(symmetric.sum(axis=1)) - symmetric


def _pull(weights: FloatArray) -> FloatArray:
    """B = diag(C1) - C, which must stay unsymmetric: row i belongs to the distribution p_i."""
    return np.diag(weights.sum(axis=1)) - weights
