"""Several labels a node, each its own yes or no: logistic outputs and binary cross entropy.

    loss_i = Σ_l -log σ(± z_il)     with + where node i has label l

the cross entropy of the whole set of labels, where they are independent given the node. A sum and not a mean over the
labels, so that weight decay weighs the same as in a logistic regression of each label against the rest.

A label is predicted where its probability is above a threshold, the same for all labels: that of the best micro F1 on
validation nodes. Were probabilities exact, it would be half of that F1, and no thresholds of single labels would do
better (Lipton et al., ECML 2014); ½ would leave most of the rare labels unsaid.
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
from fishergcn.training.tasks._classes import SHARPNESS, spread
from fishergcn.training.tasks._task import LEAST, Standard, Task, log_odds

if TYPE_CHECKING:
    from fishergcn.nn import Rule
    from fishergcn.operators import Operator

_FEWEST = 10  # nodes to choose a threshold by
_DOUBT = 1e-3  # the share of ½ in what a rule says: nothing is impossible


class Multilabel(Task):
    """All labels of each node."""

    name = "multilabel"
    score = "micro_f1"
    cost = "cross_entropy"
    what = "the labels"
    things = "labels"
    note = (
        "Micro F1 is of all labels together; macro F1 and average precision are means over labels, so rare ones count "
        "as much as common ones."
    )
    constant = "always answering the base rate of each label"
    decided = ("micro_f1", "macro_f1")

    def threshold(self, answers: FloatArray, wanted: AnyArray) -> float:
        """Return that of the best micro F1, between two probabilities; ½ where few nodes or no labels tell."""
        order = np.argsort(-answers, axis=None, kind="stable")
        stated, true = answers.ravel()[order], np.ravel(wanted > 0)[order]
        if len(wanted) < _FEWEST or not true.any():
            return 0.5
        f1 = 2.0 * np.cumsum(true) / (np.arange(len(true)) + 1 + true.sum())
        below = np.append(stated[1:], 0.0)  # the largest probability of which no label is made
        best = int(np.argmax(np.where(stated > below, f1, -1.0)))
        return float((stated[best] + below[best]) / 2)

    def moved(self, score: str, answers: FloatArray, threshold: float) -> FloatArray:
        """Return probabilities whose log-odds are those of the answers minus those of the threshold."""
        if score not in self.decided:
            return answers
        found: FloatArray = special.expit(log_odds(answers) - log_odds(threshold))
        return found

    def losses(self, out: Tensor, wanted: Tensor) -> Tensor:
        """Return the binary cross entropy, summed over the labels."""
        wanted = wanted.to(out.dtype).expand_as(out)
        return functional.binary_cross_entropy_with_logits(out, wanted, reduction="none").sum(-1)

    def watched(self, out: Tensor, wanted: Tensor, known: Tensor) -> Tensor:
        """Return micro F1, counted: 2 TP / (2 TP + FP + FN); 1 where there is nothing to find and nothing is said."""
        yes, true = (out > 0) & known[:, :, None, None], (wanted > 0).unsqueeze(2) & known[:, :, None, None]
        hits = (yes & true).sum((1, 2, 3)).double()
        both = yes.sum((1, 2, 3)) + true.sum((1, 2, 3)) * out.shape[2]
        return torch.where(both > 0, 2 * hits / both.clamp(min=1), 1.0)

    def consistency(self, out: Tensor, temperature: float) -> Tensor:
        """Return that of yes and no, summed over the labels."""
        both = torch.stack([out, -out], dim=-1).sigmoid()  # (p, R, M, L, 2)
        apart = [spread(both[..., label, :], temperature) for label in range(out.shape[-1])]
        return torch.stack(apart).sum(0)

    def ridge(self, wanted: Tensor, classes: int) -> tuple[Tensor, float]:
        """Return -1 and 1."""
        return 2.0 * wanted.double() - 1.0, SHARPNESS / 2

    def by_rule(
        self, rule: Rule, operator: Operator, known: AnyArray, nodes: Sequence[IntArray], classes: int
    ) -> Tensor:
        """Return the log-odds of what a rule expects."""
        found = rule.expectations(operator, known.astype(np.float64), nodes)
        return torch.logit((1 - _DOUBT) * found.clamp(0.0, 1.0) + _DOUBT / 2)

    def answers(self, out: FloatArray, standard: Standard, heat: float = 1.0) -> FloatArray:
        """Return the probability of each label."""
        found: FloatArray = special.expit(out.astype(np.float64) / heat)
        return found

    def mixed(self, outputs: Sequence[Tensor], shares: Sequence[float], heats: Sequence[float]) -> Tensor:
        """Return the log-odds of Σ s_k σ(z_k / T_k), from both tails, so that none is lost to rounding."""
        given = torch.stack([each.double().cpu() / heat for each, heat in zip(outputs, heats, strict=True)])
        weights = torch.tensor(shares, dtype=torch.float64).log().view(-1, *[1] * (given.ndim - 1))
        yes, no = (torch.logsumexp(functional.logsigmoid(sign * given) + weights, dim=0) for sign in (1, -1))
        return yes - no

    def evidence(self, answers: FloatArray, wanted: AnyArray) -> FloatArray:
        """Return the probability of what is true of each label."""
        return np.where(wanted > 0, answers, 1.0 - answers)

    def costs(self, evidence: FloatArray) -> FloatArray:
        """Return the binary cross entropy, summed over the labels."""
        return np.asarray(-np.log(np.maximum(evidence, LEAST)).sum(axis=1))

    def scored(self, answers: FloatArray) -> FloatArray:
        """Return log-odds."""
        return log_odds(answers)

    def always(self, learned: AnyArray, classes: int) -> FloatArray:
        """Return the share of nodes that have each label, as if one more had it and one more not."""
        return np.asarray(((learned > 0).sum(axis=0) + 1) / (len(learned) + 2))
