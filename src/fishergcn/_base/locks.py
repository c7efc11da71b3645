"""A lock on a folder that ends with the process."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from fishergcn._base.files import refuse_links
from fishergcn.errors import DataFileError

LOCK = "runs.lock"


@contextlib.contextmanager
def folder_lock(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold ``folder/runs.lock``; if another process does, ``wait`` for it or raise at once with its process id."""
    path = folder / LOCK
    try:
        refuse_links(folder, path.name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        raise DataFileError(f"cannot write to {folder}: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DataFileError(f"{path} is not a file.")
        if not _try_lock(descriptor, wait):
            holder = os.pread(descriptor, 32, 1).decode("ascii", "replace").strip() if os.name == "posix" else ""
            raise DataFileError(
                f"another runner (process {holder or 'unknown'}) is using {folder}; wait for it or stop it."
            )
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f" {os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int, wait: bool) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(descriptor: int, wait: bool) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            return False
        return True
