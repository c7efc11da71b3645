"""What a choice has decided so far, kept in its folder: it goes on as it began, however fast the machine is then."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fishergcn._base.files import make_folder, read_bytes, write_text
from fishergcn._base.json import parse_json
from fishergcn.errors import DataFileError
from fishergcn.graph import Graph
from fishergcn.splits import Split

_FILE = "choice.json"
_LIMIT = 2**20  # bytes
Value = TypeVar("Value")


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

    def made(self, name: str, make: Callable[[], Value]) -> Value:
        """Return the decision of this name, and if there is none, make it and write it down."""
        if name not in self._known:
            self._known[name] = make()
            make_folder(self._path.parent)
            write_text(self._path, json.dumps({"choice": self._choice, "decisions": self._known}, indent=1) + "\n")
        known: Value = self._known[name]
        return known
