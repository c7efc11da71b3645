"""Which implementation of a kernel runs: compiled for the CPU, for CUDA, or the plain torch reference."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Iterator
from functools import cache
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from fishergcn._base.checks import check_choice
from fishergcn._base.warn import warn

Backend: TypeAlias = Literal["auto", "compiled", "recorded", "autograd", "reference"]
_VARIABLE = "FISHERGCN_BACKEND"
_chosen = os.environ.get(_VARIABLE, "auto")


@contextlib.contextmanager
def backend(name: Backend) -> Iterator[None]:
    """Choose how the steps of a training run, for as long as a ``with`` block lasts.

    The choice is that of this process and of workers that it starts meanwhile. The environment variable
    ``FISHERGCN_BACKEND`` makes it for a whole command; machines of a cluster follow their own.

    Parameters
    ----------
    name
        ``"auto"``: the fastest that can run; ``"compiled"``: forward and backward pass as compiled kernels, on the CPU;
        ``"recorded"``: a whole epoch as one CUDA graph; ``"autograd"``: torch's, over our kernels; ``"reference"``:
        torch's, over plain torch. A training that cannot run so is refused.

    Examples
    --------
    >>> import fishergcn
    >>> cora, config = fishergcn.datasets.load("cora"), fishergcn.TrainConfig(max_epochs=2)
    >>> [fast] = fishergcn.train(cora, "gcn", "public", config=config, device="cpu")
    >>> with fishergcn.backend("autograd"):
    ...     [plain] = fishergcn.train(cora, "gcn", "public", config=config, device="cpu")
    >>> abs(fast.val_loss - plain.val_loss) < 1e-5
    True
    """
    global _chosen
    check_choice("backend", name, get_args(Backend))
    before, variable = _chosen, os.environ.get(_VARIABLE)
    _chosen = os.environ[_VARIABLE] = name
    try:
        yield
    finally:
        _chosen = before
        os.environ.pop(_VARIABLE)
        if variable is not None:
            os.environ[_VARIABLE] = variable


def chosen_backend() -> str:
    """Return what :func:`backend` or the environment chose."""
    return check_choice(_VARIABLE, _chosen, get_args(Backend))


@cache
def usable(package: str) -> bool:
    """Whether a package that compiles kernels can be imported; one that is installed but broken is warned of."""
    if importlib.util.find_spec(package) is None:
        return False
    try:
        importlib.import_module(package)
    except Exception as error:  # a numba that knows no such NumPy raises ImportError, others raise what they like
        warn(f"{package} is installed but cannot be imported ({error}); plain torch is used, which is slower.")
        return False
    return True


def kernels_on(device: str, dtype: torch.dtype) -> str:
    """Return ``"numba"``, ``"triton"`` or ``"reference"`` for tensors on ``"cpu"`` or ``"cuda"``."""
    if _chosen == "reference" or dtype not in (torch.float32, torch.float64):
        return "reference"
    if device == "cuda" and dtype == torch.float32 and usable("triton"):
        return "triton"
    if device == "cpu" and usable("numba"):
        return "numba"
    return "reference"


def backend_of(tensor: Tensor) -> str:
    """Return ``"numba"``, ``"triton"`` or ``"reference"`` for kernels that work on this tensor."""
    return kernels_on(tensor.device.type, tensor.dtype)
