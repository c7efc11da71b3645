"""Shrinkage to the shares of the classes: P = (1 - λ_i) softmax(z) + λ_i π, for models that say little.

π are the shares among the nodes that λ is fitted on, with one more node in each class. At node i, λ_i is λ or the
largest weight at which the most probable class stays the most probable one, whichever is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import special

from fishergcn._base.types import FloatArray, IntArray

_TRIED = np.linspace(0.0, 0.95, 20)
_LEAST = 1e-12
_STAYS = 1 - 1e-6  # of the largest weight: at that itself two classes are equal


def fit(logits: FloatArray, labels: IntArray) -> Mapping[str, tuple[float, ...]]:
    """Return λ of 20 at which the cross entropy is least, and π."""
    counts = np.bincount(labels, minlength=logits.shape[1]) + 1.0
    shares, rows = tuple((counts / counts.sum()).tolist()), np.arange(len(labels))

    def loss(weight: float) -> float:
        found = apply(logits, {"weight": (weight,), "shares": shares})
        return float(-np.log(np.maximum(found[rows, labels], _LEAST)).mean())

    return {"weight": (float(min(_TRIED, key=loss)),), "shares": shares}


def apply(logits: FloatArray, values: Mapping[str, tuple[float, ...]]) -> FloatArray:
    """Return the mixture."""
    found: FloatArray = special.softmax(logits, axis=1)
    shares = np.array(values["shares"])
    best = found.argmax(axis=1)
    ahead = found.max(axis=1, keepdims=True) - found
    behind = np.maximum(shares[None, :] - shares[best][:, None], 0.0)  # where the other class is more frequent
    most = np.divide(ahead, ahead + behind, out=np.ones_like(ahead), where=behind > 0).min(axis=1)
    weight = np.minimum(values["weight"][0], _STAYS * most)[:, None]
    mixed: FloatArray = (1 - weight) * found + weight * shares
    return mixed


def sizes(classes: int) -> Mapping[str, int]:
    """Return that λ is one number and π has one for each class."""
    return {"weight": 1, "shares": classes}


def words(values: Mapping[str, tuple[float, ...]]) -> str:
    """Say how far."""
    return f"softmax drawn {values['weight'][0]:.0%} of the way to the shares of the classes"
