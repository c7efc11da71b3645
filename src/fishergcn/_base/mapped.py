"""Folders of plain arrays, mapped into memory: processes of one machine that read the same folder share one copy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from fishergcn._base.files import atomic_folder, refuse_links
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, reason

_SUFFIX = ".npy"


def write_mapped(folder: str | os.PathLike[str], arrays: Mapping[str, AnyArray]) -> None:
    """Write arrays as files of a new folder, which is there wholly or not at all."""
    with atomic_folder(Path(os.path.realpath(folder))) as place:
        write_files(place, arrays)


def write_files(folder: Path, arrays: Mapping[str, AnyArray]) -> None:
    """Write arrays as files of a folder that is there."""
    for name, array in arrays.items():
        with open(folder / f"{name}{_SUFFIX}", "wb") as stream:
            npy.write_array(stream, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)


def read_mapped(folder: str | os.PathLike[str]) -> dict[str, AnyArray]:
    """Return the arrays of a folder, read-only and mapped: what is not looked at is not read."""
    try:
        paths = sorted(path for path in Path(folder).iterdir() if path.suffix == _SUFFIX)
        refuse_links(folder, *(path.name for path in paths))
        for path in paths:
            if not path.is_file():  # a pipe would have us wait for ever
                raise DataFileError(f"{path} is not a file.")
        return {path.stem: _mapped(path) for path in paths}
    except OSError as error:
        raise DataFileError(f"{folder} cannot be read: {error.strerror or reason(error)}.") from error


def _mapped(path: Path) -> AnyArray:
    try:
        found: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # whatever NumPy raises on foreign bytes, the file holds no array
        if path.stat().st_size and _is_empty(path):  # which cannot be mapped
            empty: AnyArray = np.load(path, allow_pickle=False)
            return empty
        raise DataFileError(f"{path} is not a readable array, or it is damaged ({reason(error)}).") from error
    return np.asarray(found)


def _is_empty(path: Path) -> bool:
    """Say whether a file is that of an array without numbers."""
    try:
        with open(path, "rb") as stream:
            npy.read_magic(stream)
            shape, _, dtype = npy.read_array_header_1_0(stream)
        return 0 in shape and not dtype.hasobject
    except Exception:
        return False
