"""Small files of plain values that are kept with a model, written whole and read with doubt."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from fishergcn._base.files import read_bytes, refuse_links, write_text
from fishergcn._base.json import parse_json
from fishergcn.errors import DataFileError, InputError, reason

_LARGEST = 64 << 20  # bytes

T = TypeVar("T")


def save_record(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file, wholly or not at all; a link of that name is refused."""
    text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text, inside=path.parent)


def load_record(path: Path, made_of: Callable[[Any], T], what: str) -> T:
    """Return what is made of the values in a file, or raise one sentence that names the file and ``what`` it is not."""
    refuse_links(path.parent, path.name)
    data = read_bytes(path, limit=_LARGEST)
    try:
        return made_of(parse_json(data))
    except InputError as error:
        raise DataFileError(f"{path}: {error}") from None
    except KeyError as error:
        raise DataFileError(f"{path}: the entry {error} is missing.") from None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DataFileError(f"{path} cannot be read as {what} ({reason(error)}).") from error
