"""Linear bounds of a network over a neighborhood: what CROWN does, with the graph in place of the input.

The first layer is affine in δ = q - λ̄, so its range over the ball is exact. Over that range the ReLU lies between two
lines, a_L z ≤ σ(z) ≤ a_U z + b_U, which makes bounds of S = σ(Z) W that are affine in δ. The next product is

    (Ã(q) S)_i = Σ_m ã_im S_m - Σ_j B_ij δ_j T_j(δ),     T = Bᵀ S

whose first part is affine, bound by bound. In the second T_j(δ) = t_j + M_j·δ + e_j with e_j in a known interval, so

    δ_j T_j = t_j δ_j + M_jj δ_j² + δ_j ρ_j,     ρ_j = Σ_{l ≠ j} M_jl δ_l + e_j.

The square lies between its chord and its tangent. Around the middle of a box (δ̄, ρ̄), with half its width (d, R),
δ_j ρ_j = δ̄ ρ_j + ρ̄ δ_j - δ̄ ρ̄ up to d R. All of it is affine again, up to constants that shrink with the box.

An affine function of δ is an array F of shape (..., 1 + k, columns): a constant, then k coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fishergcn._base.arrays import ranges as all_ranges
from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.certificates._ball import Ball
from fishergcn.certificates._network import Layer, SpectralNetwork


@dataclass(frozen=True)
class Affine:
    """Two affine functions of δ, one below and one above, each (rows, 1 + k, columns); the same if it is exact."""

    low: FloatArray
    high: FloatArray

    def times(self, weight: FloatArray) -> Affine:
        """Multiply by a matrix."""
        if self.low is self.high:
            exact = self.low @ weight
            return Affine(exact, exact)
        up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        return Affine(self.low @ up + self.high @ down, self.high @ up + self.low @ down)

    def under(self, matrix: CSRArray | FloatArray) -> Affine:
        """Multiply by a matrix from the left."""
        flat = [each.reshape(len(each), -1) for each in (self.low, self.high)]
        shape = (matrix.shape[0], *self.low.shape[1:])
        if self.low is self.high:
            exact = np.asarray(matrix @ flat[0]).reshape(shape)
            return Affine(exact, exact)
        up, down = _signs(matrix)
        low, high = up @ flat[0] + down @ flat[1], up @ flat[1] + down @ flat[0]
        return Affine(np.asarray(low).reshape(shape), np.asarray(high).reshape(shape))

    def plus(self, other: Affine) -> Affine:
        """Add bounds."""
        return Affine(self.low + other.low, self.high + other.high)

    def rows(self, at: IntArray) -> Affine:
        """Return some rows."""
        low = self.low[at]
        return Affine(low, low if self.low is self.high else self.high[at])


def _signs(matrix: CSRArray | FloatArray) -> tuple[CSRArray | FloatArray, CSRArray | FloatArray]:
    """Return the positive and the negative part."""
    if not sparse.issparse(matrix):
        return np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)
    if matrix.nnz and matrix.data.min() < 0:
        return matrix.maximum(0), matrix.minimum(0)
    return matrix, sparse.csr_array(matrix.shape)


@dataclass(frozen=True)
class Moments:
    """T = Bᵀ S as t + M δ + e with e within ``middle`` ± ``off``: (B, k, p), (B, k, k, p), twice (B, k, p).

    B is 1 where they hold everywhere, or the number of parts of the ball.
    """

    value: FloatArray
    slope: FloatArray
    middle: FloatArray
    off: FloatArray

    @classmethod
    def of(cls, found: Affine, ball: Ball, *, tight: bool = True) -> Moments:
        """Take bounds of T, (k, 1 + k, p), that hold everywhere in a ball, or in one part of it, as a box."""
        slope = (found.low[:, 1:] + found.high[:, 1:]) / 2
        value = (found.low[:, 0] + found.high[:, 0]) / 2
        if found.low is found.high:
            return cls(value[None], slope[None], np.zeros_like(value)[None], np.zeros_like(value)[None])
        rows, columns = value.shape
        above, below = found.high[:, 1:] - slope, slope - found.low[:, 1:]
        slopes = np.concatenate([above, below]).swapaxes(1, 2).reshape(-1, slope.shape[1])
        sup = ball.support(slopes)[0] if tight else np.minimum(ball.quick(slopes), ball.boxed(slopes))
        up, down = sup.reshape(2, rows, columns)
        high, low = found.high[:, 0] - value + up, found.low[:, 0] - value - down
        return cls(value[None], slope[None], (high + low)[None] / 2, (high - low)[None] / 2)


@dataclass(frozen=True)
class Rows:
    """Pairs of a part of the ball and a node, each of which is a row of an :class:`Affine`."""

    part: IntArray
    node: IntArray


def _slopes(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a_L and a_U of the ReLU over ranges; b_U is - a_U low where these hold its kink, else 0."""
    kink = (low < 0) & (high > 0)
    upper = np.where(kink, high / np.where(kink, high - low, 1.0), low >= 0)
    return np.where(kink, high > -low, low >= 0).astype(np.float64), upper


