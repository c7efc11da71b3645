"""The top of a graph's spectrum, what of it is perturbed, the shape learned there, and how far moves carry."""

from __future__ import annotations

import numpy as np

from fishergcn._base.text import csv_text
from fishergcn._base.types import FloatArray
from fishergcn.drawing._palette import Look
from fishergcn.drawing._picture import GRID, INK, REST, Picture, bins_of, new_axes

_DIRECTION = "direction, largest eigenvalue first"


def draw_spectrum(
    title: str, eigenvalues: FloatArray, perturbed: int = 0, look: Look | None = None, name: str = "spectrum"
) -> Picture:
    """Draw the largest eigenvalues of L, descending, the first ``perturbed`` of them in the method's color.

    Examples
    --------
    >>> import numpy as np
    >>> draw_spectrum("a path", np.array([1.5, 1.0, 0.5]), perturbed=1).data.splitlines()
    ['direction,eigenvalue,perturbed', '1,1.5,1', '2,1.0,0', '3,0.5,0']
    """
    index, largest = np.arange(1, eigenvalues.size + 1), float(eigenvalues[0])
    color = REST if look is None else look.color
    with new_axes() as (figure, axes):
        for part, shade, strength in ((slice(perturbed), color, 1.0), (slice(perturbed, None), REST, 0.4)):
            axes.vlines(index[part], 0, eigenvalues[part], color=shade, linewidth=1.0, alpha=strength)
            axes.plot(index[part], eigenvalues[part], "o", color=shade, markersize=4)
        if perturbed:
            axes.axvspan(0.5, perturbed + 0.5, color=color, alpha=0.10, linewidth=0)
            axes.text(0.5 + perturbed / 2, 1.08 * largest, f"{perturbed} perturbed", ha="center", color=INK)
        limits = {"xlim": (0.5, eigenvalues.size + 0.5), "ylim": (0, 1.18 * largest)}
        axes.set(title=title, xlabel=_DIRECTION, ylabel="eigenvalue of L", **limits)
    rows = [[int(i), float(value), int(i <= perturbed)] for i, value in zip(index, eigenvalues, strict=True)]
    label = f"{title}: the {eigenvalues.size} largest eigenvalues, of which {perturbed} are perturbed"
    return Picture(name, label, figure, csv_text(["direction", "eigenvalue", "perturbed"], rows))


def draw_shape(title: str, shapes: FloatArray, radius: float, look: Look, name: str) -> Picture:
    """Draw the learned scale ϕ of each direction, ``shapes`` (runs, k): its mean and the middle 80% of the runs.

    The ``radius`` ε is the most that is allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from fishergcn.drawing import looks
    >>> chosen = looks(["fishergcn"])["fishergcn"]
    >>> draw_shape("cora", np.array([[0.25, 0.5]]), 0.5, chosen, "shape").data.splitlines()
    ['direction,mean,low,high,radius', '1,0.25,0.25,0.25,0.5', '2,0.5,0.5,0.5,0.5']
    """
    middle, (low, high) = shapes.mean(axis=0), np.quantile(shapes, (0.1, 0.9), axis=0)
    index = np.arange(1, shapes.shape[1] + 1)
    with new_axes() as (figure, axes):
        axes.axhline(radius, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.axhline(radius / 2, color=GRID, linewidth=0.8)
        axes.vlines(index, low, high, color=look.color, linewidth=5, alpha=0.3)
        axes.plot(index, middle, "o", color=look.color, markersize=5)
        limits = {"xlim": (0.5, index.size + 0.5), "ylim": (0, 1.18 * radius)}
        axes.set(title=title, xlabel=_DIRECTION, ylabel="scale ϕ", **limits)
        axes.text(index.size + 0.4, 1.03 * radius, f"most allowed, ε = {radius:g}", ha="right", va="bottom")
    rows = [
        [*row, radius] for row in zip(index.tolist(), *(each.tolist() for each in (middle, low, high)), strict=True)
    ]
    label = f"{title}: scale of each of the {index.size} directions, {len(shapes)} runs"
    return Picture(name, label, figure, csv_text(["direction", "mean", "low", "high", "radius"], rows))


def draw_distances(title: str, distances: FloatArray, name: str = "distances") -> Picture:
    """Draw how many perturbations move a graph how far.

    Examples
    --------
    >>> import numpy as np
    >>> draw_distances("Three moves", np.array([0.1, 0.1, 0.3])).data.splitlines()
    ['distance', '0.1', '0.1', '0.3']
    """
    with new_axes(6, 3.5) as (figure, axes):
        axes.hist(distances, bins=bins_of(distances, 40), color=REST)
        axes.set(title=title, xlabel="Bures distance from the graph", ylabel="perturbations")
        axes.grid(axis="y")
    return Picture(name, title, figure, csv_text(["distance"], distances[:, None].tolist()))
