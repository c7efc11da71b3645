"""One step of compiled networks: the samples, each to the loss and back, and the gradients that they add up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import AnyArray, FloatArray
from fishergcn._kernels.threads import on_rows, row_shares
from fishergcn.nn._activation import words_per_node
from fishergcn.nn._dropout import Dropout
from fishergcn.nn._features import SparseFeatures
from fishergcn.nn._view import View
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.streams import keep_probability

#: Maps b = r * M + m and the logits (p, C) of sample m of run r to the gradient of the loss in them.
SlopeOfLoss: TypeAlias = "Callable[[int, AnyArray], AnyArray]"

_Hidden: TypeAlias = "tuple[AnyArray, FloatArray]"  # H, and Uᵀ H
_TOGETHER = 5  # as many samples as the kernel of the first weights takes at once


class LastLayer(NamedTuple):
    """The last layer's matrix (p, q) without its empty columns, and the new number of each column (n,), or -1."""

    matrix: SparseMatrix
    places: AnyArray

    @classmethod
    def of(cls, matrix: SparseMatrix) -> LastLayer:
        """Look at which columns have entries."""
        used = np.unique(matrix.scipy.indices)
        places = np.full(matrix.shape[1], -1, dtype=np.int32)
        places[used] = np.arange(len(used), dtype=np.int32)
        left = (
            matrix if len(used) == len(places) else SparseMatrix.from_scipy(matrix.scipy[:, used], dtype=matrix.dtype)
        )
        return cls(left, places)


class _Sample(NamedTuple):
    """A sample between the first product with the weights and the backward pass through it."""

    b: int  # r * M + m
    first: AnyArray  # Z⁰, (n, d), in whose place its gradient is left
    entering: FloatArray  # Uᵀ Z⁰, (k, d)
    into: list[AnyArray]  # where the gradients of all weights are added
    slope_of: SlopeOfLoss
    total: FloatArray  # where the gradient in c is added, (k,)


