"""A plan: every cell, split and seed of a study, written down before the first run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from fishergcn._base.entries import Entries
from fishergcn._base.reprs import one_line
from fishergcn.errors import DataFileError, FisherGCNError, InputError
from fishergcn.execution import Cost
from fishergcn.graph import Graph
from fishergcn.splits import Split
from fishergcn.studies._preset import Published
from fishergcn.training import TrainConfig, control_of, graph_free_of, parse_method

BASELINE = "gcn"
Role = Literal["baseline", "control", "without links"]
_PERTURBATION = {"samples", "rank", "radius", "noise", "directions", "degree", "scale", "metric", "adversarial",
                 "perturbation", "link_rate", "consistency", "temperature"}  # fmt: skip
_NO_CONSISTENCY = {name: getattr(TrainConfig(), name) for name in ("consistency", "temperature")}


@dataclass(frozen=True)
class Cell:
    """One entry of a results table: a method with its settings on a data set.

    Attributes
    ----------
    dataset, name
        Its identity; the name is the method, followed by what sets the cell apart from others of this method.
    method, variant, config
        What is trained and how; the variant is the name of settings that differ from the others', or empty.
    options
        What is measured besides, as plain values: of an attack its name, its level and how hard it tries. ``runs`` is
        how many of the plan's runs the cell has, the first ones; all if it is not there.

    Examples
    --------
    >>> from fishergcn.studies import make_plan
    >>> cell = make_plan("robustness-quick", attacks=["links-added"]).cells[-1]
    >>> cell.name, cell.control, cell.options
    ('fishergcn links-added 0.5', 'gcn-x5', {'attack': 'links-added', 'level': 0.5, 'draws': 2})
    """

    dataset: str
    name: str
    method: str
    variant: str
    config: TrainConfig
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not parse_method(self.method).consistent:
            # λ and τ of a term that is not there make no difference between cells, whatever the default was once.
            object.__setattr__(self, "config", dataclasses.replace(self.config, **_NO_CONSISTENCY))

    @property
    def control(self) -> str | None:
        """The method that differs in nothing but the perturbation (or the consistency term), or None."""
        return control_of(self.method, self.config)

    @property
    def perturbs_the_top(self) -> bool:
        """Whether the graph is perturbed along the eigenvectors of the largest eigenvalues of L."""
        config = self.config
        return parse_method(self.method).perturbed and config.perturbation == "spectral" and config.directions == "high"


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
        Names that :func:`fishergcn.splits.parse` reads, or those of ``own_splits``; the same for all data sets.
    seeds
        Of the initializations.
    digests
        SHA-256 of each data set's content and, under ``"DATASET, splits"``, of its own splits.
    published
        Numbers to compare with.
    changed
        In which settings the runs differ from the preset's, one phrase each: if in any, no gap to the published numbers
        is shown.
    measure
        What a run measures: ``"training"``, ``"attack"``, or a name for a measure of your own.
    graphs, own_splits
        By data set, the graphs that do not ship with the package and the splits that no name can make. They are no part
        of the plain values: a plan that was read from a file does not have them.

    Examples
    --------
    >>> from fishergcn.studies import make_plan
    >>> plan = make_plan("quick", splits=2, seeds=1)
    >>> plan.measure, plan.datasets, plan.methods, plan.splits, len(plan)
    ('training', ('cora',), ('gcn', 'gcn-x5', 'fishergcn'), ('shuffled:2019', 'shuffled:2020'), 6)
    >>> Plan.from_dict(plan.to_dict()) == plan
    True
    """

    preset: str
    title: str
    source: str
    notes: tuple[str, ...]
    cells: tuple[Cell, ...]
    splits: tuple[str, ...]
    seeds: tuple[int, ...]
    digests: Mapping[str, str]
    published: tuple[Published, ...] = ()
    changed: tuple[str, ...] = ()
    measure: str = "training"
    graphs: Mapping[str, Graph] = field(default_factory=dict, repr=False, compare=False)
    own_splits: Mapping[str, tuple[Split, ...]] = field(default_factory=dict, repr=False, compare=False)

    __repr__ = one_line

    def __post_init__(self) -> None:
        if not self.cells or not self.splits or not self.seeds:
            raise InputError("a plan needs at least one cell, one split and one seed.")
        for names in (self.splits, self.seeds, [(cell.dataset, cell.name) for cell in self.cells]):
            if len(set(names)) != len(names):
                raise InputError("the cells, the splits and the seeds of a plan must be distinct.")

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets, in order."""
        return tuple(dict.fromkeys(cell.dataset for cell in self.cells))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in order."""
        return tuple(dict.fromkeys(cell.method for cell in self.cells))

    @property
    def crossed(self) -> bool:
        """Whether runs of one seed may share its luck on all splits: trained here they do not, see :func:`estimate`."""
        return self.measure not in ("training", "attack")

    def __len__(self) -> int:
        return sum(len(self.runs(cell)) for cell in self.cells)

    def runs(self, cell: Cell | None = None) -> list[tuple[str, int]]:
        """Return (split, seed) of every run, or of those that a cell has."""
        every = [(split, seed) for split in self.splits for seed in self.seeds]
        return every if cell is None else every[: cell.options.get("runs")]

    def references(self, cell: Cell) -> dict[Cell, Role]:
        """Return the cells to compare a cell with, and as what: ``"baseline"``, ``"control"`` or ``"without links"``.

        They have the same options, and the same variant if there is such a cell, or else the same settings but for
        those of the perturbation. A control that is the baseline counts as control.
        """
        found: dict[Cell, Role] = {}
        free = graph_free_of(cell.method, cell.config)
        pairs: tuple[tuple[str | None, Role], ...] = (
            (BASELINE, "baseline"),
            (cell.control, "control"),
            (free, "without links"),
        )
        for method, role in pairs:
            alike = [
                each
                for each in self.cells
                if each is not cell
                and (each.dataset, each.method, each.options) == (cell.dataset, method, cell.options)
                and (each.variant in ("", cell.variant) or _unperturbed(each.config) == _unperturbed(cell.config))
            ]
            if alike:
                found[max(alike, key=partial(_likeness, cell))] = role
        return found

    def mean_of(self, cell: Cell) -> Cell | None:
        """Return the cell that trains on the mean of the graphs from which this one draws, without noise, if any."""
        if not parse_method(cell.method).perturbed or cell.config.noise == "mean":
            return None
        key = cell.dataset, cell.method, cell.options, dataclasses.replace(cell.config, noise="mean")
        alike = (each for each in self.cells if (each.dataset, each.method, each.options, each.config) == key)
        return next(alike, None)

    def matrix(self, cell: Cell) -> str:
        """Return a name for the propagation matrix of a cell among those on its data set."""
        matrix = parse_method(cell.method).matrix
        name, *settings = matrix.key(cell.config)
        usual = matrix.key(self.cells[0].config) == (name, *settings)
        return name if usual else " ".join([name, *(f"{each:g}" for each in settings)])

    def cost(self, device: str = "auto", workers: int | None = None) -> Cost:
        """Return what the study will take here: bytes by counting, seconds by a few real epochs of each cell.

        Cells whose epochs do the same work are timed once, for about a second after their preparation. Attacks come on
        top of the training that they need, and are not counted.

        Parameters
        ----------
        device, workers
            As in :func:`run`.
        """
        from fishergcn.studies._cost import plan_cost  # which needs graphs and splits of a plan

        return plan_cost(self, device, workers)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; of a cell's settings only those that are not the first cell's."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.compare}
        base = self.cells[0].config.to_dict()
        cells = []
        for cell in self.cells:
            plain = {name: getattr(cell, name) for name in ("dataset", "name", "method", "variant")}
            settings = {name: value for name, value in cell.config.to_dict().items() if value != base[name]}
            plain |= {"config": settings} if settings else {}
            cells.append(plain | ({"options": dict(cell.options)} if cell.options else {}))
        published = [dataclasses.asdict(entry) for entry in self.published]
        made: dict[str, Any] = json.loads(json.dumps(values | {"config": base, "cells": cells, "published": published}))
        return made

    @classmethod
    def from_dict(cls, values: Any, source: str = "the plan") -> Plan:
        """Undo :meth:`to_dict`, of values that may come from anywhere; other entries are left aside."""
        try:
            return cls._read(Entries(values, "the plan"))
        except TypeError as error:  # a setting of a wrong type
            raise DataFileError(f"{source}: a setting of the plan has the wrong form ({error}).") from error
        except FisherGCNError as error:
            raise DataFileError(f"{source}: {error}") from error

    @classmethod
    def _read(cls, plan: Entries) -> Plan:
        base = plan.table("config", {})  # version 0.1 has all settings in each cell
        digests = Entries(plan.table("digests"), "'digests' of the plan")
        return cls(
            preset=plan.text("preset"),
            title=plan.text("title"),
            source=plan.text("source"),
            notes=plan.texts("notes"),
            cells=tuple(_cell(Entries(each, "a cell"), base) for each in plan.tables("cells")),
            splits=plan.texts("splits"),
            seeds=plan.wholes("seeds"),
            digests={name: digests.text(name) for name in digests.values},
            published=tuple(Published.from_dict(each) for each in plan.tables("published")),
            changed=plan.texts("changed", ()),
            measure=plan.text("measure", "training"),
        )

    def differences(self, other: Plan) -> list[str]:
        """Say in which settings ``other`` differs, one phrase each; empty if a run would be the same."""
        found = []
        for name in ("measure", "preset", "datasets", "splits", "seeds"):
            here, there = getattr(self, name), getattr(other, name)
            if here != there:
                found.append(f"{name} {_shown(here)} instead of {_shown(there)}")
        found += [
            f"data of {name}" for name, digest in self.digests.items() if other.digests.get(name, digest) != digest
        ]
        ours, theirs = ({cell.name: cell for cell in plan.cells} for plan in (self, other))
        if set(ours) != set(theirs):
            found.append(f"cells {_named(ours, theirs)} instead of {_named(theirs, ours)}")
        changed: dict[str, None] = {}
        for name in ours.keys() & theirs.keys():
            changed |= dict.fromkeys(differences(ours[name].config.to_dict(), theirs[name].config.to_dict()))
            changed |= dict.fromkeys(differences(ours[name].options, theirs[name].options))
        return found + list(changed)


