"""The network's forward and backward pass on the CPU as a sequence of compiled kernels, without autograd.

    forward   Z⁰ = (X ∘ mask) W⁰,   H^l = mask ∘ ReLU(Ã Z^{l-1}),   Z^l = H^l W^l,   logits = Ã Z^{L-1}
    backward  for l = L-1..1:  dZ = Ãᵀ G,  dW^l = H^lᵀ dZ,  G ← gate(H^l) ∘ (dZ W^lᵀ);   dW⁰ = (X ∘ mask)ᵀ Ãᵀ G

from the gradient G of the logits. On a graph of some thousand nodes two thirds of a step were spent around the kernels;
and since a layer's gradient takes the place of its activations, two arrays of activations are held where autograd holds
five.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.backend import backend_of
from fishergcn._base.types import AnyArray
from fishergcn._kernels.threads import on_rows, row_shares
from fishergcn.nn._activation import words_per_node
from fishergcn.nn._dropout import Dropout
from fishergcn.nn._features import SparseFeatures
from fishergcn.nn._view import View
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.streams import keep_probability

_Layer: TypeAlias = "tuple[AnyArray, AnyArray]"  # activations, and the moments of what was propagated to them


class CompiledNetwork:
    """R networks with M samples each over one view of the graph, whose derivative is written out.

    Parameters
    ----------
    view
        Sparse features and sparse matrices; see :meth:`fits`.

    Notes
    -----
    :meth:`forward` keeps what :meth:`backward` needs, which can be called once for each forward pass with dropout. The
    result is that of :func:`logits` and of its derivative, up to rounding.

    Examples
    --------
    >>> import torch, fishergcn
    >>> from fishergcn.nn import full_view, make_features
    >>> from fishergcn.operators import SparseMatrix
    >>> graph = fishergcn.datasets.load("cora")
    >>> matrix = SparseMatrix.from_scipy(fishergcn.renormalized(graph.adjacency), dtype=torch.float32)
    >>> view = full_view(make_features(graph.features), matrix, depth=2)
    >>> weights = [torch.ones(1, 1433, 16), torch.ones(1, 16, 7)]
    >>> CompiledNetwork.fits(view, weights)
    True
    >>> CompiledNetwork(view).forward(weights).shape
    torch.Size([2708, 1, 7])
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self._nodes = np.arange(view.features.shape[0], dtype=np.int32)
        self._rows = [self._nodes if rows is None else rows.numpy() for rows in view.rows]
        self._kept: list[_Layer] = []
        self._words: AnyArray | None = None
        self._dropout: Dropout | None = None

    @staticmethod
    def fits(view: View, weights: Sequence[Tensor]) -> bool:
        """Whether the kernels know this view: numba is there, and features and all matrices are sparse."""
        return (
            backend_of(weights[0]) == "numba"
            and isinstance(view.features, SparseFeatures)
            and all(isinstance(each, SparseMatrix) for each in view.operators)
        )

    @torch.no_grad()
    def forward(
        self, weights: Sequence[Tensor], dropout: Dropout | None = None, operator: SparsePlusLowRank | None = None
    ) -> Tensor:
        """Return the logits, shape (p, R * M, C).

        Parameters
        ----------
        weights
            W^l of each layer, shape (R, d_l, d_{l+1}).
        dropout
            Masks for training; without them M = 1 and nothing is kept.
        operator
            Perturbed graphs, R * M of them, whose sparse part is that of the view.
        """
        from fishergcn._kernels import cpu

        features, arrays = _sparse(self.view), _arrays(weights)
        self._dropout, samples = dropout, 1 if dropout is None else dropout.samples
        runs, _, width = arrays[0].shape
        values = np.empty((len(features.arrays[0]), runs * samples, width), dtype=arrays[0].dtype)
        self._words = _words(dropout, 0, features.mask_words)
        masks = () if self._words is None else (self._words, samples, _scale(values, dropout))
        kernel = cpu.features_forward if masks else cpu.features_forward_plain
        rows, *stored = features.arrays
        on_rows(len(rows), lambda a, z, _: kernel(values[a:z], rows[a:z], *stored, arrays[0], *masks))
        self._kept = []
        for layer, weight in enumerate(arrays[1:], start=1):
            hidden, moments = self._propagate(layer - 1, values, operator)
            values = self._activate(layer, hidden, weight, dropout)
            if dropout is not None:
                self._kept.append((hidden, moments))
        out, moments = self._propagate(-1, values, operator)
        if dropout is not None:
            self._kept.append((out, moments))
        return torch.from_numpy(out)

    def _activate(self, layer: int, hidden: AnyArray, weight: AnyArray, dropout: Dropout | None) -> AnyArray:
        """Apply ReLU and dropout in place; return the product with the weights."""
        from fishergcn._kernels import cpu

        out = np.empty((*hidden.shape[:2], weight.shape[2]), dtype=hidden.dtype)
        lanes, stride = cpu.lanes_of(hidden.shape[2]), words_per_node(hidden.shape[2])
        words = _words(dropout, layer, len(self._nodes) * stride)
        if words is None or dropout is None:
            on_rows(len(out), lambda a, z, _: cpu.activate_plain(lanes, out[a:z], hidden[a:z], weight))
            return out
        masks = words[:, : words.shape[1] // stride * stride].reshape(len(words), -1, stride)
        rows, options = self._rows[layer - 1], (masks, dropout.samples, _scale(hidden, dropout))
        on_rows(len(out), lambda a, z, _: cpu.activate(lanes, out[a:z], hidden[a:z], weight, rows[a:z], *options))
        return out

    @torch.no_grad()
    def backward(
        self,
        gradient: Tensor,
        weights: Sequence[Tensor],
        slopes: Sequence[Tensor],
        operator: SparsePlusLowRank | None = None,
    ) -> Tensor:
        """Add the gradients of the weights to ``slopes``; return that of the operator's c, shape (R * M, k).

        ``gradient`` is that of the logits; its memory and that of all activations is used up.
        """
        from fishergcn._kernels import cpu

        if self._words is None or self._dropout is None or not self._kept:
            raise AssertionError("backward() follows a forward pass with dropout")
        arrays, into, samples = _arrays(weights), _arrays(slopes), self._dropout.samples
        _, moments = self._kept.pop()
        slope = gradient.contiguous().numpy()
        total = np.zeros((slope.shape[1], len(moments)), dtype=slope.dtype)
        for layer in range(len(arrays) - 1, 0, -1):
            before, found = self._propagate(layer, slope, operator, transposed=True)
            total -= (found * moments).sum(-1).T
            slope, moments = self._kept.pop()
            self._hidden_backward(into[layer], slope, before, arrays[layer])
        before, found = self._propagate(0, slope, operator, transposed=True)
        total -= (found * moments).sum(-1).T
        del slope
        rows, *stored = _sparse(self.view).arrays
        lanes, options = cpu.lanes_of(before.shape[2]), (self._words, samples, _scale(before, self._dropout))
        parts = _parts(into[0], len(rows))

        def run(first: int, last: int, part: int) -> None:
            cpu.features_backward(lanes, parts[part], rows[first:last], *stored, before[first:last], *options)

        on_rows(len(rows), run)
        _add(into[0], parts)
        return torch.from_numpy(total)

    def _hidden_backward(self, slope: AnyArray, hidden: AnyArray, before: AnyArray, weight: AnyArray) -> None:
        """Add the gradient of a layer's weights; replace the activations by the gradient of what made them."""
        from fishergcn._kernels import cpu

        dropout, parts = self._dropout, _parts(slope, len(hidden))
        options = (weight, 1 if dropout is None else dropout.samples, _scale(hidden, dropout))
        lanes = cpu.lanes_of(hidden.shape[2])

        def run(first: int, last: int, part: int) -> None:
            cpu.hidden_backward(lanes, parts[part], hidden[first:last], before[first:last], *options)

        on_rows(len(hidden), run)
        _add(slope, parts)

    def _propagate(
        self, layer: int, dense: AnyArray, operator: SparsePlusLowRank | None, *, transposed: bool = False
    ) -> _Layer:
        """Return the product with the graph, or with the perturbed ones, and Uᵀ Z, shape (k, B, d)."""
        matrix = self.view.operators[layer]
        if not isinstance(matrix, SparseMatrix):
            raise AssertionError("fits() lets sparse matrices pass only")
        out = np.empty((matrix.shape[1 if transposed else 0], *dense.shape[1:]), dtype=dense.dtype)
        if operator is None:
            matrix.multiply_into(out, dense, transposed=transposed)
            return out, dense[:0]
        basis = operator.basis
        moments = (basis.T @ torch.from_numpy(dense).view(len(dense), -1)).view(-1, *dense.shape[1:])
        weighted = operator.coefficients.detach().reshape(-1, operator.rank).T.unsqueeze(-1) * moments
        parts = {"left": basis.contiguous().numpy(), "weighted": weighted.contiguous().numpy()}
        matrix.multiply_into(out, dense, transposed=transposed, **parts)
        return out, moments.numpy()


def _parts(total: AnyArray, rows: int) -> list[AnyArray]:
    """Return where each thread adds up: the first in the total itself."""
    return [total, *(np.zeros_like(total) for _ in row_shares(rows)[1:])]


def _add(total: AnyArray, parts: list[AnyArray]) -> None:
    for part in parts[1:]:
        total += part


def _arrays(tensors: Sequence[Tensor]) -> list[AnyArray]:
    return [each.detach().contiguous().numpy() for each in tensors]


def _scale(like: AnyArray, dropout: Dropout | None) -> Any:
    return like.dtype.type(1.0 / keep_probability(0.0 if dropout is None else dropout.rate))


def _words(dropout: Dropout | None, purpose: int, count: int) -> AnyArray | None:
    words = None if dropout is None else dropout.words(purpose, count)
    return None if words is None else words.numpy().view(np.uint32)


def _sparse(view: View) -> SparseFeatures:
    if not isinstance(view.features, SparseFeatures):
        raise AssertionError("fits() lets sparse features pass only")
    return view.features
