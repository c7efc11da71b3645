"""Batch normalization in a step of M passes: its running statistics move once, by the mean of the passes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class RunningStatistics:
    """Keep what batch normalization remembers at where a step began, and end with the mean over its passes.

    A pass takes r to (1 - m) r + m s_j; after the step it is (1 - m) r + m mean_j s_j, and one batch was counted.
    """

    def __init__(self, roots: Iterable[nn.Module]) -> None:
        layers = {id(each): each for root in roots for each in root.modules() if isinstance(each, _BatchNorm)}
        self._buffers = [
            buffer
            for each in layers.values()
            if each.training and each.track_running_stats
            for buffer in (each.running_mean, each.running_var, each.num_batches_tracked)
            if buffer is not None
        ]
        self._before = [buffer.clone() for buffer in self._buffers]
        self._after: list[list[Tensor]] = []

    def end_of_pass(self) -> None:
        """Remember the statistics of a pass, and go back to before it."""
        if self._buffers:
            self._after.append([buffer.clone() for buffer in self._buffers])
            self._set(self._before)

    def end_of_step(self) -> None:
        """Move by the mean over the passes."""
        if self._after:
            means = [torch.stack(each).double().mean(dim=0) for each in zip(*self._after, strict=True)]
            self._set(means)

    def _set(self, values: Iterable[Tensor]) -> None:
        with torch.no_grad():
            for buffer, value in zip(self._buffers, values, strict=True):
                buffer.copy_(value)
