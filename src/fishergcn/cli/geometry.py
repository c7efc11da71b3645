"""``fishergcn geometry``: how far apart graphs are, how far perturbations move one, how a model responds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from fishergcn._base.terminal import console, table
from fishergcn._settings.choices import Noise
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


@dataclass(frozen=True)
class NeighborhoodOptions:
    """Which neighborhood is sampled."""

    rank: int = shared.option("Number of directions k.", default=10)
    radius: float = shared.option("Radius ε of the perturbation.", default=0.1)
    samples: int = shared.option("How many perturbations to sample.", default=1000)
    noise: Noise = shared.option("Distribution of the perturbations.", default="uniform")
    high_order: bool = shared.option("Use the high-order propagation matrix.", "--high-order", default=False)
    seed: int = shared.option("Seed of the samples and of the eigensolver.", default=0)
    plot: shared.Plot = None
    json: shared.Json = False


@app.command(cls=Command)
@shared.takes_options()
def neighborhood(name: shared.GraphName, options: NeighborhoodOptions) -> None:
    """Sample perturbations of a graph and show how far they move it."""
    from fishergcn import propagation
    from fishergcn.drawing import check_picture, draw_distances
    from fishergcn.perturbation import Neighborhood

    check_picture(options.plot)
    graph = load_graph(name)
    propagate = propagation.high_order if options.high_order else propagation.renormalized
    around = Neighborhood(
        propagate(graph.adjacency), rank=options.rank, radius=options.radius, noise=options.noise, seed=options.seed
    )
    phi = around.sample(options.samples)
    distances: FloatArray = around.distance(phi).numpy()
    facts = _neighborhood_facts(around, distances, around.perturbed_eigenvalues(phi).numpy())
    kind = "high-order" if options.high_order else "renormalized"
    title = f"{graph.name or name}, {kind}, k = {options.rank}, ε = {options.radius:g}"
    if options.plot is not None:
        draw_distances(title, distances).save(options.plot)
    if options.json:
        print_json(facts)
        return
    out = console()
    rows = [[key.replace("_", " "), f"{value:.6g}"] for key, value in facts.items()]
    out.print(table(title, ["", "value"], rows))
    out.print("Bures distance between the perturbed and the original graph:")
    for line in histogram_lines(distances):
        out.print(line)
    if options.plot is not None:
        out.print(f"plot: {options.plot}")


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
