"""What is known of a run after it: one record, plain values only."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fishergcn._base.entries import FITS, is_number, with_nan
from fishergcn._base.json import plain
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, InputError
from fishergcn.training._scores import Score, find_score, score_fields
from fishergcn.training.tasks import find_task

Ranked = TypeVar("Ranked")


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
    scores
        The scores by name, on test nodes (``"test_accuracy"``) and, with the same weights, on validation nodes
        (``"val_accuracy"``). ``accuracy``; ``balanced_accuracy`` and ``macro_f1``, means over the classes that have
        nodes; ``loss``, cross entropy plus weight decay as in the paper's tables; ``cross_entropy`` alone, also called
        ``log_loss``; ``roc_auc`` and ``average_precision``, of two classes for the second, of more classes the mean of
        one against the rest, without classes that have no node; and what :func:`fishergcn.training.register_score`
        added. Each is an attribute too, ``record.test_accuracy``, NaN if it is missing.
    curves
        Per epoch: ``train_loss`` (the objective, dropout and perturbation included), ``train_accuracy``
        (likewise, mean over the samples), ``val_loss``, ``val_accuracy``, and the score that picked the best epoch.
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
    outputs
        With the weights, unless it was trained in mini-batches: the logits of validation and test nodes, in the order
        of the split, as ``val`` and ``test``. Not part of the record's plain values.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> links, labels = [(0, 1), (1, 2), (2, 3)], [0, 0, 1, 1]
    >>> graph = fishergcn.Graph.from_edges(links, features=np.eye(4), labels=labels, name="path")
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> [record] = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=5))
    >>> record.identity, record.status, len(record.curves["val_loss"])
    (('path', 'gcn', 'mine', 2019), 'ok', 5)
    >>> fishergcn.RunRecord.from_dict(record.to_dict()) == record
    True
    """

    dataset: str
    method: str
    split: str
    seed: int
    status: str
    epochs: int
    scores: dict[str, float]
    curves: dict[str, list[float]]
    shape: list[float]
    seconds: float
    device: str
    versions: dict[str, str]
    config: dict[str, Any]
    graph_digest: str
    extra: dict[str, Any] = field(default_factory=dict)
    weights: Mapping[str, AnyArray] | None = field(default=None, repr=False, compare=False)
    outputs: Mapping[str, AnyArray] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = {name: value for name, value in self.scores.items() if not math.isnan(value)}
        object.__setattr__(self, "scores", known)

    def __getattr__(self, name: str) -> float:
        """Return a score, NaN if it is missing."""
        known: dict[str, float] = self.__dict__.get("scores", {})
        if name in known:
            return known[name]
        if name.startswith(_PARTS):
            with contextlib.suppress(InputError):
                return known.get(f"{name.partition('_')[0]}_{find_score(name).name}", math.nan)
        raise AttributeError(f"a run record has no field and no score {name!r}.")

    def __repr__(self) -> str:
        main = main_score(self).name
        return (
            f"RunRecord({self.dataset!r}, {self.method!r}, {self.split!r}, seed={self.seed}, status={self.status!r}, "
            f"epochs={self.epochs}, val_{main}={getattr(self, f'val_{main}'):.4f}, "
            f"test_{main}={getattr(self, f'test_{main}'):.4f})"
        )

    def arrays(self) -> dict[str, AnyArray]:
        """Return weights and outputs by one name each, as they travel between processes and lie in files."""
        outputs = {f"{_OUTPUTS}{name}": each for name, each in (self.outputs or {}).items()}
        return {**(self.weights or {}), **outputs}

    def with_arrays(self, arrays: Mapping[str, AnyArray] | None) -> RunRecord:
        """Undo :meth:`arrays`."""
        known = arrays or {}
        outputs = {name.removeprefix(_OUTPUTS): each for name, each in known.items() if name.startswith(_OUTPUTS)}
        weights = {name: each for name, each in known.items() if not name.startswith(_OUTPUTS)}
        return dataclasses.replace(self, weights=weights or None, outputs=outputs or None)

    @property
    def identity(self) -> tuple[str, str, str, int]:
        """(dataset, method, split, seed)."""
        return self.dataset, self.method, self.split, self.seed

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, the scores among them, without the weights; what is missing becomes None."""
        values = {name: getattr(self, name) for name in _FIELDS}
        flat: dict[str, Any] = plain(values | dict.fromkeys(score_fields()) | self.scores)
        return flat

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunRecord:
        """Undo :meth:`to_dict`, of values that may come from anywhere; scores that are not registered are kept."""
        if not isinstance(values, Mapping):
            raise DataFileError(f"a run record must be an object with fields, got {values!r:.80}.")
        values = {"extra": {}, **values}  # version 0.1 has none
        scores = {name: value for name, value in values.items() if str(name).startswith(_PARTS)}
        kinds = _FIELDS | dict.fromkeys(scores, "float")
        if odd := set(values) ^ set(kinds):
            raise DataFileError(f"a run record has the wrong fields ({', '.join(sorted(map(str, odd)))}).")
        for name, kind in kinds.items():
            if not FITS[kind](values[name]):
                raise DataFileError(f"{name} must be {kind}, got {values[name]!r:.80}.")
        for name, value in values["extra"].items():
            if not is_number(value) and (not isinstance(value, str) or name.startswith(_PARTS)):
                fit = "numbers" if name.startswith(_PARTS) else "numbers and text"
                raise DataFileError(f"extra of a run record must be {fit}, got {value!r:.80} for {name!r:.80}.")
        fields = {name: values[name] for name in _FIELDS}
        numbers = {name: with_nan(values[name]) for name in ("curves", "shape", "extra")}
        return cls(**fields | numbers, scores=with_nan(scores))


_PARTS = ("test_", "val_")
_OUTPUTS = "outputs."
_FIELDS = {
    each.name: str(each.type)
    for each in dataclasses.fields(RunRecord)
    if each.name not in ("scores", "weights", "outputs")
}


def main_score(record: RunRecord) -> Score:
    """Return what runs of a task are compared by: accuracy, or what a record without it has in its place."""
    for task in ("multilabel", "regression"):
        if {f"{part}{find_task(task).score}" for part in _PARTS} & record.scores.keys():
            return find_score(find_task(task).score)
    return find_score("accuracy")


def rank(runs: Iterable[Ranked], score: str = "accuracy") -> list[Ranked]:
    """Return runs best first: by a score on validation nodes, of equal ones by the least validation loss.

    Test scores play no part. What diverged or has no validation loss comes last. Runs are records, or whatever has the
    score and the loss under their names (``val_accuracy``, ``val_loss``).
    """
    entry = find_score(score)

    def order(run: Any) -> tuple[float, ...]:
        loss = math.inf if run.val_loss is None else run.val_loss
        value = loss if entry.name == "loss" else getattr(run, f"val_{entry.name}")
        fine = getattr(run, "status", "ok") == "ok" and math.isfinite(loss)
        return fine, -math.inf if math.isnan(value) else entry.gain(value), -loss if fine else 0.0

    return sorted(runs, key=order, reverse=True)
