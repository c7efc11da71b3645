"""How the commands of ``fishergcn graphs`` read their graphs, and where they keep what they find."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fishergcn._base.files import without_links
from fishergcn._base.terminal import console, note, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json, tell_of_report, warnings_as_notes
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.geometry.statistics import Distances, GraphCollection

SHOWN = 12  # rows and columns of a matrix on a terminal
KEPT = "distances that were found are kept in --out, and the same command continues."
_data = partial(shared.option, panel="Data")
_column = partial(_data, metavar="NAME|NUMBER")
_run = partial(shared.option, panel="Computation")
Source = Annotated[
    Path,
    typer.Argument(
        help="A folder of graph files (.npz, or tables of links), or one table of links with a column that says of "
        "which graph each is: a time or a name.",
        metavar="GRAPHS",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the results, also of other commands on the same graphs; fishergcn report makes a page of it. "
        "Distances that are there already are not computed again.",
        metavar="DIR",
    ),
]


@dataclass(frozen=True)
class Reading:
    """How graphs are read."""

    by: str | None = _column(
        "Column that says of which graph a link is; by default one called time, graph or the like."
    )
    source: str | None = _column("Column with one end of a link.")
    target: str | None = _column("Column with the other end.")
    weight: str | None = _column("Column with the weight; none for links without weights.")
    every: str | None = _data(
        "Put times together: day, week, month or year of dates (or of seconds since 1970), or a number.", metavar="SPAN"
    )
    empty: Literal["refuse", "skip"] = _data("What to do with graphs without links.", default="refuse")


@dataclass(frozen=True)
class Measuring:
    """How distances are computed."""

    measure: Literal["bures", "wasserstein", "jensen-shannon", "entropy"] = _run(
        "How graphs are compared: by their density matrices, or (wasserstein) with their sums of weights.",
        default="bures",
    )
    geometry: Literal["laplacian", "pseudoinverse"] = _run(
        "Which density matrix stands for a graph: that of L, or of its pseudo-inverse.", default="laplacian"
    )
    laplacian: Literal["combinatorial", "normalized", "renormalized"] = _run(
        "Which Laplacian.", default="combinatorial"
    )
    workers: int | None = shared.workers_option(panel="Computation")


@dataclass(frozen=True)
class Kept:
    """Where results go."""

    out: Out = None
    json: shared.Json = False


@dataclass(frozen=True)
class GraphOptions:
    """What the commands have in common."""

    reading: Reading = field(default_factory=Reading)
    measuring: Measuring = field(default_factory=Measuring)
    kept: Kept = field(default_factory=Kept)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that results depend on."""
        return {name: getattr(self.measuring, name) for name in ("measure", "geometry", "laplacian")}

    def distances(self, graphs: GraphCollection) -> Distances:
        """Compute all distances and keep them for the page; what is in the folder of results already stays."""
        from fishergcn.geometry import statistics

        folder = None if self.kept.out is None else without_links(self.kept.out / "distances", self.kept.out)
        found = statistics.pairwise(graphs, **self.settings, workers=self.measuring.workers, folder=folder)  # type: ignore[arg-type]
        if self.kept.out is not None:
            statistics.keep_results(self.kept.out, graphs, self.settings, "distances", distance_facts(found))
        return found

    def need_bures(self, command: str) -> None:
        """Refuse other measures where there is a geometry of Bures distances alone."""
        if self.measuring.measure != "bures":
            raise InputError(f"--measure must be bures for {command}, got {self.measuring.measure}.")

    def keep(self, graphs: GraphCollection, part: str, facts: Any) -> bool:
        """Keep a part of the results, print it as JSON if that is asked for, and return whether to print it at all."""
        from fishergcn.geometry import statistics

        if self.kept.out is not None:
            statistics.keep_results(self.kept.out, graphs, self.settings, part, facts)
        if self.kept.json:
            print_json(facts)
            return False
        return True

    def tell(self) -> None:
        """Say how to get a page of the results."""
        if self.kept.out is not None:
            tell_of_report(self.kept.out)


def load_graphs(path: Path, reading: Reading, *, in_time: bool = False) -> GraphCollection:
    """Read and match the graphs; ``in_time`` says that their order matters."""
    from fishergcn.geometry.statistics import GraphCollection
    from fishergcn.graph import read_graphs

    with warnings_as_notes():
        found = read_graphs(path, **vars(reading))
    if in_time and found.times is None:
        note("the graphs have names and no times; their order is that of the rows, or of the names of files.")
    return GraphCollection(found.graphs, times=found.times)


def distance_facts(found: Distances) -> dict[str, Any]:
    """Return distances as plain values, with the ends of their intervals."""
    facts = {"names": list(found.names), "method": found.method, "values": found.values.tolist()}
    return facts if found.method == "exact" else {**facts, "low": found.low.tolist(), "high": found.high.tolist()}


def print_matrix(title: str, found: Distances) -> None:
    """Print the distances of the first graphs."""
    some = found.names[:SHOWN]
    rows = [
        [name, *(f"{value:.4f}" for value in row[: len(some)])] for name, row in zip(some, found.values, strict=False)
    ]
    console().print(table(f"{title}, {found.method}", ["", *some], rows))
    if len(found) > SHOWN:
        console().print(f"The first {SHOWN} of {len(found)} graphs; --json prints all.")
