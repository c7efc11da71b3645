"""Graphs that ship inside the package, each file pinned by its SHA-256."""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

from fishergcn.errors import DataFileError, InputError, suggestion
from fishergcn.graph import Graph

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_NAMES = ("cora", "citeseer", "pubmed")


def available() -> tuple[str, ...]:
    """Return the names of the graphs that ship with the package.

    Examples
    --------
    >>> available()
    ('cora', 'citeseer', 'pubmed')
    """
    return _NAMES


def load(name: str) -> Graph:
    """Return a graph that ships with the package; nothing is downloaded.

    Node order, raw feature values, self-links and the public split are those of the Planetoid files. The file
    is read and checked against its SHA-256 at the first call; later calls return the same immutable graph.

    Parameters
    ----------
    name
        ``"cora"``, ``"citeseer"`` or ``"pubmed"``.

    Examples
    --------
    >>> graph = load("cora")
    >>> graph.num_nodes, graph.num_links, graph.num_classes
    (2708, 5278, 7)
    """
    if not isinstance(name, str):
        raise InputError(f"The name of a data set must be a string, got {name!r}.")
    if name not in _NAMES:
        raise InputError(
            f"Data set {name!r} is unknown{suggestion(name, _NAMES)}; the embedded ones are {', '.join(_NAMES)}."
        )
    return _load(name)


@functools.cache
def _load(name: str) -> Graph:
    return _read_checked(_files(), f"{name}.npz")


def _files() -> Traversable:
    return resources.files("fishergcn.datasets") / "files"


def _read_checked(folder: Traversable, filename: str) -> Graph:
    """Read a graph file after comparing it with the table ``SHA256SUMS`` beside it."""
    table = folder / "SHA256SUMS"
    with resources.as_file(folder / filename) as path:
        try:
            lines = table.read_text(encoding="ascii").splitlines()
            sums = {name: digest for digest, name in (line.split() for line in lines)}
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, ValueError) as error:
            raise DataFileError(f"Cannot read the embedded data set {filename}: {error}.") from error
        if found != sums.get(filename):
            raise DataFileError(
                f"The embedded data set {path} is damaged: its SHA-256 must be {sums.get(filename)}, "
                f"got {found}; install the package again."
            )
        return Graph.load(path)
