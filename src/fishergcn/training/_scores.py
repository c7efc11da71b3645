"""What a score is: one entry with its name, its title, its direction and how it is computed.

A score either adds up over batches and processes, and is then computed from a :class:`Tally`, or it needs the logits of
all nodes at once (``gathers``). All of them are computed when a record is made, not in every epoch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.memory import lacks_memory
from fishergcn._base.reprs import one_line
from fishergcn._base.text import signed
from fishergcn._base.types import FloatArray
from fishergcn.errors import InputError, reason
from fishergcn.graph import Task as TaskName
from fishergcn.training import _task_scores as of_tasks

_AT_ONCE = 1 << 22  # numbers in double precision at once: logits of millions of nodes should not be copied


@dataclass(frozen=True)
class Tally:
    """What is known of R runs on some nodes, in float64.

    Attributes
    ----------
    confusion
        How many nodes of each class are predicted as each class, shape (R, C, C).
    cross_entropy, loss
        The mean cross entropy, without and with weight decay, each of shape (R,).

    Examples
    --------
    >>> found = Tally(np.array([[[3.0, 1.0], [0.0, 2.0]]]), np.array([0.4]), np.array([0.5]))
    >>> find_score("balanced_accuracy").of(found), find_score("macro_f1").of(found)
    (array([0.875]), array([0.82857143]))
    """

    confusion: FloatArray
    cross_entropy: FloatArray
    loss: FloatArray

    __repr__ = one_line


@dataclass(frozen=True)
class Score:
    """How well a run does on some nodes, as one number.

    Attributes
    ----------
    name, title
        What it is called in code, as in ``record.test_NAME``, and in tables.
    of
        Takes a :class:`Tally` of R runs and returns an array of shape (R,); if it ``gathers``, takes the logits (N, C)
        and classes (N,) of one run as tensors and returns one number, NaN where it is not defined.
    percent
        Whether it is a share between 0 and 1, shown in percent.
    better
        ``"high"`` or ``"low"``.
    meaning
        What it is, in words that can follow "Test accuracy is".
    classes
        How many classes it needs; None if any number will do. With another number it is missing.
    gathers
        Whether it needs the logits of all nodes at once.
    ranks
        Whether it looks at the order of the nodes alone, so that how sure a model is does not matter.
    shown
        Whether tables have a column for it even if nobody asks for it.
    aliases
        Other names.
    by_task
        How it is computed in tasks without classes, by the name of the task: a function of the outputs of one run and
        of what is known of the same nodes, as tensors in float64, which returns one number. Of several labels a node
        outputs are logits (N, L) beside 0 and 1 (N, L); of numbers, numbers (N,) beside numbers (N,). Without ``of``
        it is for these tasks alone.
    in_units
        Whether it is counted in the unit of the numbers that are predicted.

    Examples
    --------
    >>> Score("errors", "errors", of=lambda tally: tally.confusion.sum((1, 2)), better="least")
    Traceback (most recent call last):
        ...
    fishergcn.errors.InputError: score 'errors': better must be 'high' or 'low', got 'least'.
    """

    name: str
    title: str = ""
    of: Callable[..., Any] | None = None
    percent: bool = False
    better: Literal["high", "low"] = "high"
    meaning: str = ""
    classes: int | None = None
    gathers: bool = False
    ranks: bool = False
    shown: bool = True
    aliases: tuple[str, ...] = ()
    by_task: Mapping[str, Callable[..., Any]] = field(default_factory=dict, hash=False)
    in_units: bool = False

    def __post_init__(self) -> None:
        names = (self.name, *self.aliases)
        if not all(isinstance(name, str) and name.isidentifier() and name.islower() for name in names):
            raise InputError(f"the names of a score must be lower-case identifiers, got {', '.join(map(repr, names))}.")
        wrong = [
            ("title must be a text", self.title, isinstance(self.title, str) and self.title.strip()),
            ("of must be a function", self.of, callable(self.of) or (self.of is None and self.by_task)),
            ("better must be 'high' or 'low'", self.better, self.better in ("high", "low")),
            ("classes must be None or at least 2", self.classes, self.classes is None or self.classes >= 2),
        ]
        for rule, value, fine in wrong:
            if not fine:
                raise InputError(f"score {self.name!r}: {rule}, got {value!r:.80}.")

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which values it lies: shares between 0 and 1; what should be low is not negative."""
        return 0.0 if self.percent or self.better == "low" else -np.inf, 1.0 if self.percent else np.inf

    @property
    def direction(self) -> str:
        """Which values are better, in words."""
        return "higher is better" if self.better == "high" else "lower is better"

    @property
    def head(self) -> str:
        """Its title above a column of :meth:`number`."""
        return self.title + " %" * self.percent

    @property
    def unit(self) -> str:
        """What its differences are counted in, with a space before it; nothing if it is not a share."""
        return " points" * self.percent

    @property
    def change(self) -> str:
        """What its differences are, above a column of them."""
        return f"{self.title}, points" if self.percent else self.title

    def gain(self, difference: float) -> float:
        """Return a difference with the sign that is positive where it is better."""
        return difference if self.better == "high" else -difference

    def text(self, value: float, digits: int = 2, missing: str = "-") -> str:
        """Return a value as text: percent with ``digits`` digits, other numbers with two more."""
        found = self.number(value, digits, missing)
        return f"{found}%" if self.percent and found != missing else found

    def number(self, value: float | None, digits: int = 2, missing: str = "-") -> str:
        """Return a value without its percent sign."""
        if value is None or np.isnan(value):
            return missing
        if self.in_units:
            return f"{value:.4g}"
        return f"{100 * value:.{digits}f}" if self.percent else f"{value:.{digits + 2}f}"

    def difference(self, value: float, digits: int = 2) -> str:
        """Return a difference of two values, signed: in percentage points, or with two more digits as it is."""
        if self.in_units:
            return f"{value:+.3g}".replace("-", "−")
        return signed(100 * value, digits) if self.percent else signed(value, digits + 2)

    def fits(self, task: TaskName) -> bool:
        """Whether it can be computed in a task."""
        return self.of is not None if task == "classification" else task in self.by_task

    def check_classes(self, classes: int, task: TaskName = "classification") -> Score:
        """Return it, or raise if a graph has another task, or not the number of classes that it needs."""
        if not self.fits(task):
            known = ", ".join(each.name.replace("_", "-") for each in registered_scores(task))
            raise InputError(f"score {self.name!r} does not fit the task {task!r}, which has {known}.")
        if task != "classification":
            return self
        if self.classes not in (None, classes):
            raise InputError(f"score {self.name!r} needs {self.classes} classes, but the graph has {classes}.")
        return self

    def check_outputs(self) -> Score:
        """Return it, or raise if outputs alone do not tell it."""
        if self.name == "loss":
            raise InputError("score 'loss' is one of training, with the weight decay in it; 'log-loss' is without it.")
        return self

    def measure(self, tally: Tally, runs: Iterable[tuple[Tensor, Tensor]]) -> FloatArray:
        """Return the score of each run, shape (R,), of its tally or of its logits and classes."""
        count, classes = len(tally.confusion), tally.confusion.shape[-1]
        if not count or self.of is None or self.classes not in (None, classes):
            return np.full(count, np.nan)
        try:
            found = [self.of(*run) for run in runs] if self.gathers else self.of(tally)
            if self.gathers:
                found = torch.stack([torch.as_tensor(each).detach().double() for each in found]).cpu()
            values = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RuntimeError) as error:
            if lacks_memory(error):
                raise
            raise InputError(f"score {self.name!r} cannot be computed: {reason(error)}.") from error
        if values.shape != (count,):
            raise InputError(
                f"score {self.name!r} must be one number for each of {count} runs, got shape {values.shape}."
            )
        return values


