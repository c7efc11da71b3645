"""The top of a graph's spectrum, what of it is perturbed, the shape learned there, and bars that count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fishergcn._base.text import csv_text
from fishergcn._base.types import FloatArray
from fishergcn.drawing._chart import Chart
from fishergcn.drawing._marks import Layer, Panel
from fishergcn.drawing._palette import Look


def draw_spectrum(
    title: str, eigenvalues: FloatArray, perturbed: int = 0, look: Look | None = None, name: str = "spectrum"
) -> Chart:
    """Draw the largest eigenvalues of L, descending, the first ``perturbed`` of them in the method's color.

    Examples
    --------
    >>> import numpy as np
    >>> draw_spectrum("a path", np.array([1.5, 1.0, 0.5]), perturbed=1).data.splitlines()
    ['direction,eigenvalue,perturbed', '1,1.5,1', '2,1.0,0', '3,0.5,0']
    """
    places, values = list(range(1, eigenvalues.size + 1)), eigenvalues.tolist()
    layers = []
    for part, color, words in (
        (slice(perturbed), "main" if look is None else look.color, "perturbed"),
        (slice(perturbed, None), "rest", "left as it is"),
    ):
        x, y = places[part], values[part]
        text = [
            f"direction {place}\neigenvalue {value:.4g}" + f"\n{words}" * bool(perturbed)
            for place, value in zip(x, y, strict=True)
        ]
        layers += [Layer("stem", x=x, y=y, color=color, text=text), Layer("dot", x=x, y=y, color=color, text=text)]
    if perturbed:
        layers.append(Layer("text", x=[(perturbed + 1) / 2], y=[values[0]], text=[f"{perturbed} perturbed"]))
    panel = _over_directions(title, "eigenvalue of the Laplacian", layers, places, values[0])
    rows = [[place, value, int(place <= perturbed)] for place, value in zip(places, values, strict=True)]
    label = f"{title}: the {eigenvalues.size} largest eigenvalues, of which {perturbed} are perturbed"
    return Chart(name, label, [panel], data=csv_text(["direction", "eigenvalue", "perturbed"], rows))


def draw_shape(title: str, shapes: FloatArray, radius: float, look: Look, name: str) -> Chart:
    """Draw the learned scale ϕ of each direction, ``shapes`` (runs, k): its mean and the middle 80% of the runs.

    The ``radius`` ε is the most that is allowed.
    """
    quantiles = np.quantile(shapes, (0.1, 0.9), axis=0)
    middle, low, high = (each.tolist() for each in (shapes.mean(axis=0), *quantiles))
    places = list(range(1, shapes.shape[1] + 1))
    text = [
        f"direction {place}\nmean scale {value:.4g} of at most {radius:g}"
        for place, value in zip(places, middle, strict=True)
    ]
    layers = [
        Layer("rule", axis="y", at=radius, dash=[4, 3]),
        Layer("rule", axis="y", at=radius / 2, opacity=0.3),
        Layer("rangeY", x=places, low=low, high=high, color=look.color, size=5, opacity=0.35),
        Layer("dot", x=places, y=middle, color=look.color, size=5, text=text),
        Layer("text", x=[(len(places) + 1) / 2], y=[radius], text=[f"most allowed, ε = {radius:g}"]),
    ]
    panel = _over_directions(title, "strength of the perturbation, ϕ", layers, places, radius)
    rows = [[*row, radius] for row in zip(places, middle, low, high, strict=True)]
    label = f"{title}: scale of each of the {len(places)} directions, {len(shapes)} runs"
    return Chart(name, label, [panel], data=csv_text(["direction", "mean", "low", "high", "radius"], rows))


def _over_directions(title: str, y: str, layers: Sequence[Layer], places: Sequence[int], top: float) -> Panel:
    ticks = places if len(places) <= 12 else places[:: -(-len(places) // 12)]  # by itself an axis may have fractions
    return Panel(title, "direction, fastest-varying pattern first", y, layers, x_domain=(0.4, len(places) + 0.6),
                 y_domain=(0, 1.18 * top), x_ticks=ticks)  # fmt: skip


def draw_bars(
    title: str,
    edges: Sequence[float] | FloatArray,
    counts: npt.ArrayLike,
    name: str,
    *,
    x: str,
    y: str,
    label: str = "",
    text: Sequence[str] | None = None,
    x_ticks: Sequence[float] = (),
    log: bool = False,
    data: str = "",
) -> Chart:
    """Draw how many there are between each edge and the next; x may have a logarithmic scale."""
    layer = Layer("rect", x=edges[:-1], x2=edges[1:], y=np.asarray(counts).tolist(), color="main", text=text)
    panel = Panel(title, x, y, [layer], log="x" if log else "", x_ticks=x_ticks)
    return Chart(name, label or title, [panel], data=data)


def draw_distances(title: str, distances: FloatArray, name: str = "distances") -> Chart:
    """Draw how many perturbations move a graph how far.

    Examples
    --------
    >>> import numpy as np
    >>> draw_distances("Three moves", np.array([0.1, 0.1, 0.3])).data.splitlines()
    ['distance', '0.1', '0.1', '0.3']
    """
    edges = bins_of(distances, 40)
    data = csv_text(["distance"], distances[:, None].tolist())
    return draw_bars(title, edges, np.histogram(distances, edges)[0], name, x="Bures distance from the graph",
                     y="perturbations", data=data)  # fmt: skip


def bins_of(values: npt.ArrayLike, most: int) -> FloatArray:
    """Return the edges of a histogram's bins: one bin where the values differ by no more than rounding."""
    numbers = np.asarray(values, dtype=np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    if high / 2 - low / 2 > 1e-12 * max(abs(low), abs(high)):  # halves, since the difference may overflow
        return np.linspace(low / 2, high / 2, most + 1) * 2
    half = max(abs(low) / 2, 1.0)
    return np.array([low - half, high + half])
