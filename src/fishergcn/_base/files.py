"""Files that are either wholly written or not there, and are read up to a limit."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from fishergcn.errors import DataFileError, reason

# What a system says of itself, not of a file: no sign of damage.
SYSTEM = frozenset({errno.EACCES, errno.EAGAIN, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM,
                    errno.ENOSPC, errno.EPERM})  # fmt: skip


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` on success, remove it on failure.

    The temporary name keeps the suffix of ``path``, since some writers choose the format by it.
    """
    try:
        target = Path(os.path.realpath(path))  # write through a link instead of replacing it
    except ValueError as error:  # a name that no file can have
        raise DataFileError(f"Cannot write {os.fspath(path)!r}: {reason(error)}.") from error
    if os.path.isdir(target):  # unlike Path.is_dir, no exception for any path
        raise DataFileError(f"Cannot write {path}: it is a folder.")
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        temporary.replace(target)
    except OSError as error:
        raise DataFileError(f"Cannot write {path}: {error.strerror or reason(error)}.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def read_bytes(path: str | os.PathLike[str], *, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes."""
    if not os.path.isfile(path):
        raise DataFileError(f"{path} does not exist or is not a file.")
    try:
        with open(path, "rb") as stream:
            # Reading reserves what is asked for, so that the size comes first.
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(size + 1) if size <= limit else b""
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror or reason(error)}.") from error
    if max(size, len(data)) > limit:
        raise DataFileError(f"{path} must have at most {limit} bytes, and has more.")
    return data


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or reason(error)
        raise DataFileError(f"cannot make the folder {folder}: {why}.") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
