"""Options of the command line as a ``TrainConfig``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fishergcn.cli._common import note
from fishergcn.errors import InputError, suggestion

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.training import TrainConfig

__all__ = ["make_config", "parse_setting"]


def make_config(options: dict[str, Any], settings: Sequence[str], graph: Graph) -> TrainConfig:
    """Return the configuration of the options that were given and of ``--set name=value``.

    Dividing rows by their sum is meant for counts. Where features are negative it is left out, unless asked
    for.
    """
    from fishergcn.training import TrainConfig, has_negative_features

    values = {name: value for name, value in options.items() if value is not None}
    if "hidden" in values:
        values["hidden"] = _sizes("--hidden", values["hidden"])
    for text in settings:
        name, value = parse_setting(text)
        if name in values:
            raise InputError(f"{name} must be set once, got it twice.")
        values[name] = value
    if "normalize_features" not in values and has_negative_features(graph):
        note("some features are negative, so rows are not divided by their sum; --set normalize_features=true does it.")
        values["normalize_features"] = False
    return TrainConfig(**values)


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``name=value`` as a setting of ``TrainConfig``.

    Examples
    --------
    >>> parse_setting("radius=0.5")
    ('radius', 0.5)
    """
    from fishergcn.training import TrainConfig

    defaults = {field.name: field.default for field in dataclasses.fields(TrainConfig)}
    name, equals, value = (part.strip() for part in text.partition("="))
    name = name.replace("-", "_")
    if not equals:
        raise InputError(f"--set must be name=value, got {text!r}.")
    if name not in defaults:
        hint = suggestion(name, defaults)
        raise InputError(f"--set must name a setting{hint}, got {name!r}; there are {', '.join(defaults)}.")
    return name, _value(name, value, defaults[name])


def _value(name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise InputError(f"{name} must be true or false, got {text!r}.")
        return text.lower() == "true"
    if isinstance(default, tuple):
        return _sizes(name, text)
    if isinstance(default, str):
        return text
    try:
        return type(default)(text)
    except ValueError:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise InputError(f"{name} must be {kind}, got {text!r}.") from None


def _sizes(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{name} must be sizes of layers such as 64 or 64,64, got {text!r}.") from None
