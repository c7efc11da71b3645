"""``fishergcn geometry distance``: how far apart two graphs on the same nodes are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, print_json


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
    from fishergcn.geometry import intrinsic

    graphs = (load_graph(a), load_graph(b))
    wanted: dict[str, Any] = {"compute": options.compute, "rank": options.rank, "links": options.unit}
    found = intrinsic.compare_graphs(*graphs, options.laplacian, **wanted)
    facts: dict[str, Any] = {
        "laplacian": options.laplacian,
        "links": [graph.num_links for graph in graphs],
        "components": [graph.num_components for graph in graphs],
        "trace": found.traces,
        "method": found.distance.method,
        "distance": found.distance.distance,
        "fidelity": found.distance.fidelity,
        "entropy": found.entropies,
        "top_eigenvalues": found.eigenvalues,
    }
    if found.distance.method != "dense":
        facts |= {
            "distance_interval": found.distance.distance_interval,
            "standard_error": found.distance.standard_error,
            "bias": found.distance.bias,
        }
    if found.link_distance is not None:
        facts["link_distance"] = found.link_distance
        facts["distance_in_links"] = found.distance.distance / found.link_distance
    if options.json:
        print_json(facts)
    else:
        _show(a, b, facts)


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
