"""``fishergcn geometry distance``: how far apart two graphs on the same nodes are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, print_json
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.geometry import intrinsic
    from fishergcn.graph import Graph


@dataclass(frozen=True)
class DistanceOptions:
    """How two graphs are compared."""

    laplacian: Literal["renormalized", "high-order", "normalized", "combinatorial"] = shared.option(
        "Which Laplacian to use.", default="renormalized"
    )
    rank: int = shared.option("How many of the largest eigenvalues to compare.", default=10)
    compute: Literal["auto", "exact", "estimate"] = shared.option(
        "exact uses dense matrices; estimate gives an error bar; auto is exact up to 6000 nodes.", default="auto"
    )
    unit: int = shared.option(
        "How many single links to remove to express the distance in links; 0 to skip.", default=60
    )
    json: shared.Json = False


@shared.takes_options()
def distance(
    a: shared.GraphName,
    b: Annotated[str, typer.Argument(help="Another graph on the same nodes.", metavar="OTHER")],
    options: DistanceOptions,
) -> None:
    """Compare two graphs on the same nodes: Bures distance, entropies, largest eigenvalues."""
    from fishergcn._base.checks import check_integer
    from fishergcn.geometry import intrinsic

    graphs = [load_graph(a), load_graph(b)]
    _check_same_nodes(graphs, [a, b])
    check_integer("rank", options.rank, minimum=1, maximum=graphs[0].num_nodes)
    check_integer("unit", options.unit, minimum=0)
    laplacians = [intrinsic.graph_laplacian(graph.adjacency, options.laplacian) for graph in graphs]
    large = graphs[0].num_nodes > intrinsic.DENSE_LIMIT
    estimated = options.compute == "estimate" or (options.compute == "auto" and large)
    densities = [intrinsic.density_matrix(matrix) for matrix in laplacians]
    if estimated:
        found = intrinsic.estimate_fidelity(graphs[0].adjacency, graphs[1].adjacency, options.laplacian)
        facts = _estimated(found, laplacians, densities, options.rank)
    else:
        facts = _exact(densities, options.rank)
    traces = [float(matrix.trace()) for matrix in laplacians]
    facts["top_eigenvalues"] = [
        [trace * value for value in values] for trace, values in zip(traces, facts["top_eigenvalues"], strict=True)
    ]
    facts = {
        "laplacian": options.laplacian,
        "links": [graph.num_links for graph in graphs],
        "components": [graph.num_components for graph in graphs],
        "trace": traces,
        **facts,
    }
    if options.unit and options.laplacian != "high-order" and graphs[0].num_links > 1:
        facts["link_distance"] = intrinsic.link_distance(graphs[0].adjacency, options.laplacian, links=options.unit)
        facts["distance_in_links"] = facts["distance"] / facts["link_distance"]
    if options.json:
        print_json(facts)
    else:
        _show(a, b, facts)


def _exact(densities: list[Any], rank: int) -> dict[str, Any]:
    from fishergcn.geometry import intrinsic

    chord = intrinsic.bures_distance(*densities)
    return {
        "method": "dense",
        "distance": chord,
        "fidelity": 1 - chord**2 / 2,
        "entropy": [intrinsic.von_neumann_entropy(rho) for rho in densities],
        "top_eigenvalues": [intrinsic.density_spectrum(rho)[:rank].tolist() for rho in densities],
    }


def _estimated(
    found: intrinsic.FidelityEstimate, laplacians: list[Any], densities: list[Any], rank: int
) -> dict[str, Any]:
    from fishergcn.geometry import intrinsic

    projections = [intrinsic.rank_projection(rho, rank) for rho in densities]
    return {
        "method": found.method,
        "distance": found.distance,
        "distance_interval": list(found.distance_interval),
        "fidelity": found.fidelity,
        "standard_error": found.standard_error,
        "bias": found.bias,
        "entropy": [intrinsic.estimate_entropy(matrix).value for matrix in laplacians],
        "top_eigenvalues": [(each.captured_mass * each.eigenvalues).tolist() for each in projections],
    }


def _check_same_nodes(graphs: list[Graph], names: list[str]) -> None:
    first, second = graphs
    if first.num_nodes != second.num_nodes:
        raise InputError(
            f"A and B must be graphs on the same nodes, but {names[0]} has {first.num_nodes} "
            f"and {names[1]} has {second.num_nodes}."
        )
    if first.node_ids is not None and second.node_ids is not None and first.node_ids != second.node_ids:
        pairs = zip(first.node_ids, second.node_ids, strict=True)
        position, (one, other) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
        raise InputError(
            f"A and B must be graphs on the same nodes in the same order, but node {position} is {one!r} "
            f"in {names[0]} and {other!r} in {names[1]}."
        )


def _show(a: str, b: str, facts: dict[str, Any]) -> None:
    formats = {"links": ",", "components": ",", "trace": ".6f", "entropy": ".6f"}
    rows = [
        [key, *(format(value, shown) for value in facts[key]), format(facts[key][1] - facts[key][0], f"+{shown}")]
        for key, shown in formats.items()
    ]
    rows += [
        [f"eigenvalue {i + 1} of L", f"{one:.6f}", f"{other:.6f}", f"{other - one:+.6f}"]
        for i, (one, other) in enumerate(zip(*facts["top_eigenvalues"], strict=True))
    ]
    out = console()
    out.print(table(f"{facts['laplacian']} Laplacian", ["", a, b, "change"], rows))
    out.print(f"Bures distance {facts['distance']:.8g} (of at most 1.4142136), root fidelity {facts['fidelity']:.8g}")
    if facts["method"] == "probes":
        low, high = facts["distance_interval"]
        out.print(f"Both are estimates: the distance lies between {low:.6g} and {high:.6g}.")
    if "distance_in_links" in facts:
        out.print(
            f"That is {facts['distance_in_links']:.3g} times the effect of removing one typical link from {a} "
            f"({facts['link_distance']:.4g})."
        )
