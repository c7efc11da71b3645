"""The derivative of a network's output in every entry of its graph, as a product of two thin matrices.

A network uses Ã only in products Y_l = Ã Z_l. With S_l = ∂ℓ/∂Y_l the chain rule gives

    ∂ℓ/∂Ã = Σ_l S_l Z_lᵀ = S Zᵀ,   S = [S_0 … S_{L-1}],   Z = [Z_0 … Z_{L-1}],

all entries taken as independent: n x w factors, w the sum of the widths, instead of n x n numbers. For a GCN
Z_l = H^l W^l and S_l = Δ_{l+1} ∘ σ'_{l+1}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import FloatArray
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.operators import SparseMatrix, spmm


@dataclass(frozen=True)
class GraphGradient:
    """∂ℓ/∂Ã = S Zᵀ, never built.

    Attributes
    ----------
    errors, inputs : ndarray, shape (n, w)
        S and Z.
    """

    errors: FloatArray
    inputs: FloatArray


class _Tape:
    """Ã, which notes what it multiplies and lets the derivative of each product be asked for."""

    def __init__(self, matrix: SparseMatrix) -> None:
        self.matrix = matrix
        self.inputs: list[Tensor] = []
        self.probes: list[Tensor] = []

    shape = property(lambda self: self.matrix.shape)
    dtype = property(lambda self: self.matrix.dtype)
    device = property(lambda self: self.matrix.device)

    def to(self, *_: Any, **__: Any) -> _Tape:
        """Stay as it is: a tape that moved would be another one."""
        return self

    def _noted(self, dense: Tensor, product: Tensor) -> Tensor:
        probe = torch.zeros_like(product, requires_grad=True)
        self.inputs.append(dense.detach().reshape(len(dense), -1))
        self.probes.append(probe)
        return product + probe

    def propagate(self, dense: Tensor) -> Tensor:
        return self._noted(dense, self.matrix.propagate(dense))

    def __matmul__(self, dense: Tensor) -> Tensor:
        if dense.ndim == 1:
            return (self @ dense.unsqueeze(-1)).squeeze(-1)
        if dense.ndim != 2:
            raise InputError(f"network must multiply the operator with a matrix, got shape {tuple(dense.shape)}.")
        return self._noted(dense, spmm(self.matrix, dense))


def graph_gradient(model: TrainedModel, output: Callable[[Tensor], Tensor]) -> GraphGradient:
    """Return the derivative in Ã of a number that ``output`` makes of the logits, by one backward pass."""
    tape = _Tape(model.operator)
    with torch.enable_grad():
        value = output(model.logits(tape)[:, 0])
        if not tape.probes:
            raise InputError("network must use its operator, got one that never multiplies with it.")
        # A product that the output does not depend on has no derivative at all, which torch calls None.
        found = torch.autograd.grad(value, tape.probes, allow_unused=True)
    errors = [
        torch.zeros_like(probe) if error is None else error for error, probe in zip(found, tape.probes, strict=True)
    ]
    return GraphGradient(
        np.concatenate([each.reshape(len(each), -1).numpy() for each in errors], axis=1),
        np.concatenate([each.numpy() for each in tape.inputs], axis=1),
    )
