"""Which steps of a sequence are marked: in the whole sequence, then in the runs of graphs between marked steps."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fishergcn._base.types import FloatArray
from fishergcn.geometry.statistics._steps import Steps, find_steps

_LEAST_TESTED = 8
# What a step must have changed, of what a larger change within a window did, to be no echo of it.
_ECHO = 0.2


def find_marks(
    matrix: FloatArray, width: int, level: float, permutations: int, seed: int
) -> tuple[Steps, list[int], list[int]]:
    """Return the steps with their p-values, those that are marked, and the most distinct ones, largest first.

    A run of m of n graphs between marked steps is tested at the level · m/n; its p-values are times n/m.
    """
    count = len(matrix)
    steps = find_steps(matrix, width, level, permutations, seed)
    marked = [at for at in _distinct(steps, level, width) if steps.p_values[at] <= level]
    runs = [*pairwise([0, *sorted(marked), count])] if marked else []
    while runs:
        first, last = runs.pop()
        size = last - first
        share = size / count
        if not can_be_marked(size, permutations, level * share):
            continue
        near = min(width, size // 2)
        part = find_steps(matrix[first:last, first:last], near, level * share, permutations, seed)
        found = sorted(at for at in _distinct(part, level * share, near) if part.p_values[at] <= level * share)
        inside, own = slice(first + 2, last - 1), slice(2, size - 1)
        steps.sharp[inside], steps.wide[inside] = part.sharp[own], part.wide[own]
        steps.p_values[inside] = np.minimum(1.0, part.p_values[own] / share)
        if found:
            marked += [first + at for at in found]
            runs += pairwise([first, *(first + at for at in found), last])
    ranks = [at for at in _descending(steps.statistics) if at in marked]
    apart = min(width, max(2, count // 4))  # so that short sequences have several
    ranks += [at for at in _distinct(steps, level, apart) if all(abs(at - other) >= apart for other in marked)]
    return steps, sorted(marked), ranks


def smallest_p(count: int, permutations: int) -> float:
    """Return the smallest p-value of a sequence: that of two halves that differ, in either order."""
    return max(2 / math.comb(count, count // 2), 1 / (1 + permutations))


def can_be_marked(count: int, permutations: int, level: float) -> bool:
    """Return whether any mark is possible at the level with this number of graphs."""
    return count >= _LEAST_TESTED and smallest_p(count, permutations) <= level


def _distinct(steps: Steps, level: float, width: int) -> list[int]:
    """Return steps by how much they stand out: sharp ones at the level first, then the largest in each window."""
    sizes, tested = steps.changes, np.isfinite(steps.p_values).any()
    values = steps.statistics if tested else sizes
    chosen: list[int] = []
    for at in _descending(steps.sharp):
        near = [other for other in chosen if abs(at - other) <= width]
        clear = all(abs(at - other) > 1 and sizes[at] >= _ECHO * sizes[other] for other in near)
        if steps.sharp[at] == values[at] and steps.p_values[at] <= level and clear:
            chosen.append(at)
    for at in _descending(values):
        if all(abs(at - other) >= width for other in chosen):
            chosen.append(at)
    return chosen


def _descending(values: FloatArray) -> list[int]:
    """Return the places of known values, the largest first."""
    order = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")
    return [int(at) for at in order if math.isfinite(values[at])]
