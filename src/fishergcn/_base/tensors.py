"""NumPy arrays and tensors alike, where a function takes either."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import AnyArray

ArrayOrTensor: TypeAlias = "AnyArray | Tensor"

# Precisions with too few digits to add up many numbers.
HALVES = (torch.bfloat16, torch.float16)


def as_tensor(value: ArrayOrTensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a tensor, without a copy where there need not be one; torch warns of read-only arrays."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        value = value.copy()
    return torch.as_tensor(value, dtype=dtype, device=device)
