"""The options that say which graphs a command works on: embedded data sets, graph files, or tables of one's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.graph import Graph

data_option = partial(shared.option, panel="Data")
_column = partial(data_option, metavar="NAME|NUMBER")
LINKS = (
    "Links: two node ids and, optionally, a column called weight on each line of a text file (CSV, TSV, edge list, "
    "also .gz), in Parquet or Feather; or a .graphml file with the nodes' attributes; - for standard input."
)
Edges = Annotated[Path | None, typer.Option(help=LINKS, rich_help_panel="Data")]


@dataclass(frozen=True)
class Tables:
    """The files beside --edges, and how all of them are read."""

    features: Path | None = data_option(
        "Features: a node id and numbers on each line, in the same formats, or .npz in node order. Without features, "
        "each node gets one of its own."
    )
    labels: Path | None = data_option(
        "Labels: a node id and a class name on each line, in the same formats; for unlabeled nodes leave out the line "
        "or the class. Not needed if --label is a column of --features."
    )
    header: str | None = data_option(
        "Which text files begin with a line of column names: all, some of edges,features,labels, or none. By default, "
        "and for files not named, this is detected, and a note says so.",
        metavar="FILES",
    )
    source: str | None = _column("Column of --edges: one end of a link.")
    target: str | None = _column("Column of --edges: the other end.")
    weight: str | None = _column(
        "Column of --edges: the weight; none for links without weights. By default a column called weight, "
        "edge_weight, strength or w, or the third of three without names."
    )
    id_: str | None = _column("Column of --features and --labels: the node ids; by default the first.", "--id")
    label: list[str] | None = _column(
        "Column of --features or --labels: the classes, the labels of a node separated by | or ;, or a number; not "
        "used as a feature. Repeated: columns with 1 or 0 for several labels a node."
    )
    task: Literal["classification", "multilabel", "regression"] | None = data_option(
        "What to predict of a node: one class, several labels, each yes or no, or a number; detected by default."
    )
    parts: list[str] | None = data_option(
        "Column of --features or --labels that says train, val, test or nothing, which becomes the public split. "
        "Repeated, the columns become mask:0, mask:1, ... Or an .npz file of masks.",
        metavar="NAME|NUMBER|FILE",
    )
    drop: list[str] | None = _column("Column of --features to leave out; may be repeated.")
    column: list[str] | None = data_option(
        "What a column of --features is: number (other cells count as empty), decimal-comma, one-hot (a feature for "
        "each text) or drop; may be repeated.",
        metavar="NAME=KIND",
    )
    text: Literal["refuse", "drop", "one-hot"] | None = data_option(
        "What to do with other columns of text in --features: refuse them (the default), drop them, or make each text "
        "a feature."
    )
    empty: Literal["refuse", "drop", "fill"] | None = data_option(
        "What to do with empty cells in --features: refuse them (the default), drop the column, or fill in its mean "
        "(predict: the mean in training)."
    )
    missing: list[str] | None = data_option(
        "Text that stands for no value, beside an empty cell; may be repeated. By default NA, N/A, NaN, null, ? and "
        "the like, in labels also -1.",
        metavar="TEXT",
    )
    unknown: Literal["refuse", "drop"] | None = data_option(
        "What to do with links and labels of nodes that have no row in --features; by default refuse."
    )
    repeated: Literal["refuse", "first"] | None = data_option(
        "What to do with nodes that have several rows in --features: refuse them (the default), or keep the first."
    )
    directed: Literal["undirected", "symmetrize", "refuse"] | None = data_option(
        "A line of --edges is a link (undirected, the default), an arc to mirror (symmetrize), or one arc of two "
        "(refuse)."
    )
    self_links: Literal["keep", "drop"] | None = data_option(
        "What to do with links from a node to itself; by default keep."
    )

    def needing_edges(self) -> list[str]:
        """Return the options that were given and mean nothing without --edges."""
        given = (name for name, value in vars(self).items() if value and name != "task")
        return [f"--{name.rstrip('_').replace('_', '-')}" for name in given]

    def completed(self, like: Graph) -> Tables:
        """Return these tables with the columns of labels and of parts that those of ``like`` had, if none are named."""
        past = like.reading or {}
        label: list[Any] | None = self.label
        if self.labels is None and label is None and (found := past.get("label")):
            label = [found] if isinstance(found, str | int) else found
        named = [each for each in past.get("parts", ()) if self.labels is None or not str(each).isdigit()]
        parts = self.parts or named or None  # a number is one of the table that had the labels
        return dataclasses.replace(self, label=label, parts=parts)

    def read(self, edges: Path, name: str | None = None, *, like: Graph | None = None) -> Graph:
        """Read the graph of the files; what is not said is as in the tables of ``like``, if it is given."""
        from fishergcn.graph import Graph

        chosen = {option.rstrip("_"): value for option, value in vars(self).items() if value is not None}
        chosen["header"] = _header(self.header)
        if self.label is not None and len(self.label) == 1:
            chosen["label"] = self.label[0]
        chosen["columns"] = dict(map(_kind, chosen.pop("column", ())))
        name = name or ("stdin" if str(edges) == "-" else Path(edges.name.removesuffix(".gz")).stem)
        return Graph.from_files(edges, **chosen, like=like, name=name)


@dataclass(frozen=True)
class Data:
    """Where graphs come from, data sets and graph files or ``edges`` with its tables, and how they are split."""

    mixed: ClassVar[bool] = False  # whether graphs may come from both

    graphs: shared.Graphs = None
    dataset: shared.Dataset = None
    edges: Edges = None
    tables: Tables = field(default_factory=Tables)
    name: str | None = data_option("A name for the graph of --edges; by default that of the file.")
    splits: shared.Splits = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dataset", [*(self.graphs or ()), *(self.dataset or ())] or None)
        object.__setattr__(self, "graphs", None)

    def load(self, *, like: Graph | None = None) -> dict[str, Graph]:
        """Read the graphs, by name; what is not said of tables is as in those of ``like``, if it is given."""
        from fishergcn import datasets
        from fishergcn.execution import shared_graph
        from fishergcn.graph import for_task

        given = [f"--{option}" for option in ("dataset", "edges") if getattr(self, option)]
        if not given or (len(given) > 1 and not self.mixed):
            got = "both" if given else "neither"
            way = "a GRAPH (--dataset, --graph) or --edges must be given"
            raise InputError(f"{way}, got neither." if self.mixed else f"either {way}, got {got}.")
        loads: list[Callable[[], Graph]] = [partial(load_graph, each) for each in self.dataset or ()]
        if self.edges is not None:
            tables = self.tables if like is None else self.tables.completed(like)
            if tables.labels is None and tables.label is None:
                raise InputError(
                    "--labels must be given with --edges: a file with a node id and a class name on each line; or "
                    "--label, the column of --features that holds the classes."
                )
            loads.append(partial(tables.read, self.edges, self.name, like=like))
        elif self.tables.needing_edges():
            raise InputError(f"{self.tables.needing_edges()[0]} goes with --edges, not with {given[0]}.")
        read = [shared_graph(f"graph-{at}", load) for at, load in enumerate(loads)]
        graphs = [for_task(graph, self.tables.task) for graph in read]
        found = {str(graph.name): graph for graph in graphs}
        if len(found) != len(graphs):
            own = any(each not in datasets.available() for each in self.dataset or ())
            remedy = "; fishergcn data import --name gives a graph another name" if own else ""
            names = ", ".join(str(graph.name) for graph in graphs)
            raise InputError(f"graphs must have distinct names, got {names}{remedy}.")
        return found


@dataclass(frozen=True)
class ManyGraphs(Data):
    """Any number of graphs, from both places."""

    mixed: ClassVar[bool] = True


def _kind(text: str) -> tuple[str, str]:
    """Read ``NAME=KIND`` of --column; a name may hold an equals sign."""
    name, equals, kind = text.rpartition("=")
    if not equals or not name:
        raise InputError(f"--column must be NAME=KIND, such as price=number, got {text!r}.")
    return name, kind


def _header(header: str | None) -> bool | list[str] | None:
    """Turn the option --header into the argument of ``Graph.from_files``."""
    if header is None or header in ("all", "none"):
        return None if header is None else header == "all"
    return [word.strip() for word in header.split(",")]
