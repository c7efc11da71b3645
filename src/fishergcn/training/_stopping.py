"""When to stop: pure functions of the validation history."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fishergcn._base.types import FloatArray
from fishergcn._settings.choices import Stopping

_SHORT, _LONG, _FIRST = 10, 100, 102
_TIE = 1e-12  # means of equal numbers differ by rounding, others by far more


def paper_rule(losses: npt.ArrayLike, accuracies: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Stop when the last 10 epochs are worse than the last 100, in mean loss and in mean accuracy.

    Never before epoch 102. The last axis of ``losses`` and ``accuracies`` holds one value per epoch so far; other axes
    are runs, each judged by itself.
    """
    loss, accuracy = np.asarray(losses, dtype=np.float64), np.asarray(accuracies, dtype=np.float64)
    if loss.shape[-1] < _FIRST:
        return np.zeros(loss.shape[:-1], dtype=np.bool_)
    worse_loss = _mean(loss, _SHORT) > _mean(loss, _LONG) + _TIE
    worse_accuracy = _mean(accuracy, _SHORT) < _mean(accuracy, _LONG) - _TIE
    return np.asarray(worse_loss & worse_accuracy)


def _mean(values: FloatArray, last: int) -> FloatArray:
    return np.asarray(values[..., -last:].mean(axis=-1))


def patience_rule(losses: npt.ArrayLike, patience: int) -> npt.NDArray[np.bool_]:
    """Stop when the lowest loss so far is ``patience`` epochs old (axes as in :func:`paper_rule`)."""
    loss = np.asarray(losses, dtype=np.float64)
    return np.asarray(loss.shape[-1] - 1 - np.argmin(loss, axis=-1) >= patience)


def should_stop(
    rule: Stopping, losses: npt.ArrayLike, accuracies: npt.ArrayLike, patience: int
) -> npt.NDArray[np.bool_]:
    """Apply the rule of a configuration: ``"paper"``, ``"patience"`` or ``"none"``."""
    if rule == "paper":
        return paper_rule(losses, accuracies)
    if rule == "patience":
        return patience_rule(losses, patience)
    return np.zeros(np.shape(losses)[:-1], dtype=np.bool_)
