"""Starts CUDA kernels, or only compiles them: all that are needed, side by side."""

from __future__ import annotations

# mypy: disable-error-code="attr-defined"
import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import torch
import triton

_COMPILING: ContextVar[bool] = ContextVar("compiling", default=False)
_MOST_THREADS = 16


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Start a kernel."""
    if _COMPILING.get():
        kernel.warmup(*arguments, grid=grid, **options)
    else:
        kernel[grid](*arguments, **options)


def _compile_one_by_one() -> None:
    """Leave Triton's mode, in which some versions remain when a kernel cannot be compiled."""
    from triton.runtime import _async_compile

    _async_compile.active_mode.set(None)


@contextlib.contextmanager
def only_compiling() -> Iterator[None]:
    """Compile the kernels that are started inside instead of running them, side by side; all are ready at the end.

    What they would have written stays as it is. A version of Triton that cannot do so compiles one after the other.
    """
    with contextlib.ExitStack() as stack:
        if hasattr(triton, "AsyncCompileMode"):
            threads = min(_MOST_THREADS, os.cpu_count() or 1)
            stack.callback(_compile_one_by_one)
            stack.enter_context(triton.AsyncCompileMode(stack.enter_context(ThreadPoolExecutor(threads))))
        # In this thread, where it is known that nothing is to be run.
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        token = _COMPILING.set(True)
        try:
            yield
        finally:
            _COMPILING.reset(token)
