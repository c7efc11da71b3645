"""What a family of symmetric matrices X(x) must say about itself to make a neighborhood of congruences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.operators import Operator, SparseMatrix
    from fishergcn.perturbation._factors import Factor


class Family(Protocol):
    """X(x) = Σ_a x_a X_a, a = 1..k, around a density matrix ρ = L / tr L."""

    #: (k,), float64: x = ϕ·unit∘e with independent e of variance 1 has E tr ρX² = ϕ².
    unit: Tensor

    def to(self, device: torch.device) -> Family:
        """Return the family with its constants on another device."""

    def limit(self, x: Tensor) -> Tensor:
        """Return x as near as the family wants it to I + X ⪰ 0."""

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return tr ρX and (tr ρX² - (tr ρX)²)^½ of x of shape (..., k), each of shape (...)."""

    def factor(self, x: Tensor) -> Factor:
        """Return I + X for x of shape (B, k)."""

    def smallest(self, x: FloatArray) -> float:
        """Return the smallest eigenvalue of I + X on the support of ρ, or a bound below it that is not negative."""

    def mean_operator(self, matrix: SparseMatrix, radius: float) -> Operator:
        """Return I - E[(I + X) L (I + X)] / (1 + ε²), for x = ε·unit∘e."""


def laplacian_diagonal(propagation: CSRArray) -> tuple[FloatArray, float]:
    """Return the diagonal of L = I - Ã and its sum, or raise where L cannot be a density matrix."""
    diagonal = 1.0 - propagation.diagonal()
    trace = float(diagonal.sum())
    lowest = float(diagonal.min())
    if lowest < -1e-9:
        raise InputError(f"propagation must have eigenvalues at most 1, got {1.0 - lowest:.6g} on the diagonal.")
    if trace <= 0:
        raise InputError("the graph has no links, so its Laplacian is 0 and there is nothing to perturb.")
    return np.maximum(diagonal, 0.0), trace


def root(values: Tensor) -> Tensor:
    """Return the square root of what rounding may have made negative, with derivative 0 where it is 0."""
    positive = values > 0
    return torch.where(positive, torch.where(positive, values, 1.0).sqrt(), 0.0)
