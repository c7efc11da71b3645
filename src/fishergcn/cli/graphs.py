"""``fishergcn graphs``: statistics of many graphs on the same named nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from fishergcn._base.terminal import console, note, table
from fishergcn.cli import _options as shared
from fishergcn.cli import graphs_structure
from fishergcn.cli._collections import (
    KEPT,
    SHOWN,
    GraphOptions,
    Reading,
    Source,
    distance_facts,
    load_graphs,
    print_matrix,
)
from fishergcn.cli._common import exit_on_interrupt, print_json
from fishergcn.cli._help import Command, Group
from fishergcn.errors import InputError

app = typer.Typer(
    cls=Group,
    help="Many graphs on the same nodes: distances, means, clusters, tests, changes over time.",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class InfoOptions:
    """How graphs are read and shown."""

    reading: Reading = field(default_factory=Reading)
    json: shared.Json = False


@app.command(cls=Command)
@shared.takes_options()
def info(path: Source, options: InfoOptions) -> None:
    """Show what was read: each graph with its nodes and links.

    For example: fishergcn graphs info messages.csv --by day
    """
    graphs = load_graphs(path, options.reading)
    rows: list[dict[str, Any]] = []
    for place, graph in enumerate(graphs):
        degree: Any = graph.adjacency.sum(axis=1)
        rows.append(
            {
                "graph": graphs.names[place],
                "time": None if graphs.times is None else graphs.times[place],
                "nodes_with_links": int((degree > 0).sum()),
                "links": graph.num_links,
                "weight": float(degree.sum()) / 2,
            }
        )
    if options.json:
        print_json({"nodes": graphs.num_nodes, "graphs": rows})
        return
    cells = [
        [each["graph"], f"{each['nodes_with_links']:,}", f"{each['links']:,}", f"{each['weight']:g}"] for each in rows
    ]
    title = f"{len(rows)} graphs, {graphs.num_nodes:,} nodes in all"
    console().print(table(title, ["graph", "nodes with links", "links", "sum of weights"], cells))


@app.command(cls=Command)
@shared.takes_options()
def distances(path: Source, options: GraphOptions) -> None:
    """Compute the distances of all pairs of graphs.

    With --out, work that was interrupted continues where it stopped.

    For example: fishergcn graphs distances networks/ --workers 2 --out results
    """
    graphs = load_graphs(path, options.reading)
    with exit_on_interrupt(KEPT):
        found = options.distances(graphs)
    if not options.keep(graphs, "distances", distance_facts(found)):
        return
    print_matrix(f"{options.measuring.measure} distances", found)
    options.tell()


@app.command(cls=Command)
@shared.takes_options()
def mean(path: Source, options: GraphOptions) -> None:
    """Find the Bures mean of the graphs: how far each is from it, and its strongest links.

    For example: fishergcn graphs mean brains/ --out results
    """
    from fishergcn.geometry import statistics

    graphs = load_graphs(path, options.reading)
    chosen: dict[str, Any] = {name: options.settings[name] for name in ("geometry", "laplacian")}
    found = statistics.mean(graphs, **chosen)
    facts = statistics.mean_facts(found, graphs)
    if not options.keep(graphs, "mean", facts):
        return
    out = console()
    rows = [[name, f"{value:.4f}"] for name, value in zip(graphs.names, facts["distances"], strict=True)]
    out.print(table("Distance from the mean", ["graph", "distance"], rows))
    links = [[each["node"], each["other"], f"{each['weight']:.4g}"] for each in facts["links"][:SHOWN]]
    out.print(table("Strongest links of the mean", ["node", "other", "weight, of 1 in all"], links))
    out.print(facts["words"], soft_wrap=True)
    options.tell()


@dataclass(frozen=True)
class TestOptions:
    """What graphs are tested against."""

    groups: Path = shared.option(
        "Table with the name of a graph and its group, or a number, in each row.",
        default=shared.REQUIRED,
        metavar="FILE",
    )
    column: str | None = shared.option("Column of --groups; by default the second.", metavar="NAME|NUMBER")
    permutations: int = shared.option("How many permutations, at most.", default=9999)
    seed: int = shared.option("Seed of the permutations.", default=0)
    common: GraphOptions = field(default_factory=GraphOptions)


@app.command(cls=Command)
@shared.takes_options()
def test(path: Source, options: TestOptions) -> None:
    """Test whether two groups of graphs differ, or whether graphs depend on a number or on more than two groups.

    Two groups: a permutation test on the energy statistic of the distances. Anything else: a permutation test on the
    distance correlation.

    For example: fishergcn graphs test brains/ --groups patients.csv --out results
    """
    from fishergcn.geometry import statistics
    from fishergcn.graph import read_covariate

    graphs = load_graphs(path, options.common.reading)
    values = read_covariate(options.groups, graphs.names, options.column)
    if len(set(values)) < 2:
        raise InputError(f"--groups must have at least two different values, got {values[0]!r} for all graphs.")
    with exit_on_interrupt(KEPT):
        matrix = options.common.distances(graphs)
    chosen: dict[str, Any] = {"permutations": options.permutations, "seed": options.seed}
    if len(set(values)) == 2:
        found: Any = statistics.two_sample_test(matrix, values, **chosen)
    else:
        found = statistics.independence(matrix, values, **chosen)
    facts = {**statistics.facts_of_test(found), "words": statistics.words_of_test(found)}
    if not options.common.keep(graphs, "test", facts):
        return
    console().print(statistics.words_of_test(found), soft_wrap=True)
    options.common.tell()


@dataclass(frozen=True)
class ChangeOptions:
    """How changes are found."""

    window: int | None = shared.option(
        "How many graphs before and after a step are compared; by default half of them, at most 10."
    )
    level: float = shared.option("Probability of a mark where nothing changes.", default=0.05)
    permutations: int = shared.option("How many random orders.", default=999)
    seed: int = shared.option("Seed of the orders.", default=0)
    plot: shared.Plot = None
    common: GraphOptions = field(default_factory=GraphOptions)


@app.command(cls=Command)
@shared.takes_options()
def changes(path: Source, options: ChangeOptions) -> None:
    """Find the steps at which a sequence changed, with the nodes and links that account for each.

    For example: fishergcn graphs changes messages.csv --every week --empty skip --out results
    """
    from fishergcn.drawing import check_picture, draw_changes
    from fishergcn.geometry import statistics

    check_picture(options.plot)
    graphs = load_graphs(path, options.common.reading, in_time=True)
    with exit_on_interrupt(KEPT):
        matrix = options.common.distances(graphs)
    chosen: dict[str, Any] = {name: getattr(options, name) for name in ("window", "level", "permutations", "seed")}
    found = statistics.change_points(graphs, distances=matrix, laplacian=options.common.measuring.laplacian, **chosen)
    facts = statistics.change_facts(found, graphs)
    if options.plot is not None:
        draw_changes(facts, graphs.names).save(options.plot)
    if not options.common.keep(graphs, "changes", facts):
        return
    for each in found.notes:
        note(each)
    out = console()
    steps = [each.step for each in found.changes] or found.ranked(5)
    rows = []
    for step in steps:
        made: dict[str, Any] = next((each for each in facts["changes"] if each["step"] == step), {})
        nodes = ", ".join(each["node"] for each in made.get("nodes", ())[:4])
        p_value = "–" if found.p_values[step] != found.p_values[step] else f"{found.p_values[step]:.3g}"
        rows.append([graphs.names[step], str(step), f"{found.sizes[step]:.4f}", p_value, nodes])
    marked = f"{len(found.changes)} change{'s'[: len(found.changes) != 1]} at the level {options.level:g}"
    title = marked if found.changes else f"no change is marked at the level {options.level:g}; most distinct steps"
    title = title if found.level is not None else "most distinct steps; too few graphs for a level"
    heads = ["graph", "step", "changed for good", "p-value", "nodes that account for most"]
    out.print(table(f"{title} (window {found.window})", heads, rows))
    if found.odd:
        out.print(f"Graphs that stand alone: {', '.join(graphs.names[at] for at in found.odd[:SHOWN])}.")
    options.common.tell()


for each in (
    graphs_structure.cluster,
    graphs_structure.embed,
    graphs_structure.pca,
    graphs_structure.line,
    graphs_structure.spectra,
):
    app.command(cls=Command)(each)
