"""A folder that is wholly written or not there, and never takes the place of someone else's files."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fishergcn._base.files import make_folder, settle
from fishergcn.errors import DataFileError, reason


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
        raise DataFileError(
            f"The folder {folder} holds a saved model already; --overwrite (overwrite=True) replaces it."
        )
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
    """Yield a new folder beside ``target`` and rename it to ``target`` on success; remove it on failure.

    What ``target`` held before is removed last, once the new folder has its place.
    """
    temporary = _beside(target)
    try:
        make_folder(target.parent)
        temporary.mkdir()
        yield temporary
        settle(temporary, target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
