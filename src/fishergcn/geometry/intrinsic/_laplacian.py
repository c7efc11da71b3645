"""The Laplacians that people put on a graph, by name."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_choice
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.propagation import high_order, renormalized

Laplacian: TypeAlias = Literal["renormalized", "high-order", "normalized", "combinatorial"]

#: Names that :func:`graph_laplacian` knows.
LAPLACIANS: tuple[Laplacian, ...] = get_args(Laplacian)


def graph_laplacian(adjacency: MatrixLike, kind: Laplacian = "renormalized") -> CSRArray:
    """Build a graph Laplacian.

    =================  ================================================================
    ``kind``           L
    =================  ================================================================
    ``renormalized``   I - (D+I)^-½ (A+I) (D+I)^-½, what a GCN propagates with
    ``high-order``     I - Ã of Algorithm 1 (five-step random walks, thresholded)
    ``normalized``     I - D^-½ A D^-½, a zero row for a node without links
    ``combinatorial``  D - A
    =================  ================================================================

    The density matrix of all but the first is unchanged when all link weights are multiplied by one number.

    Parameters
    ----------
    adjacency : (n, n) array or SciPy sparse matrix
        A, symmetric and non-negative.
    kind : str
        One of :data:`LAPLACIANS`.

    Returns
    -------
    (n, n) csr_array
        L, symmetric and positive semi-definite.

    Examples
    --------
    >>> graph_laplacian([[0, 1], [1, 0]], "combinatorial").toarray()
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    check_choice("kind", kind, LAPLACIANS)
    matrix = check_adjacency(adjacency)
    if kind == "renormalized":
        return _identity_minus(renormalized(matrix))
    if kind == "high-order":
        return _identity_minus(high_order(matrix))
    degree: FloatArray = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
    if kind == "combinatorial":
        return sparse.csr_array(sparse.diags_array(degree) - matrix)
    linked = degree > 0
    scale = sparse.diags_array(np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=linked))
    return sparse.csr_array(sparse.diags_array(linked.astype(np.float64)) - scale @ matrix @ scale)


def _identity_minus(propagation: CSRArray) -> CSRArray:
    return sparse.csr_array(sparse.eye_array(propagation.shape[0]) - propagation)


def kernel_vector(adjacency: CSRArray, kind: Laplacian, laplacian: CSRArray) -> FloatArray:
    """Return a positive v with Lv = 0, for a validated adjacency matrix and its L of this kind.

    All kinds are L = S(D' - A')S for some non-negative A' with degrees D', so v = S⁻¹1. Nodes without links, whose row
    of L is zero, have v = 1.
    """
    if kind == "combinatorial":
        return np.ones(adjacency.shape[0])
    if kind == "high-order":
        # A' has twos on its diagonal, so that Ã_ii = 2 / d'_i.
        return np.sqrt(2 / (1 - laplacian.diagonal()))
    degree: FloatArray = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    if kind == "renormalized":
        return np.sqrt(degree + 1)
    return np.sqrt(np.where(degree > 0, degree, 1.0))
