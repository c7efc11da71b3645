"""How a large graph is cut into blocks, and how much disk and memory the work takes."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fishergcn.errors import InputError
from fishergcn.large._sources import MOST_COLUMNS, MappedSource, ParquetSource, source_of
from fishergcn.large._store import Store, fingerprint

_RUNTIME = 600_000_000  # bytes that Python, torch and compiled code take
_TASKS = 4  # tasks that may run at once in a given memory
_ROWS, _FEWEST, _BLOCKS = 18, 4, 8  # blocks have at most 2^18 and at least 2^4 nodes, and there are 8 or more
JUDGING = 200_000  # as many validation and test nodes are looked at, each


@dataclass(frozen=True)
class Plan:
    """What is computed, in plain values; equal plans have equal results."""

    source: dict[str, str]
    files: list[list[Any]]
    nodes: int
    columns: int
    classes: int
    class_names: list[str] | None
    links: int
    pieces: int
    shift: int
    memory: int
    hops: int
    epochs: int
    hidden: int
    seed: int

    @property
    def blocks(self) -> int:
        """How many blocks of rows there are."""
        return -(-self.nodes >> self.shift)

    def rows(self, block: int) -> tuple[int, int]:
        """Return the first and the last node of a block, exclusive."""
        return block << self.shift, min((block + 1) << self.shift, self.nodes)

    def slabs(self, columns: int) -> list[tuple[int, int]]:
        """Return the first and the last column, exclusive, of slabs of which one fits into half of the memory."""
        count = math.ceil(columns * self.nodes * 2 / (self.memory / 2))
        return [(columns * at // count, columns * (at + 1) // count) for at in range(count)]

    @property
    def at_once(self) -> int:
        """How many tasks fit into the memory of one machine."""
        rows = (12 * max(self.columns, self.classes) + 24 * self.links // self.nodes + 64) << self.shift
        return int(max(self.memory // 2 // rows, 1))

    @property
    def inputs(self) -> int:
        """How many numbers a node has as inputs of a network: X, ÃX, … and X - ÃX."""
        return self.columns * (self.hops + 2 if self.hops else 1)

    @property
    def disk(self) -> int:
        """About how many bytes all files take at most."""
        index = 4 if self.nodes < 2**31 else 8
        lines = 2 * self.columns * (self.hops + 1)
        judged = self.nodes * 2 * self.columns * (self.hops + 1)  # if every node has a label
        spilled = 8 * self.links if self.pieces else 0
        return self.links * (index + 4) + spilled + self.nodes * (32 + lines + 8 * self.classes) + judged // 4

    def to_json(self) -> str:
        """Return the plan as text."""
        return json.dumps(dataclasses.asdict(self), indent=2)


def make_plan(source: dict[str, str], *, memory: int, hops: int, epochs: int, hidden: int, seed: int) -> Plan:
    """Look at the files and return the plan, or raise for what cannot be done in this memory."""
    found = source_of(source, anew=True)
    if found.nodes < 2:
        raise InputError(f"a graph must have at least 2 nodes, got {found.nodes}.")
    if found.classes < 2:
        raise InputError(f"labels must have at least 2 classes, got {max(found.classes, 0)}.")
    if found.columns > MOST_COLUMNS:
        raise InputError(
            f"features must have at most {MOST_COLUMNS} columns here, got {found.columns}; leave some out, or replace "
            "them by their leading principal components."
        )
    room = memory - _RUNTIME
    least = _RUNTIME + 4 * found.nodes + _TASKS * 2 * (1 << _FEWEST) * _row_bytes(found)
    if memory < least:
        raise InputError(
            f"memory must be at least {least / 1e9:.2f} GB for {found.nodes:,} nodes, got {memory / 1e9:g}."
        )
    fits = int(math.log2(room / 2 / _TASKS / _row_bytes(found)))
    several = int(math.log2(max(found.nodes / _BLOCKS, 1)))
    return Plan(
        source=source,
        files=fingerprint(found.files),
        nodes=found.nodes,
        columns=found.columns,
        classes=found.classes,
        class_names=found.class_names,
        links=found.links,
        pieces=len(found.pieces) if isinstance(found, ParquetSource) else 0,
        shift=max(min(_ROWS, fits, several), _FEWEST),
        memory=room,
        hops=hops if found.columns else 0,
        epochs=epochs,
        hidden=hidden,
        seed=seed,
    )


def _row_bytes(source: MappedSource | ParquetSource) -> int:
    """About how many bytes of memory a node of a block takes."""
    return 12 * max(source.columns, source.classes) + 24 * source.links // source.nodes + 64


class Context:
    """What a task knows: the plan, the files of the work, and the graph."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.plan, self.store = plan, Store(folder)

    @property
    def source(self) -> MappedSource | ParquetSource:
        """The graph, if its files are those of the plan."""
        now = fingerprint([Path(each[0]) for each in self.plan.files])
        changed = [one[0] for one, other in zip(self.plan.files, now, strict=True) if one != other]
        if changed:
            raise InputError(f"{changed[0]} was changed amid the work; start anew with overwrite=True.")
        return source_of(self.plan.source)


def read_context(folder: Path) -> Context:
    """Return the context of the work in a folder."""
    try:
        stored = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder} cannot be read here: a cluster needs a folder that all its machines share ({error})."
        ) from error
    return Context(folder, Plan(**stored))