class Relaxation:
    """Bounds of all layers of a network over parts of a ball, of which the first is the whole."""

    def __init__(self, network: SpectralNetwork, root: Ball, widening: list[FloatArray]) -> None:
        self.network, self.root, self.widening = network, root.part(slice(0, 1)), widening
        self.hidden_moments: list[Moments] = []
        n = len(network.basis)
        every = Rows(np.zeros(n, dtype=np.int64), np.arange(n))
        self.ball = self.root
        self.known: list[tuple[FloatArray, FloatArray]] = []
        self.last = self.first(every)  # Z that enters the last layer, of all nodes
        for level, layer in enumerate(network.layers[:-1]):
            entering = self.activate(self.last, every, level)
            product = entering.times(layer.weight)
            self.hidden_moments.append(Moments.of(product.under(network.basis.T), self.root))
            self.last = self.add(product.under(network.matrix), entering, layer, every, self.hidden_moments[-1])
        if network.layers:
            self.entering = self.activate(self.last, every, len(network.layers) - 1)

    def first(self, rows: Rows) -> Affine:
        """Return Z of the first layer, exactly."""
        net = self.network
        found = np.empty((len(rows.node), 1 + len(net.shares), net.first.shape[1]))
        found[:, 0] = net.center[rows.node]
        np.multiply(-net.basis[rows.node][:, :, None], net.moments, out=found[:, 1:])
        return Affine(found, found)

    def ranges(self, bounds: Affine, rows: Rows, level: int) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest value of each unit; tight where the ReLU's kink may be between them."""
        middle, half = self.box()
        low, high = bounds.low[:, 0].copy(), bounds.high[:, 0].copy()
        for sign, values, each in ((-1.0, low, bounds.low), (1.0, high, bounds.high)):
            slopes = each[:, 1:]
            inside = np.einsum("rk,rkh->rh", middle[rows.part], slopes)
            most = sign * inside + np.einsum("rk,rkh->rh", half[rows.part], np.abs(slopes))
            values += sign * np.minimum(most, self.root.quick(sign * slopes.swapaxes(1, 2)))
        wide = self.widening[level][rows.node]
        low, high = low - wide, high + wide
        if level < len(self.known):  # what holds in the whole ball holds in its parts
            known = self.known[level]
            return np.maximum(low, known[0][rows.node]), np.minimum(high, known[1][rows.node])
        row, unit = np.nonzero((low < 0) & (high > 0))
        for sign, values, each in ((-1.0, low, bounds.low), (1.0, high, bounds.high)):
            least = np.abs(each[row, 0, unit]) - wide[row, unit]
            found, _ = self.root.support(sign * each[row, 1:, unit], least)
            values[row, unit] = each[row, 0, unit] + sign * (found + wide[row, unit])
        self.known.append((low, high))
        return low, high

    def activate(self, bounds: Affine, rows: Rows, level: int) -> Affine:
        """Return bounds of σ of pre-activations."""
        if not self.network.relu:
            return bounds
        low, high = self.ranges(bounds, rows, level)
        kink = (low < 0) & (high > 0)
        lower, upper = _slopes(low, high)
        below = bounds.low * lower[:, None]
        if not kink.any() and bounds.low is bounds.high:
            return Affine(below, below)
        above = bounds.high * upper[:, None]
        above[:, 0] -= np.where(kink, upper * low, 0.0)
        return Affine(below, above)

    def box(self) -> tuple[FloatArray, FloatArray]:
        """Return middle and half width of δ in each part, (B, k)."""
        low, high = np.atleast_2d(self.ball.low), np.atleast_2d(self.ball.high)
        return (low + high) / 2 - self.network.shares, (high - low) / 2

    def add(self, product: Affine, entering: Affine, layer: Layer, rows: Rows, moments: Moments) -> Affine:
        """Return bounds of Ã(q) S + H V + b from those of Ã S; ``entering`` is H of the same rows."""
        below, above = self.bilinear(rows, moments)
        found = product.plus(Affine(below, above))
        if layer.own is not None:
            found = found.plus(entering.times(layer.own))
        constant = layer.constant if layer.constant.ndim == 1 else layer.constant[rows.node]
        found.low[:, 0] += constant
        if found.high is not found.low:
            found.high[:, 0] += constant
        return found

    def bilinear(self, rows: Rows, moments: Moments) -> tuple[FloatArray, FloatArray]:
        """Bound - Σ_j B_ij δ_j T_j(δ), shape (rows, 1 + k, p), from below and from above."""
        k, columns = moments.value.shape[1:]
        basis, (middle, half) = self.network.basis[rows.node], self.box()
        diagonal, others, rest, spread = self.remainder(moments)
        at = rows.part if len(rest) > 1 else np.zeros_like(rows.part)
        each = rows.part if len(moments.value) > 1 else slice(0, 1)
        middle, half = middle[rows.part], half[rows.part]
        found = np.empty((len(basis), 1 + k, columns))
        slopes = moments.value[each] + rest[at] + 2.0 * middle[:, :, None] * diagonal[each]
        moved = basis * middle
        crossed = np.matmul(moved[:, None], others[each].reshape(-1, k, k * columns)).reshape(-1, k, columns)
        found[:, 1:] = -basis[:, :, None] * slopes - crossed
        curved = -basis[:, :, None] * diagonal[each]
        found[:, 0] = np.einsum("rj,rjp->rp", moved, rest[at] - moments.middle[each])
        found[:, 0] -= np.einsum("rjp,rj->rp", curved, middle**2)
        off = np.einsum("rj,rjp->rp", np.abs(basis) * half, spread[at])
        off += (np.abs(moved)[:, :, None] * moments.off[each]).sum(1)
        low_found, high_found = found, found.copy()
        low_found[:, 0] += np.einsum("rjp,rj->rp", np.minimum(curved, 0.0), half**2) - off
        high_found[:, 0] += np.einsum("rjp,rj->rp", np.maximum(curved, 0.0), half**2) + off
        return low_found, high_found

    def remainder(self, moments: Moments) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return M_jj, (B, k, p), M without them, and middle and half width of ρ in each part, (B, k, p)."""
        k = moments.value.shape[1]
        diagonal = moments.slope[:, np.arange(k), np.arange(k)]
        others = moments.slope.copy()
        others[:, np.arange(k), np.arange(k)] = 0.0
        middle, half = self.box()
        center = np.einsum("bl,bjlp->bjp", middle, np.broadcast_to(others, (len(middle), *others.shape[1:])))
        wide = np.einsum("bl,bjlp->bjp", half, np.broadcast_to(np.abs(others), (len(half), *others.shape[1:])))
        loose = others.swapaxes(2, 3)
        high = np.minimum(center + wide, self.root.quick(loose)) + moments.middle + moments.off
        low = np.maximum(center - wide, -self.root.quick(-loose)) + moments.middle - moments.off
        return diagonal, others, (high + low) / 2, (high - low) / 2

    def looseness(self, rows: Rows, moments: Moments, column: IntArray) -> FloatArray:
        """Return what each coordinate adds to the gap of ``bilinear`` in one column of each row, (rows, k)."""
        _, half = self.box()
        diagonal, _, _, spread = self.remainder(moments)
        at = [each[np.minimum(rows.part, len(each) - 1), :, column] for each in (diagonal, spread, moments.off)]
        half = half[rows.part]
        return np.abs(self.network.basis[rows.node]) * half * (half * np.abs(at[0]) + at[1] + at[2])

    def margins(self, rows: Rows, layer: Layer, moments: Moments | None = None) -> tuple[Affine, Moments]:
        """Return bounds of the outputs of a last layer, and T; over the whole ball if that is not given."""
        net = self.network
        if moments is not None:
            return self.product(rows, len(net.layers) - 1, layer, moments), moments
        product = self.entering.times(layer.weight)
        moments = Moments.of(product.under(net.basis.T), self.root)
        entering = self.entering.rows(rows.node)
        return self.add(product.under(net.matrix[rows.node]), entering, layer, rows, moments), moments

    def product(self, rows: Rows, level: int, layer: Layer, moments: Moments) -> Affine:
        """Return bounds of Z of a layer for some rows, from what they reach in the layers before."""
        matrix, before, place = self.reached(rows)
        if level == 0:
            values = self.first(before)
        else:
            values = self.product(before, level - 1, self.network.layers[level - 1], self.hidden_moments[level - 1])
        entering = self.activate(values, before, level)
        return self.add(entering.times(layer.weight).under(matrix), entering.rows(place), layer, rows, moments)

    def reached(self, rows: Rows) -> tuple[CSRArray, Rows, IntArray]:
        """Return the matrix from what the rows reach to the rows, those, and where the rows are among them."""
        matrix = self.network.matrix
        starts, counts = matrix.indptr[rows.node], np.diff(matrix.indptr)[rows.node]
        at = all_ranges(starts, counts)
        n = matrix.shape[0]
        own = rows.part * n + rows.node
        keys = np.concatenate([np.repeat(rows.part, counts) * n + matrix.indices[at], own])
        unique, place = np.unique(keys, return_inverse=True)
        pointers = np.concatenate([[0], np.cumsum(counts)])
        found = sparse.csr_array((matrix.data[at], place[: len(at)], pointers), shape=(len(own), len(unique)))
        return found, Rows(unique // n, unique % n), place[len(at) :]


class Slabs:
    """T of a last layer where one coordinate is between limits, row j by row j: tighter than in the whole ball.

    T_j depends mostly on q_j, by which its nodes change most. Units whose ReLU has no kink in the ball add up once.
    """

    def __init__(self, relaxation: Relaxation, layer: Layer) -> None:
        self.relaxation, self.layer = relaxation, layer
        self.known: dict[tuple[int, float, float], Moments] = {}
        self.kinks: tuple[IntArray, ...]
        net, values = relaxation.network, relaxation.last
        if not net.relu:
            self.kinks = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
            self.stable = values.times(layer.weight).under(net.basis.T)
            return
        low, high = relaxation.known[-1]
        self.kinks = np.nonzero((low < 0) & (high > 0))
        active = (low >= 0)[:, None]
        exact = values.low * active
        stable = Affine(exact, exact if values.low is values.high else values.high * active)
        self.stable = stable.times(layer.weight).under(net.basis.T)

    def _add(self, wanted: list[tuple[int, float, float]]) -> None:
        """Compute T_j, as moments of one row, for low ≤ q_j ≤ high: of triples (j, low, high)."""
        root = self.relaxation.root
        low, high = (np.repeat(each, len(wanted), axis=0) for each in (root.low, root.high))
        for at, (j, *limits) in enumerate(wanted):
            low[at, j], high[at, j] = limits
        parts = Ball(root.shares, root.reach, low, high)
        parts = Ball(root.shares, root.reach, *parts.ranges())
        for at, (j, *limits) in enumerate(wanted):
            part = parts.part(slice(at, at + 1))
            self.known[j, limits[0], limits[1]] = Moments.of(self._bounds(j, part), part, tight=False)

    def _bounds(self, j: int, part: Ball) -> Affine:
        """Return bounds of T_j over a part, (1, 1 + k, p)."""
        net, values = self.relaxation.network, self.relaxation.last
        stable = self.stable.rows(np.array([j]))
        node, unit = self.kinks
        if not len(node):
            return stable
        below, above = values.low[node, :, unit], values.high[node, :, unit]
        middle, half = (part.low + part.high)[0] / 2 - net.shares, (part.high - part.low)[0] / 2
        wide = self.relaxation.widening[len(net.layers) - 1][node, unit]
        first, last = (each[node, unit] for each in self.relaxation.known[-1])
        first = np.maximum(first, below[:, 0] + below[:, 1:] @ middle - np.abs(below[:, 1:]) @ half - wide)
        last = np.minimum(last, above[:, 0] + above[:, 1:] @ middle + np.abs(above[:, 1:]) @ half + wide)
        lower, upper = _slopes(first, last)
        below, above = below * lower[:, None], above * upper[:, None]
        above[:, 0] -= np.where((first < 0) & (last > 0), upper * first, 0.0)
        weight = net.basis[node, j][:, None] * self.layer.weight[unit]  # (U, p)
        up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        low, high = below.T @ up + above.T @ down, above.T @ up + below.T @ down
        return Affine(stable.low + low, stable.high + high)

    def of(self, low: FloatArray, high: FloatArray) -> Moments:
        """Return T for parts with these limits, both (B, k): of each row j that of the limits of its coordinate."""
        pairs = zip(low.tolist(), high.tolist(), strict=True)
        keys = [[(j, *pair) for j, pair in enumerate(zip(*each, strict=True))] for each in pairs]
        missing = {key for each in keys for key in each} - self.known.keys()
        if missing:
            self._add(sorted(missing))
        rows = [[self.known[key] for key in each] for each in keys]
        names = ("value", "slope", "middle", "off")
        return Moments(
            *(np.stack([np.concatenate([getattr(each, name)[0] for each in row]) for row in rows]) for name in names)
        )
