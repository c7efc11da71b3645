"""The factors M = I + X of congruences, one for each entry of a batch: on nodes, links, polynomials, of low rank."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from fishergcn.operators import PolynomialOperator, SparseMatrix


class NodeFactor:
    """M = diag(m), for weights m of shape (n, B): how loud each node speaks and how well it hears."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    def times(self, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        """Return M Z."""
        return self.weights.unsqueeze(-1) * dense

    def to(self, device: torch.device, dtype: torch.dtype) -> NodeFactor:
        """Return the factor elsewhere."""
        return NodeFactor(self.weights.to(device, dtype))


class LinkFactor:
    """M = I + X with X_ij = X_ji = v_e on links e = (i, j), for ``ends`` (2, m) and ``values`` (m, B)."""

    def __init__(self, ends: Tensor, values: Tensor) -> None:
        self.ends, self.values = ends, values

    def times(self, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        """Return M Z."""
        out, values = dense, self.values.unsqueeze(-1)
        for here, there in (self.ends, self.ends.flip(0)):
            out = out.index_add(0, here, dense[there] * values)
        return out

    def to(self, device: torch.device, dtype: torch.dtype) -> LinkFactor:
        """Return the factor elsewhere."""
        return LinkFactor(self.ends.to(device), self.values.to(device, dtype))


class PolynomialFactor:
    """M = Σ_a b_a T_a(Ã) with Chebyshev polynomials T_a, a = 0..p, for coefficients b of shape (B, p + 1)."""

    def __init__(self, coefficients: Tensor) -> None:
        self.coefficients = coefficients

    def times(self, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        """Return M Z, with p products."""
        return PolynomialOperator(matrix, self.coefficients.T.unsqueeze(-1).unbind(0)).propagate(dense)

    def to(self, device: torch.device, dtype: torch.dtype) -> PolynomialFactor:
        """Return the factor elsewhere."""
        return PolynomialFactor(self.coefficients.to(device, dtype))


class LowRankFactor:
    """M = I + V C Vᵀ, for a ``basis`` V (n, r) and symmetric C of shape (B, r, r)."""

    def __init__(self, basis: Tensor, core: Tensor) -> None:
        self.basis, self.core = basis, core

    def times(self, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        """Return M Z."""
        moments = torch.einsum("nr,nbd->brd", self.basis, dense)
        return dense + torch.einsum("nr,brd->nbd", self.basis, self.core @ moments)

    def to(self, device: torch.device, dtype: torch.dtype) -> LowRankFactor:
        """Return the factor elsewhere."""
        return LowRankFactor(self.basis.to(device, dtype), self.core.to(device, dtype))


Factor: TypeAlias = NodeFactor | LinkFactor | PolynomialFactor | LowRankFactor