_SCORES: dict[str, Score] = {}
_MODULES: dict[str, str] = {}  # those from outside this package, with the module that registered each


def register_score(score: Score) -> Score:
    """Add a score to those that every run has; it is tried on made-up nodes first.

    Worker processes import the module that calls this, so it should be a file of its own.

    Examples
    --------
    >>> def top_two(logits, labels):
    ...     return (logits.topk(2).indices == labels[:, None]).any(1).double().mean()
    >>> score = register_score(Score("top_two", "among the first two", top_two, percent=True, gathers=True))
    >>> find_score("top_two").title
    'among the first two'
    >>> unregister_score("top_two")
    """
    names = {name for each in registered_scores(None) for name in (each.name, *each.aliases)}
    if taken := sorted({score.name, *score.aliases} & names):
        raise InputError(f"there is a score named {taken[0]!r} already.")
    if score.of is None:  # of tasks without classes
        _SCORES[score.name], _MODULES[score.name] = score, sys._getframe(1).f_globals.get("__name__", "")
        return score
    classes, runs = score.classes or 12, 2
    labels, ones = torch.arange(classes).repeat(3), np.ones(runs)
    logits = torch.sin(torch.arange(len(labels) * classes, dtype=torch.float64)).view(-1, classes)
    score.measure(Tally(np.tile(1 + 2 * np.eye(classes), (runs, 1, 1)), ones, ones), [(logits, labels)] * runs)
    _SCORES[score.name], _MODULES[score.name] = score, sys._getframe(1).f_globals.get("__name__", "")
    return score


