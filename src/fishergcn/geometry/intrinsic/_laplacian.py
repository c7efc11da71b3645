"""The Laplacians that people put on a graph, by name."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_choice, check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.propagation import high_order, renormalized

# Those whose L / tr L is a density matrix, and all.
Density: TypeAlias = Literal["renormalized", "high-order", "normalized", "combinatorial"]
Laplacian: TypeAlias = Literal["renormalized", "high-order", "normalized", "combinatorial", "bethe-hessian"]
# The high-order matrix changes in too many entries, and cuts some off, when one link goes.
Local: TypeAlias = Literal["renormalized", "normalized", "combinatorial"]
DENSITIES: tuple[Density, ...] = get_args(Density)
LAPLACIANS: tuple[Laplacian, ...] = get_args(Laplacian)


def graph_laplacian(adjacency: MatrixLike, kind: Laplacian = "renormalized", *, r: float | None = None) -> CSRArray:
    """Build a graph Laplacian, an (n, n) csr_array, of a symmetric and non-negative ``adjacency`` A.

    =================  ================================================================
    ``kind``           L
    =================  ================================================================
    ``renormalized``   I - (D+I)^-½ (A+I) (D+I)^-½, what a GCN propagates with
    ``high-order``     I - Ã of Algorithm 1 (five-step random walks, thresholded)
    ``normalized``     I - D^-½ A D^-½, a zero row for a node without links
    ``combinatorial``  D - A
    ``bethe-hessian``  (r² - 1) I - rA + D, the deformed Laplacian; D - A at r = 1
    =================  ================================================================

    All but the last are positive semi-definite, and the density matrix of all but the first and the last is unchanged
    when all link weights are multiplied by one number. The Bethe Hessian (Saade, Krzakala and Zdeborová, 2014) is
    positive semi-definite only for unweighted graphs and r ≥ max(1, μ), with μ the largest eigenvalue of the
    non-backtracking matrix (two linked nodes at r = 0.5 have the eigenvalue -0.25, four with all links of weight 10 at
    r = 5 > μ = 2 have -96); at √μ its negative eigenvalues count the communities, and their eigenvectors show them.
    ``r`` is given for it alone; by default it is the square root of Σd²/Σd - 1, at least 1, with d the degrees.

    Examples
    --------
    >>> graph_laplacian([[0, 1], [1, 0]], "combinatorial").toarray()
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    check_choice("kind", kind, LAPLACIANS)
    if r is not None and kind != "bethe-hessian":
        raise InputError(f"r must be left out unless kind is 'bethe-hessian', got r = {r} with {kind!r}.")
    matrix = check_adjacency(adjacency)
    if kind == "renormalized":
        return _identity_minus(renormalized(matrix))
    if kind == "high-order":
        return _identity_minus(high_order(matrix))
    degree: FloatArray = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
    if kind == "bethe-hessian":
        factor = _excess_root(degree) if r is None else check_real("r", r)
        return sparse.csr_array(sparse.diags_array(degree + (factor**2 - 1)) - factor * matrix)
    if kind == "combinatorial":
        return sparse.csr_array(sparse.diags_array(degree) - matrix)
    linked = degree > 0
    scale = sparse.diags_array(np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=linked))
    return sparse.csr_array(sparse.diags_array(linked.astype(np.float64)) - scale @ matrix @ scale)


def _excess_root(degree: FloatArray) -> float:
    """Return (Σd²/Σd - 1)^½, about the root of the largest eigenvalue of the non-backtracking matrix; at least 1."""
    total = float(degree.sum())
    return max(1.0, float(degree @ degree) / total - 1) ** 0.5 if total else 1.0


def _identity_minus(propagation: CSRArray) -> CSRArray:
    return sparse.csr_array(sparse.eye_array(propagation.shape[0]) - propagation)


def kernel_vector(adjacency: CSRArray, kind: Density, laplacian: CSRArray) -> FloatArray:
    """Return a positive v with Lv = 0: all kinds are L = S(D' - A')S, A' ≥ 0 with degrees D', so v = S⁻¹1."""
    if kind == "combinatorial":
        return np.ones(adjacency.shape[0])
    if kind == "high-order":
        # A' has twos on its diagonal, so that Ã_ii = 2 / d'_i.
        return np.sqrt(2 / (1 - laplacian.diagonal()))
    degree: FloatArray = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    if kind == "renormalized":
        return np.sqrt(degree + 1)
    return np.sqrt(np.where(degree > 0, degree, 1.0))  # the row of a node without links is zero
