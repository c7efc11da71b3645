"""JSON from files: what comes out can be written again."""

from __future__ import annotations

import json
from typing import Any


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
