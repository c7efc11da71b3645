"""The worst margin of each node over a ball: bounds from below, graphs that attain something from above.

    min over q ∈ Q of  min_{b ≠ a} (z_a - z_b)(q),   a the class at q = λ̄

Bounds over the whole ball decide most nodes. Of the others, graphs are looked for that change the class: from the q at
which the bound is lowest, and on by minimizing the linearized margin over the ball in closed form. What is left is
decided by branch and bound: the ball is cut in two along the coordinate that matters most to the node, again and again.

**Rounding.** ``SpectralNetwork.errors`` bounds by E_l how far a pass in float64 is off in layer l, from sums over
|Ã|, |B| and |W| of sizes S_l ≥ |Z^l|. Bounds come from the same sums over affine functions F of the size ‖F‖ = |F_0|
+ Σ_j |F_j| max |δ_j|. Let ‖F‖ ≤ c S_l for those of Z^l; c = 1 for l = 0. Lines around the ReLU have slopes in [0, 1]
and constants of at most ‖F‖, so that those of σ(Z^l) have at most 2c S_l. With τ = |B|ᵀ S_l |W|, then t, M δ and e
are at most 2c τ, ρ and its middle and half width at most 4c τ, and all terms of ``bilinear`` together at most 28 c
|B| max |δ| τ. So c ≤ 28^l. A bound that is off by E is a bound of what is off by E: through the lines, whose ranges
are widened by E, it stays E, and it passes through products as in ``errors``. What layer l adds is thus at most 28^l
times what a pass adds there, in sums over at most k + 2 times as many terms (positive and negative parts, 1 + k
coefficients). The margin of a node gives up 32 (k + 2) 28^max(l - 1, 0) E_l, which is more. That the maxima over the
ball are rounded up is shown in ``_ball``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fishergcn._base.types import BoolArray, FloatArray, IntArray
from fishergcn.certificates._ball import UNIT, Ball
from fishergcn.certificates._bounds import Affine, Moments, Relaxation, Rows, Slabs
from fishergcn.certificates._network import SpectralNetwork

_COPIES, _GROWTH = 32, 28  # of rounding: see above
_DESCENTS = 4
_HALVINGS = 3


@dataclass
class Search:
    """What is known of some nodes so far: bounds of their worst margin, (N,), and where the upper one is attained."""

    network: SpectralNetwork
    ball: Ball
    nodes: IntArray
    classes: IntArray
    lower: FloatArray
    upper: FloatArray
    shares: FloatArray
    other: IntArray
    rounding: FloatArray
    relaxation: Relaxation
    first_looseness: FloatArray

    @classmethod
    def of(cls, network: SpectralNetwork, ball: Ball, nodes: IntArray, *, attack: bool = True) -> Search:
        """Bound the margins of nodes over the whole ball, and look for graphs that change what is not certified."""
        reach = np.maximum(ball.high, network.shares)  # more than |δ|: sums over q itself are rounded, too
        copies = _COPIES * (len(network.shares) + 2)
        errors = network.errors(UNIT, reach)
        widening = [copies * _GROWTH ** max(at - 1, 0) * each for at, each in enumerate(errors)]
        center = network.logits(np.zeros_like(network.shares))
        classes = center.argmax(1)[nodes]
        margins = center[nodes, classes][:, None] - center[nodes]
        margins[np.arange(len(nodes)), classes] = np.inf
        off = widening[-1][nodes]
        rounding = off[np.arange(len(nodes)), classes] + off.max(1)
        found = cls(
            network, ball, nodes, classes, np.full(len(nodes), np.inf), margins.min(1),
            np.tile(network.shares, (len(nodes), 1)), margins.argmin(1), rounding,
            Relaxation(network, ball, widening), np.zeros((len(nodes), len(network.shares))),
        )  # fmt: skip
        for each in np.unique(classes):
            found._bound_class(int(each), attack)
        return found

    @property
    def certified(self) -> BoolArray:
        """Whether no graph of the ball changes the class, rounding included."""
        return self.lower > 0

    @property
    def broken(self) -> BoolArray:
        """Whether a graph was found that changes it."""
        return self.upper < 0

    @property
    def undecided(self) -> BoolArray:
        """Neither."""
        return ~(self.certified | self.broken)

    def columns(self, each: int) -> tuple[FloatArray, IntArray]:
        """Return the matrix from logits to the margins of a class over the others, (C, C - 1), and those."""
        others = np.delete(np.arange(self.network.classes), each)
        eye = np.eye(self.network.classes)
        return eye[:, [each]] - eye[:, others], others

    def _bound_class(self, each: int, attack: bool) -> None:
        """Bound the margins of the nodes of one class, and attack those for which that is not enough."""
        at = np.flatnonzero(self.classes == each)
        rows = Rows(np.zeros(len(at), dtype=np.int64), self.nodes[at])
        bounds, moments = self._margins(rows, each, None)
        lower, points, column = self._lowest(bounds, self.ball.part(rows.part), self.rounding[at])
        self.lower[at] = lower
        if moments is not None:
            self.first_looseness[at] = self.relaxation.looseness(rows, moments, column)
        for row in np.flatnonzero(lower <= 0) if attack else ():
            self._descend(at[row], points[row], int(self.columns(each)[1][column[row]]))

    def _margins(self, rows: Rows, each: int, moments: Moments | None) -> tuple[Affine, Moments | None]:
        columns, _ = self.columns(each)
        if self.network.layers:
            return self.relaxation.margins(rows, self.network.layers[-1].toward(columns), moments)
        exact = self.relaxation.first(rows).low @ columns
        return Affine(exact, exact), None

    def _lowest(self, bounds: Affine, parts: Ball, rounding: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return the smallest bound of each row, (R,), rounded down, where it is attained, (R, k), and its column."""
        count, k, columns = len(bounds.low), bounds.low.shape[1] - 1, bounds.low.shape[2]
        slopes = bounds.low[:, 1:].swapaxes(1, 2).reshape(-1, k)
        every = parts.part(np.repeat(np.arange(count), columns))
        enough = (bounds.low[:, 0] - 2 * rounding[:, None]).reshape(-1)
        value, points = every.support(-slopes, enough)
        lower = bounds.low[:, 0] - value.reshape(count, columns) - rounding[:, None]
        column = lower.argmin(1)
        return lower.min(1), points.reshape(count, columns, k)[np.arange(count), column], column

    def _descend(self, at: int, point: FloatArray, other: int, *, only_below: bool = False) -> None:
        """Look for a graph that changes the class of a node, from a point of the ball on; stop where one does.

        With ``only_below``, give up at once unless the point is the worst so far.
        """
        before = self.upper[at]
        direction = np.zeros(self.network.classes)
        direction[self.classes[at]], direction[other] = 1.0, -1.0
        here = self._offer(at, point, direction)
        for _ in range(_DESCENTS if here[0] < before or not only_below else 0):
            if self.upper[at] < 0:
                return
            target = self.ball.support(-here[1][None])[1][0]
            for _ in range(_HALVINGS):
                there = self._offer(at, target, direction)
                if there[0] < here[0]:
                    break
                target = (target + point) / 2
            else:
                return
            point, here = target, there

    def _offer(self, at: int, point: FloatArray, direction: FloatArray) -> tuple[float, FloatArray]:
        """Return margin and gradient of a node at a point, and keep the point if it is the worst so far."""
        logits, gradient = self.network.descent(point - self.network.shares, int(self.nodes[at]), direction)
        gaps = logits[self.classes[at]] - logits
        gaps[self.classes[at]] = np.inf
        if gaps.min() < self.upper[at]:
            self.upper[at], self.shares[at], self.other[at] = gaps.min(), point, gaps.argmin()
        return float(logits @ direction), gradient

    def branch(self, rounds: int, most: int) -> None:
        """Cut the ball for nodes that are undecided, at most ``rounds`` times and into ``most`` parts a node."""
        for each in np.unique(self.classes[self.undecided]):
            self._branch_class(int(each), rounds, most)

    def _branch_class(self, each: int, rounds: int, most: int) -> None:
        columns, others = self.columns(each)
        relaxed = self.relaxation
        slabs = Slabs(relaxed, self.network.layers[-1].toward(columns))
        of = np.flatnonzero((self.classes == each) & self.undecided)  # the node of each open part
        cuts = self.ball.part(np.zeros(len(of), dtype=np.int64))  # where the ball was cut
        loose = self.first_looseness[of]
        lowest = np.full(len(self.nodes), np.inf)
        for _ in range(rounds):
            of, cuts = np.concatenate([of, of]), _halves(cuts, loose)
            inside = cuts.nearest()[1]
            of, cuts = of[inside], cuts.part(inside)
            low, high = cuts.ranges()
            relaxed.ball = replace(cuts, low=low, high=high)
            rows, moments = Rows(np.arange(len(of)), self.nodes[of]), slabs.of(cuts.low, cuts.high)
            bounds, _ = self._margins(rows, each, moments)
            lower, points, column = self._lowest(bounds, relaxed.ball, self.rounding[of])
            loose = relaxed.looseness(rows, moments, column)
            for row in _worst_rows(of, lower):
                if lower[row] <= 0:
                    self._descend(of[row], points[row], int(others[column[row]]), only_below=True)
            still = (lower <= 0) & ~self.broken[of]
            np.minimum.at(lowest, of[~still], lower[~still])
            done = np.setdiff1d(of[~self.broken[of]], of[still])
            self.lower[done] = np.maximum(self.lower[done], lowest[done])
            still &= 2 * np.bincount(of[still], minlength=len(self.nodes))[of] <= most
            of, cuts, loose = of[still], cuts.part(still), loose[still]
            if not len(of):
                break
        relaxed.ball = relaxed.root


def _halves(parts: Ball, loose: FloatArray) -> Ball:
    """Return all lower, then all upper halves of parts, cut along the loosest coordinate."""
    j = loose.argmax(1)
    rows = np.arange(len(j))
    middle = (parts.high[rows, j] + parts.low[rows, j]) / 2
    high, low = parts.high.copy(), parts.low.copy()
    high[rows, j] = low[rows, j] = middle
    return replace(parts, low=np.concatenate([parts.low, low]), high=np.concatenate([high, parts.high]))


def _worst_rows(of: IntArray, lower: FloatArray) -> IntArray:
    """Return for each node the row with the smallest bound."""
    order = np.lexsort((lower, of))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = of[order][1:] != of[order][:-1]
    found: IntArray = order[first]
    return found
