"""Files and folders that are either wholly written or not there; files are read up to a limit."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fishergcn.errors import DataFileError, reason

# What a system says of itself, not of a file: no sign of damage.
SYSTEM = frozenset({errno.EACCES, errno.EAGAIN, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM,
                    errno.ENOSPC, errno.EPERM})  # fmt: skip


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` on success, remove it on failure."""
    try:
        target = Path(os.path.realpath(path))  # write through a link instead of replacing it
    except ValueError as error:  # a name that no file can have
        raise DataFileError(f"Cannot write {os.fspath(path)!r}: {reason(error)}.") from error
    if os.path.isdir(target):  # unlike Path.is_dir, no exception for any path
        raise DataFileError(f"Cannot write {path}: it is a folder.")
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")  # by which some writers choose the format
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        settle(temporary, target)
    except OSError as error:
        raise DataFileError(f"Cannot write {path}: {error.strerror or reason(error)}.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def settle(temporary: Path, target: Path) -> None:
    """Give a file or a folder its name, so that after a power loss there is what was there before, or all of the new.

    Its content is on disk before it is renamed, and the name before this returns. A folder that is there already is
    exchanged with the new one, which then stays under the temporary name.
    """
    for folder, _, names in os.walk(temporary):
        for name in names:
            sync(Path(folder, name))
        sync(Path(folder))
    if temporary.is_dir():
        _exchange(temporary, target) if target.is_dir() else temporary.rename(target)
    else:
        sync(temporary)
        temporary.replace(target)
    sync(target.parent)


def _exchange(temporary: Path, target: Path) -> None:
    """Exchange two folders; at once where the system can, so that one of them is there at any moment."""
    if not exchange_names(temporary, target):
        old = temporary.with_name(f"{temporary.name}-old")
        target.rename(old)
        try:
            temporary.rename(target)
        except OSError:
            old.rename(target)
            raise
        old.rename(temporary)


def exchange_names(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step, or return that this system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux, or an old C library
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of the system's headers
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def sync(path: Path) -> None:
    """Have what was written to a file, or the names in a folder, on disk before this returns."""
    if os.name == "nt" and path.is_dir():  # which knows no such thing
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot
            raise
    finally:
        os.close(descriptor)


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
        new = list(itertools.takewhile(lambda each: not os.path.exists(each), (folder, *folder.parents)))
        folder.mkdir(parents=True, exist_ok=True)
        for each in new:
            sync(each.parent)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or reason(error)
        raise DataFileError(f"cannot make the folder {folder}: {why}.") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_target(folder: str | os.PathLike[str], *, overwrite: bool, ours: Callable[[Path], bool]) -> Path:
    """Return the real path of a folder to write, or raise if something is there that must not be replaced.

    That is a new or an empty folder or, to ``overwrite``, one of which ``ours`` says that we wrote all it holds.
    """
    try:
        target = Path(os.path.realpath(folder))
        there = os.path.lexists(target)
        is_file = there and not target.is_dir()
        is_filled = there and not is_file and any(target.iterdir())
    except (OSError, ValueError) as error:
        raise _unwritable(folder, error) from error
    if is_file:
        raise DataFileError(f"Cannot write the folder {os.fspath(folder)!r}: a file with that name exists.")
    if is_filled and not ours(target):
        raise DataFileError(f"The folder {folder} holds other files; give a new or an empty folder.")
    if is_filled and not overwrite:
        raise DataFileError(f"The folder {folder} holds a saved model already; overwrite=True replaces it.")
    try:
        _try_to_write(target)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return target


def _unwritable(folder: str | os.PathLike[str], error: Exception) -> DataFileError:
    return DataFileError(
        f"Cannot write the folder {os.fspath(folder)!r}: {getattr(error, 'strerror', 0) or reason(error)}."
    )


def _try_to_write(target: Path) -> None:
    """Make ``target``, or a folder beside it if it is there, and remove it with the parents that had to be made.

    What cannot be written is so found before the work that is to be saved. Permissions alone do not tell: some file
    systems refuse everyone.
    """
    trial = _beside(target) if os.path.exists(target) else target
    new = list(itertools.takewhile(lambda folder: not os.path.exists(folder), (trial, *trial.parents)))
    try:
        trial.mkdir(parents=True)
    finally:
        for folder in new:
            with contextlib.suppress(OSError):  # not made, or in use by now
                folder.rmdir()


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:64]}-{secrets.token_hex(8)}")


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder beside ``target`` and rename it to ``target`` on success; remove it on failure."""
    temporary = _beside(target)
    try:
        make_folder(target.parent)
        temporary.mkdir()
        yield temporary
        settle(temporary, target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # by now, what the folder held before