class Step:
    """What the samples of one step share."""

    def __init__(
        self,
        view: View,
        rows: list[AnyArray],
        last: LastLayer,
        weights: Sequence[Tensor],
        dropout: Dropout,
        operator: SparsePlusLowRank | None,
    ) -> None:
        self.view, self.rows, self.last = view, rows, last
        self.weights, self.samples = arrays_of(weights), dropout.samples
        self.by_class = [np.ascontiguousarray(each.transpose(0, 2, 1)) for each in self.weights[1:]]
        self.kind = self.weights[0].dtype
        self.scale = self.kind.type(1.0 / keep_probability(dropout.rate))
        self.features = features_of(self.view)
        self.words = [_words(dropout, 0, self.features.mask_words)]
        nodes = view.features.shape[0]
        for layer, weight in enumerate(self.weights[1:], start=1):
            stride = words_per_node(weight.shape[1])
            drawn = _words(dropout, layer, nodes * stride)
            self.words.append(drawn[:, : nodes * stride].reshape(len(drawn), nodes, stride))
        self._make_bases(operator)

    def _make_bases(self, operator: SparsePlusLowRank | None) -> None:
        """Set U at the rows that enter each layer and at those that leave the last, and c."""
        sizes = [len(self.features.arrays[0]), *(len(rows) for rows in self.rows)]
        if operator is None:
            self.bases: list[AnyArray] = [np.empty((size, 0), dtype=self.kind) for size in sizes]
            self.coefficients = np.empty((len(self.words[0]), 0), dtype=self.kind)
            return
        basis = operator.basis.contiguous().numpy()
        chosen = [self.features.arrays[0], *self.rows]
        self.bases = [basis if len(rows) == len(basis) else basis[rows] for rows in chosen]
        self.coefficients = operator.coefficients.detach().reshape(-1, operator.rank).numpy()

    def gradients(self, slopes: Sequence[Tensor], slope_of: SlopeOfLoss) -> Tensor:
        """See :meth:`CompiledNetwork.gradients`."""
        into = arrays_of(slopes)
        total = np.zeros((len(self.words[0]), self.coefficients.shape[1]), dtype=np.float64)
        go_through = self._short_sample if self._is_short() else self._sample
        # The first layer's activations of some samples of a run, then their gradients.
        together = np.empty((min(self.samples, _TOGETHER), len(self.bases[0]), self.weights[0].shape[2]), self.kind)
        for first in range(0, len(total), self.samples):
            for start in range(0, self.samples, _TOGETHER):
                samples = range(first + start, first + min(start + _TOGETHER, self.samples))
                some = together[: len(samples)]
                for b, values, moments in zip(samples, some, self._enter(samples, some), strict=True):
                    go_through(_Sample(b, values, moments, into, slope_of, total[b]))
                self._first_weights(into[0], samples, some)
        return torch.from_numpy(total.astype(self.kind))

    def _enter(self, samples: range, out: AnyArray) -> FloatArray:
        """Set out = (X ∘ mask) W⁰ for some samples of a run; return Uᵀ out, shape (b, k, d)."""
        rows, *stored = self.features.arrays
        left, weight, words = self.bases[0], self.weights[0][samples[0] // self.samples], self._feature_words(samples)
        sums = _sums(len(rows), (len(out), left.shape[1], out.shape[2]))

        def run(a: int, z: int, part: int) -> None:
            _kernels().enter(out, sums[part], left, rows, *stored, a, z, weight, words, self.scale)

        on_rows(len(rows), run)
        return _total(sums)

    def _feature_words(self, samples: range) -> AnyArray:
        return self.words[0][samples.start : samples.stop]

    def _sample(self, sample: _Sample) -> None:
        """Go through the layers and back."""
        b, first, entering, into, slope_of, total = sample
        run, depth = b // self.samples, len(self.weights)
        values, moments = first, [entering]
        hidden: list[_Hidden] = []
        for layer, weight in enumerate(self.weights[1:], start=1):
            units = self._propagate(layer - 1, b, values, moments[-1])
            places = self._places(layer, len(units))
            size = self.last.matrix.shape[1] if layer == depth - 1 else len(units)
            values = np.empty((size, weight.shape[2]), dtype=self.kind)
            hidden.append((units, self._activate(layer, b, values, places, units)))
            moments.append(hidden[-1][1] @ weight[run])
        slope = slope_of(b, self._propagate(depth - 1, b, values, moments[-1]))
        found = _moments(self.bases[-1], slope)
        for layer in range(depth - 1, 0, -1):
            total -= (found * moments[layer]).sum(1)
            units, inner = hidden.pop()
            weighted = np.zeros(inner.shape, dtype=self.kind)
            if layer == depth - 1:
                # The part of low rank is left to where it has as many columns as the hidden layer.
                before = np.zeros((self.last.matrix.shape[1], slope.shape[1]), dtype=self.kind)
                _kernels().add_transposed(before, *self.last.matrix.arrays(), slope)
                outer = self._weighted(b, found)
                into[layer][run] -= inner.T @ outer
                weighted = outer @ self.by_class[layer - 1][run]
            else:
                before = self._propagate_back(layer, b, slope, found)
            places = self._places(layer, len(units))
            found = self._hidden_backward(layer, b, into[layer], units, weighted, before, places)
            slope = units
        total -= (found * moments[0]).sum(1)
        self._propagate_back(0, b, slope, found, first)

    def _is_short(self) -> bool:
        """Whether two calls do for a sample: two layers, one thread, and products by rows."""
        first = matrix_of(self.view, 0)
        one_thread = all(len(row_shares(size)) == 1 for size in first.shape)
        return len(self.weights) == 2 and one_thread and not first.full_rows and not self.last.matrix.full_rows

    def _short_sample(self, sample: _Sample) -> None:
        """Do what :meth:`_sample` does, in fewer calls."""
        from fishergcn._kernels import cpu_sample

        b, first, entering, into, slope_of, total = sample
        run, matrix, last = b // self.samples, matrix_of(self.view, 0), self.last.matrix.arrays()
        weight, by_class = self.weights[1][run], self.by_class[0][run]
        (width, classes), c = weight.shape, self.coefficients[b]
        logits = np.empty((len(self.bases[2]), classes), dtype=self.kind)
        hidden = np.empty((len(self.bases[1]), width), dtype=self.kind)
        inner, outer = np.empty((len(c), width)), np.empty((len(c), classes))
        lanes, bases, places = _kernels().lanes_of(width), tuple(self.bases), self.last.places
        forward = (lanes, logits, hidden, inner, outer, first, entering, c, matrix.arrays(), last, bases, places)
        cpu_sample.forward(*forward, self.rows[0], self.words[1][b], weight, by_class, self.scale)
        slope = slope_of(b, logits)
        backward = (into[1][run], total, first, hidden, slope, inner, outer, entering, c)
        cpu_sample.backward(*backward, matrix.arrays(transposed=True), last, bases, places, by_class, self.scale)

    def _places(self, layer: int, rows: int) -> AnyArray:
        """Return where the rows of a layer stand in what is computed of its product with the weights."""
        return self.last.places if layer == len(self.weights) - 1 else np.arange(rows, dtype=np.int32)

    def _propagate(self, layer: int, b: int, dense: AnyArray, moments: FloatArray) -> AnyArray:
        """Return the product with the perturbed graph of sample b."""
        inner = layer < len(self.weights) - 1 or layer == 0
        matrix = matrix_of(self.view, layer) if inner else self.last.matrix
        out, weighted = np.empty((matrix.shape[0], dense.shape[1]), dtype=self.kind), self._weighted(b, moments)
        matrix.multiply_into(out[:, None], dense[:, None], left=self.bases[layer + 1], weighted=weighted[:, None])
        return out

    def _weighted(self, b: int, moments: FloatArray) -> AnyArray:
        return np.asarray(self.coefficients[b][:, None] * moments, dtype=self.kind)

    def _activate(self, layer: int, b: int, out: AnyArray, places: AnyArray, hidden: AnyArray) -> FloatArray:
        """Apply ReLU and dropout in place; set the product with the weights, and return Uᵀ H, shape (k, d)."""
        kernels, rows, words = _kernels(), self.rows[layer - 1], self.words[layer][b]
        lanes, left, by_class = kernels.lanes_of(hidden.shape[1]), self.bases[layer], self.by_class[layer - 1]
        sums = _sums(len(hidden), (left.shape[1], hidden.shape[1]))

        def run(a: int, z: int, part: int) -> None:
            given = (hidden[a:z], by_class[b // self.samples], rows[a:z], words, self.scale)
            kernels.activate(lanes, out, places[a:z], sums[part], left[a:z], *given)

        on_rows(len(hidden), run)
        return _total(sums)

    def _propagate_back(
        self, layer: int, b: int, slope: AnyArray, found: FloatArray, out: AnyArray | None = None
    ) -> AnyArray:
        """Return the product with the transpose of the perturbed graph of sample b, in ``out`` if that is given."""
        matrix = matrix_of(self.view, layer)
        out = np.empty((matrix.shape[1], slope.shape[1]), dtype=self.kind) if out is None else out
        parts = {"left": self.bases[layer], "weighted": self._weighted(b, found)[:, None]}
        matrix.multiply_into(out[:, None], slope[:, None], transposed=True, **parts)
        return out

    def _hidden_backward(
        self,
        layer: int,
        b: int,
        into: AnyArray,
        hidden: AnyArray,
        weighted: AnyArray,
        before: AnyArray,
        places: AnyArray,
    ) -> FloatArray:
        """Add the gradient of a layer's weights; replace the activations by their gradient G; return Uᵀ G, (k, d)."""
        kernels, left, by_class = _kernels(), self.bases[layer], self.by_class[layer - 1][b // self.samples]
        sums = _sums(len(hidden), (left.shape[1], hidden.shape[1]))
        slopes = _sums(len(hidden), by_class.shape)

        def run(a: int, z: int, part: int) -> None:
            given = (left[a:z], weighted, hidden[a:z], before, places[a:z], by_class, self.scale)
            kernels.hidden_backward(slopes[part], sums[part], *given)

        on_rows(len(hidden), run)
        into[b // self.samples] += _total(slopes).T
        return _total(sums)

    def _first_weights(self, into: AnyArray, samples: range, grad: AnyArray) -> None:
        """Add the gradient of W⁰ of some samples of a run."""
        rows, *stored = self.features.arrays
        run_number, words = samples[0] // self.samples, self._feature_words(samples)
        mine = into[run_number : run_number + 1]
        parts = [mine, *(np.zeros_like(mine) for _ in row_shares(len(rows))[1:])]

        def run(a: int, z: int, part: int) -> None:
            _kernels().leave(parts[part], rows[a:z], *stored, grad, a, words, self.scale)

        on_rows(len(rows), run)
        for part in parts[1:]:
            mine += part


def _kernels() -> ModuleType:
    """Return the kernels, which need numba."""
    from fishergcn._kernels import cpu_network

    return cpu_network


def _sums(rows: int, shape: tuple[int, ...]) -> FloatArray:
    """Return where each thread adds up."""
    return np.zeros((len(row_shares(rows)), *shape), dtype=np.float64)


def _total(sums: FloatArray) -> FloatArray:
    return sums[0] if len(sums) == 1 else np.asarray(sums.sum(0))


def _moments(basis: AnyArray, dense: AnyArray) -> FloatArray:
    """Return Uᵀ Z of few columns, shape (k, d)."""
    if basis.shape[1] == 0:
        return np.empty((0, dense.shape[1]))
    found: FloatArray = (torch.from_numpy(basis).T @ torch.from_numpy(dense)).numpy()
    return found


def _words(dropout: Dropout, purpose: int, count: int) -> AnyArray:
    words = dropout.words(purpose, count)
    if words is None:
        raise AssertionError("a step without dropout is not compiled")
    return words.numpy().view(np.uint32)


def arrays_of(tensors: Sequence[Tensor]) -> list[AnyArray]:
    return [each.detach().contiguous().numpy() for each in tensors]


def matrix_of(view: View, layer: int) -> SparseMatrix:
    matrix = view.operators[layer]
    if not isinstance(matrix, SparseMatrix):
        raise AssertionError("fits() lets sparse matrices pass only")
    return matrix


def features_of(view: View) -> SparseFeatures:
    if not isinstance(view.features, SparseFeatures):
        raise AssertionError("fits() lets sparse features pass only")
    return view.features
