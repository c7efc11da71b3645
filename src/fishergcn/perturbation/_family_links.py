"""Weights of links: X_ij = x_e Ã_ij on each link e = (i, j)."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import eigsh
from torch import Tensor

from fishergcn._base.arrays import ranges
from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.operators import SparseMatrix
from fishergcn.perturbation._family import Factor, Family, laplacian_diagonal, root

_MOST_PAIRS = 200_000_000


class Links(Family):
    """tr ρX² = xᵀQx, where Q has Ã_e² (ρ_ii + ρ_jj) on its diagonal and an entry for each two sides of a triangle.

    ‖X‖ ≤ max |x_e|, since |Ã| has no eigenvalue above 1: up to there I + X is surely positive semi-definite.
    """

    constants = ("first", "second", "between", "slope", "ends", "weights")

    def __init__(self, propagation: CSRArray) -> None:
        self.propagation = propagation
        diagonal, trace = laplacian_diagonal(propagation)
        upper = sparse.coo_array(sparse.triu(propagation, 1))
        rows, columns = (each.astype(np.int64) for each in upper.coords)
        order = np.lexsort((columns, rows))
        rows, columns, weights = rows[order], columns[order], upper.data[order]
        own = weights**2 * (diagonal[rows] + diagonal[columns]) / trace
        first, second, values = _triangle_sides(rows, columns, weights, propagation.shape[0])
        self.diagonal = torch.from_numpy(own)
        self.first, self.second, self.between = map(torch.from_numpy, (first, second, 2.0 * values / trace))
        self.slope = torch.from_numpy(-2.0 * weights**2 / trace)  # of tr ρX in x
        self.ends = torch.from_numpy(np.stack([rows, columns]))
        self.weights = torch.from_numpy(weights)
        self.unit = torch.full((len(weights),), own.sum() ** -0.5, dtype=torch.float64)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return tr ρX and the standard deviation of X in ρ."""
        mean = x @ self.slope
        square = x.square() @ self.diagonal + (x[..., self.first] * x[..., self.second]) @ self.between
        return mean, root(square - mean.square())

    def factor(self, x: Tensor) -> Factor:
        """Return I + X, with values x_e Ã_e on the links."""
        return Factor(_times_links, self.ends, (x * self.weights).T.contiguous())

    def smallest(self, x: FloatArray) -> float:
        """Return 1 - max |x_e| where that is not negative, else the smallest eigenvalue of I + X."""
        bound = 1.0 - float(np.abs(x).max())
        if bound >= 0:
            return bound
        rows, columns = self.ends.cpu().numpy()
        nodes = self.propagation.shape[0]
        upper = sparse.coo_array((x * self.weights.cpu().numpy(), (rows, columns)), shape=(nodes, nodes))
        change = sparse.csr_array(upper + upper.T)
        if nodes < 16:  # too small for Lanczos
            return float(1.0 + np.linalg.eigvalsh(change.toarray())[0])
        return float(1.0 + eigsh(change, k=1, which="SA", return_eigenvectors=False)[0])

    def mean_operator(self, matrix: SparseMatrix, radius: float) -> SparseMatrix:
        """E[XLX] has σ² Ã_ij² L_ij beside the diagonal and σ² Σ_j Ã_ij² L_jj on it."""
        plain = matrix.scipy
        laplacian = sparse.csr_array(sparse.eye_array(plain.shape[0]) - plain)
        beside = sparse.csr_array(plain - sparse.diags_array(plain.diagonal()))
        squares = beside.power(2) * (radius * float(self.unit[0])) ** 2
        change = squares.multiply(laplacian) + sparse.diags_array(np.asarray(squares @ laplacian.diagonal()))
        scaled = (laplacian + change) / (1.0 + radius**2)
        found = sparse.csr_array(sparse.eye_array(plain.shape[0]) - scaled)
        return SparseMatrix.from_scipy(found, device=matrix.device, dtype=matrix.dtype)


def _times_links(matrix: SparseMatrix, dense: Tensor, ends: Tensor, values: Tensor) -> Tensor:
    out = dense
    for here, there in (ends, ends.flip(0)):
        out = out.index_add(0, here, dense[there] * values.unsqueeze(-1))
    return out


def _triangle_sides(
    rows: IntArray, columns: IntArray, weights: FloatArray, nodes: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return two sides of every triangle, three times each, with Ã_a Ã_b L_f, f the third side."""
    keys = rows * nodes + columns
    both = sparse.csr_array(
        (np.ones(2 * len(rows), dtype=np.int8), (np.append(rows, columns), np.append(columns, rows))),
        shape=(nodes, nodes),
    )
    degree = np.diff(both.indptr).astype(np.int64)
    near, far = np.where(degree[rows] <= degree[columns], (rows, columns), (columns, rows))
    if int(degree[near].sum()) > _MOST_PAIRS:
        raise InputError(
            f"directions='links' needs a sparse graph, at most {_MOST_PAIRS:,} pairs of neighboring links, got "
            f"{int(degree[near].sum()):,}; use 'nodes'."
        )
    third = np.repeat(np.arange(len(rows)), degree[near])
    apex = both.indices[ranges(both.indptr[near].astype(np.int64), degree[near])].astype(np.int64)
    sides = []
    for end in (near[third], far[third]):
        key = np.minimum(apex, end) * nodes + np.maximum(apex, end)
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        sides.append((place, keys[place] == key))
    there = sides[0][1] & sides[1][1]
    first, second, third = sides[0][0][there], sides[1][0][there], third[there]
    return first, second, -weights[first] * weights[second] * weights[third]
