"""Parts of one study, run in several folders or on several machines, read as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fishergcn.errors import InputError
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._runs import Band, Runs
from fishergcn.training import RunRecord


class JoinedRuns(Runs):
    """Runs of one study on several data sets, kept in several places."""

    def __init__(self, plan: Plan, parts: Mapping[str, Runs]) -> None:
        self._plan, self._parts = plan, parts

    @property
    def plan(self) -> Plan:
        """What was to be run, in all places."""
        return self._plan

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the runners noted; of what each noted on its own (the command, the day), the first one's."""
        return {name: value for part in reversed(list(self._parts.values())) for name, value in part.facts.items()}

    def of_cell(self, cell: Cell) -> Iterator[RunRecord]:
        """Yield the records of a cell, by split and seed."""
        return self._parts[cell.dataset].of_cell(cell)

    def bands(self, dataset: str, cell: str, epochs: int | None = None) -> dict[str, Band]:
        """Return the learning curves of a cell by name."""
        return self._parts[dataset].bands(dataset, cell, epochs)

    def close(self) -> None:
        """Free what is open."""
        for part in self._parts.values():
            part.close()


def join(parts: Sequence[Runs]) -> Runs:
    """Read parts of one study as one: each has other data sets, and the same preset, splits, seeds and measure.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import studies
    >>> short = dict(methods=["gcn"], splits=1, seeds=1, epochs=1)
    >>> plans = [studies.make_plan("quick", datasets=[name], **short) for name in ("cora", "pubmed")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = [studies.run(plan, f"{folder}/{plan.datasets[0]}", workers=1) for plan in plans]
    ...     with join(parts) as runs:
    ...         print(runs.plan.datasets, len(list(runs.records())))
    ('cora', 'pubmed') 2
    """
    if not parts:
        raise InputError("there must be at least one folder of runs to join, got none.")
    if len(parts) == 1:
        return parts[0]
    first = parts[0].plan
    for other in (part.plan for part in parts[1:]):
        for name in ("preset", "splits", "seeds", "changed", "measure"):
            ours, theirs = getattr(first, name), getattr(other, name)
            if ours != theirs:
                raise InputError(f"folders to join must be parts of one study, got {name} {ours!r} and {theirs!r}.")
    owners: dict[str, Runs] = {}
    for part in parts:
        for dataset in part.plan.datasets:
            if dataset in owners:
                raise InputError(f"folders to join must have different data sets, got {dataset!r} twice.")
            owners[dataset] = part
    plan = dataclasses.replace(
        first,
        cells=tuple(cell for part in parts for cell in part.plan.cells),
        digests={name: value for part in parts for name, value in part.plan.digests.items()},
        published=tuple(dict.fromkeys(each for part in parts for each in part.plan.published)),
        graphs={name: graph for part in parts for name, graph in part.plan.graphs.items()},
        own_splits={name: own for part in parts for name, own in part.plan.own_splits.items()},
    )
    return JoinedRuns(plan, owners)
