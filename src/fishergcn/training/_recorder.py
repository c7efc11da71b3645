"""An epoch of a stack of runs as one CUDA graph: recorded once, replayed until runs leave the stack.

An epoch of a small graph is some eighty kernels of a few microseconds each, and starting them one by one takes longer
than running them. A recorded epoch runs the same kernels on the same numbers, so its results are the same bit for bit.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from fishergcn.training._engine import Trainer


@dataclass(frozen=True)
class _Recording:
    """A recorded epoch: it reads its number and its noise, and writes its results, always in the same place."""

    graph: torch.cuda.CUDAGraph
    number: Tensor
    noise: Tensor | None
    results: tuple[Tensor, ...]

    def replay(self, number: int, noise: Tensor | None) -> tuple[Tensor, ...]:
        self.number.fill_(number)
        if self.noise is not None and noise is not None:
            self.noise.copy_(noise)
        self.graph.replay()
        return self.results


class Recorder:
    """Runs the epochs of a trainer: the first kernel by kernel, the second recorded, from then on replayed."""

    def __init__(self) -> None:
        self._recording: _Recording | None = None
        self._warm, self._possible = False, True

    def forget(self) -> None:
        """Record again: runs have left the stack."""
        self._recording, self._warm = None, False

    def epoch(self, trainer: Trainer, number: int) -> tuple[Tensor, ...]:
        """Train for an epoch and validate."""
        if not self._warm or not self._possible:
            self._warm = True
            return trainer.epoch_now(number)
        adversary = trainer.stack.adversary
        noise = None if adversary is None else adversary.noise(number)
        if self._recording is None:
            self._recording = _record(trainer, noise)
        if self._recording is None:  # there was no memory for it
            self._possible = False
            return trainer.epoch_now(number)
        results = self._recording.replay(number, noise)
        if adversary is not None:  # the GPU has just begun
            adversary.draw_ahead(number + 1)
        return results


def _record(trainer: Trainer, noise: Tensor | None) -> _Recording | None:
    """Record an epoch; None where there is no memory for it, even without the garbage of runs before."""
    try:
        return _recorded(trainer, noise)
    except torch.cuda.OutOfMemoryError:
        gc.collect()
    try:
        return _recorded(trainer, noise)
    except torch.cuda.OutOfMemoryError:
        return None


def _recorded(trainer: Trainer, noise: Tensor | None) -> _Recording:
    device = trainer.stack.keys.device
    number = torch.zeros(1, dtype=torch.int64, device=device)
    noise = None if noise is None else noise.clone()
    graph = torch.cuda.CUDAGraph()
    with _no_collection(), torch.cuda.device(device), torch.cuda.graph(graph):
        results = trainer.epoch_now(number, noise)
    return _Recording(graph, number, noise, results)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: an older graph that is destroyed would break the recording.

    Nor before, for it takes a tenth of a second and a stack is recorded a dozen times; see :func:`_record`.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
