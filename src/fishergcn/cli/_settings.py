"""The options that are settings of training, and what they mean together: a ``TrainConfig``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from fishergcn._base.text import plain_digits
from fishergcn._settings.choices import ClassWeight, Norm, Scaling, Settings, Stopping, TestAt
from fishergcn._settings.config import TrainConfig
from fishergcn.cli._options import option
from fishergcn.errors import InputError, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from fishergcn.training import BatchSettings

_option, _large = partial(option, panel="Settings"), partial(option, panel="Large graphs")
SAMPLES = "Perturbed graphs per step (M in the paper)."
_SIZES = "sizes of layers such as 64 or 64,64"


def setting(name: str, text: str, *flags: str) -> Any:
    """Return the option of a setting; left out, it is that of --settings, whose values are shown."""
    general, paper = (_shown(getattr(TrainConfig.named(each), name)) for each in get_args(Settings))
    shown = general if general == paper else f"{general}; paper: {paper}"
    return _option(f"{text} [default: {shown}]", *flags)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class _Named:
    settings: Settings = _option(
        "Which defaults to use: values that suit most graphs (general), or the paper's.", default="general"
    )
    max_epochs: int | None = setting("max_epochs", "Maximum number of epochs.", "--epochs")


@dataclass(frozen=True)
class _Network(_Named):
    hidden: str | None = setting("hidden", "Hidden layer sizes, such as 64 or 64,64.")
    learning_rate: float | None = setting("learning_rate", "Learning rate.", "--lr")
    dropout: float | None = setting("dropout", "Dropout rate.")
    weight_decay: float | None = setting("weight_decay", "Weight decay wd; adds (wd/2)‖W‖² to the loss.")
    stopping: Stopping | None = setting("stopping", "When to stop early.")
    patience: int | None = setting("patience", "How many epochs without improvement to allow with --stopping patience.")
    test_at: TestAt | None = setting("test_at", "Which epoch's weights to test and keep.")
    scaling: Scaling | None = setting(
        "scaling", "How to scale the features: divide each row by its sum, not at all, or standardize columns."
    )
    bias: bool | None = setting("bias", "Add a bias to each layer.", "--bias/--no-bias")
    own_weights: bool | None = setting(
        "own_weights", "Give a node weights of its own beside those of its neighbors.", "--own-weights/--no-own-weights"
    )
    norm: Norm | None = setting(
        "norm", "Normalize hidden units, which deep networks need: at each node (layer), or over all nodes (batch)."
    )
    class_weight: ClassWeight | None = setting(
        "class_weight", "balanced gives rare classes the same weight as common ones."
    )
    samples: int | None = setting("samples", SAMPLES)
    rank: int | None = setting("rank", "Perturbed eigenvalues (k in the paper).")
    radius: float | None = setting("radius", "Size of the neighborhood (ε in the paper).")


@dataclass(frozen=True)
class _Others:
    set_: list[str] | None = _option("Any other TrainConfig setting; may be repeated.", "--set", metavar="NAME=VALUE")


# Fields of bases come from the last base to the first, so that --set is the last option.
@dataclass(frozen=True)
class SomeSettings(_Others, _Named):
    """The name of the settings, and changes of them."""

    def config(self) -> TrainConfig:
        """Return the settings of that name, changed by the options that were given."""
        return TrainConfig.named(self.settings, **self.given())

    def given(self) -> dict[str, Any]:
        """Return the settings that were given, by name."""
        values = {name: value for name, value in vars(self).items() if value is not None}
        del values["settings"]
        if "hidden" in values:
            values["hidden"] = _numbers("--hidden", values["hidden"], _SIZES)
        for text in values.pop("set_", ()):
            name, value = parse_setting(text)
            if name in values:
                raise InputError(f"{name} must be set once, got it twice.")
            values[name] = value
        return values


@dataclass(frozen=True)
class AllSettings(SomeSettings, _Network):
    """The name of the settings, and changes of them; those that people change most are options of their own."""


@dataclass(frozen=True)
class Batches:
    """Mini-batches."""

    batch_size: int | None = _large(
        "Train in mini-batches of this many nodes. To share them between two processes: torchrun --nproc-per-node 2 "
        "--no-python fishergcn train ..."
    )
    fanout: str | None = _large(
        "How many neighbors to sample per node in each layer, last layer first, such as 10,10; -1 for all."
    )

    def settings(self) -> BatchSettings | None:
        """Return the settings of mini-batches, or None for full batches."""
        from fishergcn.training import BatchSettings

        if self.batch_size is None and self.fanout is None:
            return None
        if self.batch_size is None:
            raise InputError("--fanout goes with --batch-size, which is missing.")
        if self.fanout is None:
            raise InputError("--fanout must be given with --batch-size, for instance --fanout 10,10 for two layers.")
        return BatchSettings(self.batch_size, _numbers("--fanout", self.fanout, "whole numbers such as 10,10"))


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``name=value`` as a setting of ``TrainConfig``."""
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
        return _numbers(name, text, _SIZES)
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
