"""The network's forward and backward pass on the CPU as a sequence of compiled kernels, without autograd.

    forward   Z⁰ = (X ∘ mask) W⁰,   H^l = mask ∘ ReLU(Ã Z^{l-1}),   Z^l = H^l W^l,   logits = Ã Z^{L-1}
    backward  for l = L-1..1:  dZ = Ãᵀ G,  dW^l = H^lᵀ dZ,  G ← gate(H^l) ∘ (dZ W^lᵀ);   dW⁰ = (X ∘ mask)ᵀ Ãᵀ G

from the gradient G of the logits. Samples do not meet before their gradients are added up, so each goes there and back
before the next one: then the activations of one sample are held instead of all, and a layer's gradient takes the place
of its activations. Only dW⁰ is computed for some samples at once, which share the lines of it that they add to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.backend import backend_of
from fishergcn._base.types import AnyArray
from fishergcn._kernels.threads import on_rows
from fishergcn.nn._compiled_step import LastLayer, SlopeOfLoss, Step, arrays_of, features_of, matrix_of
from fishergcn.nn._dropout import Dropout
from fishergcn.nn._features import SparseFeatures
from fishergcn.nn._view import View
from fishergcn.operators import SparseMatrix, SparsePlusLowRank


class CompiledNetwork:
    """R networks with M samples each over one view of the graph: :func:`logits` and its derivative, up to rounding."""

    def __init__(self, view: View) -> None:
        self.view = view
        nodes = np.arange(view.features.shape[0], dtype=np.int32)
        self._rows = [nodes if rows is None else rows.numpy() for rows in view.rows]

    @staticmethod
    def fits(view: View, weights: Sequence[Tensor]) -> bool:
        """Whether the kernels know this view: numba is there, and features and all matrices are sparse."""
        return (
            backend_of(weights[0]) == "numba"
            and isinstance(view.features, SparseFeatures)
            and all(isinstance(each, SparseMatrix) for each in view.operators)
        )

    @torch.no_grad()
    def forward(self, weights: Sequence[Tensor]) -> Tensor:
        """Return the logits without dropout, shape (p, R, C), for weights W^l of shape (R, d_l, d_{l+1})."""
        from fishergcn._kernels import cpu, cpu_network

        arrays = arrays_of(weights)
        rows, *stored = features_of(self.view).arrays
        values = np.empty((len(rows), len(arrays[0]), arrays[0].shape[2]), dtype=arrays[0].dtype)
        on_rows(len(rows), lambda a, z, _: cpu.features_forward_plain(values[a:z], rows[a:z], *stored, arrays[0]))
        for layer, weight in enumerate(arrays[1:]):
            hidden = self._product(layer, values)
            values = np.empty((*hidden.shape[:2], weight.shape[2]), dtype=hidden.dtype)
            parts, lanes = (values, hidden, weight), cpu_network.lanes_of(hidden.shape[2])
            on_rows(len(hidden), partial(_activate_plain, lanes, *parts))
        return torch.from_numpy(self._product(-1, values))

    def _product(self, layer: int, dense: AnyArray) -> AnyArray:
        matrix = matrix_of(self.view, layer)
        out = np.empty((matrix.shape[0], *dense.shape[1:]), dtype=dense.dtype)
        matrix.multiply_into(out, dense)
        return out

    @cached_property
    def _last(self) -> LastLayer:
        return LastLayer.of(matrix_of(self.view, -1))

    @torch.no_grad()
    def gradients(
        self,
        weights: Sequence[Tensor],
        slopes: Sequence[Tensor],
        dropout: Dropout,
        slope_of: SlopeOfLoss,
        operator: SparsePlusLowRank | None = None,
    ) -> Tensor:
        """Add the gradients of the weights to ``slopes``; return that of the operator's c, shape (R * M, k).

        W^l has shape (R, d_l, d_{l+1}). ``dropout`` has a rate above 0; the operator is R * M perturbed graphs whose
        sparse part is that of the view.
        """
        return Step(self.view, self._rows, self._last, weights, dropout, operator).gradients(slopes, slope_of)


def _activate_plain(
    lanes: tuple[int, ...], out: AnyArray, hidden: AnyArray, weight: AnyArray, first: int, last: int, _: int
) -> None:
    from fishergcn._kernels import cpu_network

    cpu_network.activate_plain(lanes, out[first:last], hidden[first:last], weight)
