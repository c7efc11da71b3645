"""A plan: every cell, split and seed of an experiment, written down before the first run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fishergcn._base.checks import check_integer
from fishergcn._base.seeds import check_seeds
from fishergcn.errors import InputError
from fishergcn.splits import named
from fishergcn.studies._differences import cell_differences, config_differences, shown
from fishergcn.studies._preset import Preset, load_preset
from fishergcn.training import TrainConfig, control_of, parse_method

__all__ = ["Cell", "Plan", "make_plan"]

BASELINE = "gcn"


@dataclass(frozen=True)
class Cell:
    """One entry of a results table: a method with its settings on a data set.

    Attributes
    ----------
    dataset, name
        Its identity; the name is the method, followed by that of the variant if there is one.
    method, variant, config
        What is trained and how.
    """

    dataset: str
    name: str
    method: str
    variant: str
    config: TrainConfig

    @property
    def control(self) -> str | None:
        """The method that differs in nothing but the perturbation (or the consistency term), or None."""
        return control_of(self.method, self.config)

    @property
    def digest(self) -> str:
        """A short hash of method and settings."""
        text = json.dumps([self.method, self.config.to_dict()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return dataclasses.asdict(self) | {
            "config": self.config.to_dict(),
            "digest": self.digest,
            "control": self.control,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Cell:
        """Undo :meth:`to_dict`."""
        names = {name: values[name] for name in ("dataset", "name", "method", "variant")}
        return cls(**names, config=TrainConfig.from_dict(values["config"]))


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Attributes
    ----------
    preset, title, source, notes
        From the preset.
    cells
        All entries of the table, data set by data set.
    splits
        Names that :func:`fishergcn.splits.parse` reads.
    seeds
        Of the initializations.
    published
        Numbers to compare with, as plain values.
    digests
        SHA-256 of each data set's content.
    changed
        In which settings the runs differ from those of the preset, one phrase each. If in any, the published numbers
        belong to other work: they are shown, and no gap to them is.
    """

    preset: str
    title: str
    source: str
    notes: tuple[str, ...]
    cells: tuple[Cell, ...]
    splits: tuple[str, ...]
    seeds: tuple[int, ...]
    published: tuple[Mapping[str, Any], ...]
    digests: Mapping[str, str]
    changed: tuple[str, ...] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets, in order."""
        return tuple(dict.fromkeys(cell.dataset for cell in self.cells))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in order."""
        return tuple(dict.fromkeys(cell.method for cell in self.cells))

    def __len__(self) -> int:
        return len(self.cells) * len(self.splits) * len(self.seeds)

    def runs(self) -> Iterator[tuple[str, int]]:
        """Yield the (split, seed) of every run of a cell."""
        return ((split, seed) for split in self.splits for seed in self.seeds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "preset": self.preset,
            "title": self.title,
            "source": self.source,
            "notes": list(self.notes),
            "datasets": list(self.datasets),
            "methods": list(self.methods),
            "splits": list(self.splits),
            "seeds": list(self.seeds),
            "cells": [cell.to_dict() for cell in self.cells],
            "published": [dict(entry) for entry in self.published],
            "digests": dict(self.digests),
            "changed": list(self.changed),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Undo :meth:`to_dict`; other entries, such as the command line, are left aside."""
        return cls(
            values["preset"],
            values["title"],
            values["source"],
            tuple(values["notes"]),
            tuple(Cell.from_dict(cell) for cell in values["cells"]),
            tuple(values["splits"]),
            tuple(values["seeds"]),
            tuple(values["published"]),
            values["digests"],
            tuple(values.get("changed", ())),  # older plans do not have it
        )

    def differences(self, other: Plan) -> list[str]:
        """Say in which settings ``other`` differs, one phrase each; empty if a run would be the same."""
        found = []
        for name in ("preset", "datasets", "splits", "seeds"):
            here, there = getattr(self, name), getattr(other, name)
            if here != there:
                found.append(f"{name} {shown(here)} instead of {shown(there)}")
        found += [
            f"data of {name}" for name, digest in self.digests.items() if other.digests.get(name, digest) != digest
        ]
        return found + cell_differences(self.cells, other.cells)


def make_plan(
    preset: Preset | str | Path,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    splits: int | str | Iterable[int | str] | None = None,
    seeds: int | None = None,
    epochs: int | None = None,
) -> Plan:
    """Turn a preset into a plan, smaller or larger where asked.

    Parameters
    ----------
    preset
        A preset, or what :func:`load_preset` reads one from.
    datasets, methods
        Instead of the preset's. The baseline ``gcn`` and the control of each method are added: without them a
        difference has no meaning.
    splits
        How many, by the preset's rule, or which by name: see :func:`fishergcn.splits.named`.
    seeds
        How many.
    epochs
        At most so many steps a run.

    Examples
    --------
    >>> from fishergcn import studies
    >>> plan = make_plan(studies.load_preset("table2"), datasets=["cora"], methods=["fishergcn"], splits=2, seeds=3)
    >>> [cell.name for cell in plan.cells], len(plan)
    (['gcn', 'gcn-x5', 'fishergcn'], 18)
    """
    from fishergcn import datasets as data

    preset = preset if isinstance(preset, Preset) else load_preset(preset)
    if preset.kind != "training":
        raise InputError(f"preset {preset.name!r} trains nothing, so it has no plan.")
    config = preset.config
    if epochs is not None:
        config = dataclasses.replace(config, max_epochs=check_integer("epochs", epochs, minimum=1))
    chosen = tuple(dict.fromkeys(preset.datasets if datasets is None else datasets))
    digests = {name: data.load(name).digest for name in chosen}
    entries = _with_references(preset.methods if methods is None else methods, config)
    cells = [
        Cell(dataset, label, method, variant, settings)
        for dataset in chosen
        for label, method, variant, settings in _entries(preset, entries, config)
    ]
    if not cells:
        raise InputError("datasets and methods must name at least one each.")
    return Plan(
        preset=preset.name,
        title=preset.title,
        source=preset.source,
        notes=preset.notes,
        cells=tuple(cells),
        splits=tuple(named(preset.splits if splits is None else splits, preset.split_rule)),
        seeds=tuple(check_seeds(preset.seeds if seeds is None else seeds)),
        published=tuple(dataclasses.asdict(entry) for entry in preset.published if entry.dataset in chosen),
        digests=digests,
        changed=tuple(config_differences(config, preset.config)),
    )


def _with_references(methods: Sequence[str], config: TrainConfig) -> tuple[str, ...]:
    """Put the baseline and each control before the method that is compared with it."""
    ordered: dict[str, None] = {}
    for method in methods:
        chain = [parse_method(method).name]
        while (control := control_of(chain[-1], config)) is not None:
            chain.append(control)
        ordered |= dict.fromkeys((BASELINE, *reversed(chain)))
    return tuple(ordered)


def _entries(
    preset: Preset, methods: Sequence[str], config: TrainConfig
) -> Iterator[tuple[str, str, str, TrainConfig]]:
    for method in methods:
        yield method, method, "", config
    for variant in preset.variants:
        settings = TrainConfig.from_dict(config.to_dict() | dict(variant.config))
        for method in variant.methods:
            if method in methods:
                yield f"{method} {variant.name}", method, variant.name, settings
