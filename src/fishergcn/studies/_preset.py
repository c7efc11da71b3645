"""Presets: a study as a file, with its settings, its published numbers and where they come from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from fishergcn import datasets
from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.entries import Entries
from fishergcn._base.files import read_bytes
from fishergcn._base.reprs import one_line
from fishergcn.errors import DataFileError, FisherGCNError, InputError, reason, suggestion
from fishergcn.splits import Rule
from fishergcn.studies._attacks import check_attacks
from fishergcn.training import TrainConfig, parse_method

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

Kind = Literal["training", "attack", "data"]
_LARGEST = 1 << 20  # bytes of a file
_KEYS = ("title", "kind", "source", "notes", "datasets", "methods", "splits", "seeds", "config", "variants",
         "published", "attacks")  # fmt: skip


@dataclass(frozen=True)
class Published:
    """What was published for a method on a data set: accuracies are fractions, the loss includes weight decay."""

    dataset: str
    method: str
    source: str
    accuracy: float | None = None
    accuracy_std: float | None = None
    loss: float | None = None
    loss_std: float | None = None

    @classmethod
    def from_dict(cls, values: Any) -> Published:
        """Read the plain values of an entry, which may come from anywhere."""
        table = Entries(values, "a published number", cls.__dataclass_fields__)
        numbers = {name: table.real_or_none(name) for name in ("accuracy", "accuracy_std", "loss", "loss_std")}
        return cls(table.text("dataset"), parse_method(table.text("method")).name, table.text("source"), **numbers)


@dataclass(frozen=True)
class Variant:
    """Settings that differ from the preset's own, under a name, for some of the methods."""

    name: str
    methods: tuple[str, ...]
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Preset:
    """A study that is not planned yet; see :func:`load_preset`.

    Of kind ``"data"``, a table of data statistics where nothing is trained, ``facts`` are the published ones.
    """

    name: str
    title: str
    kind: Kind
    source: str
    notes: tuple[str, ...]
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    split_rule: Rule
    splits: int
    seeds: int
    config: TrainConfig
    variants: tuple[Variant, ...] = ()
    published: tuple[Published, ...] = ()
    facts: tuple[Mapping[str, Any], ...] = ()
    attacks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    __repr__ = one_line

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind))
        check_choice("splits.rule", self.split_rule, get_args(Rule))
        check_integer("splits.count", self.splits, minimum=1, maximum=1 if self.split_rule == "public" else None)
        check_integer("seeds", self.seeds, minimum=1)
        object.__setattr__(self, "methods", tuple(parse_method(method).name for method in self.methods))
        object.__setattr__(self, "attacks", check_attacks(self.attacks))
        if self.kind != "data" and not self.methods:
            raise InputError("methods must name at least one method.")
        if (self.kind == "attack") != bool(self.attacks):
            raise InputError("attacks belong to kind 'attack', which needs at least one.")


def available_presets() -> tuple[str, ...]:
    """Return the names of the presets that ship with the package."""
    files = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def load_preset(name: str | Path) -> Preset:
    """Read a preset: one that ships with the package, by its name, or a TOML file of yours.

    Parameters
    ----------
    name
        Of the preset, or the path of a file that ends in ``.toml``.

    Returns
    -------
    Preset
        With ``title``, ``source`` and ``notes`` in words; its ``kind`` (``"training"``, ``"attack"`` or ``"data"``);
        ``datasets``, ``methods``, ``variants`` with other settings, and ``attacks`` with their levels; ``split_rule``,
        how many ``splits`` by it, and how many ``seeds``; the settings ``config`` and the ``published`` numbers.

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
        text = read_bytes(path, limit=_LARGEST).decode("utf-8")
    except ValueError as error:  # not there, too large, not UTF-8, or a name that no file can have
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
        return _build(name, Entries(values, "the preset", _KEYS))
    except (TypeError, AttributeError) as error:  # settings of a wrong type
        raise DataFileError(f"preset {name!r} lacks or misuses {reason(error)}.") from error
    except FisherGCNError as error:
        raise DataFileError(f"preset {name!r}: {error}") from error


def _build(name: str, table: Entries) -> Preset:
    kind = table.text("kind", "training")
    splits = Entries(table.table("splits", {"rule": "public"}), "splits", ("rule", "count"))
    config = TrainConfig.from_dict(table.table("config", {}))
    published = table.tables("published", ())
    return Preset(
        name=name,
        title=table.text("title"),
        kind=cast(Kind, kind),
        source=table.text("source"),
        notes=table.texts("notes", ()),
        datasets=tuple(_dataset(name) for name in table.texts("datasets")),
        methods=table.texts("methods", ()),
        split_rule=cast(Rule, splits.text("rule")),
        splits=splits.whole("count", 1),
        seeds=table.whole("seeds", 1),
        config=config,
        variants=tuple(_variant(each, config) for each in table.tables("variants", ())),
        published=() if kind == "data" else tuple(_published(each) for each in published),
        facts=tuple(_fact(each) for each in published) if kind == "data" else (),
        attacks=table.table("attacks", {}),
    )


def _dataset(name: str) -> str:
    return check_choice("datasets", name, datasets.available())


def _variant(values: Mapping[str, Any], config: TrainConfig) -> Variant:
    table = Entries(values, "a variant", ("name", "methods", "config"))
    changes = table.table("config")
    TrainConfig.from_dict(config.to_dict() | dict(changes))
    methods = tuple(parse_method(method).name for method in table.texts("methods"))
    return Variant(table.text("name"), methods, changes)


def _fact(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check one entry of a data table; its numbers stay as they are written."""
    table = Entries(values, "a data set")
    _dataset(table.text("dataset"))
    for key in ("nodes", "links", "components", "features", "classes", "share", "share_high_order"):
        table.real(key)
    sizes = table.wholes("split")
    if len(sizes) != 3:
        raise InputError(f"split must be three numbers (train, val, test), got {len(sizes)}.")
    return values


def _published(values: Mapping[str, Any]) -> Published:
    """Read one entry; accuracies are written in percent, as they were published."""
    read = Published.from_dict(values)
    percent = {key: getattr(read, key) for key in ("accuracy", "accuracy_std") if getattr(read, key) is not None}
    return Published(**{**vars(read), **{key: round(value / 100.0, 9) for key, value in percent.items()}})
