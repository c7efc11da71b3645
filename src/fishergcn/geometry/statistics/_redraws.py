"""What error bars of distances do to results: the same analysis of distances that are drawn anew within them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fishergcn._base.types import FloatArray

REDRAWS = 20


def redrawn(distances: Any, matrix: FloatArray, seed: int) -> Iterator[FloatArray]:
    """Yield distances drawn from their error bars, as many as :data:`REDRAWS`; nothing for exact distances.

    ``matrix`` are the values. Draws are normal, with 95% between ``low`` and ``high``, and independent between pairs.
    """
    low, high = getattr(distances, "low", None), getattr(distances, "high", None)
    if low is None or high is None or not (np.asarray(high) > np.asarray(low)).any():
        return
    generator = np.random.default_rng([seed, 7])
    below, above = matrix - np.asarray(low), np.asarray(high) - matrix
    for _ in range(REDRAWS):
        drawn = np.triu(generator.standard_normal(matrix.shape), 1) / 1.96
        drawn = drawn + drawn.T
        yield np.maximum(matrix + np.where(drawn > 0, above, below) * drawn, 0.0)


def spread(values: list[float], own: float) -> tuple[float, float]:
    """Return the smallest and largest of some values and the own one."""
    return min([own, *values]), max([own, *values])
