"""Which calibration a model has: the one of least cross entropy on validation nodes that it was not fitted on.

With fewer than 10 validation nodes there is none. Otherwise each calibration is cross-validated in 5 folds, and one is
taken only where its cross entropy is below that of the softmax by more than half a standard error of the difference. As
a temperature of few nodes stays near 1, few nodes hardly make probabilities worse, and 500 find most of what there is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn._base.checks import check_choice
from fishergcn._base.entries import Entries
from fishergcn._base.json import plain
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import DataFileError
from fishergcn.models.calibration import CALIBRATIONS

if TYPE_CHECKING:
    from fishergcn.models._trained import TrainedModel

_FEWEST = 10
_MOST = 20_000  # validation nodes, of which more tell nothing new
_FOLDS = 5
_CLEAR = 0.5  # standard errors
_LEAST = 1e-12


@dataclass(frozen=True)
class Calibrated:
    """How the logits of a model become probabilities.

    Attributes
    ----------
    name
        Of the calibration: ``"none"``, ``"temperature"`` or ``"shrinkage"``.
    values
        What it was fitted to.
    nodes
        How many validation nodes it was chosen by.
    before, after
        Their cross entropy, cross-validated, of the softmax and of what was chosen; NaN if nothing was compared.

    Examples
    --------
    >>> made = Calibrated("temperature", {"temperature": (2.0,)}, nodes=100, before=0.9, after=0.8)
    >>> made.apply(np.array([[2.0, 0.0]])).round(2).tolist()
    [[0.73, 0.27]]
    """

    name: str = "none"
    values: Mapping[str, tuple[float, ...]] | None = None
    nodes: int = 0
    before: float = math.nan
    after: float = math.nan

    def apply(self, logits: FloatArray) -> FloatArray:
        """Return probabilities (n, C) of logits (n, C)."""
        return CALIBRATIONS[self.name].apply(np.asarray(logits, dtype=np.float64), self.values or {})

    @property
    def words(self) -> str:
        """What was done, and why, in a sentence."""
        said = f"Probabilities are {CALIBRATIONS[self.name].words(self.values or {})}"
        if math.isnan(self.before):
            few = f"{self.nodes} validation nodes are" if self.nodes else "no validation nodes are"
            return (
                f"{said}: {few} too few to calibrate them." if self.nodes else f"{said}: {few} known to calibrate by."
            )
        if self.name == "none":
            return f"{said}: no calibration was clearly better on {self.nodes:,} validation nodes."
        return (
            f"{said}, which lowers the cross-validated cross entropy of {self.nodes:,} validation nodes from "
            f"{self.before:.3f} to {self.after:.3f}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; NaN becomes None."""
        values = {name: list(each) for name, each in (self.values or {}).items()}
        found: dict[str, Any] = plain({**vars(self), "values": values})
        return found

    @classmethod
    def from_dict(cls, values: Any, classes: int) -> Calibrated:
        """Undo :meth:`to_dict`, of values that may come from anywhere."""
        found = Entries(values, "the calibration of a model")
        name = check_choice("the calibration of a model", found.text("name"), sorted(CALIBRATIONS))
        inside, sizes = found.inside("values"), CALIBRATIONS[name].sizes(classes)
        numbers = {each: inside.reals(each) for each in sizes}
        if any(len(numbers[each]) != size or min(numbers[each]) < 0 for each, size in sizes.items()):
            raise DataFileError(f"the values of the calibration {name!r} do not fit {classes} classes.")
        return cls(name, numbers, found.whole("nodes"), found.number("before"), found.number("after"))


def calibrate(logits: FloatArray, labels: IntArray) -> Calibrated:
    """Choose a calibration by nodes of known class: logits (N, C), classes (N,)."""
    rng = np.random.default_rng(2019)
    order = rng.permutation(len(labels))[:_MOST]
    logits, labels = np.asarray(logits, dtype=np.float64)[order], np.asarray(labels)[order]
    count = len(labels)
    if count < _FEWEST:
        return Calibrated(nodes=count)
    losses = {name: _losses(name, logits, labels) for name in CALIBRATIONS}
    means = {name: float(each.mean()) for name, each in losses.items()}
    gaps = {name: losses["none"] - each for name, each in losses.items()}
    clear = [name for name, gap in gaps.items() if gap.mean() > _CLEAR * gap.std(ddof=1) / math.sqrt(count)]
    best = min(clear, key=lambda name: means[name], default="none")
    values = CALIBRATIONS[best].fit(logits, labels)
    return Calibrated(best, values, count, means["none"], means[best])


def _losses(name: str, logits: FloatArray, labels: IntArray) -> FloatArray:
    """Return the cross entropy of each node, by a calibration that was fitted without its fold."""
    found, fold = np.empty(len(labels)), np.arange(len(labels)) % _FOLDS
    for each in range(_FOLDS):
        out = np.flatnonzero(fold == each)
        values = CALIBRATIONS[name].fit(logits[fold != each], labels[fold != each])
        stated = CALIBRATIONS[name].apply(logits[out], values)[np.arange(len(out)), labels[out]]
        found[out] = -np.log(np.maximum(stated, _LEAST))
    return found


def calibration_of(model: TrainedModel) -> Calibrated:
    """Choose the calibration of the only network of a model by its validation nodes, as far as they are known."""
    labels = model.graph.labels
    if not model.runs or labels is None:
        return Calibrated()
    nodes = model.runs[0].split.val
    nodes = nodes[labels[nodes] >= 0]
    if not len(nodes):
        return Calibrated()
    return calibrate(model.raw_logits()[nodes], labels[nodes])
