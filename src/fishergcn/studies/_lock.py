"""A lock on a folder that the operating system releases with the process, however it ends."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from fishergcn.errors import DataFileError


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold ``folder/runs.lock``, or raise at once with the process id of the one that holds it."""
    path = folder / "runs.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise DataFileError(f"cannot write to {folder}: {error.strerror}.") from error
    try:
        if not _try_lock(descriptor):
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

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
