"""Calibrations of probabilities, one file each: a file in this folder that is one is known by its name.

A calibration maps the logits z (N, C) of a model to probabilities P (N, C), by values that ``fit`` finds on nodes of
known class. None of them changes which class is the most probable.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Protocol

from fishergcn._base.types import FloatArray, IntArray

Values = Mapping[str, tuple[float, ...]]


class Calibration(Protocol):
    """What a file of this folder has; ``sizes`` says how many numbers each value has for C classes."""

    def fit(self, logits: FloatArray, labels: IntArray) -> Values:
        """Return the values that suit nodes of known class."""

    def apply(self, logits: FloatArray, values: Values) -> FloatArray:
        """Return P."""

    def sizes(self, classes: int) -> Mapping[str, int]:
        """Return the values that there are, and how many numbers each has."""

    def words(self, values: Values) -> str:
        """Say what it does to the softmax."""


#: All calibrations by name; ``none`` is the softmax itself.
CALIBRATIONS: Mapping[str, Calibration] = {
    each.name: importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)
}
