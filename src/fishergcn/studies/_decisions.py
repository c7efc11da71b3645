"""What a choice has decided so far, kept in its folder: it goes on as it began, however fast the machine is then."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fishergcn._base.files import make_folder, read_bytes, write_text
from fishergcn._base.json import parse_json
from fishergcn.errors import DataFileError
from fishergcn.graph import Graph
from fishergcn.models import Selection
from fishergcn.splits import Split

_FILE = "choice.json"
_LIMIT = 2**20  # bytes
Value = TypeVar("Value")
_OUTCOME = "selection"


def load_selection(folder: str | os.PathLike[str]) -> Selection | None:
    """Read how :func:`fishergcn.fit` chose, from the folder in which it kept its runs; None if it has not yet.

    Examples
    --------
    >>> load_selection("nowhere")
    Traceback (most recent call last):
    ...
    fishergcn.errors.DataFileError: nowhere/choice.json does not exist.
    """
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
    """Decisions by name, each made once.

    Parameters
    ----------
    folder
        Where the file is or will be.
    graph, split, arguments
        What is chosen for, and how; a folder that holds another choice is refused.

    Examples
    --------
    >>> import tempfile
    >>> graph, split = Graph.from_edges([(0, 1)], labels=[0, 1]), Split("s", [0], [1], [])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = Decisions(Path(folder), graph, split, []).made("splits", lambda: 3)
    ...     again = Decisions(Path(folder), graph, split, []).made("splits", lambda: 5)
    >>> first, again
    (3, 3)
    """

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
