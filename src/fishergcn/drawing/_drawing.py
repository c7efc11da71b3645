"""Matplotlib figures as files and as part of a page that may be dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fishergcn._base.imports import require

__all__ = ["GRID", "INK", "PAPER", "Picture", "inline_svg", "new_axes", "render"]

# Stand-ins that occur nowhere else: on a page they become the page's colors, in a file dark gray on white.
INK, GRID, PAPER = "#010203", "#c0c1c2", "#fdfefc"
_IN_FILES = {INK: "#22262b", GRID: "#d9dce0", PAPER: "#ffffff"}
_ON_PAGES = {INK: "currentColor", GRID: "var(--line)", PAPER: "var(--page)"}

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fishergcn",
    "font.family": "sans-serif",
    "font.sans-serif": ["Liberation Sans", "Arial", "Helvetica", "DejaVu Sans"],
    "text.parse_math": False,  # names may hold dollar signs
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.labelcolor": INK,
}


@dataclass(frozen=True)
class Picture:
    """A figure, drawn: ``name`` is the stem of its files, ``svg`` still holds the stand-in colors.

    ``data`` is what it shows, as CSV; ``label`` describes it to those who do not see it.
    """

    name: str
    label: str
    svg: str
    png: bytes
    data: str

    @property
    def svg_file(self) -> str:
        """The SVG as a file of its own, in dark gray on white."""
        return _recolored(self.svg, _IN_FILES)


@contextmanager
def new_axes(width: float = 4.6, height: float = 3.0) -> Iterator[tuple[Any, Any]]:
    """Yield a figure (inches) and its axes in the house style; draw and render inside the block."""
    matplotlib = require("matplotlib", extra="report", purpose="The report")
    figure_module = require("matplotlib.figure", extra="report", purpose="The report")
    with matplotlib.rc_context(_STYLE):
        figure = figure_module.Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def render(figure: Any, name: str, label: str, data: str) -> Picture:
    """Draw a figure both ways, equal input giving equal bytes."""
    vector, raster = io.StringIO(), io.BytesIO()
    figure.savefig(vector, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    figure.savefig(raster, format="png", dpi=200, facecolor="white", metadata={"Software": None})
    return Picture(name, label, vector.getvalue(), raster.getvalue(), data)


def inline_svg(picture: Picture) -> str:
    """Return the picture's SVG element for a page: the page's ink, ids that clash with no other picture."""
    svg = _recolored(picture.svg, _ON_PAGES)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg))
    prefix = re.sub(r"[^a-z0-9]+", "-", picture.name.lower())

    def renamed(match: re.Match[str]) -> str:
        return f' id="{prefix}-{match[1]}"' if match[1] in used else ""

    svg = re.sub(r' id="([^"]+)"', renamed, svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    size = re.compile(r'(<svg[^>]*?) (?:width|height)="[^"]*"')  # the page decides; the viewBox stays
    return size.sub(r"\1", size.sub(r"\1", svg, count=1), count=1)


def _recolored(svg: str, colors: dict[str, str]) -> str:
    for stand_in, color in colors.items():
        svg = svg.replace(stand_in, color)
    return svg
