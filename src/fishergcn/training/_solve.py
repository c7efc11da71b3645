"""The weights of a network whose logits are linear in them, which is solved and not trained.

    minimize   Σ_i s_i ‖f_W(i) + b - y_i‖² + wd ‖W‖²

over the training nodes i, with their shares s_i in the loss, 1/N each unless nodes or classes have weights: so this is
ridge regression on y, the classes as 0 and 1 (labels as -1 and 1, numbers as they are), with the penalty
λ = N · ``weight_decay``. b is not in it. Then

    logits = κ (f_W + b)

with a constant κ of the task, since softmax of numbers between 0 and 1 would be close to even.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch
from torch import Tensor

from fishergcn._base.warn import warn
from fishergcn.splits import Split
from fishergcn.training._engine import Trainer
from fishergcn.training._problem import Problem, Run

_RESIDUAL = 1e-9  # of the normal equations, relative to their right-hand side
_STEPS = 1000


def solve(problem: Problem, split: Split, device: torch.device) -> dict[str, Tensor]:
    """Return κ W and κ b by name, in float64.

    Conjugate gradients solve the normal equations of all classes at once. A forward pass over what the training nodes
    see multiplies with the matrix of f, and a backward pass with its transpose: nothing else of the network is needed,
    and memory is that of a few arrays of the size of its weights and of its outputs.
    """
    config = dataclasses.replace(problem.config, dtype="float64")
    wide = dataclasses.replace(problem, config=config, scaled=None, operator=None)  # those are in lower precision
    trainer = Trainer(wide, [Run(split, 0)], device)
    view, targets, classes = trainer.train_view, trainer.train_targets, problem.graph.num_classes
    rows, shares = targets.rows[0], targets.shares[0].unsqueeze(1)
    known, sharpness = problem.task.ridge(targets.labels[0], classes)
    zeros = {name: torch.zeros_like(each.detach()) for name, each in trainer.stack.weights.items()}
    sizes = {name: each.numel() for name, each in zeros.items() if name != "biases.0"}
    centered = "biases.0" in zeros

    def named(flat: Tensor) -> dict[str, Tensor]:
        parts = zip(sizes, torch.split(flat, list(sizes.values())), strict=True)
        return {name: part.view_as(zeros[name]) for name, part in parts}

    def outputs(flat: Tensor) -> Tensor:
        return wide.logits(zeros | named(flat), view)[rows, 0]

    def mean(values: Tensor) -> Tensor:
        return (shares * values).sum(0) if centered else values.new_zeros(classes)

    def back(flat: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Return Fᵀ S (y - ȳ), of the outputs at ``flat`` themselves if no others are given."""
        flat = flat.detach().requires_grad_()
        out = outputs(flat)
        values = out.detach() if wanted is None else wanted
        return torch.autograd.grad(out, flat, shares * (values - mean(values)))[0]

    start = torch.zeros(sum(sizes.values()), dtype=torch.float64, device=device)
    decay = config.weight_decay
    flat, residual = conjugate_gradients(lambda x: back(x) + decay * x, back(start, known), _RESIDUAL, _STEPS)
    if residual > _RESIDUAL:
        warn(
            f"{problem.method.name} on split {split.name!r} was solved to a relative residual of {residual:.1g} in "
            f"{_STEPS} steps; with a larger weight_decay or with other scaling of the features it converges faster."
        )
    found = {name: part[0] for name, part in named(flat).items()}
    if centered:
        with torch.no_grad():
            found["biases.0"] = mean(known - outputs(flat))
    return {name: sharpness * each for name, each in found.items()}


def conjugate_gradients(
    times: Callable[[Tensor], Tensor], wanted: Tensor, residual: float, steps: int
) -> tuple[Tensor, float]:
    """Return x with A x = y for a positive definite A, and ‖A x - y‖ / ‖y‖, as the iteration has it."""
    found, left, direction = torch.zeros_like(wanted), wanted.clone(), wanted.clone()
    size = square = float(wanted.square().sum())
    for _ in range(steps):
        if not square > residual**2 * size:  # or not finite
            break
        image = times(direction)
        length = square / float(direction.dot(image))
        found += length * direction
        left -= length * image
        before, square = square, float(left.square().sum())
        direction = left + square / before * direction
    return found, math.sqrt(square / size) if size else 0.0
