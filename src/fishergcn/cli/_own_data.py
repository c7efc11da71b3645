"""The graphs of a command: embedded data sets, graph files, or text files of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fishergcn.cli._common import load_graph, load_graph_file
from fishergcn.cli._options import DirectedWord, EmptyWord, SelfLinksWord, TextWord
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.graph import Graph


@dataclass(frozen=True)
class Source:
    """Where the graphs come from: ``dataset``, ``graph`` or ``edges``."""

    dataset: list[str] | None
    graph: Path | list[Path] | None
    edges: Path | None
    features: Path | None
    labels: Path | None
    header: str | None
    directed: DirectedWord
    self_links: SelfLinksWord
    name: str | None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    id_: str | None = None
    label: str | None = None
    parts: list[str] | None = None
    drop: list[str] | None = None
    text: TextWord = "refuse"
    empty: EmptyWord = "refuse"

    def load(self, *, mixed: bool = False) -> dict[str, Graph]:
        """Read the graphs, by name; unless ``mixed``, they come from one of the three options."""
<<<<<<< HEAD
=======
        from fishergcn.execution import shared_graph
        from fishergcn.graph import Graph

>>>>>>> main
        given = [option for option in ("dataset", "graph", "edges") if getattr(self, option)]
        if not given or (len(given) > 1 and not mixed):
            got = " and ".join(f"--{option}" for option in given) or "none"
            how = "at least" if mixed else "exactly"
            raise InputError(f"{how} one of --dataset, --graph and --edges must be given, got {got}.")
        if self.edges is None:
            for option in ("features", "labels", "source", "target", "weight", "id_", "label", "parts", "drop"):
                if getattr(self, option):
                    raise InputError(f"--{option.rstrip('_')} goes with --edges, not with --{given[0]}.")
        elif self.labels is None and self.label is None:
            raise InputError(
                "--labels must be given with --edges: a file with a node id and a class name on each line; or --label, "
                "the column of --features that holds the classes."
            )
        files = self.graph if isinstance(self.graph, list) else [self.graph] if self.graph else []
<<<<<<< HEAD
        graphs = [*map(load_graph, self.dataset or ()), *map(load_graph_file, files)]
        graphs += [] if self.edges is None else [self.from_files(self.edges)]
        found = {str(graph.name): graph for graph in graphs}
=======
        loads: list[Callable[[], Graph]] = [partial(load_graph, each) for each in self.dataset or ()]
        loads += [partial(Graph.load, each) for each in files]
        loads += [] if self.edges is None else [partial(self.from_files, self.edges)]
        graphs = [shared_graph(f"graph-{at}", load) for at, load in enumerate(loads)]
        found = {graph.name or graph.digest: graph for graph in graphs}
>>>>>>> main
        if len(found) != len(graphs):
            options, names = " and ".join(f"--{option}" for option in given), [str(graph.name) for graph in graphs]
            remedy = "; fishergcn data import --name gives a graph another name" if files else ""
            raise InputError(f"{options} must name distinct graphs, got {', '.join(names)}{remedy}.")
        return found

    def from_files(self, edges: Path, *, fill_from: Graph | None = None) -> Graph:
        """Read the graph of text files, whose empty cells get the means of ``fill_from`` if it is given."""
        from fishergcn.graph import Graph

        return Graph.from_files(
            edges,
            self.features,
            self.labels,
            header=parse_header(self.header),
            directed=self.directed,
            source=self.source,
            target=self.target,
            weight=self.weight,
            id=self.id_,
            label=self.label,
            parts=self.parts or (),
            drop=self.drop or (),
            text=self.text,
            empty=self.empty,
            fill_from=fill_from,
            self_links=self.self_links,
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
