"""Whether the activations of a full batch fit in memory, told before the work begins, with what would fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fishergcn._base.memory import free_memory
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.training._engine import Trainer

# Autograd keeps what the compiled step overwrites: Z, Ã Z, H and the gradients of all three.
_COMPILED_ARRAYS, _AUTOGRAD_ARRAYS = 2, 6


def check_fits(trainer: Trainer) -> None:
    """Raise where a step on the CPU needs more memory than is free, with the settings that would fit."""
    free = free_memory() if trainer.device.type == "cpu" else None
    if free is None:
        return
    problem, runs = trainer.problem, len(trainer.stack)
    arrays = _AUTOGRAD_ARRAYS if trainer.compiled is None else _COMPILED_ARRAYS
    rows = max(operator.shape[1] for operator in trainer.train_view.operators)
    number = trainer.stack.weights[0].element_size()
    width = max((weight.shape[2] for weight in trainer.stack.weights), default=1)

    def needed(samples: int, width: int) -> int:
        return arrays * rows * runs * samples * width * number

    if needed(problem.samples, width) <= free:
        return
    fits = []
    fewer = free // max(needed(1, width), 1)
    if 1 <= fewer < problem.samples:
        fits.append(f"samples={fewer}")
    narrower = free // max(needed(problem.samples, 1), 1)
    if 1 <= narrower < width:
        fits.append(f"hidden={narrower}")
    fits.append("mini-batches (--batch-size 512 --fanout 10,10)")
    size, have = needed(problem.samples, width) / 1e9, free / 1e9
    raise InputError(
        f"a step of {problem.method.name} on {rows:,} nodes needs about {size:.1f} GB for activations, and "
        f"{have:.1f} GB are free; {' or '.join(fits)} would fit."
    )
