"""One class a node: softmax and cross entropy.

    loss_i = -log softmax(z_i)[y_i]

In training, the loss of whole batches of runs and its compiled kernels are in ``_objective.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch.nn import functional

from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.training.tasks._task import LEAST, Standard, Task

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.nn import Rule
    from fishergcn.operators import Operator

SHARPNESS = 4.0  # κ: softmax of numbers between 0 and 1 would be close to even


class Classes(Task):
    """The class of each node."""

    name = "classification"
    score = "accuracy"
    cost = "cross_entropy"
    what = "the class"
    things = "classes"
    note = "Balanced accuracy and macro F1 average over classes, so rare ones count as much as common ones."
    constant = "always answering the most frequent class"

    def known(self, graph: Graph) -> AnyArray:
        """Return the classes."""
        if graph.labels is None:
            raise InputError(f"graph {graph.name or 'given'!r} has no labels to learn from.")
        return graph.labels

    def losses(self, out: Tensor, wanted: Tensor) -> Tensor:
        """Return the cross entropy."""
        flat = functional.cross_entropy(out.flatten(0, -2), wanted.expand(out.shape[:-1]).flatten(), reduction="none")
        return flat.view(out.shape[:-1])

    def watched(self, out: Tensor, wanted: Tensor, known: Tensor) -> Tensor:
        """Return the accuracy, counted."""
        hits = (out.argmax(-1) == wanted.unsqueeze(-1)) & known.unsqueeze(-1)
        return hits.sum((1, 2)).double() / (known.sum(1) * out.shape[2])

    def consistency(self, out: Tensor, temperature: float) -> Tensor:
        """Return the mean over nodes and samples of ‖p_m - sharpen(p̄, τ)‖²."""
        return spread(torch.softmax(out, dim=-1), temperature)

    def ridge(self, wanted: Tensor, classes: int) -> tuple[Tensor, float]:
        """Return classes as 0 and 1."""
        return functional.one_hot(wanted, classes).double(), SHARPNESS

    def by_rule(
        self, rule: Rule, operator: Operator, known: AnyArray, nodes: Sequence[IntArray], classes: int
    ) -> Tensor:
        """Return log p."""
        return rule.log_probabilities(operator, known, nodes, classes)

    def answers(self, out: FloatArray, standard: Standard, heat: float = 1.0) -> FloatArray:
        """Return the probability of each class."""
        found: FloatArray = special.softmax(out.astype(np.float64) / heat, axis=1)
        return found

    def mixed(self, outputs: Sequence[Tensor], shares: Sequence[float], heats: Sequence[float]) -> Tensor:
        """Return log Σ s_k softmax(z_k / T_k)."""
        parts = [
            torch.log_softmax(each.double().cpu() / heat, dim=-1) + float(np.log(share))
            for each, share, heat in zip(outputs, shares, heats, strict=True)
        ]
        return torch.logsumexp(torch.stack(parts), dim=0)

    def evidence(self, answers: FloatArray, wanted: AnyArray) -> FloatArray:
        """Return the probability of the true class."""
        return np.asarray(answers[np.arange(len(wanted)), wanted])

    def costs(self, evidence: FloatArray) -> FloatArray:
        """Return -log p of the true class."""
        return np.asarray(-np.log(np.maximum(evidence, LEAST)))

    def scored(self, answers: FloatArray) -> FloatArray:
        """Return log p."""
        return np.asarray(np.log(np.maximum(answers, LEAST)))

    def always(self, learned: AnyArray, classes: int) -> FloatArray:
        """Return the shares of the classes."""
        return np.asarray(np.maximum(np.bincount(learned, minlength=classes) / len(learned), 1e-6))


def spread(predictions: Tensor, temperature: float) -> Tensor:
    """Return the consistency term of probabilities (p, R, M, C): see ``_objective.consistency``."""
    target = predictions.detach().mean(2, keepdim=True) ** (1.0 / temperature)
    target = target / target.sum(-1, keepdim=True)
    return (predictions - target).square().sum(-1).mean((0, 2))
