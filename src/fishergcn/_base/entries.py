"""Plain values that may come from anywhere, JSON or TOML: each of its type, or one sentence that names it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from fishergcn._base.checks import check_integer, check_real, check_text
from fishergcn.errors import InputError, suggestion

Value = TypeVar("Value")
_REQUIRED: Any = object()


class Entries:
    """A table (TOML) or an object (JSON) that may come from anywhere; only entries that are ``known``, if given."""

    def __init__(self, values: Any, what: str, known: Collection[str] | None = None) -> None:
        if not isinstance(values, Mapping):
            raise InputError(f"{what} must be an object with entries, got {values!r:.80}.")
        self.values, self.what = values, what
        if known is not None and (unknown := [name for name in values if name not in known]):
            words = f"{suggestion(str(unknown[0]), known)}; known are {', '.join(sorted(known))}"
            raise InputError(f"unknown entry {unknown[0]!r} of {what}{words}.")

    def text(self, name: str, default: str = _REQUIRED) -> str:
        """Return a text."""
        return check_text(*self._found(name, default))

    def texts(self, name: str, default: tuple[str, ...] = _REQUIRED) -> tuple[str, ...]:
        """Return a list of texts."""
        return self._list(name, default, check_text)

    def whole(self, name: str, default: int = _REQUIRED, minimum: int = 0, maximum: int = (1 << 63) - 1) -> int:
        """Return a whole number that 63 bits hold."""
        return check_integer(*self._found(name, default), minimum=minimum, maximum=maximum)

    def wholes(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        return self._list(name, _REQUIRED, lambda what, each: check_integer(what, each, minimum=0, maximum=1 << 62))

    def real(self, name: str, minimum: float = 0.0, maximum: float | None = None) -> float:
        """Return a number."""
        return check_real(*self._found(name, _REQUIRED), minimum=minimum, maximum=maximum)

    def reals(self, name: str) -> tuple[float, ...]:
        """Return a list of numbers."""
        return self._list(name, _REQUIRED, check_real)

    def number(self, name: str) -> float:
        """Return a number of any sign; NaN for None, which stands for what JSON cannot say."""
        where, value = self._found(name, _REQUIRED)
        return math.nan if value is None else check_real(where, value)

    def real_or_none(self, name: str) -> float | None:
        """Return a number from 0 on, None if there is none."""
        return None if self.values.get(name) is None else self.real(name)

    def inside(self, name: str) -> Entries:
        """Return an object, whose entries are to be read."""
        return Entries(*reversed(self._found(name, _REQUIRED)))

    def table(self, name: str, default: Mapping[str, Any] = _REQUIRED) -> Mapping[str, Any]:
        """Return an object."""
        where, value = self._found(name, default)
        return Entries(value, where).values

    def tables(self, name: str, default: tuple[Mapping[str, Any], ...] = _REQUIRED) -> tuple[Mapping[str, Any], ...]:
        """Return a list of objects."""
        return self._list(name, default, lambda what, each: Entries(each, what).values)

    def _found(self, name: str, default: Any) -> tuple[str, Any]:
        where = f"{name!r} of {self.what}"
        if name in self.values:
            return where, self.values[name]
        if default is _REQUIRED:
            raise InputError(f"{where} is missing.")
        return where, default

    def _list(self, name: str, default: Any, check: Callable[[str, Any], Value]) -> tuple[Value, ...]:
        where, value = self._found(name, default)
        if not isinstance(value, list | tuple):
            raise InputError(f"{where} must be a list, got {value!r:.80}.")
        return tuple(check(where, each) for each in value)


def is_number(value: Any) -> bool:
    """Say whether a value is a number within 63 bits or float64, or None for one that JSON cannot say."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 1 << 63
    return value is None or isinstance(value, float)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_number, value))


#: Whether a value fits a field of a dataclass, by the field's annotation.
FITS: Mapping[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: isinstance(value, int) and is_number(value),
    "float": is_number,
    "list[float]": _are_numbers,
    "dict[str, str]": lambda value: isinstance(value, dict) and all(isinstance(each, str) for each in value.values()),
    "dict[str, Any]": lambda value: isinstance(value, dict),
    "dict[str, list[float]]": lambda value: isinstance(value, dict) and all(map(_are_numbers, value.values())),
}


def with_nan(value: Any) -> Any:
    """Undo :func:`fishergcn._base.json.plain`: None was a number that JSON cannot say."""
    if isinstance(value, dict):
        return {key: with_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_nan(item) for item in value]
    return math.nan if value is None else value
