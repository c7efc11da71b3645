"""A number a node: squared error, in units of the spread of the training nodes.

    loss_i = (z_i - (y_i - c) / s)²,     prediction = c + s z_i

with mean c and standard deviation s of the training nodes, so that settings mean the same whatever the unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.training.tasks._task import Standard, Task

if TYPE_CHECKING:
    from fishergcn.nn import Rule
    from fishergcn.operators import Operator


class Number(Task):
    """A number of each node."""

    name = "regression"
    score = "r2"
    cost = "rmse"
    what = "a number"
    things = "number"
    note = "Errors are in the unit of the number; R² is the share of the variance that is explained."
    constant = "always answering the mean"

    def standard(self, known: AnyArray, train: IntArray) -> Standard:
        """Return mean and standard deviation of the training nodes; 1 where all are equal."""
        values = known[train]
        scale = float(values.std())
        return float(values.mean()), scale if scale > 0 else 1.0

    def losses(self, out: Tensor, wanted: Tensor) -> Tensor:
        """Return the squared error."""
        return (out[..., 0] - wanted).square()

    def watched(self, out: Tensor, wanted: Tensor, known: Tensor) -> Tensor:
        """Return R² over nodes and samples; where all nodes are equal, against the spread of training nodes."""
        count = known.sum(1).clamp(min=1)
        real, at = wanted.double(), known.double()
        center = ((real * at).sum(1) / count).unsqueeze(1)
        variance = ((real - center).square() * at).sum(1) / count
        errors = ((out[..., 0].double() - real.unsqueeze(2)).square().mean(2) * at).sum(1) / count
        return 1.0 - errors / torch.where(variance > 0, variance, 1.0)

    def consistency(self, out: Tensor, temperature: float) -> Tensor:
        """Return the variance over the samples, mean over the nodes; no gradient flows through their mean."""
        return (out - out.detach().mean(2, keepdim=True)).square().sum(-1).mean((0, 2))

    def ridge(self, wanted: Tensor, classes: int) -> tuple[Tensor, float]:
        """Return the numbers."""
        return wanted.double().unsqueeze(-1), 1.0

    def by_rule(
        self, rule: Rule, operator: Operator, known: AnyArray, nodes: Sequence[IntArray], classes: int
    ) -> Tensor:
        """Return what a rule expects."""
        found = rule.expectations(operator, known[:, None], nodes)
        standards = torch.tensor([self.standard(known, each) for each in nodes], dtype=found.dtype, device=found.device)
        scaled: Tensor = (found - standards[:, :1]) / standards[:, 1:]
        return scaled

    def answers(self, out: FloatArray, standard: Standard, heat: float = 1.0) -> FloatArray:
        """Return the number, in its unit."""
        center, scale = standard
        return np.asarray(center + scale * out.astype(np.float64))

    def mixed(self, outputs: Sequence[Tensor], shares: Sequence[float], heats: Sequence[float]) -> Tensor:
        """Return Σ s_k z_k: models of one split have one center and one scale."""
        parts = [share * each.double().cpu() for each, share in zip(outputs, shares, strict=True)]
        return torch.stack(parts).sum(0)

    def evidence(self, answers: FloatArray, wanted: AnyArray) -> FloatArray:
        """Return the error; shares add up to 1, so it is linear in the answers."""
        return np.asarray(answers[:, 0] - wanted)

    def costs(self, evidence: FloatArray) -> FloatArray:
        """Return the squared error."""
        return np.asarray(evidence**2)

    def scored(self, answers: FloatArray) -> FloatArray:
        """Return the numbers themselves."""
        return answers

    def always(self, learned: AnyArray, classes: int) -> FloatArray:
        """Return the mean."""
        return np.array([learned.mean()])
