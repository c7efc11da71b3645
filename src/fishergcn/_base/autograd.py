"""Compiled kernels as autograd functions: right under every transform of torch, at the cost of a plain call."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

Kernel = TypeVar("Kernel", bound=type[torch.autograd.Function])


def kernel(function: Kernel) -> Kernel:
    """Keep the signature of ``forward``, which torch reads in every call: half of what a call costs."""
    function.forward.__signature__ = inspect.signature(function.forward)  # type: ignore[attr-defined]
    return function


def in_derivative(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Call a function in another one's backward pass: plainly, unless a derivative of the derivative may follow."""
    if torch.is_grad_enabled() or any(_has_tangent(each) for each in arguments):
        return function.apply(*arguments)  # type: ignore[no-untyped-call]
    return function.forward(*arguments)


def autocasts(device: torch.device) -> bool:
    """Return whether autocast would change the precision of products there."""
    return torch.is_autocast_enabled(device.type)


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which products have the precision of what is multiplied."""
    return torch.autocast(device.type, enabled=False) if autocasts(device) else contextlib.nullcontext()


def _has_tangent(value: Any) -> bool:
    return isinstance(value, Tensor) and forward_ad.unpack_dual(value).tangent is not None  # type: ignore[no-untyped-call]
