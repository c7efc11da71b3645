"""Bounds of a network of one or two layers over all graphs whose links have weights between two bounds.

    ã_ij = s_i w_ij s_j,   s_i = d_i^-½,   d_i = Σ_j w_ij,   w = A + I with w_ij in [low_ij, high_ij]

A sum of row i over the others' s, which are let free in their own ranges, is a ratio in the weights of that row alone,

    s_i Σ_j w_ij c_j = Σ w c / (Σ w)^½,     s_i² Σ_j w_ij c_j = Σ w c / Σ w,

and its smallest value over the box is found exactly: it is at a corner where the weights with the smallest c are high
and the others low (half power, positive: by the dual of a convex problem). In the margin of node i,

    m = s_i Σ_j w_ij q_j + …,     q_j = s_j h_j·v ≥ s_j² Σ_k w_jk s_k (y_k·γ_j) + s_j κ_j,

h_j·v ≥ γ_j·z_j + β_j are linear bounds of ReLU over the ranges of z (CROWN), and κ_j = γ_j·own_j + β_j. So s_j is in a
mean over the neighbors of j, which does not change when all links of j are scaled. What is given up: an s_k, and a
weight, may take different values in different rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from fishergcn._base.types import BoolArray, CSRArray, FloatArray, IntArray
from fishergcn.certificates._network import Layer, SpectralNetwork

_BLOCK = 2**22


@dataclass(frozen=True)
class Rows:
    """Some rows of w: entries by row, the columns of each, and bounds of its weight."""

    starts: IntArray
    columns: IntArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, low: CSRArray, high: CSRArray, rows: IntArray) -> Rows:
        """Return some rows of two matrices of the same pattern."""
        part, top = low[rows], high[rows]
        return cls(part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data, top.data)

    @property
    def which(self) -> IntArray:
        """Return the row of each entry."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def _alike(self) -> list[tuple[IntArray, IntArray]]:
        """Return the rows of each length, and their entries, shape (rows, length)."""
        lengths = np.diff(self.starts)
        chosen = [(np.flatnonzero(lengths == length), length) for length in np.unique(lengths)]
        return [(rows, self.starts[rows][:, None] + np.arange(length)) for rows, length in chosen]

    def smallest(self, values: FloatArray, *, half: bool) -> FloatArray:
        """Return for each row the minimum of Σ w c / Σ w, or over (Σ w)^½, over all weights; no row is empty.

        c are ``values``, for each entry or, of shape (entries, columns), several for each.
        """
        wide = values if values.ndim == 2 else values[:, None]
        found = np.empty((len(self.starts) - 1, wide.shape[1]))
        for rows, entries in self._alike:
            for part in np.array_split(np.arange(wide.shape[1]), 1 + entries.size * wide.shape[1] // _BLOCK):
                c, low, step = np.broadcast_arrays(
                    wide[entries][..., part], self.low[entries, None], (self.high - self.low)[entries, None]
                )
                found[rows[:, None], part] = _smallest(c, low, step, half=half)
        return found if values.ndim == 2 else found[:, 0]


def _smallest(c: FloatArray, low: FloatArray, step: FloatArray, *, half: bool) -> FloatArray:
    """Return the minimum for weights between low and low + step, over the middle one of three axes."""
    order = np.argsort(c, axis=1)
    c, low, step = (np.take_along_axis(each, order, axis=1) for each in (c, low, step))
    # Numerators and denominators where the first 0, 1, … weights are high.
    top, bottom = (
        np.cumsum(np.concatenate([(low * by).sum(1, keepdims=True), step * by], axis=1), axis=1)
        for by in (c, np.ones_like(c))
    )
    corner = (top / bottom ** (0.5 if half else 1.0)).min(1)
    if not half or (corner < 0).all():
        return corner  # type: ignore[no-any-return]
    # Positive: a²/b is convex and at least 2τa - τ²b, whose minimum over the box is at a corner. The best τ is that of
    # a corner, if that corner is its minimum, or one at which the minimum passes from a corner to the next.
    tau, ends = top / bottom, np.full_like(c[:, :1], np.inf)
    inside = (2 * np.concatenate([-ends, c], axis=1) <= tau) & (tau <= 2 * np.concatenate([c, ends], axis=1))
    bend = np.maximum(c, 0.0)
    dual = np.maximum(
        np.where(inside, top * tau, 0.0).max(1), (4 * bend * (top[:, :-1] - bend * bottom[:, :-1])).max(1)
    )
    return np.asarray(np.where(corner < 0, corner, np.sqrt(np.maximum(dual, 0.0))))


def least(values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the minimum of s c over s in [low, high]."""
    return np.minimum(values * low, values * high)


@dataclass(frozen=True)
class Reweighted:
    """A network over the graphs with weights in [low, high], bounded in the rows ``inner`` and the rows after them.

    ``roots`` are bounds of s, both (n,); ``inner`` must contain the neighbors of all nodes that are asked for.
    """

    network: SpectralNetwork
    low: CSRArray
    high: CSRArray
    roots: tuple[FloatArray, FloatArray]
    inner: IntArray
    rows: Rows
    slack: FloatArray | float
    ranges: tuple[FloatArray, FloatArray] | None

    @classmethod
    def of(cls, network: SpectralNetwork, low: CSRArray, high: CSRArray, inner: IntArray) -> Reweighted:
        """Compute the ranges of the first layer's outputs."""
        wide = 1 + 2.0**-50 * (np.diff(low.indptr).max(initial=1) + 8)
        roots = (np.asarray(high.sum(1)) * wide) ** -0.5, np.asarray(low.sum(1)) ** -0.5 * wide
        rows = Rows.of(low, high, inner)
        found = cls(network, low, high, roots, inner, rows, 0.0, None)
        if not network.layers:
            return found
        entering, ends = network.first[rows.columns], [each[rows.columns, None] for each in roots]
        bottom = rows.smallest(least(entering, *ends), half=True)
        top = -rows.smallest(least(-entering, *ends), half=True)
        own, off = network.own[inner], errors(network, low, high, 2.0**-53)[0][inner]
        return cls(network, low, high, roots, inner, rows, off, (bottom + own - off, top + own + off))

    def margins(self, nodes: IntArray, direction: FloatArray) -> FloatArray:
        """Bound from below Z·direction of the last layer, (C,), at nodes, without what rounding adds to it."""
        network, last = self.network, Rows.of(self.low, self.high, nodes)
        if not network.layers:
            values = least((network.first @ direction)[last.columns], *(each[last.columns] for each in self.roots))
            return last.smallest(values, half=True) + network.own[nodes] @ direction
        (layer,) = (each.toward(direction[:, None]) for each in network.layers)
        place = np.empty(self.low.shape[0], dtype=np.int64)
        place[self.inner] = np.arange(len(self.inner))
        slopes, constant = self._relaxed(layer.weight[:, 0])
        means = self.rows.smallest(self._entering(self.rows, slopes), half=False)
        hidden = means + least(constant, *(each[self.inner] for each in self.roots))
        return last.smallest(hidden[place[last.columns]], half=True) + self._added(layer, nodes, last, place)

    def _added(self, layer: Layer, nodes: IntArray, rows: Rows, place: IntArray) -> FloatArray:
        """Bound what does not come along links: the constant, and H V of the nodes."""
        constant = layer.constant[nodes, 0] if layer.constant.ndim == 2 else layer.constant[0]
        if layer.own is None:
            return np.broadcast_to(constant, len(nodes))
        slopes, added = (each[place[nodes]] for each in self._relaxed(layer.own[:, 0]))
        return np.asarray(constant) + rows.smallest(self._entering(rows, slopes), half=True) + added

    def _relaxed(self, direction: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return γ, (rows, d), and γ·own + β, (rows,), with h·direction ≥ γ·z + β over the ranges of z."""
        own = self.network.own[self.inner]
        if not self.network.relu or self.ranges is None:
            slopes = np.broadcast_to(direction, own.shape)
            return slopes, own @ direction
        low, high = self.ranges
        crossing: BoolArray = (low < 0) & (high > 0)
        chord = np.where(crossing, high / np.where(crossing, high - low, 1.0), low >= 0)
        below = np.where(crossing, high >= -low, low >= 0)
        slopes = direction * np.where(direction >= 0, below, chord)
        added = np.where(crossing & (direction < 0), -direction * chord * low, 0.0)
        return slopes, (slopes * own).sum(1) + added.sum(1)

    def _entering(self, rows: Rows, slopes: FloatArray) -> FloatArray:
        """Return the minimum of s_k (y_k·γ_j) for each entry (j, k)."""
        found, which = np.empty(len(rows.columns)), rows.which
        for part in np.array_split(np.arange(len(found)), 1 + len(found) * slopes.shape[1] // _BLOCK):
            found[part] = np.einsum("ij,ij->i", self.network.first[rows.columns[part]], slopes[which[part]])
        return least(found, *(each[rows.columns] for each in self.roots))


def errors(network: SpectralNetwork, low: CSRArray, high: CSRArray, unit: float) -> list[FloatArray]:
    """Bound how far rounding moves Z of each layer, on any graph, in a pass and in these bounds.

    No quantity is more than three times as large as the sum of its terms' sizes in a pass over absolute values at the
    largest weights and the smallest degrees, and no term goes through more than K operations: γ_K of that sum, times 8.
    """
    root = np.asarray(low.sum(1)) ** -0.5
    longest = int(np.diff(low.indptr).max(initial=1))
    terms = network.longest + 2 * longest + 64 + sum(each.weight.shape[0] for each in network.layers)
    around = sparse.diags_array(root) @ high @ sparse.diags_array(root)
    gamma = 8 * terms * unit / (1.0 - terms * unit)
    size = np.asarray(around @ network.first_size) + network.own_size
    found = [gamma * size]
    for layer in network.layers:
        mine = 0.0 if layer.own is None else size @ abs(layer.own)
        size = np.asarray(around @ (size @ abs(layer.weight))) + mine + abs(layer.constant)
        found.append(gamma * size)
    return found
