"""Arrays that the processes of one machine share, which ``torchrun`` started: one makes them, the others map them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fishergcn._base.mapped import read_mapped, write_files
from fishergcn._base.temporary import new_folder, remove_afterwards, remove_folder
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError
from fishergcn.graph import Graph
from fishergcn.training import process_count

_PAUSE = 0.05  # seconds
_MADE: list[Path] = []


def shared_arrays(name: str, make: Callable[[], Mapping[str, AnyArray]]) -> Mapping[str, AnyArray]:
    """Return arrays by name that one process of each machine makes, and all of them read.

    Without ``torchrun`` these are what is made, and no file is written. With it, the first process of a machine writes
    them to a folder beside other temporary files; the others wait for it, and ``torchrun`` ends them if it fails. When
    all have it, the first calls :func:`forget_shared`.
    """
    if process_count() == 1:
        return make()
    folder = _folder(name)
    if os.environ.get("LOCAL_RANK", "0") == "0":
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
        remove_afterwards(folder)  # the kernel ends a rank whose launcher was killed before it can
        temporary = new_folder(f"{folder.name}-", folder.parent)
        _MADE.append(folder)
        try:
            write_files(temporary, make())
            temporary.rename(folder)
        finally:
            remove_folder(temporary)
        return read_mapped(folder)
    while not folder.is_dir():
        time.sleep(_PAUSE)
    if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
        raise DataFileError(f"{folder} belongs to another user, and is not read.")
    return read_mapped(folder)


@atexit.register
def forget_shared() -> None:
    """Remove the names of what this process shared, once all have mapped it: the content lives on with those who do."""
    while _MADE:
        remove_folder(_MADE.pop())


def _folder(name: str) -> Path:
    """Return where the processes of one call of torchrun look: they have the address and the start in common."""
    facts = [os.environ.get(each, "") for each in ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")]
    words = "-".join(each for each in (*facts, str(os.getppid()), name) if each)
    return Path(tempfile.gettempdir()) / f"fishergcn-{''.join(c if c.isalnum() else '-' for c in words)}"


def shared_graph(name: str, load: Callable[[], Graph]) -> Graph:
    """Return a graph that one process of each machine loads, and all of them share."""
    if process_count() == 1:
        return load()
    return Graph.from_arrays(shared_arrays(name, lambda: load().to_arrays()))
