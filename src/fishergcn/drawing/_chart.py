"""A chart: data with what is said about them, drawn into files by Matplotlib and on pages by their script."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.files import atomic_path
from fishergcn._base.foreign import printable
from fishergcn.drawing._figure import check_picture, write_figure
from fishergcn.drawing._html import Html, data_link, tag
from fishergcn.drawing._marks import Panel, Series

# More data than this are not written twice, as a chart and as a file inside the page.
_LARGEST_LINK = 40_000


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart with what stands around it.

    Attributes
    ----------
    name
        Its name on a page, and the stem of its files.
    label
        What it shows, for those who do not see it.
    panels, series
        What is drawn, and in which looks.
    switches
        Whether the series have a legend; on a page it switches them on and off.
    zoom
        Whether x can be zoomed on a page, in all panels alike.
    readout
        Whether a slider on a page reads all curves at one x.
    data
        What it shows, as CSV; empty if a table beside it says the same.

    Examples
    --------
    >>> from fishergcn.drawing import Layer
    >>> chart = Chart("moves", "Two moves", [Panel("Moves", "step", "", [Layer("line", x=[1, 2], y=[0.1, 0.3])])])
    >>> chart.svg.startswith("<?xml"), chart.to_page()[:19]
    (True, '<div class="chart">')
    """

    name: str
    label: str
    panels: Sequence[Panel]
    series: Sequence[Series] = ()
    switches: bool = False
    zoom: bool = False
    readout: bool = False
    data: str = field(default="", repr=False)

    @cached_property
    def svg(self) -> str:
        """The chart as an SVG file, in dark gray on white."""
        stream = io.StringIO()
        write_figure(self.panels, self.series, self.switches, stream, ".svg")
        return stream.getvalue()

    def save(self, path: Path, *, inside: Path | None = None) -> None:
        """Write a file in the format that its name ends in, or nothing; below ``inside`` no link is followed."""
        check_picture(path)
        suffix = path.suffix.lower()
        with atomic_path(path, inside=inside) as temporary:
            if suffix == ".svg":
                temporary.write_text(self.svg, encoding="utf-8")
            else:
                write_figure(self.panels, self.series, self.switches, temporary, suffix)

    def to_page(self) -> Html:
        """Return its place on a page, with boxes that switch its series and a link to its data."""
        boxes = [
            tag(
                "label", tag("input", type="checkbox", checked=each.shown, value=each.name), each.look.swatch, each.name
            )
            for each in self.series
        ]
        legend = [tag("fieldset", tag("legend", "Shown"), *boxes, class_="legend")] if len(boxes) > 1 else []
        missing = tag("p", "This page draws its figures with JavaScript, which is switched off.")
        parts = [*(legend if self.switches else []), tag("div", tag("noscript", missing), data_chart=self.name)]
        if 0 < len(self.data) <= _LARGEST_LINK:
            link = data_link("Save the data of this figure (CSV)", f"{self.name}.csv", self.data)
            parts.append(tag("p", link, class_="tools"))
        return tag("div", *parts, class_="chart")

    def to_dict(self, points: int | None = None) -> dict[str, Any]:
        """Return plain values for the script of a page; all curves are read at no more than ``points`` places."""
        panels = [each.to_dict() for each in self.panels]
        if points is not None:
            _thin([each for panel in panels for each in panel["layers"] if each["kind"] in ("line", "band")], points)
        return {
            "name": self.name,
            "label": printable(self.label),
            "zoom": self.zoom,
            "readout": self.readout,
            "series": [
                {
                    "name": printable(each.name),
                    "color": each.look.color,
                    "dash": list(each.look.dash),
                    "mark": each.look.outline,
                }
                for each in self.series
            ],
            "panels": panels,
        }


def _thin(curves: Sequence[dict[str, Any]], most: int) -> None:
    """Thin out curves to a number of places, evenly spaced and the same in all of them."""
    places = sorted({x for curve in curves for x in curve["x"]})
    if len(places) > most:
        kept = {places[each] for each in np.linspace(0, len(places) - 1, most).round().astype(int)}
        for curve in curves:
            here = [place for place, x in enumerate(curve["x"]) if x in kept]
            for name in {"x", "y", "low", "high", "text"} & curve.keys():
                curve[name] = [curve[name][each] for each in here]
