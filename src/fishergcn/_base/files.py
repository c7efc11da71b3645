"""Files and folders that are either wholly written or not there; files are read up to a limit."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import itertools
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from fishergcn.errors import DataFileError, reason

# What a system says of itself, not of a file: no sign of damage.
SYSTEM = frozenset({errno.EACCES, errno.EAGAIN, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM,
                    errno.ENOSPC, errno.EPERM})  # fmt: skip


def without_links(path: str | os.PathLike[str], inside: str | os.PathLike[str]) -> Path:
    """Return the real path of what lies in a folder that was given, or raise if a name on the way to it is a link.

    A path that someone typed may be a link. A name inside a folder may not: whoever made the folder could have us read
    or replace files elsewhere.
    """
    try:
        found = Path(os.path.realpath(inside))
    except ValueError as error:  # a name that no file can have
        raise DataFileError(f"Cannot open {os.fspath(inside)!r}: {reason(error)}.") from error
    for name in Path(path).relative_to(inside).parts:
        found = found / name
        if os.path.islink(found):
            raise DataFileError(
                f"{path} is refused: {name} is a link, and a folder of results holds files of its own only; remove it."
            )
    return found


def folder_inside(folder: Path, *names: str) -> Path:
    """Return the folder of these names, one inside the other, in a folder that was given; a link is refused.

    Names of graphs and splits come from files, and may be paths or too long. What is odd in them becomes a dash, and a
    checksum keeps them apart.
    """
    made = folder.joinpath(*map(_as_name, names))
    refuse_links(folder, str(made.relative_to(folder)))
    return made


def _as_name(text: str) -> str:
    plain = re.sub(r"[/\\\x00-\x1f\x7f]", "-", text).lstrip(".").encode(errors="replace")[:100].decode(errors="ignore")
    if plain == text:
        return text
    return f"{plain}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


def names_inside(folder: str | os.PathLike[str]) -> set[str]:
    """Return the names of all files and folders in a folder, as paths within it; links are not followed."""
    return {os.path.relpath(os.path.join(place, name), folder)
            for place, folders, names in os.walk(folder) for name in (*folders, *names)}  # fmt: skip


def refuse_links(folder: str | os.PathLike[str], *names: str) -> None:
    """Raise if one of these names in a folder is a link."""
    for name in names:
        without_links(Path(folder, name), folder)


@contextlib.contextmanager
def atomic_path(
    path: str | os.PathLike[str], *, inside: str | os.PathLike[str] | None = None, overwrite: bool = True
) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` on success, remove it on failure.

    ``inside`` is a folder that was given: no name below it may be a link, while a path that someone typed may be one.
    Without ``overwrite`` a file that appeared there meanwhile stays.
    """
    if inside is not None:
        path = without_links(path, inside)
    try:
        target = Path(os.path.realpath(path)) if inside is None else Path(path)  # write through a link that was typed
    except ValueError as error:  # a name that no file can have
        raise DataFileError(f"Cannot write {os.fspath(path)!r}: {reason(error)}.") from error
    if os.path.isdir(target):  # unlike Path.is_dir, no exception for any path
        raise DataFileError(f"Cannot write {path}: it is a folder.")
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")  # by which some writers choose the format
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        settle(temporary, target, overwrite=overwrite)
    except FileExistsError as error:
        raise DataFileError(f"Cannot write {path}: a file appeared there meanwhile; it is untouched.") from error
    except OSError as error:
        raise DataFileError(f"Cannot write {path}: {error.strerror or reason(error)}.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def settle(temporary: Path, target: Path, *, overwrite: bool = True) -> None:
    """Give a file or a folder its name, so that after a power loss there is what was there before, or all of the new.

    Its content is on disk before it is renamed, and the name before this returns. A file is replaced, or without
    ``overwrite`` a FileExistsError. A folder takes the place of nothing or of an empty one: the system refuses to
    rename it to anything else, whenever that appeared.
    """
    sync_tree(temporary)
    if temporary.is_dir():
        temporary.rename(target)
    else:
        sync(temporary)
        if overwrite or not _link(temporary, target):
            temporary.replace(target)
    sync(target.parent)


def _link(temporary: Path, target: Path) -> bool:
    """Give a file a second name that is not taken; return False on a file system that cannot."""
    try:
        os.link(temporary, target)
        return True
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):
        if os.path.lexists(target):
            raise FileExistsError from None
        return False


def _exchange(temporary: Path, target: Path) -> None:
    """Exchange two folders; at once where the system can, so that one of them is there at any moment."""
    sync_tree(temporary)
    if not exchange_names(temporary, target):
        old = temporary.with_name(f"{temporary.name}-old")
        target.rename(old)
        try:
            temporary.rename(target)
        except OSError:
            old.rename(target)
            raise
        old.rename(temporary)
    sync(target.parent)


