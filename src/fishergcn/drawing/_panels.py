"""Curves with intervals in several panels that share their lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fishergcn._base.text import csv_text
from fishergcn.drawing._curves import draw_band
from fishergcn.drawing._palette import Look
from fishergcn.drawing._picture import INK, Picture, new_axes
from fishergcn.studies import Estimate

_COLUMNS = 3


def draw_panels(
    label: str,
    panels: Mapping[tuple[str, str], Mapping[str, Sequence[tuple[float, Estimate]]]],
    looks: Mapping[str, Look],
    name: str,
    *,
    ylabel: str,
    zero: bool = False,
) -> Picture:
    """Draw curves of fractions, in percent, with their intervals as bands, and a line at ``zero`` if asked for.

    Each panel has a title and a label for its axis, and curves by name, with (place, value) of each point.

    Examples
    --------
    >>> from fishergcn.drawing import looks
    >>> from fishergcn.studies import estimate
    >>> found = [(level, estimate({("a", 1): 0.8 - level, ("b", 1): 0.8 - level})) for level in (0.0, 0.5)]
    >>> panels = {("links added", "share of the links"): {"gcn": found}}
    >>> draw_panels("Robustness", panels, looks(["gcn"]), "robustness", ylabel="accuracy, %").data.splitlines()[0]
    'panel,curve,place,value,low,high'
    """
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    with new_axes(3.3 * columns, 2.6 * rows + 0.4, rows, columns, squeeze=False) as (figure, every):
        figure.get_layout_engine().set(wspace=0.06, hspace=0.08)
        for axes, ((title, xlabel), curves) in zip(every.ravel(), panels.items(), strict=False):
            for curve, points in curves.items():
                places, look = [place for place, _ in points], looks[curve]
                parts = [[100 * getattr(each, part) for _, each in points] for part in ("mean", "low", "high")]
                draw_band(axes, look, places, *parts, label=curve, marker=look.marker, markersize=3.5)
            if zero:
                axes.axhline(0, color=INK, linewidth=0.8)
            axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
            axes.title.set_fontsize(8.5)
            axes.grid(axis="y")
        for axes in every.ravel()[len(panels) :]:
            axes.set_visible(False)
        handles, labels = every[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
    data = [
        [title, curve, place, each.mean, each.low, each.high]
        for (title, _), curves in panels.items()
        for curve, points in curves.items()
        for place, each in points
    ]
    return Picture(name, label, figure, csv_text(["panel", "curve", "place", "value", "low", "high"], data))
