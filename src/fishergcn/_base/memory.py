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


def available_memory() -> int | None:
    """Return how many bytes can be taken without the system killing processes, or None where it does not say."""
    found: list[int] = []
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            found.append(1024 * int(line.split()[1]))
    limit, used = (_read(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
    if limit.isdigit() and used.isdigit():  # of a container
        found.append(max(int(limit) - int(used), 0))
    return min(found, default=None)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def check_memory(what: str, needed: int) -> None:
    """Raise before something is made that needs more memory than there is.

    Examples
    --------
    >>> check_memory("a small thing", 1000)
    """
    there = available_memory()
    if there is not None and needed > there:
        raise InputError(f"{what} needs about {needed / 1e9:.0f} GB of memory, and {there / 1e9:.0f} GB are free.")