def exchange_names(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step, or return that this system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux, or an old C library
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of the system's headers
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def sync_tree(folder: Path) -> None:
    """Have all files of a folder, and their names, on disk before this returns."""
    for place, _, names in os.walk(folder):
        for name in names:
            sync(Path(place, name))
        sync(Path(place))


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


def make_folder(folder: Path, *, inside: Path | None = None) -> None:
    """Make a folder, and those above it, unless it is there; below ``inside`` no link is followed."""
    if inside is not None:
        folder = without_links(folder, inside)
    try:
        new = list(itertools.takewhile(lambda each: not os.path.exists(each), (folder, *folder.parents)))
        folder.mkdir(parents=True, exist_ok=True)
        for each in new:
            sync(each.parent)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or reason(error)
        raise DataFileError(f"cannot make the folder {folder}: {why}.") from error


def write_text(
    path: str | os.PathLike[str], text: str, *, inside: str | os.PathLike[str] | None = None, overwrite: bool = True
) -> None:
    """Write a UTF-8 text file atomically; see :func:`atomic_path`."""
    with atomic_path(path, inside=inside, overwrite=overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_target(folder: str | os.PathLike[str], *, overwrite: bool, ours: Callable[[Path], bool]) -> Path:
    """Return the real path of a folder to write, or raise if something is there that must not be replaced.

    That is a new or an empty folder or, to ``overwrite``, one of which ``ours`` says that we wrote all it holds.
    """
    try:
        target = Path(os.path.realpath(folder))
        is_file, is_filled = _what_is_at(target)
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


def _what_is_at(target: Path) -> tuple[bool, bool]:
    """Return whether something else than a folder is there, and whether a folder that holds something is."""
    try:
        if not stat.S_ISDIR(os.lstat(target).st_mode):
            return True, False
        return False, any(target.iterdir())
    except FileNotFoundError:
        return False, False


def _try_to_write(target: Path) -> None:
    """Make ``target`` below another name, with the parents that it lacks, and remove all that again.

    What cannot be written is so found before the work that is to be saved. Permissions alone do not tell: some file
    systems refuse everyone. Nobody else knows the other name: what is made and removed there is in nobody's way.
    """
    first = [target, *itertools.takewhile(lambda each: not os.path.exists(each), target.parents)][-1]
    trial = _beside(first)
    try:
        (trial / target.relative_to(first)).mkdir(parents=True)
    finally:
        shutil.rmtree(trial, ignore_errors=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:64]}-{secrets.token_hex(8)}")


@contextlib.contextmanager
def atomic_folder(target: Path, *, replaces: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """Yield a new folder beside ``target`` and rename it to ``target`` on success; remove it on failure.

    What is at ``target`` by then stays, unless it is an empty folder or one of which ``replaces`` says that it may be
    removed. That is asked of what was taken away from there, so that nobody can put something else in its place.
    """
    temporary = _beside(target)
    try:
        make_folder(target.parent)
        temporary.mkdir()
        yield temporary
        _take_place(temporary, target, replaces)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        for _ in range(2):  # a file that could not be removed the first time keeps its folder
            if not os.path.islink(temporary):
                shutil.rmtree(temporary, ignore_errors=True)  # by now, what the folder held before


@contextlib.contextmanager
def changed_folder(folder: Path) -> Iterator[Path]:
    """Yield a copy of a folder, new or not, in which files are replaced; it takes the folder's place in one step.

    So several files change at once. Others stay: the copy shares them. Files must be replaced, not written into.
    """
    target = Path(os.path.realpath(folder))
    before = names_inside(target)
    if before and _names_working_folder(target):
        raise DataFileError(f"{folder} holds the working folder and cannot be replaced; change to another one.")
    with atomic_folder(target, replaces=lambda old: names_inside(old) <= before) as new:
        if before:
            shutil.copytree(target, new, symlinks=True, dirs_exist_ok=True, copy_function=_share)
        yield new


def _names_working_folder(folder: Path) -> bool:
    here = Path(os.path.realpath("."))
    return folder == here or folder in here.parents


def _share(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system that cannot
        shutil.copy2(source, target, follow_symlinks=False)


def _take_place(temporary: Path, target: Path, replaces: Callable[[Path], bool] | None) -> None:
    try:
        settle(temporary, target)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EACCES):
            raise
        if not os.path.lexists(target):
            raise
    if replaces is None or not os.path.isdir(target) or os.path.islink(target):
        raise DataFileError(f"Cannot write the folder {target}: another one appeared there meanwhile; it is untouched.")
    _exchange(temporary, target)
    if not replaces(temporary):
        _exchange(temporary, target)
        raise DataFileError(f"Cannot replace the folder {target}: it holds other files by now; it is untouched.")
