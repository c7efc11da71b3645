"""Pickle-free ``.npz`` archives: same bytes for same content; readers trust no declared size and have a limit."""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from fishergcn._base.files import SYSTEM, atomic_path
from fishergcn._base.json import parse_json
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, reason

_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed time stamp, so that equal content gives equal bytes
_LIMIT = 8 << 30
# A small file that declares much more than this was made to fill the memory: deflate reaches 1000 to 1 on zeros.
_SMALL = 16 << 20
_RATIO = 200
_HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def write_arrays(
    path: str | os.PathLike[str],
    arrays: Mapping[str, AnyArray],
    *,
    inside: str | os.PathLike[str] | None = None,
    overwrite: bool = True,
) -> None:
    """Write arrays to a deflated archive that ``numpy.load`` reads too; the bytes depend on content alone."""
    with atomic_path(path, inside=inside, overwrite=overwrite) as temporary:
        size = _write(temporary, arrays, zipfile.ZIP_DEFLATED)
        if size > _most(temporary):  # next to nothing but zeros: written plainly, since our reader would refuse it
            _write(temporary, arrays, zipfile.ZIP_STORED)


def _write(path: Path, arrays: Mapping[str, AnyArray], compression: int) -> int:
    """Write an archive and return how many bytes it holds."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(arrays):
            buffer = io.BytesIO()
            npy.write_array(buffer, np.ascontiguousarray(arrays[name]), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=_EPOCH)
            entry.compress_type = compression
            archive.writestr(entry, buffer.getvalue(), compresslevel=9)
        return sum(entry.file_size for entry in archive.infolist())


def _most(path: Path) -> int:
    """Return how many bytes an archive of this size may hold."""
    return max(_SMALL, _RATIO * path.stat().st_size)


def read_arrays(path: str | os.PathLike[str], *, limit: int = _LIMIT) -> dict[str, AnyArray]:
    """Read all arrays of an archive, refusing pickles, damage and more than ``limit`` bytes in all."""
    source = Path(path)
    if not os.path.isfile(source):  # unlike Path.is_file, no exception for any path
        raise DataFileError(f"{source} does not exist or is not a file.")
    try:
        with zipfile.ZipFile(source) as archive:
            entries = archive.infolist()
            declared = sum(entry.file_size for entry in entries)
            if declared > limit:
                raise DataFileError(f"{source} declares {declared} bytes of arrays; at most {limit} are read.")
            if declared > _most(source):
                raise DataFileError(
                    f"{source} declares {declared} bytes of arrays, more than {_RATIO} times its own size; "
                    "if that is right, save it without compression."
                )
            return {entry.filename.removesuffix(".npy"): _read_member(archive, entry) for entry in entries}
    except (DataFileError, MemoryError):
        raise
    except Exception as error:  # whatever a parser raises on foreign bytes, the file is not an archive of arrays
        if isinstance(error, OSError) and error.errno in SYSTEM:
            raise DataFileError(f"{source} cannot be read: {error.strerror}.") from error
        raise DataFileError(
            f"{source} is not a readable npz archive, or it is damaged or truncated ({reason(error)})."
        ) from error


def _read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> AnyArray:
    with archive.open(entry) as stream:
        read_header = _HEADER_READERS[npy.read_magic(stream)]
        shape, fortran, dtype = read_header(stream)
        if dtype.hasobject:
            raise DataFileError(
                f"{archive.filename} holds Python objects in {entry.filename!r}; only plain arrays are read."
            )
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size != entry.file_size - stream.tell():
            raise DataFileError(f"{archive.filename}: the size of {entry.filename!r} does not match its header.")
        data = stream.read(size)  # with the last byte, zipfile verifies the checksum
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def smallest(values: AnyArray) -> AnyArray:
    """Return integers in the narrowest type that holds them."""
    if values.size == 0:
        return values.astype(np.uint8)
    low, high = values.min(), values.max()
    kinds = (np.uint8, np.uint16, np.uint32, np.uint64) if low >= 0 else (np.int8, np.int16, np.int32, np.int64)
    for kind in kinds:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    raise OverflowError(f"{low}..{high} fits no integer type")


def pack_values(name: str, values: AnyArray) -> dict[str, AnyArray]:
    """Store values as they are, or as distinct values plus codes where that is narrower."""
    distinct, codes = np.unique(values, return_inverse=True)
    codes = smallest(codes.ravel())
    if codes.nbytes + distinct.nbytes < values.nbytes:
        return {f"{name}_distinct": distinct, f"{name}_codes": codes}
    return {name: values}


def unpack_values(name: str, arrays: Mapping[str, AnyArray]) -> AnyArray:
    """Undo :func:`pack_values`."""
    if name in arrays:
        return arrays[name]
    distinct, codes = arrays[f"{name}_distinct"], arrays[f"{name}_codes"]
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < distinct.size:
        raise DataFileError(f"a code of {name!r} points outside its {distinct.size} distinct values.")
    return np.asarray(distinct[codes])


def pack_json(value: Any) -> AnyArray:
    """Encode a JSON value as bytes in an array."""
    return np.frombuffer(json.dumps(value, ensure_ascii=False, sort_keys=True).encode("utf-8"), dtype=np.uint8)


def unpack_json(array: AnyArray) -> Any:
    """Decode :func:`pack_json`."""
    if array.dtype != np.uint8 or array.ndim != 1:
        raise DataFileError("a description stored in the archive is not text.")
    try:
        return parse_json(array.tobytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataFileError(f"a description stored in the archive is not valid JSON ({reason(error)}).") from error
