"""What the derivative ∂ℓ/∂Ã = S Zᵀ of a network's output in every entry of its graph makes of links.

S and Z, n x w, come from one backward pass: see :class:`fishergcn.models.Tape`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.checks import check_choice
from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic._model import logits
from fishergcn.models import LinkScores, Tape, TrainedModel

Order: TypeAlias = Literal["magnitude", "increase", "decrease"]
_RANKINGS = {"magnitude": np.abs, "increase": np.positive, "decrease": np.negative}


def graph_gradient(model: TrainedModel, output: Callable[[Tensor], Tensor]) -> tuple[FloatArray, FloatArray]:
    """Return S and Z of ∂ℓ/∂Ã = S Zᵀ, each (n, w), for ℓ that ``output`` makes of the logits, by one backward pass."""
    tape = Tape(model.operator)
    with torch.enable_grad():
        value = output(logits(model, tape))
        if not tape.probes:
            raise InputError("network must use its operator, got one that never multiplies with it.")
        return tape.gradient(value)[:2]


def ranking(order: Order) -> Callable[[FloatArray], FloatArray]:
    """Return what makes of scores the keys that they rank by: |score|, score or -score."""
    return _RANKINGS[check_choice("order", order, tuple(_RANKINGS))]


def largest(
    scores: LinkScores, count: int, order: Order, excluded: CSRArray | None, memory_limit: int
) -> tuple[IntArray, FloatArray]:
    """Return the ``count`` links i < j of largest score but those excluded, largest first and ties by (i, j)."""
    nodes = len(scores.left)
    rows = max(1, memory_limit // (40 * nodes))  # bytes of a block, its keys, a mask, and the indices found in it
    keys, values = np.empty(0), np.empty(0)
    links = np.empty((0, 2), dtype=np.int64)
    for start in range(0, nodes, rows):
        block = scores.left[start : start + rows] @ scores.right[start:].T  # with all nodes from `start` on
        key = ranking(order)(block)
        _leave_out(key, start, excluded)
        bar = keys[-1] if len(keys) == count else -np.inf
        i, j = _candidates(key, count, bar)
        keys, values = np.append(keys, key[i, j]), np.append(values, block[i, j])
        links = np.append(links, np.stack([i, j], axis=1) + start, axis=0)
        best = np.lexsort((links[:, 1], links[:, 0], -keys))[:count]
        keys, values, links = keys[best], values[best], links[best]
    return links, values


def _leave_out(key: FloatArray, start: int, excluded: CSRArray | None) -> None:
    """Rule out, in place, pairs with j ≤ i (each link is met once) and those that are excluded."""
    height = len(key)
    key[:, :height][np.tril_indices(height)] = -np.inf
    if excluded is not None:
        found = excluded[start : start + height].tocoo()
        later = found.col >= start
        key[found.row[later], found.col[later] - start] = -np.inf


def _candidates(key: FloatArray, count: int, bar: float) -> tuple[IntArray, IntArray]:
    """Return where keys are above ``bar``, at most ``count`` places: the largest keys, then the first."""
    above = np.flatnonzero(key > bar)
    if len(above) > count:
        found = key.ravel()[above]
        cut = np.partition(found, -count)[-count]
        better, equal = above[found > cut], above[found == cut]
        above = np.append(better, equal[: count - len(better)])
    i, j = np.unravel_index(above, key.shape)
    return i.astype(np.int64), j.astype(np.int64)
