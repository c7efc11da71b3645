"""Compiled code runs as it is written, while some pass needs it: one switch of torch's for all threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_lock = threading.Lock()
_passes = 0
_stance: Any = None


@contextmanager
def eagerly() -> Iterator[None]:
    """Let nothing be compiled meanwhile.

    The stance of torch belongs to the process. Two threads that each set it and set it back, one inside the other's
    time, would leave it set for good: the first of them sets it, and the last sets it back.
    """
    global _passes, _stance
    with _lock:
        if _passes == 0:
            _stance = torch.compiler.set_stance("force_eager")
            _stance.__enter__()
        _passes += 1
    try:
        yield
    finally:
        with _lock:
            _passes -= 1
            if _passes == 0:
                _stance.__exit__(None, None, None)
