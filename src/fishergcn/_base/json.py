"""JSON to files and from files: what is read can be written again."""

from __future__ import annotations

import json
import math
from typing import Any


def plain(value: Any) -> Any:
    """Replace numbers that JSON does not know, NaN and infinity, by None, in objects and lists too.

    Examples
    --------
    >>> plain({"loss": [0.5, float("nan")]})
    {'loss': [0.5, None]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def parse_json(text: str | bytes, **options: Any) -> Any:
    r"""Read JSON text; half a surrogate pair, which no file can hold, is a ValueError as other damage is.

    Examples
    --------
    >>> parse_json('{"a": "\\ud83d\\ude00"}')["a"] == "\U0001f600"
    True
    >>> parse_json('["\\ud83d"]')
    Traceback (most recent call last):
    ...
    ValueError: a text holds half a surrogate pair
    """
    value = json.loads(text, **options)
    mark = "\\ud" if isinstance(text, str) else b"\\ud"
    if mark in text.lower():  # type: ignore[operator]
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text holds half a surrogate pair") from None
    return value
