"""The options that commands have in common, most of them ``train`` and ``tune``, with their help."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fishergcn.errors import DataFileError

__all__ = [
    "DATA",
    "DEFAULT_METHOD",
    "METHODS",
    "RUNS",
    "Dataset",
    "Device",
    "Directed",
    "Edges",
    "Features",
    "FirstSeed",
    "Graph",
    "Header",
    "Json",
    "Labels",
    "Name",
    "Overwrite",
    "Quiet",
    "SelfLinks",
    "Split",
    "Workers",
    "check_new_file",
]

DATA, RUNS = "Data", "Runs and results"
DEFAULT_METHOD = "fishergcn-t"
METHODS = "gcn, gcn-xM for M dropout samples, fishergcn, gcn-t, gcn-t-xM or fishergcn-t, with suffix -c for consistency"

Dataset = Annotated[str | None, typer.Option(help="A data set that ships with the package.", rich_help_panel=DATA)]
Graph = Annotated[Path | None, typer.Option(help="A graph file (.npz).", rich_help_panel=DATA)]
Edges = Annotated[
    Path | None,
    typer.Option(help="Links: CSV or TSV with two node ids and, optionally, a weight a line.", rich_help_panel=DATA),
]
Features = Annotated[
    Path | None,
    typer.Option(help="Features: CSV with a node id and numbers a line, or .npz in node order.", rich_help_panel=DATA),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        help="Labels: CSV with a node id and a class name a line; leave out unlabeled nodes, or their class.",
        rich_help_panel=DATA,
    ),
]
Header = Annotated[
    str | None,
    typer.Option(
        help="Which files begin with a header: all, some of edges,features,labels, or none, which also reads a first "
        "line as data that looks like a header. By default none is expected, and what looks like one is refused.",
        metavar="FILES",
        rich_help_panel=DATA,
    ),
]
Directed = Annotated[
    str,
    typer.Option(
        help="A line of --edges is a link (undirected), an arc to mirror (symmetrize), or one of two arcs (refuse).",
        rich_help_panel=DATA,
    ),
]
SelfLinks = Annotated[str, typer.Option(help="keep or drop links from a node to itself.", rich_help_panel=DATA)]
Name = Annotated[
    str | None,
    typer.Option(help="A name for the graph of --edges; that of the file by default.", rich_help_panel=DATA),
]
Split = Annotated[
    list[str] | None,
    typer.Option(
        help="public, shuffled:SEED, per-class:SEED, per-class:TRAIN+VAL:SEED or held-out:PERCENT%:SEED; "
        "may be repeated. By default the public split, or for a graph without one held-out:20%:0.",
        rich_help_panel=DATA,
    ),
]

FirstSeed = Annotated[int, typer.Option(help="The first seed.", rich_help_panel=RUNS)]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.", rich_help_panel=RUNS)]
Workers = Annotated[int, typer.Option(help="Processes on the CPU.", rich_help_panel=RUNS)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.", rich_help_panel=RUNS)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.", rich_help_panel=RUNS)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out if it exists.")]


def check_new_file(path: Path, *, overwrite: bool) -> None:
    """Raise now, before the work, if the file of --out is there and may not be replaced."""
    if not overwrite and os.path.exists(path) and not os.path.isdir(path):  # a folder is refused later
        raise DataFileError(f"{path} exists already; --overwrite replaces it.")
