"""``fishergcn spectrum``: the top of a graph's Laplacian spectrum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, print_json

if TYPE_CHECKING:
    from fishergcn.spectrum import Spectrum


def spectrum(
    graph: shared.GraphName,
    rank: Annotated[int, typer.Option(help="How many eigenpairs to compute.")] = 10,
    high_order: Annotated[bool, typer.Option("--high-order", help="Use the high-order propagation matrix.")] = False,
    order: Annotated[int, typer.Option(help="Longest walk T of the high-order matrix.")] = 5,
    threshold: Annotated[float, typer.Option(help="Threshold ν of the high-order matrix.")] = 1e-4,
    component: Annotated[
        Literal["largest", "all"], typer.Option(help="The largest connected component, or all of them.")
    ] = "largest",
    seed: Annotated[int, typer.Option(help="Seed of the solver's starting vector.")] = 0,
    plot: shared.Plot = None,
    json: shared.Json = False,
) -> None:
    """Show the largest eigenvalues of the Laplacian L = I - Ã and their share of its trace."""
    from fishergcn.drawing import check_picture, draw_spectrum
    from fishergcn.propagation import high_order as high_order_of
    from fishergcn.propagation import renormalized
    from fishergcn.spectrum import top_spectrum

    check_picture(plot)
    loaded = load_graph(graph)
    if high_order:
        propagation = high_order_of(loaded.adjacency, order=order, threshold=threshold)
    else:
        propagation = renormalized(loaded.adjacency)
    found = top_spectrum(propagation, rank=rank, seed=seed, component=component)
    title = f"{loaded.name or graph}, {'high-order' if high_order else 'renormalized'} propagation"
    if plot is not None:
        draw_spectrum(title, found.eigenvalues).save(plot)
    if json:
        print_json(_facts(found))
        return
    shares = found.eigenvalues / found.eigenvalues.sum()
    rows = [
        [str(index + 1), f"{value:.8f}", f"{share:.4%}"]
        for index, (value, share) in enumerate(zip(found.eigenvalues, shares, strict=True))
    ]
    out = console()
    out.print(table(title, ["i", "eigenvalue of L", "share of the top"], rows))
    out.print(
        f"trace of L {found.trace:.6f}, captured mass {found.captured_mass:.6f}, relative residual {found.residual:.1e}"
    )
    if plot is not None:
        out.print(f"plot: {plot}")


def _facts(found: Spectrum) -> dict[str, Any]:
    return {
        "eigenvalues": found.eigenvalues.tolist(),
        "trace": found.trace,
        "captured_mass": found.captured_mass,
        "residual": found.residual,
    }
