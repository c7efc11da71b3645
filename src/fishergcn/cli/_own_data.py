"""The graph of ``fishergcn train`` and ``tune``: an embedded data set, a graph file, or text files of one's own."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fishergcn.cli._common import load_graph, note, parse_header
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.graph import Graph

__all__ = ["Source", "announced"]


@dataclass(frozen=True)
class Source:
    """Where the graph comes from: exactly one of ``dataset``, ``graph`` and ``edges``."""

    dataset: str | None
    graph: Path | None
    edges: Path | None
    features: Path | None
    labels: Path | None
    header: str | None
    directed: str
    self_links: str
    name: str | None

    def load(self) -> Graph:
        """Read the graph and see to it that one can learn from it."""
        graph = self._read()
        if graph.labels is None or graph.labels.max() < 0:
            raise InputError(f"graph {graph.name!r} has no labels to learn from; give some with --edges and --labels.")
        if graph.num_classes < 2:
            only = graph.class_names[0] if graph.class_names else "0"
            raise InputError(f"labels must name at least two classes, got only {only!r}.")
        if graph.features is None:
            graph = _with_identity(graph)
        return graph

    def options(self) -> list[str]:
        """Return the options of a command that reads the same graph."""
        usual = {"directed": "undirected", "self_links": "keep"}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in values.items() if value not in (None, usual.get(name))}
        return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]

    def _read(self) -> Graph:
        from fishergcn.graph import Graph

        given = [option for option in ("dataset", "graph", "edges") if getattr(self, option) is not None]
        if len(given) != 1:
            got = " and ".join(f"--{option}" for option in given) or "none"
            raise InputError(f"exactly one of --dataset, --graph and --edges must be given, got {got}.")
        if self.edges is None:
            for option in ("features", "labels"):
                if getattr(self, option) is not None:
                    raise InputError(f"--{option} goes with --edges, not with --{given[0]}.")
            return load_graph(self.dataset) if self.dataset is not None else Graph.load(str(self.graph))
        if self.labels is None:
            raise InputError("--labels must be given with --edges: a CSV with a node id and a class name a line.")
        return Graph.from_files(
            self.edges,
            self.features,
            self.labels,
            header=announced(self.header),
            directed=cast("Any", self.directed),  # checked there
            self_links=self.self_links,
            name=self.name or self.edges.stem,
        )


def announced(header: str | None) -> bool | list[str]:
    """Turn the option --header into the argument of ``Graph.from_files``.

    Left out, what looks like a header is refused; ``none`` says outright that there is none.

    Examples
    --------
    >>> announced(None), announced("none"), announced("edges,labels")
    (False, [], ['edges', 'labels'])
    """
    return [] if header == "none" else parse_header(header or "none")


def _with_identity(graph: Graph) -> Graph:
    from scipy import sparse

    note(f"there are no features: each of the {graph.num_nodes} nodes gets one of its own (identity matrix).")
    return graph.replace(features=sparse.eye_array(graph.num_nodes, format="csr"))
