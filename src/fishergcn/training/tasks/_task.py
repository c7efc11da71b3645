"""What a task has to say: its loss, its score, and what the outputs of a network mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.graph import Task as TaskName
    from fishergcn.nn import Rule
    from fishergcn.operators import Operator

Standard = tuple[float, float]  # center and scale of what is predicted, among training nodes
LEAST = 1e-12  # of a probability, whose logarithm is taken


class Task(ABC):
    """A task: see the files beside this one.

    ``score`` is what to choose by if nobody says, and what is watched in training; ``cost`` the score that compares
    candidates where that one does not; ``what`` is predicted of a node, ``things`` are what there are to choose from,
    ``note`` says how to read scores, and ``constant`` is what a model must beat; ``decided`` are the scores that depend
    on a threshold.
    Outputs are what a network returns, (…, C); ``wanted`` what is known of the same nodes. *Answers* are what people
    read: probabilities, or numbers in their units.
    """

    name: ClassVar[TaskName]
    score: ClassVar[str]
    cost: ClassVar[str]
    what: ClassVar[str]
    things: ClassVar[str]
    note: ClassVar[str]
    constant: ClassVar[str]
    decided: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def known(self, graph: Graph) -> AnyArray:
        """Return what is known of all nodes, or raise where a graph has nothing for this task."""
        found: AnyArray | None = graph.targets
        if found is None:
            raise InputError(f"graph {graph.name or 'given'!r} has no labels to learn from.")
        return found

    def standard(self, known: AnyArray, train: IntArray) -> Standard:
        """Return center and scale of what a network predicts: 0 and 1 but for numbers."""
        return 0.0, 1.0

    def threshold(self, answers: FloatArray, wanted: AnyArray) -> float:
        """Return above which probability to say yes, from answers (N, C) on nodes of which all is known."""
        return 0.5

    def moved(self, score: str, answers: FloatArray, threshold: float) -> FloatArray:
        """Return answers that say yes above ½, made of those that do above a threshold, if a score depends on it."""
        return answers

    @abstractmethod
    def losses(self, out: Tensor, wanted: Tensor) -> Tensor:
        """Return the loss of each node, shape (…), of outputs (…, C), differentiable."""

    @abstractmethod
    def watched(self, out: Tensor, wanted: Tensor, known: Tensor) -> Tensor:
        """Return the score of each run in an epoch, (R,) in float64, of outputs (R, N, M, C) and nodes (R, N)."""

    @abstractmethod
    def consistency(self, out: Tensor, temperature: float) -> Tensor:
        """Return how far the samples of each run are apart, (R,), of outputs (p, R, M, C)."""

    @abstractmethod
    def ridge(self, wanted: Tensor, classes: int) -> tuple[Tensor, float]:
        """Return what a linear model is fitted to, (N, C), and the factor κ that makes outputs of what it says."""

    @abstractmethod
    def by_rule(
        self, rule: Rule, operator: Operator, known: AnyArray, nodes: Sequence[IntArray], classes: int
    ) -> Tensor:
        """Return the outputs (n, R, C) of a rule that trains nothing, from the training nodes of each run."""

    @abstractmethod
    def answers(self, out: FloatArray, standard: Standard, heat: float = 1.0) -> FloatArray:
        """Return answers (N, C) from outputs (N, C) at a temperature."""

    @abstractmethod
    def mixed(self, outputs: Sequence[Tensor], shares: Sequence[float], heats: Sequence[float]) -> Tensor:
        """Return the outputs whose answers are the mean of those of several models, by shares, in float64."""

    @abstractmethod
    def evidence(self, answers: FloatArray, wanted: AnyArray) -> FloatArray:
        """Return what the cost of answers depends on, linear in them: (N, …)."""

    @abstractmethod
    def costs(self, evidence: FloatArray) -> FloatArray:
        """Return the cost of each node, (N,)."""

    @abstractmethod
    def scored(self, answers: FloatArray) -> FloatArray:
        """Return answers in the form that scores take: logits, or the numbers themselves."""

    @abstractmethod
    def always(self, learned: AnyArray, classes: int) -> FloatArray:
        """Return the answer (C,) that is the same for all nodes, from what is known of training nodes."""

    def always_moved(self, score: str, learned: AnyArray, classes: int) -> FloatArray:
        """Return that answer at the threshold that suits training nodes best."""
        found = self.always(learned, classes)
        return self.moved(score, found, self.threshold(np.tile(found, (len(learned), 1)), learned))


def log_odds(probabilities: Any) -> FloatArray:
    """Return log p - log (1 - p), in float64."""
    found = np.clip(np.asarray(probabilities, dtype=np.float64), LEAST, 1 - LEAST)
    return np.asarray(np.log(found) - np.log1p(-found))
