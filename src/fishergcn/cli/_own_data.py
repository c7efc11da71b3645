"""The graphs of ``fishergcn train`` and ``tune``: embedded data sets, a graph file, or text files of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fishergcn.cli._common import load_graph
from fishergcn.cli._options import DirectedWord, SelfLinksWord
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.graph import Graph


@dataclass(frozen=True)
class Source:
    """Where the graphs come from: exactly one of ``dataset``, ``graph`` and ``edges``."""

    dataset: list[str] | None
    graph: Path | None
    edges: Path | None
    features: Path | None
    labels: Path | None
    header: str | None
    directed: DirectedWord
    self_links: SelfLinksWord
    name: str | None

    def load(self) -> dict[str, Graph]:
        """Read the graphs, by name; several are data sets."""
        from fishergcn.graph import Graph

        given = [option for option in ("dataset", "graph", "edges") if getattr(self, option)]
        if len(given) != 1:
            got = " and ".join(f"--{option}" for option in given) or "none"
            raise InputError(f"exactly one of --dataset, --graph and --edges must be given, got {got}.")
        if self.edges is None:
            for option in ("features", "labels"):
                if getattr(self, option) is not None:
                    raise InputError(f"--{option} goes with --edges, not with --{given[0]}.")
            graphs = [load_graph(name) for name in self.dataset] if self.dataset else [Graph.load(str(self.graph))]
            found = {graph.name or graph.digest: graph for graph in graphs}
            if len(found) != len(graphs):
                raise InputError(f"--dataset must name distinct graphs, got {', '.join(self.dataset or ())}.")
            return found
        if self.labels is None:
            raise InputError("--labels must be given with --edges: a CSV with a node id and a class name on each line.")
        name = self.name or self.edges.stem
        return {
            name: Graph.from_files(
                self.edges,
                self.features,
                self.labels,
                header=parse_header(self.header),
                directed=self.directed,
                self_links=self.self_links,
                name=name,
            )
        }


def parse_header(header: str | None) -> bool | list[str]:
    """Turn the option --header into the argument of ``Graph.from_files``.

    Left out, what looks like a header is refused; ``none`` says outright that there is none.

    Examples
    --------
    >>> parse_header(None), parse_header("none"), parse_header("all"), parse_header("edges,labels")
    (False, [], True, ['edges', 'labels'])
    """
    if header is None or header == "all":
        return header == "all"
    return [] if header == "none" else [word.strip() for word in header.split(",")]
