"""What is known of a run after it: one record, plain values only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fishergcn._base.entries import FITS, is_number, with_nan
from fishergcn._base.json import plain
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError
from fishergcn.training._metrics import MEASURED

#: The scores of a run on its test and on its validation nodes: fields of :class:`fishergcn.RunRecord`.
SCORES = tuple(f"{part}_{name}" for part in ("test", "val") for name in MEASURED)


@dataclass(frozen=True)
class RunRecord:
    """The result of one training run.

    Attributes
    ----------
    dataset, method, split, seed
        What the run is. Its random streams depend on nothing else.
    status
        ``"ok"``, or ``"diverged"`` if the loss became NaN or infinite; then the scores are NaN.
    epochs
        How many steps were taken; of a diverged run, the step at which it broke; 0 where nothing is trained.
    test_accuracy
        A fraction.
    test_balanced_accuracy
        The mean over the classes of the fraction of their nodes that are found.
    test_macro_f1
        The mean over the classes of F1. In both, classes without test nodes are left out.
    test_loss
        Cross entropy plus weight decay, as in the paper's tables.
    test_cross_entropy
        Cross entropy alone.
    val_accuracy, val_balanced_accuracy, val_macro_f1, val_loss, val_cross_entropy
        The same on the validation nodes, with the same weights.
    curves
        Per epoch: ``train_loss`` (the objective, dropout and perturbation included), ``train_accuracy``
        (likewise, mean over the samples), ``val_loss``, ``val_accuracy``.
    shape
        The learned scale ϕ of each direction of the neighborhood; empty without perturbation.
    seconds
        Wall time; of runs trained side by side, an equal share of their common time.
    device, versions
        Where it ran, with which versions of this package, numpy, scipy and torch.
    config
        All settings.
    graph_digest
        SHA-256 of the graph's content.
    extra
        What a measure other than training adds, as plain values: of an attack its name, its level and its size.
    weights
        What was tested, if it was asked for: the arrays of the network by name (W^l as ``weights.l``, a bias b^l as
        ``biases.l``, …); of a method that trains nothing, as ``train``, the nodes that it learned from. Not part of the
        record's plain values.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> links, labels = [(0, 1), (1, 2), (2, 3)], [0, 0, 1, 1]
    >>> graph = fishergcn.Graph.from_edges(links, features=np.eye(4), labels=labels, name="path")
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> [record] = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=5))
    >>> record.identity, record.status, len(record.curves["val_loss"])
    (('path', 'gcn', 'mine', 2019), 'ok', 5)
    >>> fishergcn.RunRecord.from_dict(record.to_dict()) == record  # there and back through plain values
    True
    """

    dataset: str
    method: str
    split: str
    seed: int
    status: str
    epochs: int
    test_accuracy: float
    test_loss: float
    test_cross_entropy: float
    val_accuracy: float
    val_loss: float
    val_cross_entropy: float
    curves: dict[str, list[float]]
    shape: list[float]
    seconds: float
    device: str
    versions: dict[str, str]
    config: dict[str, Any]
    graph_digest: str
    extra: dict[str, Any] = field(default_factory=dict)
    test_balanced_accuracy: float = math.nan
    test_macro_f1: float = math.nan
    val_balanced_accuracy: float = math.nan
    val_macro_f1: float = math.nan
    weights: Mapping[str, AnyArray] | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return (
            f"RunRecord({self.dataset!r}, {self.method!r}, {self.split!r}, seed={self.seed}, status={self.status!r}, "
            f"epochs={self.epochs}, val_accuracy={self.val_accuracy:.4f}, test_accuracy={self.test_accuracy:.4f})"
        )

    @property
    def identity(self) -> tuple[str, str, str, int]:
        """(dataset, method, split, seed)."""
        return self.dataset, self.method, self.split, self.seed

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the weights; NaN becomes None."""
        names = [entry.name for entry in dataclasses.fields(self) if entry.name != "weights"]
        return {name: plain(getattr(self, name)) for name in names}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunRecord:
        """Undo :meth:`to_dict`, of values that may come from anywhere."""
        if not isinstance(values, Mapping):
            raise DataFileError(f"a run record must be an object with fields, got {values!r:.80}.")
        later = [name for name in SCORES if "balanced" in name or "f1" in name]
        values = {"extra": {}, **dict.fromkeys(later), **values}  # version 0.1 has none of these
        names = {entry.name for entry in dataclasses.fields(cls)} - {"weights"}
        if set(values) != names:
            odd = ", ".join(sorted(set(values) ^ names))
            raise DataFileError(f"a run record has the wrong fields ({odd}).")
        for entry in dataclasses.fields(cls):
            if entry.name in names and not FITS[str(entry.type)](values[entry.name]):
                raise DataFileError(f"{entry.name} must be {entry.type}, got {values[entry.name]!r:.80}.")
        for name, value in values["extra"].items():
            if not isinstance(value, str) and not is_number(value):
                raise DataFileError(
                    f"extra of a run record must be numbers and text, got {value!r:.80} for {name!r:.80}."
                )
        numbers = {"curves", "shape", "extra"} | {name for name in names if name.startswith(("test_", "val_"))}
        return cls(**{name: with_nan(value) if name in numbers else value for name, value in values.items()})
