"""NumPy arrays and tensors alike, where a function takes either."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import AnyArray
from fishergcn.errors import InputError

ArrayOrTensor: TypeAlias = "AnyArray | Tensor"

# Precisions with too few digits to add up many numbers.
HALVES = (torch.bfloat16, torch.float16)


@contextlib.contextmanager
def one_thread(needed: bool = True) -> Iterator[None]:
    """Let torch use one thread meanwhile: its threads and those of NumPy's BLAS would wait for each other's cores."""
    before = torch.get_num_threads()
    if needed:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tensor_ranges(starts: Tensor, lengths: Tensor) -> Tensor:
    """Return the numbers from each start on, as many as its length says, one after the other."""
    shifts = torch.repeat_interleave(starts - (lengths.cumsum(0) - lengths), lengths)
    return shifts + torch.arange(len(shifts), device=starts.device)


def as_tensor(value: ArrayOrTensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a tensor, without a copy where there need not be one; torch warns of read-only arrays."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        value = value.copy()
    return torch.as_tensor(value, dtype=dtype, device=device)


def check_outputs(logits: Tensor, name: Callable[[int], str] = str) -> Tensor:
    """Return logits (n, ..., C) of which softmax makes probabilities, or raise with the ``name`` of the first bad node.

    A class may be impossible, with a logit of -∞. NaN, +∞ and a node without a possible class come from weights or
    features that are too large to compute with, and a class must not be read off them.
    """
    bad = ~torch.logsumexp(logits.detach(), -1).isfinite().reshape(len(logits), -1).all(1)
    if bad.any():
        first, count = int(bad.int().argmax()), int(bad.sum())
        raise InputError(
            f"the network has no finite output for node {name(first)!r} ({count} of {len(logits)} nodes have none): "
            "its weights or the features are too large."
        )
    return logits
