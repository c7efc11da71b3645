"""What an object is called in a log or at a prompt: one line, with shapes in place of numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

_LONGEST = 60  # letters of a value
_FEW = 4  # numbers that are shown


def one_line(thing: Any) -> str:
    """Return ``Name(field=value, …)`` of a dataclass, with sizes in place of long values.

    It is the ``__repr__`` of dataclasses with arrays, tensors or long lists.
    """
    fields = [field for field in dataclasses.fields(thing) if field.repr and not field.name.startswith("_")]
    shown = ", ".join(f"{field.name}={_short(getattr(thing, field.name))}" for field in fields)
    return f"{type(thing).__name__}({shown})"


def _short(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype") and getattr(value, "ndim", 0) > 0:
        if value.ndim == 1 and not hasattr(value, "nnz") and value.shape[0] <= _FEW:
            return repr(value).replace("\n", "")
        shape = " × ".join(map(str, value.shape)) if hasattr(value, "nnz") else tuple(value.shape)
        entries = f", {value.nnz} entries" if hasattr(value, "nnz") else ""
        return f"{str(value.dtype).removeprefix('torch.')} {shape}{entries}"
    text = repr(value)
    if "\n" not in text and len(text) <= _LONGEST:
        return text
    if isinstance(value, str):
        return repr(value[: _LONGEST - 1] + "…")
    if isinstance(value, Mapping):
        return f"{len(value)} by name"
    if isinstance(value, tuple | list) and value:
        return f"{len(value)} of {type(value[0]).__name__}"
    return text if "\n" not in text and not dataclasses.is_dataclass(value) else f"{type(value).__name__}(…)"
