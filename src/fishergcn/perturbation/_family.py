"""What a family of symmetric matrices X(x) must say about itself to make a neighborhood of congruences."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.errors import InputError
from fishergcn.operators import Operator, SparseMatrix

if TYPE_CHECKING:
    from typing_extensions import Self


class Factor:
    """M = I + X, one for each entry of a batch: ``product(Ã, Z, *parts)`` is M Z for activations (n, B, d)."""

    def __init__(self, product: Callable[..., Tensor], *parts: Tensor) -> None:
        self.product, self.parts = product, parts

    def times(self, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        """Return M Z, given Ã."""
        return self.product(matrix, dense, *self.parts)

    def to(self, device: torch.device, dtype: torch.dtype) -> Factor:
        """Return the factor on another device or in another precision."""
        return Factor(
            self.product, *(each.to(device, dtype if each.is_floating_point() else None) for each in self.parts)
        )


class Family(ABC):
    """X(x) = Σ_a x_a X_a, a = 1..k, around a density matrix ρ = L / tr L."""

    #: Names of the tensors that follow to another device.
    constants: ClassVar[tuple[str, ...]]
    #: (k,), float64: x = ϕ·unit∘e with independent e of variance 1 has E tr ρX² = ϕ².
    unit: Tensor
    #: (k,), float64: tr ρX_a² of each direction.
    diagonal: Tensor

    def to(self, device: torch.device) -> Self:
        """Return the family with its constants on another device."""
        moved = copy.copy(self)
        for name in ("unit", "diagonal", *self.constants):
            setattr(moved, name, getattr(self, name).to(device))
        return moved

    def limit(self, x: Tensor) -> Tensor:
        """Return x as near as the family wants it to I + X ⪰ 0."""
        return x

    @abstractmethod
    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return tr ρX and (tr ρX² - (tr ρX)²)^½ of x of shape (..., k), each of shape (...)."""

    @abstractmethod
    def factor(self, x: Tensor) -> Factor:
        """Return I + X for x of shape (B, k)."""

    @abstractmethod
    def smallest(self, x: FloatArray) -> float:
        """Return the smallest eigenvalue of I + X on the support of ρ, or a bound below it that is not negative."""

    def largest(self, x: FloatArray) -> float | None:
        """Return the largest eigenvalue of (I + X) L (I + X), or None where Lanczos finds it as well."""
        return None

    @abstractmethod
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
