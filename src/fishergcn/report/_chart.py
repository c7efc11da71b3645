"""Charts of the page: what is drawn, in plain values, which the page's script draws with Observable Plot.

A chart has panels side by side, a panel has layers, and a layer is one kind of mark over columns of values. Every text
travels as data and is shown as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from fishergcn._base.foreign import printable
from fishergcn.drawing import Html, Look, data_link, tag

#: line: a curve; band: what it varies in; dot: marks; rangeX, rangeY: intervals; rect: bars from x1 to x2; stem: a line
#: from zero; rule: a line across, at x or y; link: a line between two places; text: words at a place.
Kind: TypeAlias = Literal["line", "band", "dot", "rangeX", "rangeY", "rect", "stem", "rule", "link", "text"]
# What is drawn in no method's color: most things, what stands out of them, and what stands back.
BLUE, ORANGE, GRAY = "#1a6fb0", "#c44f00", "#808993"
UNSEEN = 0.01  # opacity of what is only there to be pointed at
# More data than this are not written twice, as a chart and as a file inside the page.
_LARGEST_LINK = 40_000


@dataclass(frozen=True)
class Series:
    """A name with its look, and whether it is shown at first, where a reader can switch it."""

    name: str
    look: Look
    shown: bool = True


@dataclass(frozen=True)
class Panel:
    """Layers over common axes.

    Attributes
    ----------
    title, x, y
        Words above it and at its axes.
    layers
        What :func:`layer` returns, in the order in which they are drawn.
    rows
        Names of the rows, for a panel whose y counts rows from 0 downward; then it has no other y axis.
    percent
        The axes, of ``"x"`` and ``"y"``, that show fractions in percent.
    log
        The axes with a logarithmic scale.
    x_domain, y_domain
        From where to where; by default what the layers need.
    x_ticks, x_labels
        Where the x axis has ticks, by default at round numbers, and words for them.
    height, row_height
        In pixels: of a panel, or of each of its rows.
    bare
        Without axes, as high as wide: for a drawing.
    """

    title: str
    x: str
    y: str
    layers: Sequence[Mapping[str, Any]]
    rows: Sequence[str] = ()
    percent: str = ""
    log: str = ""
    x_domain: tuple[float, float] | None = None
    y_domain: tuple[float, float] | None = None
    x_ticks: Sequence[float] = ()
    x_labels: Sequence[str] = ()
    height: int = 260
    row_height: int = 30
    bare: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart with what stands around it.

    Attributes
    ----------
    name
        Its name on the page, and the stem of the file with its data.
    label
        What it shows, for those who do not see it.
    panels, series
        What is drawn, and in which looks.
    switches
        Whether the series can be switched on and off.
    zoom
        Whether x can be zoomed, in all panels alike.
    readout
        Whether a slider reads all curves at one x.
    data
        What it shows, as CSV; empty if a table beside it says the same.
    """

    name: str
    label: str
    panels: Sequence[Panel]
    series: Sequence[Series] = ()
    switches: bool = False
    zoom: bool = False
    readout: bool = False
    data: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the page's script."""
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
            "panels": [_panel(each) for each in self.panels],
        }


def layer(kind: Kind, *, series: str | None = None, **columns: Any) -> dict[str, Any]:
    """Return a layer: columns of equal length, and values that hold for all of it.

    Numbers are rounded to six digits, and what is not finite becomes a gap. Columns are ``x``, ``y``, ``low``,
    ``high``, ``x1``, ``x2``, ``y2``, ``text`` (shown when one points there); values are ``color``, ``opacity``,
    ``size``, ``hollow``, ``dash``, ``axis``, ``at``, ``step``.

    Examples
    --------
    >>> layer("line", series="gcn", x=[1, 2], y=[0.5, float("nan")])
    {'kind': 'line', 'series': 'gcn', 'x': [1, 2], 'y': [0.5, None]}
    """
    found: dict[str, Any] = {"kind": kind}
    if series is not None:
        found["series"] = printable(series)
    for name, values in columns.items():
        if values is not None:
            found[name] = _plain(values)
    return found


def spread(count: int) -> list[float]:
    """Return offsets between -1/4 and 1/4 that keep dots of one row apart, the same ones each time.

    Examples
    --------
    >>> [round(each, 3) for each in spread(3)]
    [-0.25, 0.059, -0.132]
    """
    golden = 0.618  # its multiples, without their whole parts, fill the interval evenly
    return [0.5 * ((step * golden) % 1 - 0.5) for step in range(count)]


def chart_figure(title: str, caption: str | Html, charts: Sequence[Chart]) -> Html:
    """Return charts with a caption, with boxes to switch their series and with their data."""
    drawn = [tag("div", _switches(each), _place(each), *_data(each), class_="chart") for each in charts]
    words = [tag("b", f"{title}. ")] if title else []
    return tag("figure", *drawn, tag("figcaption", *words, caption))


def swatch(look: Look) -> Html:
    """Return a short line with a mark, in a look."""
    dash = " ".join(f"{length:g}" for length in look.dash)
    line = tag("line", x1="1", x2="29", y1="7", y2="7", stroke=look.color, stroke_width="2", stroke_dasharray=dash)
    corners = " ".join(f"{15 + 5.5 * x:.1f},{7 + 5.5 * y:.1f}" for x, y in look.outline)
    mark = tag("polygon", points=corners, fill=look.color)
    return tag("svg", line, mark, viewBox="0 0 30 14", class_="swatch", aria_hidden="true")


def _switches(chart: Chart) -> Html:
    if not chart.switches or len(chart.series) < 2:
        return Html("")
    boxes = [
        tag("label", tag("input", type="checkbox", checked=each.shown, value=each.name), swatch(each.look), each.name)
        for each in chart.series
    ]
    return tag("fieldset", tag("legend", "Shown"), *boxes, class_="legend")


def _place(chart: Chart) -> Html:
    missing = tag("p", "This page draws its figures with JavaScript, which is switched off.")
    return tag("div", tag("noscript", missing), data_chart=chart.name)


def _data(chart: Chart) -> list[Html]:
    if not chart.data or len(chart.data) > _LARGEST_LINK:
        return []
    return [tag("p", data_link("Save the data of this figure (CSV)", f"{chart.name}.csv", chart.data), class_="tools")]


def _panel(panel: Panel) -> dict[str, Any]:
    values = {
        "title": printable(panel.title),
        "x": printable(panel.x),
        "y": printable(panel.y),
        "layers": list(panel.layers),
        "height": panel.height,
    }
    rows = [printable(each) for each in panel.rows]
    optional: dict[str, Any] = {
        "rows": rows,
        "percent": panel.percent,
        "log": panel.log,
        "xDomain": None if panel.x_domain is None else list(panel.x_domain),
        "yDomain": None if panel.y_domain is None else list(panel.y_domain),
        "xTicks": list(panel.x_ticks),
        "xLabels": [printable(each) for each in panel.x_labels],
        "rowHeight": panel.row_height if panel.rows else 0,
        "bare": panel.bare,
    }
    return values | {name: value for name, value in optional.items() if value}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, keep="\n")
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, Iterable):
        return [_plain(each) for each in value]
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 1e15 else float(f"{number:.6g}")
