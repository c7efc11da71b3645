"""``fishergcn graphs``: clusters, maps and directions of many graphs, lines through them, and their spectra."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
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
from fishergcn.cli._common import exit_on_interrupt, print_json, warnings_as_notes
from fishergcn.errors import InputError


@dataclass(frozen=True)
class ClusterOptions:
    """How graphs are divided."""

    clusters: int | None = shared.option("How many clusters; by default the number with the largest mean silhouette.")
    around: Literal["auto", "means", "medoids"] = shared.option(
        "What clusters are around: Bures means (up to 6000 linked nodes), or graphs of their own.", default="auto"
    )
    seed: int = shared.option("Seed of the starts.", default=0)
    common: GraphOptions = field(default_factory=GraphOptions)


@shared.takes_options()
def cluster(path: Source, options: ClusterOptions) -> None:
    """Divide the graphs into clusters of graphs that are close to each other.

    For example: fishergcn graphs cluster brains/ --clusters 3 --out results
    """
    from fishergcn.geometry import statistics

    graphs = load_graphs(path, options.common.reading)
    measuring = options.common.measuring
    around = options.around
    if around == "auto":
        around = "medoids" if measuring.measure != "bures" else "auto"
    if around == "means" and measuring.measure != "bures":
        raise InputError(f"--around must be medoids with --measure {measuring.measure}, got means: it has no means.")
    with exit_on_interrupt(KEPT):
        matrix = options.common.distances(graphs)
    if around == "auto":
        around = "medoids" if matrix.method == "estimate" else "means"
    chosen: dict[str, Any] = {"geometry": measuring.geometry, "laplacian": measuring.laplacian, "seed": options.seed}
    found = statistics.cluster(graphs, options.clusters, around=around, distances=matrix, **chosen)
    facts = {
        "labels": [int(each) + 1 for each in found.labels],
        "central": [graphs.names[at] for at in found.medoids],
        "distances": found.distances.tolist(),
        "silhouettes": found.silhouettes.tolist(),
        "silhouette": found.silhouette,
        "stable": found.stable.tolist(),
        "objective": found.objective,
        "around": found.method,
    }
    if not options.common.keep(graphs, "cluster", facts):
        return
    rows = []
    for label in range(found.number):
        members = [name for name, each in zip(graphs.names, found.labels, strict=True) if each == label]
        more = f", … ({len(members) - SHOWN} more)" if len(members) > SHOWN else ""
        rows.append([str(label + 1), str(len(members)), facts["central"][label], ", ".join(members[:SHOWN]) + more])
    title = f"{found.number} clusters around {found.method}, mean silhouette {found.silhouette:.3f}"
    console().print(table(title, ["cluster", "graphs", "most central", "members"], rows))
    loose = [f"{name} ({share:.0%})" for name, share in zip(graphs.names, found.stable, strict=True) if share < 1]
    if loose:
        words = f"{len(loose)} graphs" if len(loose) > SHOWN else ", ".join(loose)
        console().print(f"Within the error bars of the distances, other clusters are possible: {words}.")
    options.common.tell()


@dataclass(frozen=True)
class EmbedOptions:
    """How graphs become points."""

    dimensions: int | None = shared.option("How many coordinates; by default 2, or 1 of two graphs.")
    plot: shared.Plot = None
    common: GraphOptions = field(default_factory=GraphOptions)


@shared.takes_options()
def embed(path: Source, options: EmbedOptions) -> None:
    """Place the graphs as points by classical scaling of their distances: a map of them.

    For example: fishergcn graphs embed networks/ --plot map.svg
    """
    from fishergcn.drawing import check_picture, draw_map
    from fishergcn.geometry import statistics

    check_picture(options.plot)
    graphs = load_graphs(path, options.common.reading)
    with exit_on_interrupt(KEPT):
        matrix = options.common.distances(graphs)
    dimensions = min(2, len(graphs) - 1) if options.dimensions is None else options.dimensions
    found = statistics.embed(matrix, dimensions)
    facts = {
        "names": list(graphs.names),
        "coordinates": found.coordinates.tolist(),
        "shares": found.shares.tolist(),
        "eigenvalues": found.eigenvalues.tolist(),
        "error": found.error,
        "spreads": found.spreads.tolist(),
    }
    if options.plot is not None:
        if dimensions < 2:
            raise InputError(f"--dimensions must be at least 2 with --plot, got {dimensions}.")
        draw_map(found.coordinates, graphs.names).save(options.plot)
    if not options.common.keep(graphs, "embed", facts):
        return
    heads = [f"dimension {at + 1} ({share:.0%})" for at, share in enumerate(found.shares)]
    rows = [[name, *(f"{each:.4f}" for each in row)] for name, row in zip(graphs.names, found.coordinates, strict=True)]
    console().print(table("Coordinates", ["graph", *heads], rows))
    if found.error > 0:
        console().print(f"Error bars of the distances move graphs by up to {found.spreads.max():.2g}.")
    options.common.tell()


@dataclass(frozen=True)
class PcaOptions:
    """How many components."""

    components: int | None = shared.option("How many components; by default 2, or 1 of two graphs.")
    common: GraphOptions = field(default_factory=GraphOptions)


@shared.takes_options()
def pca(path: Source, options: PcaOptions) -> None:
    """Find the main directions in which the graphs differ from their mean, as changes of links.

    For example: fishergcn graphs pca brains/ --components 3 --out results
    """
    from fishergcn.geometry import statistics

    graphs = load_graphs(path, options.common.reading)
    options.common.need_bures("pca")
    chosen: dict[str, Any] = {name: options.common.settings[name] for name in ("geometry", "laplacian")}
    components = min(2, max(1, len(graphs) - 1)) if options.components is None else options.components
    found = statistics.tangent_pca(graphs, components=components, **chosen)
    facts = statistics.pca_facts(found, graphs)
    if not options.common.keep(graphs, "pca", facts):
        return
    for at, each in enumerate(facts["components"]):
        title = f"Component {at + 1}, {each['share']:.1%} of the variance"
        console().print(_links(title, each["links"], "weight at the mean", "a standard deviation on"))
    options.common.tell()


@dataclass(frozen=True)
class LineOptions:
    """How the line is tested."""

    permutations: int = shared.option("How many random orders of the times.", default=999)
    seed: int = shared.option("Seed of the orders.", default=0)
    common: GraphOptions = field(default_factory=GraphOptions)


@shared.takes_options()
def line(path: Source, options: LineOptions) -> None:
    """Fit a line in time to the graphs: the closest geodesic, and the links that change along it.

    For example: fishergcn graphs line trade.csv --by year --out results
    """
    from fishergcn.geometry import statistics

    graphs = load_graphs(path, options.common.reading)
    options.common.need_bures("line")
    chosen: dict[str, Any] = {name: options.common.settings[name] for name in ("geometry", "laplacian")}
    found = statistics.geodesic_regression(graphs, permutations=options.permutations, seed=options.seed, **chosen)
    facts = statistics.line_facts(found, graphs)
    if not options.common.keep(graphs, "line", facts):
        return
    title = f"Links that change most along the line, over {facts['span']:g} units of time"
    console().print(_links(title, facts["links"], "weight at the first time", "at the last"))
    words = f"The line explains {found.explained:.1%} of the variance, p = {found.p_value:.3g}"
    console().print(f"{words}; its speed is {found.speed:.4g} (Bures angle a unit of time).")
    options.common.tell()


def _links(title: str, rows: list[dict[str, Any]], *ends: str) -> Any:
    cells = [[each["node"], each["other"], f"{each['before']:.4g}", f"{each['after']:.4g}"] for each in rows[:SHOWN]]
    return table(title, ["node", "other", *ends], cells)


@dataclass(frozen=True)
class SpectraOptions:
    """How spectra are compared."""

    reading: Reading = field(default_factory=Reading)
    geometry: Literal["laplacian", "pseudoinverse"] = shared.option("Which density matrix.", default="laplacian")
    laplacian: Literal["combinatorial", "normalized", "renormalized"] = shared.option(
        "Which Laplacian.", default="combinatorial"
    )
    probes: int = shared.option("Random probes of estimated spectra.", default=8)
    steps: int = shared.option("Lanczos steps of each.", default=160)
    seed: int = shared.option("Seed of the probes.", default=0)
    json: shared.Json = False


@shared.takes_options()
def spectra(path: Source, options: SpectraOptions) -> None:
    """Compare graphs on different nodes, of any sizes, by their sorted spectra alone.

    For example: fishergcn graphs spectra molecules/ --laplacian normalized --json
    """
    from fishergcn.geometry import statistics
    from fishergcn.graph import read_graphs

    with warnings_as_notes():
        graphs = read_graphs(path, **vars(options.reading)).graphs
    chosen: dict[str, Any] = {
        name: getattr(options, name) for name in ("geometry", "laplacian", "probes", "steps", "seed")
    }
    found = statistics.spectral_distance(graphs, **chosen)
    facts = distance_facts(found)
    if options.json:
        print_json(facts)
    else:
        print_matrix("distances of spectra", found)
