"""``fishergcn spectrum``: the top of a graph's Laplacian spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, print_json

if TYPE_CHECKING:
    from fishergcn.spectrum import Spectrum


@dataclass(frozen=True)
class SpectrumOptions:
    """Which part of which spectrum is computed."""

    rank: int = shared.option("How many eigenpairs to compute.", default=10)
    high_order: bool = shared.option("Use the high-order propagation matrix.", "--high-order", default=False)
    order: int = shared.option("Longest walk T of the high-order matrix.", default=5)
    threshold: float = shared.option("Threshold ν of the high-order matrix.", default=1e-4)
    component: Literal["largest", "all"] = shared.option(
        "The largest connected component, or all of them.", default="largest"
    )
    seed: int = shared.option("Seed of the solver's starting vector.", default=0)
    plot: shared.Plot = None
    json: shared.Json = False


@shared.takes_options()
def spectrum(graph: shared.GraphName, options: SpectrumOptions) -> None:
    """Show the largest eigenvalues of the Laplacian L = I - Ã and their share of its trace."""
    from fishergcn.drawing import check_picture, draw_spectrum
    from fishergcn.propagation import high_order, renormalized
    from fishergcn.spectrum import top_spectrum

    check_picture(options.plot)
    loaded = load_graph(graph)
    if options.high_order:
        propagation = high_order(loaded.adjacency, order=options.order, threshold=options.threshold)
    else:
        propagation = renormalized(loaded.adjacency)
    found = top_spectrum(propagation, rank=options.rank, seed=options.seed, component=options.component)
    title = f"{loaded.name or graph}, {'high-order' if options.high_order else 'renormalized'} propagation"
    if options.plot is not None:
        draw_spectrum(title, found.eigenvalues).save(options.plot)
    if options.json:
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
    if options.plot is not None:
        out.print(f"plot: {options.plot}")


def _facts(found: Spectrum) -> dict[str, Any]:
    return {
        "eigenvalues": found.eigenvalues.tolist(),
        "trace": found.trace,
        "captured_mass": found.captured_mass,
        "residual": found.residual,
    }
