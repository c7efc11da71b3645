"""Whether the activations of a full batch fit in memory, told before the work begins, with what would fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fishergcn._base.memory import free_memory
from fishergcn.errors import InputError
from fishergcn.training._work import COMPILED_BYTES, PLAIN_BYTES

if TYPE_CHECKING:
    from fishergcn.training._engine import Trainer


def check_fits(trainer: Trainer) -> None:
    """Raise where a step on the CPU needs more memory than is free, with the settings that would fit."""
    free = free_memory() if trainer.device.type == "cpu" else None
    if free is None:
        return
    problem, runs = trainer.problem, len(trainer.stack)
    bytes_each = PLAIN_BYTES if trainer.compiled is None else COMPILED_BYTES
    rows = max(operator.shape[1] for operator in trainer.train_view.operators)
    number = (bytes_each["activations"] + bytes_each["outputs"] / 2) * problem.dtype.itemsize / 4
    width = max(problem.method.network.widths(problem.graph.num_classes, problem.config))

    def needed(samples: int, width: int) -> int:
        return int(number * rows * runs * samples * 2 * width)  # Z and H of the widest layer

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