def unregister_score(name: str) -> None:
    """Undo :func:`register_score`.

    Examples
    --------
    >>> unregister_score("nothing")
    Traceback (most recent call last):
        ...
    fishergcn.errors.InputError: no score 'nothing' was registered.
    """
    if name not in _MODULES:
        raise InputError(f"no score {name!r} was registered.")
    del _SCORES[name], _MODULES[name]


def registered_scores(task: TaskName | None = "classification") -> tuple[Score, ...]:
    """Return the scores of a task, or those of all, in the order of their registration."""
    return tuple(each for each in _SCORES.values() if task is None or each.fits(task))


def scores_shown(score: Score) -> list[Score]:
    """Return the scores that tables about one of them have: this one, and those that are always shown."""
    return [score, *(each for each in registered_scores() if each.shown and each.name != score.name)]


def score_fields() -> tuple[str, ...]:
    """Return the names that scores have in a record, of test and then of validation nodes."""
    return tuple(f"{part}_{each.name}" for part in ("test", "val") for each in registered_scores())


def find_score(name: str) -> Score:
    """Return the score of this name or alias, with hyphens or underscores, also of one in a record (``"test_loss"``).

    Examples
    --------
    >>> find_score("macro-f1").title, find_score("log-loss").title, find_score("test_accuracy").title
    ('macro F1', 'cross entropy', 'accuracy')
    """
    bare = str(name).replace("-", "_").removeprefix("test_").removeprefix("val_")
    for each in registered_scores(None):
        if bare in (each.name, *each.aliases):
            return each
    known = (name for each in registered_scores(None) for name in (each.name, *each.aliases))
    raise InputError(f"score must be one of {', '.join(each.replace('_', '-') for each in known)}, got {name!r:.80}.")


def score_field(name: str) -> str:
    """Return the name of a score in a record: of the test nodes, unless ``val_`` stands before it."""
    part = "val" if str(name).replace("-", "_").startswith("val_") else "test"
    return f"{part}_{find_score(name).name}"


def titled(name: str) -> str:
    """Return what a score in a record is in words, such as "test accuracy"."""
    return f"{'validation' if score_field(name).startswith('val_') else 'test'} {find_score(name).title}"


def outside_modules() -> tuple[str, ...]:
    """Return the modules outside this package that registered scores: worker processes import them."""
    return tuple(dict.fromkeys(_MODULES.values()))


def _accuracy(tally: Tally) -> FloatArray:
    hits: FloatArray = np.trace(tally.confusion, axis1=1, axis2=2) / tally.confusion.sum(axis=(1, 2))
    return hits


def _mean_of_classes(tally: Tally, among: Callable[[FloatArray, FloatArray], FloatArray]) -> FloatArray:
    """Return the mean of hits_c / among(true, predicted)_c over the classes c that have nodes."""
    hits = np.diagonal(tally.confusion, axis1=1, axis2=2)
    true, predicted = tally.confusion.sum(axis=2), tally.confusion.sum(axis=1)
    by_class = np.divide(hits, among(true, predicted), out=np.zeros_like(true), where=true > 0)
    mean: FloatArray = by_class.sum(axis=1) / (true > 0).sum(axis=1)
    return mean