def _unperturbed(config: TrainConfig) -> dict[str, Any]:
    """Return the settings that a method without a perturbation reads."""
    return {name: value for name, value in config.to_dict().items() if name not in _PERTURBATION}


def _likeness(cell: Cell, other: Cell) -> tuple[bool, bool, bool]:
    """Say how well another cell serves as a reference: by its variant, by its settings, by being a plain one."""
    same = _unperturbed(other.config) == _unperturbed(cell.config)
    return other.variant == cell.variant, same, other.variant == ""


def _cell(cell: Entries, base: Mapping[str, Any]) -> Cell:
    method = parse_method(cell.text("method")).name
    config = TrainConfig.from_dict({**base, **(cell.table("config", {}) if base else cell.table("config"))})
    options = cell.table("options", {})
    if any(not isinstance(value, str | int | float) for value in options.values()):
        raise InputError(f"'options' of a cell must be texts and numbers, got {dict(options)!r:.80}.")
    Entries(options, "'options' of a cell").whole("runs", 1, minimum=1)
    return Cell(cell.text("dataset"), cell.text("name"), method, cell.text("variant"), config, options)


def differences(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """Return a phrase with both values for each setting that differs."""
    return [f"{key} {new[key]} instead of {old.get(key)}" for key in new if new[key] != old.get(key)]


def _shown(value: Any) -> str:
    """Return a value in words, a long list by its ends."""
    if isinstance(value, tuple):
        return str(value[0]) if len(value) == 1 else f"{value[0]} … {value[-1]} ({len(value)})"
    return str(value)


def _named(here: Mapping[str, Cell], there: Mapping[str, Cell]) -> str:
    """Return the names of some cells; of many, those that others have not."""
    names = list(here) if max(len(here), len(there)) < 9 else [name for name in here if name not in there]
    return ", ".join(names[:5]) + (f" … ({len(names)})" if len(names) > 5 else "") if names else "none"
