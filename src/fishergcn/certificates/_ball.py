"""The set of graphs that a certificate speaks of, and the largest value of a linear function over it.

    Q = {q : Σ_j q_j = 1,  Σ_j (√q_j - √λ̄_j)² ≤ r²/s,  l_j ≤ q_j ≤ h_j}

are the shares of the spectrum of all graphs within Bures distance r along fixed eigenvectors (λ̄ the shares of the graph
itself, s its captured mass): the left side of the second line is D_B²/s, and convex in q. Limits l and h say λ_max ≤ 2,
and cut Q into parts. For g ∈ R^k, numbers ν and m ≥ 0,

    max_{q ∈ Q} g·q  ≤  ν + m r²/s + Σ_j max_{l_j ≤ q_j ≤ h_j} [(g_j - ν) q_j - m (√q_j - √λ̄_j)²]

with the inner maximum at √q_j = √λ̄_j m/(m + ν - g_j), clipped, and with equality for the best ν and m (the set is
convex and has an inner point). Without limits, minimizing over m leaves ν' - cos²α / Σ_j λ̄_j/(ν' - g_j), ν' = ν + m and
cos α = 1 - r²/(2s). Every ν and m gives a bound, so that a search which ends early is loose and never wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fishergcn._base.types import BoolArray, FloatArray, IntArray

UNIT = 2.0**-53  # relative error of one operation in float64
_STEPS = 80
_PROBES = (0.0, 0.05, -0.05, 0.4, -0.4)  # of log10 ν' around its guess
_CLOSE = 1e-13  # width of the last bracket of log10 ν, relative to the spread of g
_SMALLEST = 1e-140  # whose square is still a number
_AT_ONCE = 20_000  # problems that are solved side by side


@dataclass(frozen=True)
class Ball:
    """Q for one or for B parts of it.

    ``shares`` is λ̄, (k,); ``reach`` is r²/s; ``low`` and ``high`` are l and h, (k,) or (B, k).
    """

    shares: FloatArray
    reach: float
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, shares: FloatArray, mass: float, radius: float, cap: float | None) -> Ball:
        """Return the ball of a radius, with q_j ≤ cap; limits are rounded outward and as close as the ball has them."""
        reach = radius**2 / mass * (1.0 + 16 * UNIT)
        free = np.ones_like(shares) if cap is None else np.full_like(shares, min(1.0, cap * (1.0 + 4 * UNIT)))
        found = cls(shares, reach, np.zeros_like(shares), np.maximum(free, shares))
        low, high = found.ranges()
        return replace(found, low=low, high=high)

    def __len__(self) -> int:
        return len(np.atleast_2d(self.low))

    def part(self, at: IntArray | BoolArray | slice) -> Ball:
        """Return some of the parts."""
        return replace(self, low=np.atleast_2d(self.low)[at], high=np.atleast_2d(self.high)[at])

    def ranges(self) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest q_j of each part, as (B, k) or (k,)."""
        shape, k = self.low.shape, len(self.shares)
        low, high = (np.repeat(np.atleast_2d(each), 2 * k, axis=0) for each in (self.low, self.high))
        signs = np.concatenate([np.eye(k), -np.eye(k)])
        value, _ = replace(self, low=low, high=high).support(np.tile(signs, (len(low) // (2 * k), 1)))
        value = value.reshape(-1, 2, k)
        upper, lower = self.shares + value[:, 0], self.shares - value[:, 1]
        return np.maximum(self.low, lower.reshape(shape)), np.minimum(self.high, upper.reshape(shape))

    def quick(self, gradient: FloatArray) -> FloatArray:
        """Return a bound of max g·(q - λ̄) that is loose and fast, for g of shape (..., k).

        With y = √q - √λ̄, ‖y‖² ≤ r²/s and Σλ̄ g = 0 it is Σ g (2 √λ̄ y + y²) ≤ 2 r/√s ‖√λ̄ g‖ + r²/s max g.
        """
        center = gradient - (gradient @ self.shares)[..., None]
        length = np.sqrt(np.einsum("...k,k->...", center**2, self.shares))
        bound = 2.0 * np.sqrt(self.reach) * length + self.reach * np.maximum(center.max(-1), 0.0)
        return np.asarray(bound + 64 * len(self.shares) * UNIT * np.abs(gradient).max(-1))

    def boxed(self, gradient: FloatArray) -> FloatArray:
        """Return the maximum of g·(q - λ̄) over the limits alone, for g of shape (B, k)."""
        low, high = self.low - self.shares, self.high - self.shares
        terms = np.maximum(gradient * low, gradient * high)
        return np.asarray(terms.sum(-1) + 4 * len(self.shares) * UNIT * np.abs(terms).sum(-1))

    def support(self, gradient: FloatArray, enough: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return max g·(q - λ̄) over Q, rounded up, and the q that attains it, for g of shape (B, k).

        Each row of g has its own part of Q, or all have the same. Where the maximum without limits is at most
        ``enough``, (B,), it is returned as it is. An empty part of Q has the value -inf.
        """
        k, count = len(self.shares), len(gradient)
        value, point = np.empty(count), np.empty((count, k))
        for start in range(0, count, _AT_ONCE):
            at = slice(start, start + _AT_ONCE)
            low, high = (np.broadcast_to(each, gradient.shape)[at] for each in (self.low, self.high))
            value[at], point[at] = self._without_limits(gradient[at])
            outside = ((point[at] < low) | (point[at] > high)).any(-1)
            if enough is not None:
                outside &= value[at] > enough[at]
            if outside.any():
                rows = start + np.flatnonzero(outside)
                found = _solve(gradient[rows], self.shares, self.reach, low[outside], high[outside])
                value[rows], point[rows] = np.minimum(value[rows], found[0]), found[1]
        return value, point

    def _without_limits(self, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return value and point of the maximum over q ≥ 0."""
        g = gradient - (gradient @ self.shares)[:, None]
        base = g.max(-1, keepdims=True)
        spread = np.maximum(base - g.min(-1, keepdims=True), _SMALLEST)
        roots = np.sqrt(self.shares)

        def at(log: FloatArray, rows: IntArray | slice) -> tuple[FloatArray, FloatArray]:
            point = roots / ((base[rows] - g[rows]) + spread[rows] * 10.0 ** log[:, None])
            point /= np.sqrt(np.einsum("bk,bk->b", point, point))[:, None]
            away = point - roots
            return point, np.einsum("bk,bk->b", away, away) - self.reach

        logs = _bracket(at, _guess(g, self.shares, self.reach, base, spread))
        point, _ = at(logs, slice(None))
        ahead = spread * 10.0 ** logs[:, None]
        scale = (point * ((base - g) + ahead) / roots).mean(-1, keepdims=True)
        zeros, ones = np.zeros_like(g), np.ones_like(g)
        return _dual(gradient, g, base + (ahead - scale), scale, self.shares, self.reach, zeros, ones), point**2

    def nearest(self) -> tuple[FloatArray, BoolArray]:
        """Return the q of each part that is closest to λ̄, and whether it is within the ball."""
        low, high = np.atleast_2d(self.low), np.atleast_2d(self.high)
        point = _filled(np.broadcast_to(self.shares, low.shape), low, high)
        away = ((np.sqrt(point) - np.sqrt(self.shares)) ** 2).sum(-1)
        possible = (low.sum(-1) <= 1 + 64 * UNIT) & (high.sum(-1) >= 1 - 64 * UNIT)
        return point, possible & (away <= self.reach * (1 + 1e-9) + 1e-14)


def _filled(weights: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return q = clip(x p, l, h) with Σq = 1, for positive weights p of shape (B, k): x lies between breakpoints."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        stops = np.concatenate([low / weights, high / weights], axis=-1)
        stops = np.where(np.isfinite(stops), stops, 0.0)
        sums = np.clip(stops[..., None] * weights[..., None, :], low[..., None, :], high[..., None, :]).sum(-1)
    below = np.where(sums <= 1.0, stops, 0.0).max(-1, keepdims=True)
    above = np.where(sums >= 1.0, stops, np.inf).min(-1, keepdims=True)
    above = np.where(np.isfinite(above), above, below)
    first = np.clip(below * weights, low, high)
    missing = 1.0 - first.sum(-1, keepdims=True)
    middle = (below + above) / 2 * weights
    rising = np.where((middle > low) & (middle < high), weights, 0.0)
    step = missing / np.maximum(rising.sum(-1, keepdims=True), _SMALLEST)
    return np.asarray(np.clip(first + np.clip(step, 0.0, above - below) * rising, low, high))


def _solve(
    gradient: FloatArray, shares: FloatArray, reach: float, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return value and point of :meth:`Ball.support`: a search for ν' at which q is as far as the ball reaches."""
    g = gradient - (gradient @ shares)[:, None]
    low, high = np.broadcast_to(low, g.shape), np.broadcast_to(high, g.shape)
    roots = np.sqrt(shares)
    # Below ν' = g_p more than all of q would be at its upper limit: p is the basic variable of the linear program.
    order = np.argsort(-g, axis=-1)
    room = np.take_along_axis(high - low, order, axis=-1).cumsum(-1) + low.sum(-1, keepdims=True)
    last = np.minimum((room < 1.0).sum(-1, keepdims=True), g.shape[1] - 1)
    base = np.take_along_axis(g, np.take_along_axis(order, last, axis=-1), axis=-1)
    spread = np.maximum(g.max(-1, keepdims=True) - g.min(-1, keepdims=True), _SMALLEST)

    def at(log: FloatArray, rows: IntArray | slice) -> tuple[FloatArray, FloatArray]:
        gap = (base[rows] - g[rows]) + spread[rows] * 10.0 ** log[:, None]
        weights = np.where(gap > 0, shares / np.maximum(gap, _SMALLEST) ** 2, 1e280)
        point = _filled(weights, np.where(gap > 0, low[rows], high[rows]), high[rows])
        return point, ((np.sqrt(point) - roots) ** 2).sum(-1) - reach

    logs = _bracket(at, _guess(g, shares, reach, base, spread))
    point, _ = at(logs, slice(None))
    ahead = spread * 10.0 ** logs[:, None]
    scale = _multiplier(point, (base - g) + ahead, shares, low, high)
    value = _dual(gradient, g, base + (ahead - scale), scale, shares, reach, low, high)
    # Where the ball does not bind this is a linear program, with m = 0.
    value = np.minimum(value, _dual(gradient, g, base, np.zeros_like(scale), shares, reach, low, high))
    empty = (low.sum(-1) > 1 + 1e-12) | (high.sum(-1) < 1 - 1e-12)
    return np.where(empty, -np.inf, value), point


def _dual(
    gradient: FloatArray, g: FloatArray, nu: FloatArray, scale: FloatArray, shares: FloatArray, reach: float,
    low: FloatArray, high: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return the bound of max g·(q - λ̄) at ν and m, rounded up; g is ``gradient`` less a number for each row.

    With x = √q and c = √λ̄ a term is f(x) = (g - ν)(x² - c²) - m (x - c)², with the maximum at x = c m/p, p = m + ν - g.
    Rounding moves p by at most e = 4 u (m + |ν| + |g|), as if g were another number, and the maximum by at most
    e |x² - c²| at the x of either number; these differ by at most 2 e/p of x where e ≤ p/2, and are within the limits
    anyway. To evaluate f at x costs 8 u (|g - ν||x² - c²| + m |x - c| (x + c)), 4 u² m included; the sum, the product
    m r²/s and Σλ̄ = 1 the rest. Numbers below 1e-140 are not told apart.
    """
    roots = np.sqrt(shares)
    gap, off = scale + nu - g, 4 * UNIT * (scale + np.abs(nu) + np.abs(g))
    best = np.where(gap > 0, roots * scale / np.maximum(gap, _SMALLEST), np.inf)
    best = np.clip(np.where((scale == 0) & (gap == 0), roots, best), np.sqrt(low), np.sqrt(high))
    away, change = best - roots, best**2 - shares
    gain, cost = (g - nu) * change, scale * away**2
    value = scale[:, 0] * reach + (gain - cost).sum(-1)
    near = np.where(gap > 2 * off, 4 * best**2 * off / np.maximum(gap, _SMALLEST), high - low)
    moved = 2 * off * (np.abs(change) + near) + 8 * UNIT * (np.abs(gain) + scale * np.abs(away) * (best + roots))
    size = np.abs(nu[:, 0]) + scale[:, 0] * reach + (np.abs(gain) + cost).sum(-1) + np.abs(gradient).max(-1)
    return np.asarray(value + moved.sum(-1) + 4 * (len(shares) + 8) * UNIT * size + 1e-130)


def _multiplier(
    point: FloatArray, gap: FloatArray, shares: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return m of the point: that of coordinates between their limits, else between what limits say; any is valid."""
    each = np.sqrt(point / shares) * np.maximum(gap, 0.0)
    width = 1e-9 * (high - low)
    above, below = point < high - width, point > low + width  # has room above, below
    inner = above & below & (gap > 0)
    count = inner.sum(-1, keepdims=True)
    mean = np.where(inner, each, 0.0).sum(-1, keepdims=True) / np.maximum(count, 1)
    least = np.where(above, 0.0, each).max(-1, keepdims=True)
    most = np.where(below | (gap <= 0), np.inf, each).min(-1, keepdims=True)
    found: FloatArray = np.where(count > 0, mean, np.where(np.isfinite(most), (least + most) / 2, least))
    return found


def _guess(g: FloatArray, shares: FloatArray, reach: float, base: FloatArray, spread: FloatArray) -> FloatArray:
    """Return log10 of (ν' - base) / spread for a small ball without limits, where ν' = σ_g √s/r for centered g."""
    length = np.sqrt(np.einsum("bk,k->b", g**2, shares))
    ahead = (length / np.sqrt(max(reach, _SMALLEST)) - base[:, 0]) / spread[:, 0]
    return np.asarray(np.clip(np.log10(np.maximum(ahead, 1e-3)), -3.0, 8.0))


def _bracket(at: Callable[..., tuple[FloatArray, FloatArray]], guess: FloatArray) -> FloatArray:
    """Return log10 ν' for each problem: of the smallest at which the point is within the ball (Illinois, guarded)."""
    low, high = np.full(len(guess), -15.0), np.full(len(guess), 9.0)
    f_low, f_high = (at(each, slice(None))[1] for each in (low, high))
    done = f_low <= 0  # the best corner is within the ball
    high = np.where(done, low, high)
    rows = np.flatnonzero(~done & (f_high <= 0))
    side = np.zeros(len(guess), dtype=np.int8)
    for step in range(_STEPS):
        if not len(rows):
            break
        a, b, fa, fb = low[rows], high[rows], f_low[rows], f_high[rows]
        middle = (a + b) / 2
        if step < len(_PROBES):
            probe = guess[rows] + _PROBES[step]
            middle = np.where((probe > a) & (probe < b), probe, middle)
        elif step % 3 != 2:
            secant = b - fb * (b - a) / np.where(fb == fa, 1.0, fb - fa)
            middle = np.where((secant > a) & (secant < b) & (fb != fa), secant, middle)
        value = at(middle, rows)[1]
        right = value <= 0
        low[rows], high[rows] = np.where(right, a, middle), np.where(right, middle, b)
        f_low[rows] = np.where(right, np.where(side[rows] == 1, fa / 2, fa), value)
        f_high[rows] = np.where(right, value, np.where(side[rows] == -1, fb / 2, fb))
        side[rows] = np.where(right, 1, -1) if step >= len(_PROBES) else 0
        rows = rows[(high[rows] - low[rows] > _CLOSE) & (value != 0)]
    return high
