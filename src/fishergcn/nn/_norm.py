"""Normalization of hidden units: at each node over its units, or of each unit over all nodes.

    layer   z ← (z - mean_d z) / √(var_d z + 1e-5) · scale + shift
    batch   z ← (z - mean_i z) / √(var_i z + 1e-5) · scale + shift

for units d and nodes i. In training the mean and variance over the nodes are those of a sample of a run, by itself. In
prediction they are the moving averages that were kept in training, as :class:`torch.nn.BatchNorm1d` does it, so that
what is said of a node does not depend on which others are asked about.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

_KEEPING = ContextVar("_KEEPING", default=False)
_MOMENTUM = 0.1


@contextlib.contextmanager
def moving_averages() -> Iterator[None]:
    """Keep the means and variances of forward passes with dropout meanwhile: those of a step of training."""
    token = _KEEPING.set(True)
    try:
        yield
    finally:
        _KEEPING.reset(token)


class Norm(NamedTuple):
    """The norm of one hidden layer, tensors (R, d): over all nodes if it has a mean and a variance."""

    scale: Tensor
    shift: Tensor
    mean: Tensor | None = None
    variance: Tensor | None = None

    def of(self, values: Tensor, *, training: bool) -> Tensor:
        """Return the values (p, R * M, d), normalized."""
        runs, copies = len(self.scale), values.shape[1] // len(self.scale)
        if self.mean is None or self.variance is None:
            scale, shift = (each.repeat_interleave(copies, dim=0) for each in (self.scale, self.shift))
            return functional.layer_norm(values, values.shape[-1:]) * scale + shift
        scale, shift, mean, variance = (each.repeat_interleave(copies, dim=0).flatten() for each in self)  # type: ignore[union-attr]
        flat = values.reshape(len(values), -1)
        out = functional.batch_norm(flat, mean, variance, scale, shift, training=training, momentum=_MOMENTUM)
        if training and _KEEPING.get():
            with torch.no_grad():
                for kept, new in ((self.mean, mean), (self.variance, variance)):
                    kept.copy_(new.view(runs, copies, -1).mean(dim=1))
        return out.view_as(values)
