"""Options of the command line as a ``TrainConfig``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fishergcn._base.text import plain_digits
from fishergcn._settings.choices import Settings
from fishergcn.errors import InputError, suggestion
from fishergcn.training import BatchSettings, TrainConfig

if TYPE_CHECKING:
    from collections.abc import Callable


def make_config(name: Settings, options: Mapping[str, Any], settings: Sequence[str] | None) -> TrainConfig:
    """Return the settings of that name, changed by the options that were given and by ``--set name=value``."""
    return TrainConfig.named(name, **given_settings(options, settings))


def given_settings(options: Mapping[str, Any], settings: Sequence[str] | None) -> dict[str, Any]:
    """Return the settings that were given, by name."""
    values = {name: value for name, value in options.items() if value is not None}
    if "hidden" in values:
        values["hidden"] = _numbers("--hidden", values["hidden"], "sizes of layers such as 64 or 64,64")
    for text in settings or ():
        name, value = parse_setting(text)
        if name in values:
            raise InputError(f"{name} must be set once, got it twice.")
        values[name] = value
    return values


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``name=value`` as a setting of ``TrainConfig``.

    Examples
    --------
    >>> parse_setting("radius=0.5")
    ('radius', 0.5)
    """
    defaults = {field.name: field.default for field in dataclasses.fields(TrainConfig)}
    name, equals, value = (part.strip() for part in text.partition("="))
    name = name.replace("-", "_")
    if not equals:
        raise InputError(f"--set must be name=value, got {text!r}.")
    if name not in defaults:
        hint = suggestion(name, defaults)
        raise InputError(f"--set must name a setting{hint}, got {name!r}; there are {', '.join(defaults)}.")
    return name, _value(name, value, defaults[name])


def parse_batches(batch_size: int | None, fanout: str | None) -> BatchSettings | None:
    """Return the settings of mini-batches, or None for full batches.

    Examples
    --------
    >>> parse_batches(512, "10,-1").fanout
    (10, -1)
    """
    if batch_size is None and fanout is None:
        return None
    if batch_size is None:
        raise InputError("--fanout goes with --batch-size, which is missing.")
    if fanout is None:
        raise InputError("--fanout must be given with --batch-size, for instance --fanout 10,10 for two layers.")
    return BatchSettings(batch_size, _numbers("--fanout", fanout, "whole numbers such as 10,10"))


def _value(name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise InputError(f"{name} must be true or false, got {text!r}.")
        return text.lower() == "true"
    if isinstance(default, tuple):
        return _numbers(name, text, "sizes of layers such as 64 or 64,64")
    if isinstance(default, str):
        return text
    kind: Callable[[str], Any] = type(default)
    try:
        return kind(plain_digits(text))
    except ValueError:
        what = "a whole number" if isinstance(default, int) else "a number"
        raise InputError(f"{name} must be {what}, got {text!r}.") from None


def _numbers(name: str, text: str, what: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in plain_digits(text).split(","))
    except ValueError:
        raise InputError(f"{name} must be {what}, got {text!r}.") from None
