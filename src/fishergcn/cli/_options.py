"""The options that ``fishergcn train`` and ``fishergcn tune`` have in common, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "DATA",
    "METHODS",
    "RUNS",
    "Dataset",
    "Device",
    "Edges",
    "Features",
    "FirstSeed",
    "Graph",
    "Header",
    "Json",
    "Labels",
    "Quiet",
    "Split",
    "Workers",
]

DATA, RUNS = "Data", "Runs and results"
METHODS = "gcn, gcn-x5, fishergcn, gcn-t, gcn-t-x5 or fishergcn-t, with suffix -c for consistency"

Dataset = Annotated[str | None, typer.Option(help="A data set that ships with the package.", rich_help_panel=DATA)]
Graph = Annotated[Path | None, typer.Option(help="A graph file (.npz).", rich_help_panel=DATA)]
Edges = Annotated[
    Path | None,
    typer.Option(help="Links: CSV with two node ids and, optionally, a weight a line.", rich_help_panel=DATA),
]
Features = Annotated[
    Path | None, typer.Option(help="Features: CSV with a node id and numbers a line, or .npz.", rich_help_panel=DATA)
]
Labels = Annotated[
    Path | None,
    typer.Option(
        help="Labels: CSV with a node id and a class name a line; leave out unlabeled nodes.", rich_help_panel=DATA
    ),
]
Header = Annotated[
    str,
    typer.Option(
        help="Which files begin with a header: none, all, or some of edges,features,labels.", rich_help_panel=DATA
    ),
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
