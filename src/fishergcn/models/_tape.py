"""The derivative of an output in every entry of the matrix, and in the features, that a network multiplies with.

A network uses P only in products Y_l = P Z_l, and X only in products X W. With S_l = ∂ℓ/∂Y_l and E = ∂ℓ/∂(X W)

    ∂ℓ/∂P = Σ_l S_l Z_lᵀ = S Zᵀ,   S = [S_0 … S_{L-1}],   Z = [Z_0 … Z_{L-1}],   ∂ℓ/∂x_i = E_i Wᵀ,

all entries taken as independent: n x w factors, w the sum of the widths, instead of n x n numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.nn import Features
from fishergcn.operators import SparseMatrix, spmm


class Tape:
    """P, which notes what it multiplies and lets the derivative of each product be asked for."""

    def __init__(self, matrix: SparseMatrix) -> None:
        self.matrix = matrix
        self.inputs: list[Tensor] = []
        self.probes: list[Tensor] = []

    shape = property(lambda self: self.matrix.shape)
    dtype = property(lambda self: self.matrix.dtype)
    device = property(lambda self: self.matrix.device)

    def to(self, *_: Any, **__: Any) -> Tape:
        """Stay as it is: a tape that moved would be another one."""
        return self

    def _noted(self, dense: Tensor, product: Tensor) -> Tensor:
        probe = torch.zeros_like(product, requires_grad=True)
        self.inputs.append(dense.detach().reshape(len(dense), -1))
        self.probes.append(probe)
        return product + probe

    def propagate(self, dense: Tensor) -> Tensor:
        """Return P Z for Z of shape (n, B, d)."""
        return self._noted(dense, self.matrix.propagate(dense))

    def __matmul__(self, dense: Tensor) -> Tensor:
        if dense.ndim == 1:
            return (self @ dense.unsqueeze(-1)).squeeze(-1)
        if dense.ndim != 2:
            raise InputError(f"network must multiply the operator with a matrix, got shape {tuple(dense.shape)}.")
        return self._noted(dense, spmm(self.matrix, dense))

    def gradient(self, value: Tensor, *others: Tensor) -> tuple[FloatArray, FloatArray, tuple[Tensor, ...]]:
        """Return S and Z of ∂ℓ/∂P = S Zᵀ, each (n, w), and the derivatives in other tensors, by one backward pass."""
        found = torch.autograd.grad(value, [*self.probes, *others], materialize_grads=True)
        errors, rest = found[: len(self.probes)], found[len(self.probes) :]
        none = np.zeros((self.matrix.shape[0], 0))
        return (
            np.concatenate([none, *(each.reshape(len(each), -1).numpy() for each in errors)], axis=1),
            np.concatenate([none, *(each.numpy() for each in self.inputs)], axis=1),
            rest,
        )


class InputTape:
    """X of one network, which notes the weights that it is multiplied with."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.weights: list[Tensor] = []
        self.probes: list[Tensor] = []

    shape = property(lambda self: self.features.shape)
    mask_words = property(lambda self: self.features.mask_words)

    def times(self, weight: Tensor, words: Tensor | None, samples: int, dropout: float) -> Tensor:
        """Return X W of shape (n, 1, h)."""
        product = self.features.times(weight, words, samples, dropout)
        self.weights.append(weight.detach())
        self.probes.append(torch.zeros_like(product, requires_grad=True))
        return product + self.probes[-1]

    def row(self, derivatives: tuple[Tensor, ...], node: int) -> FloatArray:
        """Return ∂ℓ/∂x of one node, shape (D,), from the derivatives in the probes."""
        found = torch.zeros(self.shape[1], dtype=torch.float64)
        for each, weight in zip(derivatives, self.weights, strict=True):
            found += torch.einsum("rh,rdh->d", each[node], weight)
        return found.numpy()


@dataclass(frozen=True)
class LinkScores:
    """score(i, j) = left_i · right_j of node vectors (n, w), symmetric in i and j; for i = j it is ``diagonal``."""

    left: FloatArray
    right: FloatArray
    diagonal: FloatArray

    __repr__ = one_line

    def of(self, links: IntArray) -> FloatArray:
        """Return the scores of pairs (m, 2)."""
        i, j = links.T
        return np.asarray(np.where(i == j, self.diagonal[i], (self.left[i] * self.right[j]).sum(axis=1)))


def entry_scores(S: FloatArray, Z: FloatArray) -> LinkScores:
    """∂ℓ/∂p_ij for a change of both p_ij and p_ji: S_i·Z_j + Z_i·S_j, and S_i·Z_i on the diagonal."""
    return LinkScores(np.hstack([S, Z]), np.hstack([Z, S]), (S * Z).sum(axis=1))


def raw_scores(
    S: FloatArray,
    Z: FloatArray,
    adjacency: CSRArray,
    propagation: CSRArray,
    normalization: tuple[float, float, float] = (1.0, 0.5, 0.5),
) -> LinkScores:
    """∂ℓ/∂a_ij through P = b_i^-α B_ij b_j^-β, B = A + κI, b = B1, for a change of both a_ij and a_ji.

    The link enters its own entries and, through the degrees, all entries of rows and columns i and j:

        ∂ℓ/∂a_ij = S_i·Z_j b_i^-α b_j^-β + S_j·Z_i b_j^-α b_i^-β - t_i - t_j,
        t_i = (α S_i·(PZ)_i + β Z_i·(PᵀS)_i) / b_i.

    A link of a node to itself changes one entry and one degree: S_i·Z_i b_i^-(α+β) - t_i. Of a node with b = 0, in
    which P is not continuous, nothing is known, and the powers of b are taken as 0.
    """
    itself, first, second = normalization
    degrees: FloatArray = itself + np.asarray(adjacency.sum(axis=1)).ravel()
    known = degrees > 0
    safe = np.where(known, degrees, 1.0)
    out, into = (np.where(known, safe**-power, 0.0)[:, None] for power in (first, second))
    forward, backward = np.asarray(propagation @ Z), np.asarray(propagation.T @ S)
    through = first * (S * forward).sum(axis=1) + second * (Z * backward).sum(axis=1)
    t = np.where(known, through / safe, 0.0)[:, None]
    one = np.ones((len(S), 1))
    left = np.hstack([S * out, Z * into, -t, one])
    right = np.hstack([Z * into, S * out, one, -t])
    return LinkScores(left, right, (S * Z).sum(axis=1) * (out * into)[:, 0] - t[:, 0])
