"""What a choice has decided so far, kept in its folder, and the time that it may take.

A choice goes on as it began, however fast the machine is then: what was measured is a decision too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fishergcn._base.entries import Entries
from fishergcn._base.files import make_folder, names_inside, read_bytes, refuse_links, write_text
from fishergcn._base.json import parse_json
from fishergcn._base.locks import LOCK
from fishergcn._base.records import load_record
from fishergcn.errors import DataFileError, InputError
from fishergcn.execution import Part, cost_of, count_cores, find_device
from fishergcn.graph import Graph
from fishergcn.models import Selection
from fishergcn.splits import Split
from fishergcn.studies._folders import STUDY_FILES
from fishergcn.studies._planning import splits_digest
from fishergcn.training import TrainConfig, parse_method

_FILE = "choice.json"
_LIMIT = 2**20  # bytes
Value = TypeVar("Value")
_OUTCOME = "selection"
_USUAL_EPOCHS = 0.7  # the share of the epochs after which most runs have stopped


def load_selection(folder: str | os.PathLike[str]) -> Selection | None:
    """Read how :func:`fishergcn.fit` chose, from the folder in which it kept its runs; None if it has not yet."""
    path = Path(folder, _FILE)
    if not os.path.isfile(path):
        raise DataFileError(f"{path} does not exist.")
    refuse_links(folder, _FILE)
    try:
        found = parse_json(read_bytes(path, limit=_LIMIT))["decisions"].get(_OUTCOME)
        return None if found is None else Selection.from_dict(found)
    except DataFileError as error:
        raise error if str(path) in str(error) else DataFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise DataFileError(f"{path} is damaged; it does not say what was decided.") from None


class OtherChoiceError(DataFileError):
    """A folder holds the runs of another choice."""


def forget_choice(folder: Path) -> None:
    """Remove the folder of a choice with all its runs; one that holds anything else is refused."""
    names = names_inside(folder)
    refuse_links(folder, *names)
    for name in sorted(names):
        stage, _, inside = name.partition("/")
        study = (folder / stage / "runs.sqlite").is_file() and STUDY_FILES.fullmatch(inside)
        if not study and name not in (_FILE, LOCK, "report.html") and not (folder / name).is_dir():
            raise DataFileError(f"{folder} holds {name}, which is not part of a search: it is not removed.")
    shutil.rmtree(folder)


class Decisions:
    """Decisions by name, each made once; a folder that holds those for another graph, split or arguments is refused."""

    def __init__(self, folder: Path, graph: Graph, split: Split, arguments: Any) -> None:
        self._path = folder / _FILE
        text = json.dumps([graph.digest, splits_digest([split]), arguments], sort_keys=True)
        self._choice = hashlib.sha256(text.encode()).hexdigest()
        self._known: dict[str, Any] = {}
        if os.path.lexists(self._path):
            refuse_links(folder, _FILE)
            try:
                found = load_record(self._path, partial(Entries, what="a choice"), "a choice")
                self._known = dict(found.table("decisions"))
            except (DataFileError, InputError) as error:
                raise DataFileError(f"{self._path} is damaged; delete {folder} to start over.") from error
            if found.values.get("choice") != self._choice:
                raise OtherChoiceError(
                    f"{folder} belongs to another model: the graph, the split or the settings differ; "
                    "use another folder or the same arguments."
                )

    def end(self, selection: Selection) -> None:
        """Write down what came out, in place of what did before."""
        self._known[_OUTCOME] = selection.to_dict()
        self._write()

    def made(self, name: str, make: Callable[[], Value], fits: Callable[[Any], bool]) -> Value:
        """Return the decision of this name, if it ``fits``, and if there is none, make it and write it down."""
        if name not in self._known:
            self._known[name] = make()
            self._write()
        elif not fits(self._known[name]):
            raise DataFileError(f"{self._path} is damaged; delete {self._path.parent} to start over.")
        known: Value = self._known[name]
        return known

    def _write(self) -> None:
        make_folder(self._path.parent)
        text = json.dumps({"choice": self._choice, "decisions": self._known}, indent=1) + "\n"
        write_text(self._path, text, inside=self._path.parent)


_BEGUN: ContextVar[float] = ContextVar("begun")


@contextlib.contextmanager
def counting_from(moment: float) -> Iterator[None]:
    """Have the limits of choices count from a moment of ``time.monotonic``, such as the start of a command."""
    token = _BEGUN.set(moment)
    try:
        yield
    finally:
        _BEGUN.reset(token)


class Clock:
    """What is left of ``limit`` seconds, and what runs take of it, by real epochs of the real trainer.

    They begin now, unless :func:`counting_from` says when. Without a limit there is always time.
    """

    def __init__(self, graph: Graph, split: Split, device: str, workers: int | None, limit: float | None) -> None:
        self.graph, self.split, self.place, self.limit = graph, split, find_device(device), limit
        self.gpu = self.place.type == "cuda"
        self.cores = 1 if self.gpu else count_cores() if workers is None else workers
        self.slower = 1.0  # than measured, as finished runs showed
        self.started = _BEGUN.get(time.monotonic())
        self._known: dict[tuple[str, TrainConfig], float] = {}

    def left(self) -> float:
        """Return how many seconds are left."""
        return math.inf if self.limit is None else self.limit - (time.monotonic() - self.started)

    def seconds(self, method: str, config: TrainConfig) -> float:
        """Return how long a run takes, its share of the preparation included; inf if it does not fit in memory."""
        if not parse_method(method).trained:
            return 0.0
        if (method, config) not in self._known:
            part = Part.of(self.graph, parse_method(method), config, [self.split], 1)
            short = min(0.01 * (self.limit or 100.0), 1.0)
            [found] = cost_of([part], str(self.place), self.cores, limit=short).parts
            usual = _USUAL_EPOCHS if found.part.method.has_epochs else 1.0
            longest = math.inf if math.isnan(found.longest) else usual * found.longest
            self._known[method, config] = longest + (0.0 if math.isnan(found.preparation) else found.preparation)
        return self._known[method, config] * self.slower

    def heard(self, expected: float, took: float) -> None:
        """Take over how much longer finished runs took than expected."""
        if expected > 1.0:
            self.slower *= min(max(took / expected, 0.5), 10.0)
