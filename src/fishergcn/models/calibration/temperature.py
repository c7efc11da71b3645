"""One temperature for all nodes: P = softmax(z / T).

    T = argmin Σ_i -log softmax(z_i / T)_{y_i} + (log T)² / 2 σ²,   σ = 0.3

(Guo et al., ICML 2017, without the last term), as if log T were normal around 0 before any node is seen: a few nodes
that are all right do not make a model certain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy import optimize, special

from fishergcn._base.types import FloatArray, IntArray

_SPREAD = 0.3  # σ
_FARTHEST = math.log(8.0)


def fit(logits: FloatArray, labels: IntArray) -> Mapping[str, tuple[float, ...]]:
    """Return T."""
    rows = np.arange(len(labels))

    def cost(heat: float) -> float:
        losses = -special.log_softmax(logits * math.exp(-heat), axis=1)[rows, labels]
        return float(losses.sum()) + heat**2 / (2 * _SPREAD**2)

    found = optimize.minimize_scalar(cost, bounds=(-_FARTHEST, _FARTHEST), method="bounded", options={"xatol": 1e-3})
    return {"temperature": (math.exp(found.x),)}


def apply(logits: FloatArray, values: Mapping[str, tuple[float, ...]]) -> FloatArray:
    """Return the softmax of z / T."""
    found: FloatArray = special.softmax(logits / max(values["temperature"][0], 1e-6), axis=1)
    return found


def sizes(classes: int) -> Mapping[str, int]:
    """Return that T is one number."""
    return {"temperature": 1}


def words(values: Mapping[str, tuple[float, ...]]) -> str:
    """Say what T does."""
    [heat] = values["temperature"]
    side = "less sure than" if heat > 1 else "surer than" if heat < 1 else "as sure as"
    return f"softmax at a temperature of {heat:.2f}, {side} the network itself"
