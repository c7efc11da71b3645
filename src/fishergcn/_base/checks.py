"""Argument checks that fail with one sentence: what, allowed, got."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

from fishergcn.errors import InputError, suggestion


def check_integer(name: str, value: Any, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return ``value`` as an int, or raise if it is not a whole number in [minimum, maximum]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name} must be a whole number, got {value!r}.")
    number = int(value)
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise InputError(f"{name} must be {_range(minimum, maximum)}, got {number}.")
    return number


def check_real(
    name: str,
    value: Any,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return ``value`` as a finite float within closed (minimum, maximum) and open (above, below) bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a number, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite, got {number}.")
    rules = [
        (minimum is None or number >= minimum, f"at least {minimum}"),
        (above is None or number > above, f"greater than {above}"),
        (maximum is None or number <= maximum, f"at most {maximum}"),
        (below is None or number < below, f"less than {below}"),
    ]
    if not all(kept for kept, _ in rules):
        bounds = (minimum, above, maximum, below)
        allowed = " and ".join(text for (_, text), bound in zip(rules, bounds, strict=True) if bound is not None)
        raise InputError(f"{name} must be {allowed}, got {number:.12g}.")
    return number


def check_text(name: str, value: Any) -> str:
    """Return ``value`` if it is text that a file can hold, which half a surrogate pair is not."""
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InputError(f"{name} must be text, got {value!r}.")
    return value


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        hint = suggestion(value, allowed) if isinstance(value, str) else ""
        raise InputError(f"{name} must be one of {words}, got {value!r}{hint}.")
    return value


def _range(minimum: int | None, maximum: int | None) -> str:
    if minimum is not None and maximum is not None:
        return f"between {minimum} and {maximum}"
    return f"at least {minimum}" if minimum is not None else f"at most {maximum}"
