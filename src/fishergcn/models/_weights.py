"""Weights as safetensors: nothing in such a file can run, and its header is checked before it is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.files import atomic_path, read_bytes
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, reason

_LARGEST_HEADER = 1 << 20
_LARGEST_FILE = 8 << 30
_TYPES = {"float32": "F32", "float64": "F64"}


def write_weights(path: Path, weights: Sequence[AnyArray]) -> None:
    """Write W^l as the tensors ``weights.0``, ``weights.1`` and so on, the names in ``GCN.state_dict``."""
    from safetensors.numpy import save

    data = save({_name(layer): np.ascontiguousarray(each) for layer, each in enumerate(weights)})
    with atomic_path(path) as temporary:  # has the mode that the umask says; safetensors' own files have 0600
        temporary.write_bytes(data)


def read_weights(path: Path, shapes: Sequence[tuple[int, int]], dtype: str) -> tuple[AnyArray, ...]:
    """Read weights of exactly these shapes and this type; anything else is refused with one sentence."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    expected = sum(rows * columns for rows, columns in shapes) * np.dtype(dtype).itemsize
    data = read_bytes(path, limit=min(expected + 8 + _LARGEST_HEADER, _LARGEST_FILE))
    declared = _header(path, data)
    for layer, shape in enumerate(shapes):
        entry = declared.pop(_name(layer), None)
        kind = entry if isinstance(entry, dict) else {}
        if (kind.get("dtype"), kind.get("shape")) != (_TYPES[dtype], list(shape)):
            raise DataFileError(
                f"{path}: {_name(layer)} must be {_TYPES[dtype]} of shape {list(shape)}, "
                f"got {kind.get('dtype')} of shape {kind.get('shape')}."
            )
    if declared:
        raise DataFileError(f"{path} holds tensors that the network does not have: {', '.join(sorted(declared))}.")
    try:
        arrays = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise DataFileError(f"{path} is damaged or truncated ({reason(error)}).") from error
    weights = tuple(arrays[_name(layer)] for layer in range(len(shapes)))
    for layer, each in enumerate(weights):
        if not np.isfinite(each).all():
            raise DataFileError(f"{path}: {_name(layer)} must be finite, but holds NaN or infinity.")
    return weights


def _header(path: Path, data: bytes) -> dict[str, Any]:
    """Return the header of a safetensors file: eight bytes for its length, then JSON."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(_LARGEST_HEADER, len(data) - 8):
        raise DataFileError(f"{path} is not a safetensors file, or it is damaged: its header does not fit.")
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise DataFileError(f"{path} is damaged: its header is not JSON ({reason(error)}).") from error
    if not isinstance(header, dict):
        raise DataFileError(f"{path} is damaged: its header is not a JSON object.")
    header.pop("__metadata__", None)
    return header


def _name(layer: int) -> str:
    return f"weights.{layer}"
