"""Blocks of arrays in files of one folder: each is there wholly, as it was written, or not at all.

A stage of the work is a folder, a block of it some files and, written last, a receipt: a JSON file with the size, the
time and the checksum of each file, with the facts that others want to know without reading the arrays, and with a
checksum of its own. Every file is written under another name and renamed. So any number of processes and machines can
work in the folder, and what is interrupted goes on where it was.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from fishergcn._base.entries import Entries
from fishergcn._base.records import load_record
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, InputError, reason

Facts = dict[str, Any]

_PIECE = 1 << 24  # bytes at a time
_AGAIN = "run the same command again: it makes the block again"


class Store:
    """The folder of one piece of work; see the module."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, stage: str, block: int, arrays: Mapping[str, AnyArray], facts: Facts) -> None:
        """Write a block."""
        place = self.folder / stage
        place.mkdir(exist_ok=True)
        files = {}
        for name, array in arrays.items():
            path = place / f"{block:05}.{name}.npy"
            temporary = path.with_name(f".{secrets.token_hex(8)}")
            try:
                with open(temporary, "wb") as stream:
                    npy.write_array(stream, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
                found = os.stat(temporary)
                files[name] = [found.st_size, found.st_mtime_ns, checksum(temporary)]
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
        receipt = place / f"{block:05}.json"
        temporary = receipt.with_name(f".{secrets.token_hex(8)}")
        content = {"files": files, "facts": facts}
        temporary.write_text(json.dumps(content | {"sum": _sum_of(content)}), encoding="utf-8")
        temporary.replace(receipt)

    def facts(self, stage: str, block: int) -> Facts | None:
        """Return the facts of a block, or None if it is not there."""
        receipt = self._receipt(stage, block)
        return None if receipt is None else receipt["facts"]

    def arrays(self, stage: str, block: int, *names: str) -> list[AnyArray]:
        """Return arrays of a block, mapped and read-only, if they are as they were written."""
        receipt = self._receipt(stage, block)
        if receipt is None:
            raise DataFileError(f"block {block} of stage {stage!r} is missing in {self.folder}; {_AGAIN}.")
        found = []
        for name in names:
            path = self.folder / stage / f"{block:05}.{name}.npy"
            if not _is_as_written(path, receipt["files"].get(name)):
                raise DataFileError(f"block {block} of stage {stage!r} is missing or was changed ({path}); {_AGAIN}.")
            try:
                array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
            except ValueError:  # nothing to map: an array without numbers
                array = np.load(path, allow_pickle=False)
            found.append(np.asarray(array))
        return found

    def check(self, stage: str, block: int) -> bool:
        """Say whether a block is there as it was written, by its checksums; what is left of another is removed."""
        receipt = self._receipt(stage, block)
        if receipt is None:
            return False
        paths = {self.folder / stage / f"{block:05}.{name}.npy": stored for name, stored in receipt["files"].items()}
        if all(_is_as_written(path, stored, surely=True) for path, stored in paths.items()):
            return True
        (self.folder / stage / f"{block:05}.json").unlink(missing_ok=True)
        return False

    def remove(self, stage: str) -> None:
        """Remove a stage that nothing needs any more."""
        shutil.rmtree(self.folder / stage, ignore_errors=True)

    def size(self) -> int:
        """Return how many bytes all files have."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def _receipt(self, stage: str, block: int) -> Facts | None:
        path = self.folder / stage / f"{block:05}.json"
        if not os.path.lexists(path):
            return None
        try:
            return load_record(path, _receipt_of, "a receipt")
        except DataFileError as error:
            raise DataFileError(f"{reason(error)}; remove it and run the command again.") from error


def _receipt_of(values: Any) -> Facts:
    found = Entries(values, "a receipt", known=("files", "facts", "sum"))
    files, facts = found.table("files"), found.table("facts")
    for name in files:
        if not name.isidentifier() or len(Entries(files, "its files").wholes(name)) != 3:
            raise InputError(f"a receipt must hold size, time and checksum of each array, got {name!r:.80}.")
    content = {"files": dict(files), "facts": dict(facts)}
    if found.values.get("sum") != _sum_of(content):
        raise InputError("its content is not what its checksum says.")
    return content


def _sum_of(content: Facts) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    found = 0
    with open(path, "rb") as stream:
        while piece := stream.read(_PIECE):
            found = zlib.crc32(piece, found)
    return found


def fingerprint(paths: Sequence[Path]) -> list[list[Any]]:
    """Return name, size and time of files, by which it is seen later that they are the same."""
    try:
        return [[str(path), (found := os.stat(path)).st_size, found.st_mtime_ns] for path in paths]
    except OSError as error:
        raise DataFileError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _is_as_written(path: Path, stored: Sequence[int] | None, *, surely: bool = False) -> bool:
    """Compare a file with its receipt: by size and time, and by its checksum where the time differs or ``surely``."""
    try:
        found = os.stat(path)
        if stored is None or found.st_size != stored[0]:
            return False
        return (found.st_mtime_ns == stored[1] and not surely) or checksum(path) == stored[2]
    except OSError:
        return False
