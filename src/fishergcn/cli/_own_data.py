"""The graphs of a command: embedded data sets, graph files, or text files of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fishergcn.cli._common import load_graph, load_graph_file
from fishergcn.cli._tables import Tables
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.graph import Graph


@dataclass(frozen=True)
class Source:
    """Where the graphs come from: ``dataset``, ``graph`` or ``edges``."""

    dataset: list[str] | None
    graph: Path | list[Path] | None
    edges: Path | None
    name: str | None
    tables: Tables

    def options(self) -> dict[str, Any]:
        """Return the values of the options by which a command was given the graphs."""
        given = {"dataset": self.dataset, "graph": self.graph, "edges": self.edges}
        return {**given, **asdict(self.tables), "name": self.name}

    def load(self, *, mixed: bool = False) -> dict[str, Graph]:
        """Read the graphs, by name; unless ``mixed``, they come from one of the three options."""
        from fishergcn.execution import shared_graph

        given = [option for option in ("dataset", "graph", "edges") if getattr(self, option)]
        if not given or (len(given) > 1 and not mixed):
            got = " and ".join(f"--{option}" for option in given) or "none"
            how = "at least" if mixed else "exactly"
            raise InputError(f"{how} one of --dataset, --graph and --edges must be given, got {got}.")
        if self.edges is None:
            for option in ("features", "labels", "source", "target", "weight", "id_", "label", "parts", "drop"):
                if getattr(self.tables, option):
                    raise InputError(f"--{option.rstrip('_')} goes with --edges, not with --{given[0]}.")
        elif self.tables.labels is None and self.tables.label is None:
            raise InputError(
                "--labels must be given with --edges: a file with a node id and a class name on each line; or --label, "
                "the column of --features that holds the classes."
            )
        files = self.graph if isinstance(self.graph, list) else [self.graph] if self.graph else []
        loads: list[Callable[[], Graph]] = [partial(load_graph, each) for each in self.dataset or ()]
        loads += [partial(load_graph_file, each) for each in files]
        loads += [] if self.edges is None else [partial(self.from_files, self.edges)]
        graphs = [shared_graph(f"graph-{at}", load) for at, load in enumerate(loads)]
        found = {str(graph.name): graph for graph in graphs}
        if len(found) != len(graphs):
            options, names = " and ".join(f"--{option}" for option in given), [str(graph.name) for graph in graphs]
            remedy = "; fishergcn data import --name gives a graph another name" if files else ""
            raise InputError(f"{options} must name distinct graphs, got {', '.join(names)}{remedy}.")
        return found

    def from_files(self, edges: Path, *, fill_from: Graph | None = None) -> Graph:
        """Read the graph of text files, whose empty cells get the means of ``fill_from`` if it is given."""
        from fishergcn.graph import Graph

        tables = self.tables
        return Graph.from_files(
            edges,
            tables.features,
            tables.labels,
            header=parse_header(tables.header),
            directed=tables.directed,
            source=tables.source,
            target=tables.target,
            weight=tables.weight,
            id=tables.id_,
            label=tables.label,
            parts=tables.parts or (),
            drop=tables.drop or (),
            text=tables.text,
            empty=tables.empty,
            fill_from=fill_from,
            self_links=tables.self_links,
            name=self.name or ("stdin" if str(edges) == "-" else Path(edges.name.removesuffix(".gz")).stem),
        )


def parse_header(header: str | None) -> bool | list[str] | None:
    """Turn the option --header into the argument of ``Graph.from_files``.

    Examples
    --------
    >>> parse_header(None), parse_header("none"), parse_header("all"), parse_header("edges,labels")
    (None, False, True, ['edges', 'labels'])
    """
    if header is None or header in ("all", "none"):
        return None if header is None else header == "all"
    return [word.strip() for word in header.split(",")]
