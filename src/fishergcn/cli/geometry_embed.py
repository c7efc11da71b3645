"""``fishergcn geometry embed``: the maximum-likelihood embedding of a graph, and its extreme motions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, print_json
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn._base.types import IntArray
    from fishergcn.geometry.embedding import EmbeddingFit, ExtremeMotions
    from fishergcn.graph import Graph


@dataclass(frozen=True)
class EmbedOptions:
    """How a graph is embedded, and what is written."""

    dim: int = shared.option("Number of coordinates.", default=2)
    order: int = shared.option("Length T of the longest random walk in the similarities.", default=5)
    threshold: float = shared.option("Drop similarities up to this value.", default=1e-4)
    restarts: int = shared.option("How many random starts; the best is kept.", default=1)
    tolerance: float = shared.option("Largest relative gradient to accept.", default=1e-5)
    seed: int = shared.option("Seed of the random starts.", default=0)
    plot: shared.Plot = None
    out: Path | None = shared.option("Write the coordinates to this CSV file.")
    json: shared.Json = False


@shared.takes_options()
def embed(name: shared.GraphName, options: EmbedOptions) -> None:
    """Embed the largest connected component of a graph and find its stiffest and softest motions."""
    import numpy as np

    from fishergcn._base.checks import check_integer
    from fishergcn.drawing import check_picture, draw_embedding
    from fishergcn.geometry import embedding
    from fishergcn.graph import largest_component

    check_picture(options.plot)
    if options.plot is not None:
        check_integer("--dim of a picture", options.dim, minimum=2)
    if options.out is not None and options.out.suffix.lower() != ".csv":
        raise InputError(f"--out must end in .csv, got {options.out.name!r}.")
    graph = load_graph(name)
    nodes = np.flatnonzero(largest_component(graph.adjacency))
    W = embedding.similarities(graph, options.order, options.threshold, nodes=nodes)
    fitted = embedding.fit(W, options.dim, options.seed, restarts=options.restarts, tolerance=options.tolerance)
    if options.out is not None:
        _write(options.out, graph, nodes, fitted)
    motions = embedding.extreme_motions(W, fitted.embedding)
    if options.plot is not None:
        draw_embedding(graph.name or "graph", fitted, motions, _classes(graph, nodes)).save(options.plot)
    facts = _facts(graph, nodes, fitted, motions)
    if options.json:
        print_json(facts)
        return
    shown = console()
    rows = [[key.replace("_", " "), _text(value)] for key, value in facts.items()]
    shown.print(table(f"embedding of {graph.name or name} in {options.dim} dimensions", ["", "value"], rows))
    for written in (options.out, options.plot):
        if written is not None:
            shown.print(f"written: {written}")


def _facts(graph: Graph, nodes: IntArray, fitted: EmbeddingFit, motions: ExtremeMotions) -> dict[str, Any]:
    return {
        "nodes": graph.num_nodes,
        "nodes_embedded": len(nodes),
        "divergence": fitted.divergence,
        "gradient_norm": fitted.gradient_norm,
        "converged": fitted.converged,
        "a_minimum_is_known_to_exist": fitted.minimizer_known,
        "iterations": fitted.iterations,
        "smallest_metric_of_a_motion": motions.smallest,
        "largest_metric_of_a_motion": motions.largest,
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _classes(graph: Graph, nodes: IntArray) -> list[str]:
    """Return the name of each node's class; empty where it is unknown."""
    if graph.labels is None:
        return [""] * len(nodes)
    names = graph.class_names or [str(label) for label in range(graph.num_classes)]
    return [names[label] if label >= 0 else "" for label in graph.labels[nodes]]


def _write(path: Path, graph: Graph, nodes: IntArray, fitted: EmbeddingFit) -> None:
    from fishergcn._base.files import write_text
    from fishergcn._base.text import csv_text

    columns = ["node", "class", *(f"y{axis + 1}" for axis in range(fitted.embedding.shape[1]))]
    ids = [graph.node_ids[node] if graph.node_ids else node for node in nodes.tolist()]
    places = zip(ids, _classes(graph, nodes), fitted.embedding.tolist(), strict=True)
    write_text(path, csv_text(columns, [[node, label, *place] for node, label, place in places]))
