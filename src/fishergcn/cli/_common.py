"""What the commands share: how a graph is named, how results are printed, how a command is stopped."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fishergcn._base.foreign import json_printable, printable
from fishergcn._base.terminal import console, note, table
from fishergcn.cli._options import in_options
from fishergcn.errors import DataFileError, InputError, Notice, suggestion

if TYPE_CHECKING:
    from fishergcn.execution import Cost
    from fishergcn.graph import Graph

COMMAND_BEGAN: ContextVar[float] = ContextVar("command began")  # at which moment of time.monotonic
_ABOUT_TABLES = {
    name: f"--{name}" for name in ("id", "label", "weight", "missing", "task")
}  # what notes of tables name


def print_json(value: Any) -> None:
    """Print a result for programs: one JSON document on standard output, whose escapes are those of JSON."""
    print(json_printable(json.dumps(value, indent=2, ensure_ascii=False)))


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show warnings as notes instead of with a line of source code, each text once, with options in place of code."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = in_options(str(message), _ABOUT_TABLES)
        if text not in shown:
            shown.add(text)
            note(f"{'' if isinstance(message, Notice) else 'warning: '}{text}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def this_command() -> str:
    """Return the command line, so that people can repeat it."""
    return printable(shlex.join(["fishergcn", *sys.argv[1:]]))


def tell_of_report(out: Path) -> None:
    """Print the command that turns what was written to a folder into a page."""
    console().print(
        f"For a page with tables and charts: {shlex.join(['fishergcn', 'report', str(out)])}", soft_wrap=True
    )


@contextlib.contextmanager
def exit_on_interrupt(kept: str) -> Iterator[None]:
    """Exit with one line that says what is ``kept`` where a signal stops the command."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"stopped by SIGINT; {kept}")
        raise typer.Exit(130) from None
    except Exception as stopped:
        from fishergcn.execution import StopWork  # here, so that help and completion do not wait for torch

        if not isinstance(stopped, StopWork):
            raise
        note(f"{stopped}; {kept}")
        raise typer.Exit(128 + getattr(stopped, "number", 0)) from None


def show_cost(cost: Cost, *, as_json: bool) -> None:
    """Print what each method takes on each graph and what all take together; raise if it will not fit."""
    if as_json:
        print_json(cost.to_dict())
    else:
        rows = [
            [
                each.part.dataset,
                each.part.name,
                str(each.part.runs),
                _shown(each.preparation, ".2f"),
                _shown(1e3 * each.epoch, ".1f"),
                str(each.timed),
                _shown(each.longest, ".1f"),
                f"{each.bytes / 1e9:.2f}",
            ]
            for each in cost.parts
        ]
        heads = ["data set", "method", "runs", "preparation (s)", "epoch (ms)", "measured over", "run, at most (s)",
                 "memory (GB)"]  # fmt: skip
        console().print(table("What it would take", heads, rows))
        if len(cost.parts) == 1:
            console().print(f"{str(cost.parts[0]).capitalize()}.", soft_wrap=True)
        console().print(f"All runs: {cost}.", soft_wrap=True)
    cost.check()


def _shown(seconds: float, form: str) -> str:
    return "not timed" if math.isnan(seconds) else format(seconds, form)


def load_graph_file(path: Path) -> Graph:
    """Return the graph of a file, named after the file if it has no name."""
    from fishergcn.graph import Graph

    graph = Graph.load(path)
    return graph if graph.name else graph.replace(name=path.resolve().stem)


def load_graph(text: str) -> Graph:
    """Return the graph that ``text`` names: a built-in data set or a graph file (``.npz``)."""
    from fishergcn import datasets

    if text in datasets.available():
        return datasets.load(text)
    path = Path(text)
    if os.path.isfile(path) or os.path.isdir(path):
        if path.suffix != ".npz" and not os.path.isdir(path):
            raise DataFileError(
                f"{path} is not an .npz graph file; make one with: fishergcn data import --edges {path} --out my.npz"
            )
        return load_graph_file(path)
    if path.suffix or path.parent != Path():
        raise DataFileError(f"{path} does not exist or is not a file.")
    known = datasets.available()
    raise InputError(
        f"data set {text!r} is unknown{suggestion(text, known)}; "
        f"choose from {', '.join(known)}, or give a graph file (.npz)."
    )
