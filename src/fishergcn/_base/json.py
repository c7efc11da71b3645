"""JSON to files and from files: what is read can be written again."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def plain(value: Any) -> Any:
    """Replace numbers that JSON does not know, NaN and infinity, by None, and tuples by lists, at any depth."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def parse_json(text: str | bytes) -> Any:
    """Read JSON text that means one thing: anything else is a ValueError, as other damage is.

    That is an object with the same name twice (of which readers take one or the other), NaN, infinity and numbers that
    no float can hold, and half a surrogate pair, which no file can hold.
    """
    value = json.loads(text, object_pairs_hook=_object, parse_float=_number, parse_constant=_refuse)
    mark = "\\ud" if isinstance(text, str) else b"\\ud"
    if mark in text.lower():  # type: ignore[operator]
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text holds half a surrogate pair") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"the name {twice!r} comes twice in one object")
    return made


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is larger than any float")
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")
