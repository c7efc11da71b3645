"""Temporary folders that are gone when this process is, however it ends: one that is killed can remove nothing itself.

A process of its own, the same for all folders, is given their names before they are made, and waits.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from fishergcn._base.process import start_script

# Workers, which end within a moment of this process, may still write while it removes.
_REMOVE = """
import os, select, sys, time
parent, names, rest, more = int(sys.argv[1]), set(), b"", True
while True:
    there = os.getppid() == parent
    if more and select.select([0], [], [], 0.1 if there else 0)[0]:
        data = os.read(0, 1 << 16)
        more = bool(data)
        *whole, rest = (rest + data).split(b"\\0")
        for each in whole:
            (names.add if each[:1] == b"+" else names.discard)(each[1:])
    elif there:
        time.sleep(0.1)
    else:
        break
import shutil
for at in range(15 if names else 0):
    for each in names:
        shutil.rmtree(os.fsdecode(each), ignore_errors=True)
    if at > 5 and not any(map(os.path.lexists, names)):
        break
    time.sleep(0.1)
"""
_lock = threading.Lock()
_removers: dict[int, subprocess.Popen[bytes]] = {}  # by process: one that was forked has its own


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Have an empty folder for a while."""
    folder = new_folder()
    try:
        yield folder
    finally:
        remove_folder(folder)


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    """Work in an empty folder for a moment, for a library that hands the working folder on as a place of modules."""
    try:
        before = os.getcwd()
    except OSError:  # removed meanwhile
        before = os.path.expanduser("~")
    with temporary_folder() as empty:
        os.chdir(empty)
        try:
            yield
        finally:
            os.chdir(before)


def new_folder(prefix: str = "fishergcn-", parent: Path | None = None) -> Path:
    """Make a folder for this user alone, beside other temporary files, and return it."""
    folder = Path(tempfile.gettempdir() if parent is None else parent).resolve() / f"{prefix}{secrets.token_hex(6)}"
    remove_afterwards(folder)
    folder.mkdir(mode=0o700)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder, now and not afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    _say(b"-", folder)


def remove_afterwards(*folders: Path) -> None:
    """Have folders removed when this process is gone, however it ended."""
    _say(b"+", *folders)


def _say(sign: bytes, *folders: Path) -> None:
    with _lock, contextlib.suppress(OSError):
        if os.name != "posix":
            return
        remover = _removers.get(os.getpid())
        if remover is None or remover.poll() is not None:
            remover = _removers[os.getpid()] = start_script(_REMOVE, str(os.getpid()))
        if remover.stdin is not None:
            remover.stdin.write(b"".join(sign + os.fsencode(each) + b"\0" for each in folders))
            remover.stdin.flush()
