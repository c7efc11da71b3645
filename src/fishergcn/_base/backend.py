"""Which implementation of a kernel runs: compiled for the CPU, for CUDA, or the plain torch reference."""

from __future__ import annotations

import importlib.util
from functools import cache

import torch
from torch import Tensor


@cache
def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def backend_of(tensor: Tensor) -> str:
    """Return ``"numba"``, ``"triton"`` or ``"reference"`` for kernels that work on this tensor.

    Examples
    --------
    >>> import torch
    >>> backend_of(torch.zeros(1, dtype=torch.float16))
    'reference'
    """
    if tensor.dtype not in (torch.float32, torch.float64):
        return "reference"
    if tensor.is_cuda and tensor.dtype == torch.float32 and _installed("triton"):
        return "triton"
    if tensor.device.type == "cpu" and _installed("numba"):
        return "numba"
    return "reference"
