"""Lines with bands: learning curves over epochs, and accuracy as one setting changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fishergcn._base.text import csv_text
from fishergcn.drawing._palette import Look
from fishergcn.drawing._picture import INK, Picture, new_axes
from fishergcn.studies import Band, Estimate


def draw_band(axes: Any, look: Look, places: Any, mean: Any, low: Any, high: Any, **options: Any) -> None:
    """Draw a line over the band that it runs in."""
    dash = (0, look.dash) if look.dash else "-"
    axes.plot(places, mean, color=look.color, linestyle=dash, linewidth=1.4, **options)
    axes.fill_between(places, low, high, color=look.color, alpha=0.13, linewidth=0)


def draw_curves(
    title: str,
    bands: Mapping[str, Band],
    looks: Mapping[str, Look],
    name: str,
    *,
    percent: bool = False,
    most: int | None = None,
) -> Picture:
    """Draw the learning curves of several methods, each by its name in ``bands`` and ``looks``.

    Fractions are shown in ``percent``. No more than the first ``most`` are drawn; the data hold all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from fishergcn.drawing import looks
    >>> from fishergcn.studies import Band
    >>> falling = np.array([1.9, 1.2, 0.9])
    >>> band = Band(falling, falling - 0.1, falling + 0.1, np.array([3, 3, 3]))
    >>> draw_curves("cora: loss", {"gcn": band}, looks(["gcn"]), "loss").data.splitlines()[1]
    'gcn,1,1.9,1.7999999999999998,2.0'
    """
    factor = 100 if percent else 1
    with new_axes() as (figure, axes):
        for method, band in list(bands.items())[:most]:
            look, values = looks[method], [factor * part for part in (band.mean, band.low, band.high)]
            draw_band(axes, look, np.arange(1, band.mean.size + 1), *values, label=method, zorder=3 if look.dash else 2)
        axes.set(title=title, xlabel="epoch", ylabel="%" if percent else "loss")
        axes.grid(axis="y")
        axes.legend(fontsize=7)
    rows = [
        [method, epoch + 1, *(float(part[epoch]) for part in (band.mean, band.low, band.high))]
        for method, band in bands.items()
        for epoch in range(band.mean.size)
    ]
    return Picture(name, title, figure, csv_text(["method", "epoch", "mean", "low", "high"], rows))


def draw_sweep(
    title: str,
    setting: str,
    points: Sequence[tuple[float, Estimate]],
    look: Look,
    control: tuple[str, Estimate, Look] | None,
    name: str,
) -> Picture:
    """Draw accuracy with its interval at each value of a setting, as ``points`` have them.

    The ``control`` (its name, accuracy and look) is a level with its own interval: it has one accuracy for all values.

    Examples
    --------
    >>> from fishergcn.drawing import looks
    >>> from fishergcn.studies import estimate
    >>> points = [(radius, estimate({("a", 1): 0.8, ("b", 1): 0.8 + radius / 10})) for radius in (0.1, 0.2, 0.4)]
    >>> draw_sweep("cora: fishergcn", "radius", points, looks(["fishergcn"])["fishergcn"], None, "sweep").label
    'cora: fishergcn: accuracy for 3 values of radius'
    """
    values = [value for value, _ in points]
    rows: list[list[object]] = [[setting, value, found.mean, found.low, found.high] for value, found in points]
    with new_axes() as (figure, axes):
        if control is not None:
            _draw_level(axes, *control)
            rows.append([control[0], None, control[1].mean, control[1].low, control[1].high])
        low, mean, high = ([100 * getattr(found, part) for _, found in points] for part in ("low", "mean", "high"))
        axes.vlines(values, low, high, color=look.color, linewidth=1.6)
        axes.plot(values, mean, "o-", color=look.color, markersize=5, linewidth=1.4)
        if min(values) > 0 and max(values) > 8 * min(values):
            axes.set_xscale("log")
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
        axes.set(title=title, xlabel=setting, ylabel="test accuracy, %")
        axes.grid(axis="y")
    data = csv_text(["setting", "value", "accuracy", "low", "high"], rows)
    return Picture(name, f"{title}: accuracy for {len(points)} values of {setting}", figure, data)


def _draw_level(axes: Any, name: str, level: Estimate, look: Look) -> None:
    axes.axhspan(100 * level.low, 100 * level.high, color=look.color, alpha=0.13, linewidth=0)
    axes.axhline(100 * level.mean, color=look.color, linewidth=1.4, linestyle=(0, (6, 3)))
    place = {"xycoords": ("axes fraction", "data"), "xytext": (-2, 3), "textcoords": "offset points"}
    axes.annotate(name, (1, 100 * level.mean), ha="right", color=INK, **place)