def _one_against_the_rest(of_class: Callable[..., Tensor], logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over the classes of a score of one class against all others; of two classes that of the second.

    Classes of which there is no node, or no other node, are left out. A few classes at a time are given as: which nodes
    are in the class, by ascending probability; how many nodes are less likely than each; and how many are not more so.
    """
    nodes, classes = logits.shape
    some = torch.split(logits, max(_AT_ONCE // classes, 1))
    total = torch.cat([each.double().logsumexp(-1) for each in some])
    wanted = torch.arange(int(classes == 2), classes, device=logits.device)
    found = []
    for own in torch.split(wanted, max(_AT_ONCE // nodes, 1)):
        ascending, order = (logits[:, own].T.double() - total).contiguous().sort(-1)
        less, upto = (torch.searchsorted(ascending, ascending, right=right) for right in (False, True))
        found.append(of_class((labels == own[:, None]).gather(1, order).double(), less, upto))
    return torch.cat(found).nanmean()


def _area_under_roc(positive: Tensor, less: Tensor, upto: Tensor) -> Tensor:
    """Return (Σ_i rank_i - P (P + 1) / 2) / (P N) over the P positive nodes i beside N others; ties share a rank."""
    ranks, count = ((less + upto + 1).double() / 2 * positive).sum(1), positive.sum(1)
    return (ranks - count * (count + 1) / 2) / (count * (positive.shape[1] - count))


def _average_precision(positive: Tensor, less: Tensor, _: Tensor) -> Tensor:
    """Return the mean over the positive nodes i of the precision among the nodes at least as likely as i."""
    count = positive.sum(1, keepdim=True)
    hits = count - torch.nn.functional.pad(positive.cumsum(1), (1, 0)).gather(1, less)
    found = (hits / (positive.shape[1] - less) * positive).sum(1) / count[:, 0]
    return torch.where(count[:, 0] < positive.shape[1], found, torch.nan)


def _balanced_accuracy(tally: Tally) -> FloatArray:
    return _mean_of_classes(tally, lambda true, _: true)


def _macro_f1(tally: Tally) -> FloatArray:
    return _mean_of_classes(tally, lambda true, predicted: (true + predicted) / 2)


def _each_label(of_label: Callable[..., Tensor], logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over the labels of a score of one label, without those that all nodes have or none has."""
    found = []
    for some in torch.split(torch.arange(logits.shape[1]), max(_AT_ONCE // max(len(logits), 1), 1)):
        ascending, order = logits[:, some].T.contiguous().sort(-1)
        less, upto = (torch.searchsorted(ascending, ascending, right=right) for right in (False, True))
        found.append(of_label(labels[:, some].T.gather(1, order), less, upto))
    return torch.cat(found).nanmean()


_RANKING: dict[str, Any] = {"percent": True, "gathers": True, "ranks": True, "shown": False}
for _score in (
    Score("accuracy", "accuracy", _accuracy, percent=True, meaning="the share of nodes classified correctly"),
    Score("balanced_accuracy", "balanced accuracy", _balanced_accuracy, percent=True,
          meaning="the mean over the classes of the share of their nodes classified correctly"),
    Score("macro_f1", "macro F1", _macro_f1, percent=True, meaning="the mean of F1 over the classes",
          by_task={"multilabel": of_tasks.macro_f1}),
    Score("loss", "loss with weight decay", lambda tally: tally.loss, better="low",
          meaning="the cross entropy with the weight-decay term, as published losses are",
          by_task=dict.fromkeys(("multilabel", "regression"), of_tasks.not_alone)),
    # The log loss of softmax(logits) is their cross entropy.
    Score("cross_entropy", "cross entropy", lambda tally: tally.cross_entropy, better="low", aliases=("log_loss",),
          shown=False, meaning="the mean of −log p of the true class", by_task={"multilabel": of_tasks.cross_entropy}),
    Score("roc_auc", "ROC AUC", partial(_one_against_the_rest, _area_under_roc), **_RANKING,
          meaning="how often a node of a class is ranked above one of the others, the mean over the classes",
          by_task={"multilabel": partial(_each_label, _area_under_roc)}),
    Score("average_precision", "average precision", partial(_one_against_the_rest, _average_precision), **_RANKING,
          meaning="the area under the curve of precision over recall, the mean over the classes",
          by_task={"multilabel": partial(_each_label, _average_precision)}),
    Score("micro_f1", "micro F1", percent=True, by_task={"multilabel": of_tasks.micro_f1},
          meaning="F1 of the answers to all labels of all nodes together"),
    Score("r2", "R²", by_task={"regression": of_tasks.r2}, aliases=("r_squared",),
          meaning="the share of the variance that is explained"),
    Score("mae", "mean absolute error", by_task={"regression": of_tasks.mae}, better="low", in_units=True,
          aliases=("mean_absolute_error",), meaning="the mean distance of a prediction from the number"),
    Score("rmse", "RMSE", by_task={"regression": of_tasks.rmse}, better="low", in_units=True,
          meaning="the root of the mean squared distance of a prediction from the number"),
):  # fmt: skip
    _SCORES[_score.name] = _score
