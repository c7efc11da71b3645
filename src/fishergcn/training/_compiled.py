"""Steps and validations of a trainer on the CPU by compiled kernels: what autograd makes of ``Trainer.objective``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fishergcn.nn import CompiledNetwork, Dropout
from fishergcn.operators import Operator, SparsePlusLowRank
from fishergcn.perturbation import Neighborhood
from fishergcn.training._objective import measured_scores, penalty, scores_slope

if TYPE_CHECKING:
    from fishergcn.training._engine import Trainer


class CompiledStep:
    """The steps of a trainer whose network, graph and loss the kernels know (see :meth:`fits`)."""

    def __init__(self, trainer: Trainer) -> None:
        # The trainer is given in each call: kept here, it would outlive its last use by a cycle of references.
        self.train, self.val = CompiledNetwork(trainer.train_view), CompiledNetwork(trainer.val_view)

    @staticmethod
    def fits(trainer: Trainer) -> bool:
        """Whether there is dropout, no bias, a perturbation of low rank if any, and a loss at labeled nodes alone."""
        config, stack = trainer.problem.config, trainer.stack
        return (
            not stack.biases
            and trainer.links is None
            and (stack.adversary is None or isinstance(stack.adversary.neighborhood, Neighborhood))
            and not (trainer.problem.method.consistent and config.consistency > 0)
            and config.dropout > 0
            and all(CompiledNetwork.fits(view, stack.weights) for view in (trainer.train_view, trainer.val_view))
        )

    def validate(self, trainer: Trainer) -> tuple[Tensor, Tensor]:
        """Return validation loss and accuracy of each run."""
        loss, accuracy, _ = measured_scores(self.val.forward(trainer.stack.weights), trainer.val_targets)
        return loss + _penalty(trainer), accuracy

    def gradients(self, trainer: Trainer, epoch: int, operator: Operator | None) -> tuple[Tensor, Tensor]:
        """Leave the gradients of the loss in the parameters; return loss and accuracy of each run."""
        if operator is not None and not isinstance(operator, SparsePlusLowRank):
            raise AssertionError("fits() lets perturbations of low rank pass only")
        stack, targets, config = trainer.stack, trainer.train_targets, trainer.problem.config
        dropout = Dropout(stack.keys, trainer.problem.samples, epoch, config.dropout)
        out = self.train.forward(stack.weights, dropout, operator)
        loss, accuracy, slope = measured_scores(out, targets)
        slopes = [each.detach() * config.weight_decay for each in stack.weights]
        found = self.train.backward(scores_slope(out, slope, targets), stack.weights, slopes, operator)
        for parameter, each in zip(stack.weights, slopes, strict=True):
            parameter.grad = each
        if operator is not None and stack.xi is not None:
            given = found.view_as(operator.coefficients)
            [stack.xi.grad] = torch.autograd.grad(operator.coefficients, [stack.xi], given)
        return loss + _penalty(trainer), accuracy


@torch.no_grad()
def _penalty(trainer: Trainer) -> Tensor:
    return penalty(trainer.stack.weights, trainer.problem.config.weight_decay)
