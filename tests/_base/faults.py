"""Files that fail: the n-th operation on files below a folder raises, as of a disk that is full or broken.

What is counted is every opening for writing, write, fsync, rename, link, removal and making of a folder, as Python
announces it to audit hooks or as it passes through ``os``. SQLite writes by itself: there the limit on the size of
files is what fails.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from pathlib import Path

OPERATIONS = ("fsync", "rename", "replace", "link", "unlink", "remove", "mkdir", "rmdir")


class Stream(io.FileIO):
    """A file each of whose writes counts."""

    count = staticmethod(lambda: None)

    def write(self, data):
        Stream.count()
        return super().write(data)


@contextlib.contextmanager
def failing(number: int, *, forever: bool = False, error: int = errno.ENOSPC):
    """Let the ``number``-th file operation fail, or with ``forever`` every one from it on; yield the count so far."""
    done = [0]

    def count(*_, **__):
        done[0] += 1
        if done[0] == number or (forever and done[0] > number):
            raise OSError(error, os.strerror(error))

    kept = {name: getattr(os, name) for name in OPERATIONS}
    opened, path_open = builtins.open, io.open

    def counted(name):
        def call(*arguments, **options):
            count()
            return kept[name](*arguments, **options)

        return call

    def open_counted(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *more, **options):
        if not isinstance(file, str | bytes | os.PathLike) or not set(mode) & set("wax+"):
            return opened(file, mode, buffering, encoding, errors, newline, *more, **options)
        count()
        raw = Stream(file, mode.replace("b", "").replace("t", ""))
        stream = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return stream if "b" in mode else io.TextIOWrapper(stream, encoding, errors, newline)

    Stream.count = staticmethod(count)
    for name in OPERATIONS:
        setattr(os, name, counted(name))
    builtins.open = io.open = open_counted
    try:
        yield done
    finally:
        for name, call in kept.items():
            setattr(os, name, call)
        builtins.open, io.open = opened, path_open


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder, by its path within."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
