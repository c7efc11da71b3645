"""What a choice has decided so far, kept in its folder, and the time that it may take.

A choice goes on as it began, however fast the machine is then: what was measured is a decision too.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fishergcn._base.files import make_folder, read_bytes, write_text
from fishergcn._base.json import parse_json
from fishergcn.errors import DataFileError
from fishergcn.execution import Part, cost_of, count_cores, find_device
from fishergcn.graph import Graph
from fishergcn.models import Selection
from fishergcn.splits import Split
from fishergcn.training import Method, Sizes, TrainConfig, parse_method

_FILE = "choice.json"
_LIMIT = 2**20  # bytes
Value = TypeVar("Value")
_OUTCOME = "selection"
_MOST_ENTRIES = 200_000_000  # of a high-order matrix: 2.4 GB
_USUAL_EPOCHS = 0.7  # the share of the epochs after which most runs have stopped
_MEASURING = 0.01  # the share of the time that the epochs of a candidate are timed for


def load_selection(folder: str | os.PathLike[str]) -> Selection | None:
    """Read how :func:`fishergcn.fit` chose, from the folder in which it kept its runs; None if it has not yet."""
    path = Path(folder, _FILE)
    if not os.path.isfile(path):
        raise DataFileError(f"{path} does not exist.")
    try:
        found = parse_json(read_bytes(path, limit=_LIMIT))["decisions"].get(_OUTCOME)
        return None if found is None else Selection.from_dict(found)
    except DataFileError as error:
        raise error if str(path) in str(error) else DataFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise DataFileError(f"{path} is damaged; it does not say what was decided.") from None


class Decisions:
    """Decisions by name, each made once; a folder that holds those for another graph, split or arguments is refused."""

    def __init__(self, folder: Path, graph: Graph, split: Split, arguments: Any) -> None:
        self._path = folder / _FILE
        parts = [getattr(split, part).tolist() for part in ("train", "val", "test")]
        text = json.dumps([graph.digest, split.name, parts, arguments], sort_keys=True)
        self._choice = hashlib.sha256(text.encode()).hexdigest()
        self._known: dict[str, Any] = {}
        if self._path.exists():
            found = parse_json(read_bytes(self._path, limit=_LIMIT))
            if not isinstance(found, dict) or not isinstance(found.get("decisions"), dict):
                raise DataFileError(f"{self._path} is damaged; delete {folder} to start over.")
            if found.get("choice") != self._choice:
                raise DataFileError(
                    f"{folder} belongs to another model: the graph, the split or the settings differ; "
                    "use another folder or the same arguments."
                )
            self._known = found["decisions"]

    def end(self, selection: Selection) -> None:
        """Write down what came out, in place of what did before."""
        self._known[_OUTCOME] = selection.to_dict()
        self._write()

    def made(self, name: str, make: Callable[[], Value]) -> Value:
        """Return the decision of this name, and if there is none, make it and write it down."""
        if name not in self._known:
            self._known[name] = make()
            self._write()
        known: Value = self._known[name]
        return known

    def _write(self) -> None:
        make_folder(self._path.parent)
        write_text(self._path, json.dumps({"choice": self._choice, "decisions": self._known}, indent=1) + "\n")


class Budget:
    """What is left of ``limit`` seconds, which begin now, and what candidates take of it."""

    def __init__(
        self,
        graph: Graph,
        split: Split,
        config: TrainConfig,
        device: str,
        workers: int | None,
        limit: float,
        decisions: Decisions,
    ) -> None:
        self.graph, self.split, self.config, self.place = graph, split, config, find_device(device)
        self.limit, self.decisions = limit, decisions
        self.gpu = self.place.type == "cuda"
        self.cores = 1 if self.gpu else count_cores() if workers is None else workers
        self.slower = 1.0  # than measured, as the first stage showed
        self.started = time.monotonic()

    def left(self) -> float:
        """Return how many seconds are left."""
        return self.limit - (time.monotonic() - self.started)

    @property
    def entries(self) -> float:
        """How many entries the high-order matrix has, about."""
        high = parse_method("gcn-t")
        return self.decisions.made("entries", lambda: Sizes.of(self.graph, high, self.config, [self.split]).entries)

    def seconds(self, name: str, runs: int = 1) -> float:
        """Return how long runs of a method take, side by side on a GPU or on several cores; inf if not at all."""
        method = parse_method(name)
        if not method.trained:
            return 0.0
        if method.high_order and self.entries > _MOST_ENTRIES:
            return math.inf
        together = runs if self.gpu else self.cores  # those beside which it is trained
        epoch = self.decisions.made(f"epoch of {name}, {together} runs", lambda: self._epoch(method, together))
        if epoch is None:
            return math.inf
        epochs = _USUAL_EPOCHS * self.config.max_epochs * self.slower
        return epochs * (epoch if self.gpu else runs * epoch / self.cores)

    def _epoch(self, method: Method, runs: int) -> float | None:
        """Time a few epochs of a method; None where they would not fit in memory."""
        part = Part.of(self.graph, method, self.config, [self.split], runs)
        limit = min(_MEASURING * self.limit, 1.0)
        [found] = cost_of([part], str(self.place), self.cores, limit=limit).parts
        return None if math.isnan(found.epoch) else found.epoch
