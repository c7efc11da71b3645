"""How much memory there is, and how freed memory is kept for the next step.

A training step allocates and frees the same large arrays again and again. By default glibc hands such arrays
back to the system each time, and the page faults of getting them again cost up to a third of a step.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path

from fishergcn.errors import InputError

_TRIM_THRESHOLD, _MMAP_MAX, _NEVER = -1, -4, -1  # two names of mallopt's parameters in malloc.h, and a value


@cache
def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory in this process; return whether it listens."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # a C library other than glibc
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _NEVER)) and bool(mallopt(_MMAP_MAX, 0))


def return_freed_memory() -> None:
    """Hand back to the system what :func:`keep_freed_memory` has kept, where it does."""
    if keep_freed_memory.cache_info().currsize and keep_freed_memory():
        ctypes.CDLL(None).malloc_trim(0)


def free_memory() -> int | None:
    """Return how many bytes this process can still have, by what Linux and the limits of a container say, or None."""
    lines = _lines("/proc/meminfo")
    known = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    limit = _container()
    return min([*known, *([] if limit is None else [limit])], default=None)


def _container() -> int | None:
    limit, used = (_lines(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if not limit or not used or not limit[0].strip().isdigit():
        return None
    # Files that are only kept for speed count as used, and give way.
    cached = next(
        (int(line.split()[1]) for line in _lines("/sys/fs/cgroup/memory.stat") if line.startswith("file ")), 0
    )
    return int(limit[0]) - int(used[0]) + cached


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []


def check_memory(what: str, needed: int) -> None:
    """Raise before something is made that needs more memory than there is."""
    there = free_memory()
    if there is not None and needed > there:
        raise InputError(f"{what} needs about {needed / 1e9:.0f} GB of memory, and {there / 1e9:.0f} GB are free.")


def lacks_memory(error: BaseException) -> bool:
    """Say whether an error means that an allocation failed: by Python, NumPy or torch, on the CPU or a GPU."""
    # Torch says so with a RuntimeError, of which only that of GPUs has a class of its own; a library that is too large
    # to be loaded is an ImportError.
    known = ("allocate memory", "out of memory", "DefaultCPUAllocator", "failed to map segment")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError)
        and (type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in known))
    )
