"""Small tools for index arrays."""

from __future__ import annotations

import numpy as np

from fishergcn._base.types import AnyArray, IntArray

__all__ = ["ranges"]


def ranges(starts: AnyArray, lengths: AnyArray) -> IntArray:
    """Return the numbers from each start on, as many as its length, one range after the other.

    Examples
    --------
    >>> ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    offsets = np.asarray(starts, dtype=np.int64) - (ends - lengths)
    found: IntArray = np.arange(total, dtype=np.int64) + np.repeat(offsets, lengths)
    return found
