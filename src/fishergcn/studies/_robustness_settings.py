"""What a study of robustness measures: data sets, methods, runs, and how hard each attack tries."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn.errors import InputError, suggestion
from fishergcn.training import TrainConfig, control_of, parse_method

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["ATTACKS", "FIRST_SEED", "PRESETS", "Settings", "file_name", "load_settings"]

ATTACKS = ("links-added", "links-removed", "bures-ball", "prbcd", "features", "training-links")
PRESETS = ("full", "quick")
FIRST_SEED = 2019


@dataclass(frozen=True)
class Settings:
    """A study.

    Attributes
    ----------
    datasets, methods
        What is trained on what; the control of each method is added before it.
    splits
        A number n for shuffled:2019, …, or names of splits with commas; see :func:`fishergcn.splits.parse`.
    seeds
        Initializations of each split.
    draws
        Changed graphs at each level of random change at test time.
    ball_rank, ball_restarts, ball_steps
        Of the worst perturbation in a Bures ball.
    prbcd_runs, prbcd_steps, prbcd_block
        How many runs PRBCD attacks, and how hard.
    levels
        Of each attack, positive and ascending; level 0 is always measured.
    config
        Of the training.

    Examples
    --------
    >>> study = load_settings("full", seeds=2)
    >>> [part.methods for part in study.families()]
    [('gcn', 'gcn-x5', 'fishergcn'), ('gcn-t', 'gcn-t-x5', 'fishergcn-t')]
    >>> study.only(("prbcd",)).levels
    {'prbcd': (0.01, 0.05, 0.1)}
    """

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    splits: str
    seeds: int
    draws: int
    ball_rank: int
    ball_restarts: int
    ball_steps: int
    prbcd_runs: int
    prbcd_steps: int
    prbcd_block: int
    levels: Mapping[str, tuple[float, ...]]
    config: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        for name in ("seeds", "draws", "ball_rank", "ball_restarts", "prbcd_runs", "prbcd_steps", "prbcd_block"):
            check_integer(name, getattr(self, name), minimum=1)
        check_integer("ball_steps", self.ball_steps, minimum=0)
        if not self.datasets or not self.methods:
            raise InputError("a study needs at least one data set and one method.")
        ordered: dict[str, None] = {}
        for method in self.methods:
            control = control_of(parse_method(method).name, self.config)
            ordered |= dict.fromkeys([control, method] if control else [method])
        object.__setattr__(self, "methods", tuple(ordered))
        object.__setattr__(self, "levels", {name: _levels(name, some) for name, some in self.levels.items()})

    def only(self, attacks: tuple[str, ...]) -> Settings:
        """Return the same study with some of its attacks."""
        for attack in attacks:
            check_choice("attack", attack, ATTACKS)
        kept = {name: some for name, some in self.levels.items() if name in attacks}
        return dataclasses.replace(self, levels=kept)

    def families(self) -> Iterator[Settings]:
        """Yield the parts of the study whose methods share a propagation matrix, which share nothing else."""
        for high in (False, True):
            methods = tuple(method for method in self.methods if parse_method(method).high_order == high)
            if methods:
                yield dataclasses.replace(self, methods=methods)

    @property
    def folder(self) -> str:
        """A name for the results of one data set and family of methods, which leads nowhere else."""
        return file_name(self.datasets[0]) + "-t" * parse_method(self.methods[0]).high_order

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        levels = {name: list(some) for name, some in self.levels.items()}
        return dataclasses.asdict(self) | {"levels": levels, "config": self.config.to_dict()}


def file_name(text: str) -> str:
    """Return a text with anything but letters, digits, hyphens and underscores replaced.

    Examples
    --------
    >>> file_name("../my data")
    '---my-data'
    """
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in text)


def _levels(name: str, levels: Any) -> tuple[float, ...]:
    check_choice("attack", name, ATTACKS)
    checked = tuple(check_real(f"level of {name}", each, above=0.0, maximum=1.0) for each in levels)
    if not checked or list(checked) != sorted(set(checked)):
        raise InputError(f"levels of {name} must ascend, at least one, got {list(checked)}.")
    return checked


def load_settings(preset: str = "full", **changes: Any) -> Settings:
    """Return a preset, with some of its values changed.

    Parameters
    ----------
    preset
        ``"full"`` or ``"quick"``.
    **changes
        Attributes of :class:`Settings`; None leaves the preset's value.

    Examples
    --------
    >>> load_settings("quick", methods=("fishergcn",)).methods
    ('gcn-x5', 'fishergcn')
    """
    if preset not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}{suggestion(preset, PRESETS)}.")
    text = resources.files("fishergcn.studies").joinpath("robustness.toml").read_text(encoding="utf-8")
    values: dict[str, Any] = tomllib.loads(text)[preset] | {
        name: value for name, value in changes.items() if value is not None
    }
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return Settings(**plain)
