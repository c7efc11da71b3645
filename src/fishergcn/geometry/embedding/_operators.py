"""The Fisher information of an embedding: one dense block, or all blocks as an operator on motions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import linalg as sparse_linalg

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.embedding._model import (
    MEMORY_LIMIT,
    Model,
    check_embedding,
    model_rows,
    weighted_pull,
)

__all__ = ["KINDS", "FisherOperator", "dense_block", "fisher_operator"]

KINDS = ("observed", "expected")


class FisherOperator(sparse_linalg.LinearOperator):
    """All blocks of the Fisher information at Y as one symmetric (n·d) x (n·d) operator.

    Coordinates are those of ``motion.ravel()``, row after row. ``operator @ vector`` takes such flat vectors,
    :meth:`apply` takes and returns n x d motions, :meth:`block` gives one n x n block. Made by
    :func:`fisher_operator`.

    Examples
    --------
    >>> import numpy as np
    >>> from fishergcn.geometry.embedding import fisher_operator, model_similarities
    >>> Y = np.array([[0.0, 0.0], [1.0, 0.1], [0.0, 1.3], [1.2, 1.2]])
    >>> operator = fisher_operator(model_similarities(Y), Y)
    >>> operator.shape, operator.block(0, 1).shape
    ((8, 8), (4, 4))
    >>> rotation = Y @ [[0, 1], [-1, 0]]
    >>> bool(np.abs(operator.apply(rotation)).max() < 1e-12), bool(np.abs(operator @ Y.ravel()).max() > 1)
    (True, True)
    """

    def __init__(self, model: Model, Y: FloatArray, kind: str) -> None:
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
        row = check_integer("k", k, minimum=0, maximum=dim - 1)
        column = row if l is None else check_integer("l", l, minimum=0, maximum=dim - 1)

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
                block = dense_block(self._model, self._positions, k, l, self.kind)
                dense[:, k, :, l] = block
                dense[:, l, :, k] = block.T
        return dense.reshape(self.shape)

    def _matvec(self, x: Any) -> FloatArray:
        return self.apply(np.reshape(x, self._positions.shape)).ravel()

    def _adjoint(self) -> FisherOperator:
        return self


def fisher_operator(
    W: MatrixLike, Y: MatrixLike, kind: str = "expected", *, memory_limit: int = MEMORY_LIMIT
) -> FisherOperator:
    """Fisher information of all coordinates of Y, as an operator that never holds an n x n matrix.

    Parameters
    ----------
    W : array_like or SciPy sparse, shape (n, n)
        Similarities; see :func:`~fishergcn.geometry.embedding.similarities`.
    Y : array_like, shape (n, d)
        Positions of the nodes.
    kind : {"expected", "observed"}
        The expected information is positive semi-definite everywhere; the observed one is the Hessian of
        KL(W : P(Y)). They agree where W = P(Y).
    memory_limit : int
        Bytes for the row blocks in which P(Y) is visited.

    Returns
    -------
    FisherOperator

    Examples
    --------
    >>> import numpy as np
    >>> W = np.array([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
    >>> operator = fisher_operator(W, [[-1.0], [0.0], [1.5]])
    >>> operator.shape
    (3, 3)
    >>> bool(np.abs(operator.apply(np.ones((3, 1)))).max() < 1e-12)  # a translation changes nothing
    True
    """
    check_choice("kind", kind, KINDS)
    model = Model(W, check_integer("memory_limit", memory_limit, minimum=1))
    return FisherOperator(model, check_embedding(Y, model.num_nodes), kind)


def dense_block(model: Model, Y: FloatArray, k: int, l: int, kind: str) -> FloatArray:
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
