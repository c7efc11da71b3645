"""Weights as safetensors: nothing in such a file can run, and its header is checked before it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.files import atomic_path, read_bytes
from fishergcn._base.json import parse_json
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, reason

_LARGEST_HEADER = 1 << 20
_LARGEST_FILE = 8 << 30
_TYPES = {"float32": "F32", "float64": "F64", "int64": "I64"}


def write_tensors(path: Path, tensors: Mapping[str, AnyArray]) -> None:
    """Write tensors by name; those of a network have the names in ``GCN.state_dict``."""
    from safetensors.numpy import save

    data = save({name: np.ascontiguousarray(each) for name, each in tensors.items()})
    with atomic_path(path) as temporary:  # has the mode that the umask says; safetensors' own files have 0600
        temporary.write_bytes(data)


def read_tensors(path: Path, shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> dict[str, AnyArray]:
    """Read tensors of exactly these types and shapes; anything else is refused with one sentence."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    expected = sum(np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in shapes.values())
    data = read_bytes(path, limit=min(expected + 8 + _LARGEST_HEADER, _LARGEST_FILE))
    declared = _header(path, data)
    for name, (dtype, shape) in shapes.items():
        entry = declared.pop(name, None)
        kind = entry if isinstance(entry, dict) else {}
        if (kind.get("dtype"), kind.get("shape")) != (_TYPES[dtype], list(shape)):
            raise DataFileError(
                f"{path}: {name} must be {_TYPES[dtype]} of shape {list(shape)}, "
                f"got {kind.get('dtype')} of shape {kind.get('shape')}."
            )
    if declared:
        raise DataFileError(f"{path} holds tensors that the network does not have: {', '.join(sorted(declared))}.")
    try:
        arrays = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise DataFileError(f"{path} is damaged or truncated ({reason(error)}).") from error
    for name in shapes:
        if not np.isfinite(arrays[name]).all():
            raise DataFileError(f"{path}: {name} must be finite, but holds NaN or infinity.")
    return {name: arrays[name] for name in shapes}


def _header(path: Path, data: bytes) -> dict[str, Any]:
    """Return the header of a safetensors file: eight bytes for its length, then JSON."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(_LARGEST_HEADER, len(data) - 8):
        raise DataFileError(f"{path} is not a safetensors file, or it is damaged: its header does not fit.")
    try:
        header = parse_json(data[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise DataFileError(f"{path} is damaged: its header is not JSON ({reason(error)}).") from error
    if not isinstance(header, dict):
        raise DataFileError(f"{path} is damaged: its header is not a JSON object.")
    header.pop("__metadata__", None)
    return header
