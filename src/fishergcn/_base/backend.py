"""Which implementation of a kernel runs: compiled for the CPU, for CUDA, or the plain torch reference."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache

import torch
from torch import Tensor

from fishergcn._base.warn import warn


@cache
def usable(package: str) -> bool:
    """Whether a package that compiles kernels can be imported; one that is installed but broken is warned of.

    Examples
    --------
    >>> usable("torch"), usable("no_such_package")
    (True, False)
    """
    if importlib.util.find_spec(package) is None:
        return False
    try:
        importlib.import_module(package)
    except Exception as error:  # a numba that knows no such NumPy raises ImportError, others raise what they like
        warn(f"{package} is installed but cannot be imported ({error}); plain torch is used, which is slower.")
        return False
    return True


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
    if tensor.is_cuda and tensor.dtype == torch.float32 and usable("triton"):
        return "triton"
    if tensor.device.type == "cpu" and usable("numba"):
        return "numba"
    return "reference"
