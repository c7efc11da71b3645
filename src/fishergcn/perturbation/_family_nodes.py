"""Node weights: X = diag(x)."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.operators import SparseMatrix
from fishergcn.perturbation._family import Factor, Family, laplacian_diagonal


class Nodes(Family):
    """M = diag(1 + x): tr ρX² = Σ ρ_ii x_i², so each node moves the graph by as much when x_i ∝ ρ_ii^-½."""

    constants = ()

    def __init__(self, propagation: CSRArray) -> None:
        self.own, trace = laplacian_diagonal(propagation)
        self.diagonal = torch.from_numpy(self.own / trace)  # ρ_ii
        linked = self.diagonal > 1e-12  # a node without links is in the kernel of L, however loud
        unit = torch.where(linked, self.diagonal, 1.0).mul(int(linked.sum())).rsqrt()
        self.unit = torch.where(linked, unit, 0.0)

    def limit(self, x: Tensor) -> Tensor:
        """Return x, at least -1: silent is as quiet as a node can be."""
        return x.clamp(min=-1.0)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return Σ ρ_ii x_i and the weighted standard deviation of x."""
        mean = x @ self.diagonal
        # The norm, unlike the root of a sum, has a finite (zero) gradient at x = 0.
        spread = torch.linalg.vector_norm(self.diagonal.sqrt() * (x - mean.unsqueeze(-1)), dim=-1)
        return mean, spread

    def factor(self, x: Tensor) -> Factor:
        """Return diag(1 + x): how loud each node speaks and how well it hears."""
        return Factor(_times_nodes, (1.0 + x.T).contiguous())

    def smallest(self, x: FloatArray) -> float:
        """Return min(1 + x_i) over nodes with links."""
        return float(1.0 + x[self.diagonal.cpu().numpy() > 0].min())

    def mean_operator(self, matrix: SparseMatrix, radius: float) -> SparseMatrix:
        """E[x_i L_ij x_j] is σ_i² L_ii on the diagonal and 0 beside it."""
        variance = (radius * self.unit.cpu().numpy()) ** 2
        plain = matrix.scipy
        scaled = (plain + sparse.diags_array(radius**2 - variance * self.own)) / (1.0 + radius**2)
        return SparseMatrix.from_scipy(sparse.csr_array(scaled), device=matrix.device, dtype=matrix.dtype)


def _times_nodes(matrix: SparseMatrix, dense: Tensor, weights: Tensor) -> Tensor:
    return weights.unsqueeze(-1) * dense


def best_weights(gradient: FloatArray, shares: FloatArray, size: float) -> FloatArray:
    """Return the x that maximizes gᵀx over Σ ρ_ii x_i = 0, Σ ρ_ii x_i² = κ² and x ≥ -1.

    Without the last bound it is x ∝ g/ρ - Σg, nodes without links left out. Where that asks for less than silence, the
    nodes are set to -1 and the others share what is left in the same way.
    """
    x = np.zeros_like(gradient)
    free = shares > 0
    rest, budget = 0.0, size**2  # what the silent nodes leave: Σ ρ x = rest and Σ ρ x² = budget over the free ones
    while free.any():
        g, rho = gradient[free], shares[free]
        mass = rho.sum()
        slope = g / rho - g.sum() / mass
        length = np.sqrt((rho * slope**2).sum())
        middle = rest / mass
        left = np.sqrt(max(budget - rest * middle, 0.0))
        x[free] = middle + (slope * (left / length) if length > 0 else 0.0)
        silent = free & (x < -1.0)
        if not silent.any():
            break
        x[silent] = -1.0
        free &= ~silent
        rest, budget = float(shares[~free].sum()), size**2 - float(shares[~free].sum())
    return x
