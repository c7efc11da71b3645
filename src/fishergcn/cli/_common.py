"""What the commands share: how a graph is named, how results are shown, how errors end a command."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fishergcn.errors import DataFileError, InputError, suggestion

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fishergcn.graph import Graph

__all__ = [
    "console",
    "load_graph",
    "note",
    "parse_header",
    "print_json",
    "table",
    "warnings_as_notes",
]


def console(*, stderr: bool = False) -> Console:
    """Return a console; piped output stays plain and is never cut to a terminal's width."""
    from rich.console import Console

    # No markup: names and paths may hold brackets.
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=200, no_color=True)
    return made


def table(
    title: str, columns: list[str], rows: list[list[str]], *, justify: Literal["left", "right"] = "right"
) -> Table:
    """Return a table whose first column is text and whose others are numbers, unless justified left."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for position, column in enumerate(columns):
        made.add_column(column, justify="left" if position == 0 else justify, no_wrap=position == 0)
    for row in rows:
        made.add_row(*row)
    return made


def print_json(value: Any) -> None:
    """Print a result for programs: one JSON document on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """Say something about the work on standard error, where it does not mix with results."""
    print(f"fishergcn: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show warnings as notes instead of with a line of source code."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: note(f"warning: {message}")
        yield


def parse_header(text: str) -> bool | list[str]:
    """Turn the option --header into the argument of ``Graph.from_files``."""
    return {"none": False, "all": True}.get(text, [word.strip() for word in text.split(",")])


def load_graph(text: str) -> Graph:
    """Return the graph that ``text`` names: an embedded data set or a graph file (``.npz``)."""
    from fishergcn import datasets
    from fishergcn.graph import Graph

    if text in datasets.available():
        return datasets.load(text)
    path = Path(text)
    if os.path.isfile(path):
        if path.suffix != ".npz":
            raise DataFileError(
                f"{path} is not an .npz graph file; make one with: fishergcn data import --edges {path} --out my.npz"
            )
        return Graph.load(path)
    if path.suffix or path.parent != Path():
        raise DataFileError(f"{path} does not exist or is not a file.")
    known = datasets.available()
    raise InputError(
        f"data set {text!r} is unknown{suggestion(text, known)}; "
        f"there are {', '.join(known)}, or give a graph file (.npz)."
    )
