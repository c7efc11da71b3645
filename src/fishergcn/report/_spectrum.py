"""The top of a graph's spectrum, what of it is perturbed, and the shape that was learned there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fishergcn._base.text import csv_text
from fishergcn._base.types import FloatArray
from fishergcn.drawing import GRID, INK, Look, Picture, new_axes, render
from fishergcn.errors import FisherGCNError
from fishergcn.studies import Cell
from fishergcn.training import RunRecord, parse_method

__all__ = ["draw_shape", "draw_spectrum", "top_eigenvalues"]

# As many eigenvalues are shown as this multiple of those that are perturbed.
SHOWN = 3
_REST = "#9aa2ac"  # a gray that is seen on white and on black


def top_eigenvalues(cell: Cell, digest: str | None) -> FloatArray | None:
    """Return the largest eigenvalues of L = I - Ã of a cell's graph, 3k of them, descending.

    None if the graph does not ship with the package or is not the one with this digest.
    """
    from fishergcn import datasets, high_order, renormalized, top_spectrum

    if cell.dataset not in datasets.available():
        return None
    graph = datasets.load(cell.dataset)
    if digest is not None and graph.digest != digest:
        return None
    if parse_method(cell.method).high_order:
        propagation = high_order(graph.adjacency, order=cell.config.order, threshold=cell.config.threshold)
    else:
        propagation = renormalized(graph.adjacency)
    try:
        return top_spectrum(propagation, rank=SHOWN * cell.config.rank).eigenvalues
    except FisherGCNError:  # fewer nodes than that
        return None


def draw_spectrum(cell: Cell, eigenvalues: FloatArray, look: Look, name: str) -> Picture:
    """Draw the eigenvalues, those of the k perturbed directions in the method's color."""
    rank, index = cell.config.rank, np.arange(1, eigenvalues.size + 1)
    rows = [[int(i), float(value), int(i <= rank)] for i, value in zip(index, eigenvalues, strict=True)]
    with new_axes() as (figure, axes):
        axes.axvspan(0.5, rank + 0.5, color=look.color, alpha=0.10, linewidth=0)
        axes.vlines(index[:rank], 0, eigenvalues[:rank], color=look.color, linewidth=1.0)
        axes.vlines(index[rank:], 0, eigenvalues[rank:], color=_REST, linewidth=1.0, alpha=0.4)
        axes.plot(index[:rank], eigenvalues[:rank], "o", color=look.color, markersize=4)
        axes.plot(index[rank:], eigenvalues[rank:], "o", color=_REST, markersize=4)
        axes.set(
            title=f"{cell.dataset}: spectrum seen by {cell.method}",
            xlabel="direction, largest eigenvalue first",
            ylabel="eigenvalue of L",
            xlim=(0.5, eigenvalues.size + 0.5),
            ylim=(0, 1.18 * float(eigenvalues[0])),
        )
        axes.text(0.5 + rank / 2, 1.08 * float(eigenvalues[0]), f"{rank} perturbed", ha="center", color=INK)
        label = f"The {eigenvalues.size} largest eigenvalues on {cell.dataset}; the first {rank} are perturbed"
        data = csv_text(["direction", "eigenvalue", "perturbed"], rows)
        return render(figure, name, label, data)


def draw_shape(cell: Cell, records: Sequence[RunRecord], look: Look, name: str) -> Picture | None:
    """Draw the learned scale ϕ of each direction over the runs, or return None if nothing was learned."""
    shapes = [record.shape for record in records if len(record.shape) == cell.config.rank]
    if not shapes or not cell.config.adversarial:
        return None
    values, radius = np.array(shapes), cell.config.radius
    middle, (low, high) = values.mean(axis=0), np.quantile(values, (0.1, 0.9), axis=0)
    index = np.arange(1, values.shape[1] + 1)
    columns = ["direction", "mean", "low", "high", "radius"]
    rows = [
        [int(i), float(m), float(lo), float(hi), radius] for i, m, lo, hi in zip(index, middle, low, high, strict=True)
    ]
    with new_axes() as (figure, axes):
        axes.axhline(radius, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.axhline(radius / 2, color=GRID, linewidth=0.8)
        axes.vlines(index, low, high, color=look.color, linewidth=5, alpha=0.3)
        axes.plot(index, middle, "o", color=look.color, markersize=5)
        axes.set(
            title=f"{cell.dataset}: shape learned by {cell.method}",
            xlabel="direction, largest eigenvalue first",
            ylabel="scale ϕ",
            ylim=(0, 1.18 * radius),
            xlim=(0.5, index.size + 0.5),
        )
        axes.text(index.size + 0.4, 1.03 * radius, f"most allowed, ε = {radius:g}", ha="right", va="bottom")
        label = f"Learned scale of each of the {index.size} directions on {cell.dataset}, {len(shapes)} runs"
        return render(figure, name, label, csv_text(columns, rows))
