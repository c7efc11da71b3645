"""A plan that was read from a file: of the form that everything behind relies on, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fishergcn.errors import DataFileError

__all__ = ["checked_plan"]


def checked_plan(values: Any, source: Path) -> dict[str, Any]:
    """Return the plain values of a plan if they have the form of ``Plan.to_dict``, or raise.

    Examples
    --------
    >>> checked_plan({"preset": 3}, Path("plan.json"))
    Traceback (most recent call last):
    ...
    fishergcn.errors.DataFileError: plan.json: 'preset' of the plan is missing or has the wrong form.
    """
    if not isinstance(values, dict):
        raise DataFileError(f"{source}: the plan must be an object with entries.")
    for name, fits in _ENTRIES.items():
        if name not in values or not fits(values[name]):
            raise DataFileError(f"{source}: {name!r} of the plan is missing or has the wrong form.")
    if not _all(_is_text)(values.get("changed", [])):
        raise DataFileError(f"{source}: 'changed' of the plan has the wrong form.")
    return values


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_number_or_none(value: Any) -> bool:
    return value is None or isinstance(value, float) or _is_whole(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _all(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _with(**entries: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict) and all(name in value and fits(value[name]) for name, fits in entries.items())
    )


_CELL = _with(
    dataset=_is_text, name=_is_text, method=_is_text, variant=_is_text, config=_is_object, control=_is_text_or_none
)
_PUBLISHED = _with(
    dataset=_is_text,
    method=_is_text,
    source=_is_text,
    accuracy=_is_number_or_none,
    accuracy_std=_is_number_or_none,
    loss=_is_number_or_none,
    loss_std=_is_number_or_none,
)
_ENTRIES: dict[str, Callable[[Any], bool]] = {
    "preset": _is_text,
    "title": _is_text,
    "source": _is_text,
    "notes": _all(_is_text),
    "datasets": _all(_is_text),
    "methods": _all(_is_text),
    "splits": _all(_is_text),
    "seeds": _all(_is_whole),
    "cells": _all(_CELL),
    "published": _all(_PUBLISHED),
    "digests": lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
}
