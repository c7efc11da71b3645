"""Presets: an experiment as a file, with its settings, its published numbers and where they come from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from fishergcn._base.checks import check_choice, check_integer, check_real, check_text
from fishergcn.errors import DataFileError, FisherGCNError, InputError, reason, suggestion
from fishergcn.splits import Rule
from fishergcn.training import TrainConfig, parse_method

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["Preset", "Published", "Variant", "available_presets", "load_preset"]

_KEYS = {
    "title",
    "kind",
    "source",
    "notes",
    "datasets",
    "methods",
    "splits",
    "seeds",
    "config",
    "variants",
    "published",
}


@dataclass(frozen=True)
class Published:
    """A number that was published for one method on one data set.

    Attributes
    ----------
    dataset, method
        What it is about.
    source
        Where it stands.
    accuracy, accuracy_std
        Mean and standard deviation of the test accuracy, fractions; None where nothing was published.
    loss, loss_std
        The same of the test loss, weight decay included.
    """

    dataset: str
    method: str
    source: str
    accuracy: float | None = None
    accuracy_std: float | None = None
    loss: float | None = None
    loss_std: float | None = None


@dataclass(frozen=True)
class Variant:
    """Settings that differ from the preset's own, under a name, for some of the methods."""

    name: str
    methods: tuple[str, ...]
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Preset:
    """An experiment.

    Attributes
    ----------
    name, title, source, notes
        What it is, in words: file name, one line, what it repeats, where the original is silent.
    kind
        ``"training"``, or ``"data"`` for a table of data statistics, where nothing is trained.
    datasets, methods
        What is run on what.
    split_rule, splits
        ``"shuffled"``, ``"per-class"`` (with seeds from 2019 on) or ``"public"`` (one split), and how many.
    seeds
        How many initializations of each split, with seeds from 2019 on.
    config
        The settings of every run.
    variants
        Cells with other settings, beside the plain ones.
    published
        The numbers to compare with.
    facts
        For ``kind="data"``: the published statistics of each data set.
    """

    name: str
    title: str
    kind: str
    source: str
    notes: tuple[str, ...]
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    split_rule: Rule
    splits: int
    seeds: int
    config: TrainConfig
    variants: tuple[Variant, ...]
    published: tuple[Published, ...]
    facts: tuple[Mapping[str, Any], ...]


def available_presets() -> tuple[str, ...]:
    """Return the names of the presets that ship with the package.

    Examples
    --------
    >>> "table2" in available_presets()
    True
    """
    files = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def load_preset(name: str | Path) -> Preset:
    """Read a preset: one that ships with the package, by its name, or a TOML file of yours.

    Examples
    --------
    >>> preset = load_preset("table2")
    >>> preset.splits, preset.seeds, preset.config.radius
    (20, 10, 0.1)
    """
    if str(name) in available_presets():
        return _parse(str(name), (_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    path = Path(name)
    if path.suffix != ".toml":
        hint = suggestion(str(name), available_presets())
        raise InputError(
            f"preset {str(name)!r} is unknown{hint}; there are {', '.join(available_presets())}, or a .toml file."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # not UTF-8, or a name that no file can have
        raise DataFileError(f"preset {path} cannot be read: {reason(error)}.") from error
    return _parse(path.stem, text)


def _folder() -> Traversable:
    return resources.files("fishergcn.studies") / "presets"


def _parse(name: str, text: str) -> Preset:
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # besides TOMLDecodeError: numbers too long, nests too deep
        raise DataFileError(f"preset {name!r} is not valid TOML: {reason(error)}.") from error
    try:
        return _build(name, values)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataFileError(f"preset {name!r} lacks or misuses {reason(error)}.") from error
    except FisherGCNError as error:
        raise DataFileError(f"preset {name!r}: {error}") from error


def _build(name: str, values: dict[str, Any]) -> Preset:
    _only(values, _KEYS, "entry")
    kind = check_choice("kind", values.get("kind", "training"), ("training", "data"))
    splits = values.get("splits", {"rule": "public"})
    _only(splits, {"rule", "count"}, "entry of splits")
    rule: Any = check_choice("splits.rule", splits["rule"], get_args(Rule))
    methods = tuple(parse_method(method).name for method in values.get("methods", ()))
    if kind == "training" and not methods:
        raise InputError("methods must name at least one method.")
    config = TrainConfig.from_dict(values.get("config", {}))
    published = values.get("published", [])
    return Preset(
        name=name,
        title=check_text("title", values["title"]),
        kind=kind,
        source=check_text("source", values["source"]),
        notes=tuple(check_text("notes", note) for note in values.get("notes", ())),
        datasets=_datasets(values["datasets"]),
        methods=methods,
        split_rule=rule,
        splits=check_integer(
            "splits.count", splits.get("count", 1), minimum=1, maximum=1 if rule == "public" else None
        ),
        seeds=check_integer("seeds", values.get("seeds", 1), minimum=1),
        config=config,
        variants=tuple(_variant(each, config) for each in values.get("variants", [])),
        published=() if kind == "data" else tuple(_published(each) for each in published),
        facts=tuple(_fact(each) for each in published) if kind == "data" else (),
    )


def _datasets(names: list[str]) -> tuple[str, ...]:
    from fishergcn import datasets

    return tuple(check_choice("datasets", name, datasets.available()) for name in names)


def _variant(values: dict[str, Any], config: TrainConfig) -> Variant:
    _only(values, {"name", "methods", "config"}, "entry of a variant")
    TrainConfig.from_dict(config.to_dict() | values["config"])
    methods = tuple(parse_method(method).name for method in values["methods"])
    return Variant(check_text("name", values["name"]), methods, values["config"])


def _fact(values: dict[str, Any]) -> Mapping[str, Any]:
    """Check one entry of a data table; its numbers stay as they are written."""
    from fishergcn import datasets

    check_choice("dataset", values["dataset"], datasets.available())
    for key in ("nodes", "links", "components", "features", "classes", "share", "share_high_order"):
        check_real(key, values[key], minimum=0.0)
    sizes = [check_integer("split", size, minimum=0) for size in values["split"]]
    if len(sizes) != 3:
        raise InputError(f"split must be three numbers (train, val, test), got {len(sizes)}.")
    return values


def _published(values: dict[str, Any]) -> Published:
    """Read one entry; accuracies are written in percent, as they were published."""
    _only(values, set(Published.__dataclass_fields__), "entry of published")
    numbers = {
        key: check_real(key, value, minimum=0.0)
        for key, value in values.items()
        if key not in ("dataset", "method", "source")
    }
    for key in ("accuracy", "accuracy_std"):
        if key in numbers:
            numbers[key] = round(numbers[key] / 100.0, 9)
    dataset, source = (check_text(key, values[key]) for key in ("dataset", "source"))
    return Published(dataset, parse_method(values["method"]).name, source, **numbers)


def _only(values: Mapping[str, Any], known: set[str], what: str) -> None:
    for key in values:
        if key not in known:
            raise InputError(f"unknown {what} {key!r}{suggestion(key, known)}; known are {', '.join(sorted(known))}.")
