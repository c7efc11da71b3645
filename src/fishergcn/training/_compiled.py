"""Steps and validations of a trainer on the CPU by compiled kernels: what autograd makes of ``Trainer.objective``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fishergcn.nn import CompiledNetwork, Dropout
from fishergcn.operators import SparsePlusLowRank
from fishergcn.training._objective import measured_scores, penalty, scores_slope

if TYPE_CHECKING:
    from fishergcn.training._engine import Trainer


class CompiledStep:
    """The steps of a trainer whose network, graph and loss the kernels know (see :meth:`fits`)."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.config = trainer, trainer.problem.config
        self.train, self.val = CompiledNetwork(trainer.train_view), CompiledNetwork(trainer.val_view)

    @staticmethod
    def fits(trainer: Trainer) -> bool:
        """Whether there is dropout, no bias, no changed link, and a loss at labeled nodes alone."""
        config, stack = trainer.problem.config, trainer.stack
        return (
            not stack.biases
            and trainer.links is None
            and not (trainer.problem.method.consistent and config.consistency > 0)
            and config.dropout > 0
            and all(CompiledNetwork.fits(view, stack.weights) for view in (trainer.train_view, trainer.val_view))
        )

    def validate(self) -> tuple[Tensor, Tensor]:
        """Return validation loss and accuracy of each run."""
        weights = self.trainer.stack.weights
        loss, accuracy, _ = measured_scores(self.val.forward(weights), self.trainer.val_targets)
        return loss + self._penalty(), accuracy

    @torch.no_grad()
    def _penalty(self) -> Tensor:
        return penalty(self.trainer.stack.weights, self.config.weight_decay)

    def gradients(self, epoch: int, operator: SparsePlusLowRank | None) -> tuple[Tensor, Tensor]:
        """Leave the gradients of the loss in the parameters; return loss and accuracy of each run."""
        stack, targets = self.trainer.stack, self.trainer.train_targets
        dropout = Dropout(stack.keys, self.trainer.problem.samples, epoch, self.config.dropout)
        out = self.train.forward(stack.weights, dropout, operator)
        loss, accuracy, slope = measured_scores(out, targets)
        slopes = [each.detach() * self.config.weight_decay for each in stack.weights]
        found = self.train.backward(scores_slope(out, slope, targets), stack.weights, slopes, operator)
        for parameter, each in zip(stack.weights, slopes, strict=True):
            parameter.grad = each
        if operator is not None and stack.xi is not None:
            [stack.xi.grad] = torch.autograd.grad(
                operator.coefficients, [stack.xi], found.view_as(operator.coefficients)
            )
        return loss + self._penalty(), accuracy
