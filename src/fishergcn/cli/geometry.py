"""``fishergcn geometry``: how far apart graphs are, how far perturbations move one, how a model responds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli import geometry_distance, geometry_embed, geometry_fisher, geometry_links
from fishergcn.cli._common import load_graph, print_json
from fishergcn.cli._help import Command, Group

if TYPE_CHECKING:
    from fishergcn._base.types import FloatArray
    from fishergcn.perturbation import Neighborhood

app = typer.Typer(
    cls=Group, help="Measure and compare graphs, and how a model depends on its graph.", no_args_is_help=True
)
app.command(name="distance", cls=Command)(geometry_distance.distance)
app.command(name="fisher", cls=Command)(geometry_fisher.fisher)
app.command(name="links", cls=Command)(geometry_links.links)
app.command(name="embed", cls=Command)(geometry_embed.embed)

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@app.command(cls=Command)
def neighborhood(
    name: shared.GraphName,
    rank: Annotated[int, typer.Option(help="Number of directions k.")] = 10,
    radius: Annotated[float, typer.Option(help="Radius ε of the perturbation.")] = 0.1,
    samples: Annotated[int, typer.Option(help="How many perturbations to sample.")] = 1000,
    noise: Annotated[
        Literal["uniform", "gaussian"], typer.Option(help="Distribution of the perturbations.")
    ] = "uniform",
    high_order: Annotated[bool, typer.Option("--high-order", help="Use the high-order propagation matrix.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the samples and of the eigensolver.")] = 0,
    plot: shared.Plot = None,
    json: shared.Json = False,
) -> None:
    """Sample perturbations of a graph and show how far they move it."""
    from fishergcn import propagation
    from fishergcn.drawing import check_picture, draw_distances
    from fishergcn.perturbation import Neighborhood

    check_picture(plot)
    graph = load_graph(name)
    propagate = propagation.high_order if high_order else propagation.renormalized
    around = Neighborhood(propagate(graph.adjacency), rank=rank, radius=radius, noise=noise, seed=seed)
    phi = around.sample(samples)
    distances: FloatArray = around.distance(phi).numpy()
    facts = _neighborhood_facts(around, distances, around.perturbed_eigenvalues(phi).numpy())
    title = f"{graph.name or name}, {'high-order' if high_order else 'renormalized'}, k = {rank}, ε = {radius:g}"
    if plot is not None:
        draw_distances(title, distances).save(plot)
    if json:
        print_json(facts)
        return
    out = console()
    rows = [[key.replace("_", " "), f"{value:.6g}"] for key, value in facts.items()]
    out.print(table(title, ["", "value"], rows))
    out.print("Bures distance between the perturbed and the original graph:")
    for line in histogram_lines(distances):
        out.print(line)
    if plot is not None:
        out.print(f"plot: {plot}")


def histogram_lines(values: FloatArray, bins: int = 16, width: int = 50) -> list[str]:
    """Return a histogram as lines of text, one a bin: lower edge, bar, count."""
    import numpy as np

    if np.ptp(values) <= 1e-12 * np.abs(values).max(initial=0.0):
        return [f"{values[0]:10.4g} | {'#' * width} {len(values)}"]
    counts, edges = np.histogram(values, bins=bins)
    longest = counts.max()
    return [
        f"{edge:10.4g} | {'#' * round(width * count / longest):<{width}} {count}"
        for edge, count in zip(edges[:-1], counts, strict=True)
    ]


def _neighborhood_facts(around: Neighborhood, distances: FloatArray, eigenvalues: FloatArray) -> dict[str, float]:
    import numpy as np

    quantiles = np.quantile(distances, _QUANTILES)
    return {
        "samples": len(distances),
        "captured_mass": around.captured_mass,
        "distance_mean": float(distances.mean()),
        **{f"distance_{q:.0%}": float(value) for q, value in zip(_QUANTILES, quantiles, strict=True)},
        "distance_largest": float(distances.max()),
        "smallest_eigenvalue_before": float(around.spectrum.eigenvalues.min()),
        "smallest_eigenvalue_after": float(eigenvalues.min()),
        "largest_eigenvalue_before": float(around.spectrum.eigenvalues.max()),
        "largest_eigenvalue_after": float(eigenvalues.max()),
    }
