"""``fishergcn data``: which graphs there are, and how to bring your own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, print_json, warnings_as_notes
from fishergcn.cli._data import LINKS, Tables, data_option
from fishergcn.cli._help import Command, Group

if TYPE_CHECKING:
    from fishergcn.graph import Graph

_TITLES = {"share": "non-zeros", "share_high_order": "non-zeros, high-order"}
app = typer.Typer(cls=Group, help="List, describe and import graphs.", no_args_is_help=True)


@app.command(name="list", cls=Command)
def list_(json: shared.Json = False) -> None:
    """List the built-in data sets, with the statistics of the paper's Table 1."""
    from fishergcn import datasets

    facts = [_facts(datasets.load(name), high_order=True) for name in datasets.available()]
    if json:
        print_json(facts)
        return
    rows = [
        [
            fact["name"],
            *(f"{fact[name]:,}" for name in ("nodes", "links", "self_links", "components", "features")),
            str(fact["classes"]),
            ":".join(str(size) for size in fact["split"] or ()),
            f"{fact['share']:.2%}",
            f"{fact['share_high_order']:.2%}",
        ]
        for fact in facts
    ]
    columns = ["data set", "nodes", "links", "self-links", "components", "features", "classes"]
    out = console()
    out.print(table("Built-in data sets", [*columns, "train:val:test", "non-zeros", "non-zeros^T"], rows))
    out.print("non-zeros: share of non-zero entries of the propagation matrix; ^T: high-order, T=5, ν=1e-4.")


@app.command(cls=Command)
def info(
    name: shared.GraphName,
    high_order: Annotated[
        bool,
        typer.Option("--high-order", help="Also describe the high-order propagation matrix; slow on large graphs."),
    ] = False,
    json: shared.Json = False,
) -> None:
    """Describe one graph."""
    graph = load_graph(name)
    facts = _facts(graph, high_order=high_order) | _details(graph)
    if json:
        print_json(facts)
        return
    _print_facts(str(graph.name or name), facts)


def show_graphs(graphs: Mapping[str, Graph], *, as_json: bool) -> None:
    """Print what graphs hold once they are read."""
    every = {name: _facts(graph, high_order=False) | _details(graph) for name, graph in graphs.items()}
    if as_json:
        print_json(list(every.values()))
        return
    for name, facts in every.items():
        _print_facts(name, facts)


def _print_facts(title: str, facts: Mapping[str, Any]) -> None:
    rows = [[_TITLES.get(key, key.replace("_", " ")), _shown(value)] for key, value in facts.items()]
    console().print(table(title, ["", "value"], rows, justify="left"))


@dataclass(frozen=True)
class Files:
    """What is read."""

    edges: Path = data_option(LINKS, default=shared.REQUIRED)
    tables: Tables = field(default_factory=Tables)
    name: str | None = data_option("A name for the graph; by default that of --out.")


@dataclass(frozen=True)
class GraphFile:
    """What is written."""

    out: Path = shared.option("The graph file to write (.npz), or with --mapped a new folder.", default=shared.REQUIRED)
    mapped: bool = shared.option(
        "Write a folder of arrays that are mapped, not loaded: for graphs that several processes share, or that do not "
        "fit in memory.",
        "--mapped",
        default=False,
    )
    overwrite: shared.Overwrite = False
    json: shared.Json = False


@app.command(name="import", cls=Command)
@shared.takes_options()
def import_(*, files: Files, written: GraphFile) -> None:
    """Convert files of links, features and labels to one graph file."""
    from fishergcn.errors import InputError

    out, mapped = written.out, written.mapped
    if out.suffix != ".npz" and not mapped:
        raise InputError(f"--out must end in .npz, got {out.name!r}; with --mapped it is a folder.")
    if mapped and (out.suffix == ".npz" or written.overwrite):
        raise InputError("--mapped writes a new folder: --out must not end in .npz, and nothing is overwritten.")
    shared.check_new_file(out, overwrite=written.overwrite)
    with warnings_as_notes():
        graph = files.tables.read(files.edges, files.name or out.stem)
    graph.save(out, mapped=mapped, overwrite=written.overwrite)
    if written.json:
        print_json(_facts(graph, high_order=False) | _details(graph))
        return
    console().print(f"{out}: {graph!r}", soft_wrap=True)


def _facts(graph: Graph, *, high_order: bool) -> dict[str, Any]:
    from fishergcn import propagation

    cells = graph.num_nodes**2
    split = graph.standard_split
    facts = {
        "name": graph.name,
        "nodes": graph.num_nodes,
        "links": graph.num_links,
        "self_links": graph.num_self_links,
        "components": graph.num_components,
        "features": graph.num_features,
        "task": graph.task,
        "classes": graph.num_classes,
        "split": None if split is None else [len(split[part]) for part in ("train", "val", "test")],
        "share": propagation.renormalized(graph.adjacency).nnz / cells,
    }
    if high_order:
        facts["share_high_order"] = propagation.high_order(graph.adjacency).nnz / cells
    return facts


def _details(graph: Graph) -> dict[str, Any]:
    import numpy as np
    from scipy import sparse

    from fishergcn.graph import known_nodes

    degrees = np.diff(graph.adjacency.indptr) - (graph.adjacency.diagonal() != 0)  # links to other nodes
    measures: dict[str, Any] = {"min": np.min, "median": np.median, "max": np.max}
    known = known_nodes(graph)
    members: list[int] = []
    if graph.labels is not None:
        members = np.bincount(graph.labels[known], minlength=graph.num_classes).tolist()
    elif graph.targets is not None and graph.task == "multilabel":
        members = (graph.targets[known] > 0).sum(axis=0).tolist()
    weights = graph.adjacency.data
    entries = 0 if graph.features is None else sparse.csr_array(graph.features).count_nonzero()
    return {
        "feature_entries": int(entries),
        "labeled_nodes": int(known.sum()),
        "nodes_per_class": members,
        "class_names": list(graph.class_names or ()),
        "weights": {name: float(of(weights)) if weights.size else 1.0 for name, of in measures.items()},
        "largest_degree": int(degrees.max()),
        "isolated_nodes": int((degrees == 0).sum()),
        "sha256": graph.digest,
    }


def _shown(value: Any) -> str:
    if isinstance(value, dict):  # weights
        if value["min"] == value["max"]:
            return f"all {value['min']:g}"
        return f"{value['min']:g} to {value['max']:g}, median {value['median']:g}"
    if isinstance(value, float):
        return f"{100 * value:.4f} % of the propagation matrix"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "-"
    return f"{value:,}" if isinstance(value, int) else "-" if value is None else str(value)
