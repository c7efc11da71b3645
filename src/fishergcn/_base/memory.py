"""Keep freed memory for the next step.

A training step allocates and frees the same large arrays again and again. By default glibc hands such arrays
back to the system each time, and the page faults of getting them again cost up to a third of a step.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of mallopt's parameters in malloc.h


@cache
def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory in this process; return whether it could be told."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # a C library other than glibc
        return False
    return bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1)) and bool(mallopt(_MMAP_MAX, 0))
