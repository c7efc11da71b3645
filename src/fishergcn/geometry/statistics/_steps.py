"""What each step of a sequence changed for good, and how far each graph is off on its own, from distances alone.

Squared distances along a sequence are taken as sums: d²(i, j) = a_i + a_j + Σ_{i<t≤j} c_t, with a_i what graph i alone
is off by (noise, or an odd graph), and c_t what step t changed for good. So a sequence that drifts has c_t > 0 at every
step, one whose graphs differ by chance has a_i > 0 alone, and a change stands out among the c_t. They are found by
least squares, from graphs that are no more than a window apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray, IntArray

_DROPPED = 1 / 3  # of the largest values, which may be changes, when the usual ones are described


@dataclass(frozen=True, eq=False)
class Steps:
    """Changes c_t and a_i of a sequence, and whether steps stand out; NaN where there are too few graphs.

    ``sharp`` and ``wide`` are the two statistics of :func:`change_points` as shares of what chance reaches,
    ``in_order`` the share of random orders in which graphs that follow each other are as close.
    """

    changes: FloatArray
    alone: FloatArray
    sharp: FloatArray
    wide: FloatArray
    p_values: FloatArray
    in_order: float
    __repr__ = one_line

    @property
    def statistics(self) -> FloatArray:
        """The larger of the two."""
        return np.maximum(self.sharp, self.wide)


def find_steps(matrix: FloatArray, width: int, level: float, permutations: int, seed: int) -> Steps:
    """Compare a sequence with random orders of it; with no ``permutations``, find the changes alone."""
    squared = matrix**2
    count = len(matrix)
    generator = np.random.default_rng(seed)
    orders = [np.arange(count), *(generator.permutation(count) for _ in range(permutations))]
    first, second = _pairs(count, width)
    parts = _solve(np.array([squared[order[first], order[second]] for order in orders]), count, width)
    alone, changes = parts[0, :count].copy(), parts[:, count:]
    alone[[0, -1]] = np.nan  # an odd graph at an end cannot be told from a change next to it
    unknown = np.full(count, np.nan)
    if not permutations:
        return Steps(_padded(changes[0], count), alone, unknown, unknown, unknown, 1.0)
    sharp = _studentized(changes / _spreads(changes, width))
    energies = np.array([window_energies(squared[np.ix_(order, order)], width) for order in orders])
    drift = np.maximum(0.0, np.median(changes, axis=1))
    lags = np.abs(np.subtract.outer(np.arange(count), np.arange(count))).astype(np.float64)
    wide = (energies - drift[:, None] * window_energies(lags, width)) / _spreads(energies, width)
    # Each statistic as a share of what its largest value reaches in these orders, and both of theirs.
    found = np.stack([each / _scale(np.quantile(each.max(axis=1), 1 - level)) for each in (sharp, wide)])
    largest = found.max(axis=(0, 2))
    found = found / _scale(np.quantile(largest, 1 - level))
    largest = np.sort(found.max(axis=(0, 2)))
    values = found[:, 0].max(axis=0)
    below = np.searchsorted(largest, values - 1e-10 * np.abs(values), side="left")
    apart = np.array([matrix[order[:-1], order[1:]].sum() for order in orders])
    return Steps(
        _padded(changes[0], count), alone, _padded(found[0, 0], count), _padded(found[1, 0], count),
        _padded((largest.size - below) / largest.size, count), float((apart <= apart[0]).mean()),
    )  # fmt: skip


def window_energies(squared: FloatArray, width: int) -> FloatArray:
    """Return how much the graphs before and after each step from 2 to m - 2 differ, in squared distances.

    It is nm / (n + m) (2 mean d²(b, a) - mean d²(b, b') - mean d²(a, a')) for the n graphs before and the m graphs from
    the step on, up to ``width``, with means over pairs of different graphs.
    """
    count = len(squared)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = squared.cumsum(axis=0).cumsum(axis=1)
    middle = np.arange(2, count - 1)
    first, last = np.maximum(middle - width, 0), np.minimum(middle + width, count)

    def block(a: Any, b: Any, c: Any, d: Any) -> FloatArray:
        return np.asarray(sums[b, d] - sums[a, d] - sums[b, c] + sums[a, c])

    n, m = middle - first, last - middle
    between = block(first, middle, middle, last) / (n * m)
    within = block(first, middle, first, middle) / (n * (n - 1)) + block(middle, last, middle, last) / (m * (m - 1))
    return np.asarray(n * m / (n + m) * (2 * between - within))


def _pairs(count: int, width: int) -> tuple[IntArray, IntArray]:
    """Return all i < j that are no more than the width apart."""
    first = np.concatenate([np.arange(count - lag) for lag in range(1, width + 1)])
    lags = np.repeat(np.arange(1, width + 1), [count - lag for lag in range(1, width + 1)])
    return first, first + lags


def _solve(rows: FloatArray, count: int, width: int) -> FloatArray:
    """Return a_0, …, a_{m-1}, c_2, …, c_{m-2} by least squares, for each row of squared distances of the pairs."""
    first, second = _pairs(count, width)
    places, columns = [np.arange(first.size)] * 2, [first, second]
    for step in range(2, count - 1):  # c_1 and c_{m-1} belong to the graphs at the ends
        crossed = np.flatnonzero((first < step) & (second >= step))
        places.append(crossed)
        columns.append(np.full(crossed.size, count + step - 2))
    place, column = np.concatenate(places), np.concatenate(columns)
    model = sparse.csc_array((np.ones(place.size), (place, column)), shape=(first.size, 2 * count - 3))
    return np.asarray(splu((model.T @ model).tocsc()).solve(np.asarray(model.T @ rows.T))).T


def _studentized(values: FloatArray) -> FloatArray:
    """Return how far each value of a row is above the usual ones, in their standard deviations."""
    size = values.shape[-1]
    usual = np.sort(values, axis=-1)[:, : size - int(size * _DROPPED)]
    return np.asarray((values - usual.mean(axis=-1, keepdims=True)) / _scale(usual.std(axis=-1, keepdims=True)))


def _spreads(values: FloatArray, width: int) -> FloatArray:
    """Return the standard deviation of each step over orders, one for all steps with windows of the same two sizes."""
    middle = np.arange(2, values.shape[1] + 2)
    sides = np.sort(np.minimum([middle, values.shape[1] + 3 - middle], width), axis=0)
    _, kind = np.unique(sides, axis=1, return_inverse=True)
    kind = kind.ravel()
    squares = np.bincount(kind, weights=values.var(axis=0)) / np.bincount(kind)
    return np.asarray(_scale(np.sqrt(squares)[kind]))


def _scale(values: Any) -> Any:
    """Return values to divide by: never zero."""
    return np.maximum(values, np.finfo(np.float64).tiny ** 0.5)


def _padded(inner: FloatArray, count: int) -> FloatArray:
    """Return values of all steps from those of steps 2 to m - 2."""
    found = np.full(count, np.nan)
    found[2 : count - 1] = inner
    return found


def odd_graphs(steps: Steps, matrix: FloatArray) -> list[int]:
    """Return graphs that are off on their own: far more than others are, and half as far as steps usually are."""
    known = steps.alone[np.isfinite(steps.alone)]
    if known.size < 5:
        return []
    middle = float(np.median(known))
    spread = 1.4826 * float(np.median(np.abs(known - middle)))
    usual = float(np.median(matrix.diagonal(1) ** 2))
    # What the largest of these values exceeds once in a hundred times if normal, doubled for a spread of few values.
    most = 2 * math.sqrt(2 * math.log(max(known.size, 5) * 20))
    least = middle + max(most * spread, usual / 2)
    return [int(at) for at in np.flatnonzero(np.nan_to_num(steps.alone, nan=-np.inf) > least)]
