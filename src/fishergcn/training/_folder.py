"""A folder that is wholly written or not there, and never takes the place of someone else's files."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fishergcn.errors import DataFileError, reason

__all__ = ["atomic_folder", "check_target"]


def check_target(folder: str | os.PathLike[str], *, overwrite: bool, ours: Callable[[Path], bool]) -> Path:
    """Return the real path of a folder to write, or raise if something is there that must not be replaced.

    Parameters
    ----------
    folder
        Where to write: a new or an empty folder, or one to replace.
    overwrite
        Whether a folder of ours may be replaced.
    ours
        Says whether all that a folder holds was written by us.
    """
    try:
        target = Path(os.path.realpath(folder))
        if not os.path.lexists(target):
            return _writable(target, folder)
        if not target.is_dir():
            raise DataFileError(f"Cannot write the folder {folder}: a file with that name exists.")
        if not any(target.iterdir()):
            return target
    except (OSError, ValueError) as error:
        raise _unwritable(folder, error) from error
    if not ours(target):
        raise DataFileError(f"The folder {folder} holds other files; give a new or an empty folder.")
    if not overwrite:
        raise DataFileError(
            f"The folder {folder} holds a saved model already; --overwrite (overwrite=True) replaces it."
        )
    return target


def _unwritable(folder: str | os.PathLike[str], error: Exception) -> DataFileError:
    return DataFileError(
        f"Cannot write the folder {os.fspath(folder)!r}: {getattr(error, 'strerror', 0) or reason(error)}."
    )


def _writable(target: Path, folder: str | os.PathLike[str]) -> Path:
    """Raise now, before the work that is to be saved, if the folder cannot be made later."""
    place = next(parent for parent in target.parents if os.path.lexists(parent))
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise DataFileError(f"Cannot write the folder {folder}: {place} is not a folder that one can write to.")
    return target


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder beside ``target`` and rename it to ``target`` on success; remove it on failure.

    What ``target`` held before is removed last, once the new folder has its place.
    """
    temporary, old = (target.with_name(f".{target.name[:64]}-{secrets.token_hex(8)}") for _ in range(2))
    try:
        temporary.mkdir(parents=True)
        yield temporary
        if target.exists():
            target.rename(old)
        try:
            temporary.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
