"""Pictures: Matplotlib figures as files and as part of a page that may be dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fishergcn._base.files import atomic_path
from fishergcn._base.imports import require
from fishergcn._base.types import FloatArray
from fishergcn.errors import InputError

# Stand-ins that occur nowhere else: on a page they become the page's colors, in a file dark gray on white.
INK, GRID, PAPER = "#010203", "#c0c1c2", "#fdfefc"
_IN_FILES = {INK: "#22262b", GRID: "#d9dce0", PAPER: "#ffffff"}
_ON_PAGES = {INK: "currentColor", GRID: "var(--line)", PAPER: "var(--page)"}
REST = "#9aa2ac"  # a gray that is seen on white and on black
# What a figure is written with: equal input gives equal bytes.
_FORMATS: dict[str, dict[str, Any]] = {
    ".pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
    ".png": {"dpi": 200, "facecolor": "white", "metadata": {"Software": None}},
    ".svg": {"transparent": True, "metadata": {"Date": None, "Creator": None}},
}

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


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, ready to be written or shown on a page.

    Attributes
    ----------
    name
        The stem of its files.
    label
        Describes it to those who do not see it.
    figure
        The Matplotlib figure, in colors that :meth:`save` and :attr:`inline_svg` replace.
    data
        What it shows, as CSV.

    Examples
    --------
    >>> import numpy as np
    >>> from fishergcn.drawing import draw_distances
    >>> picture = draw_distances("Three moves", np.array([0.1, 0.1, 0.3]))
    >>> picture.svg.startswith("<?xml"), picture.inline_svg.startswith("<svg")
    (True, True)
    """

    name: str
    label: str
    figure: Any = field(repr=False)
    data: str = field(repr=False)

    @cached_property
    def _drawn(self) -> str:
        stream = io.StringIO()
        self._write(stream, ".svg")
        return stream.getvalue()

    @property
    def is_wide(self) -> bool:
        """Whether it has several panels side by side, and needs the width of a page."""
        return bool(self.figure.get_figwidth() > 8)

    @property
    def svg(self) -> str:
        """The SVG as a file of its own, in dark gray on white."""
        return _recolored(self._drawn, _IN_FILES)

    @property
    def inline_svg(self) -> str:
        """The SVG element for a page: the page's ink, ids that clash with no other picture."""
        svg = _recolored(self._drawn, _ON_PAGES)
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg))
        prefix = re.sub(r"[^a-z0-9]+", "-", self.name.lower())

        def renamed(match: re.Match[str]) -> str:
            return f' id="{prefix}-{match[1]}"' if match[1] in used else ""

        svg = re.sub(r' id="([^"]+)"', renamed, svg)
        svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", svg)
        size = re.compile(r'(<svg[^>]*?) (?:width|height)="[^"]*"')  # the page decides; the viewBox stays
        return size.sub(r"\1", size.sub(r"\1", svg, count=1), count=1)

    def save(self, path: Path) -> None:
        """Write a file in the format that its name ends in, wholly or not at all."""
        check_picture(path)
        suffix = path.suffix.lower()
        with atomic_path(path) as temporary:
            if suffix == ".svg":
                temporary.write_text(self.svg, encoding="utf-8")
            else:
                self._write(temporary, suffix)

    def _write(self, target: Any, suffix: str) -> None:
        with _house_style():
            self.figure.savefig(target, format=suffix[1:], **_FORMATS[suffix])


def check_picture(path: Path | None) -> None:
    """Raise now, before the work that a picture is to show, if its format is not one we draw.

    Examples
    --------
    >>> from pathlib import Path
    >>> check_picture(Path("moves.gif"))
    Traceback (most recent call last):
    ...
    fishergcn.errors.InputError: a picture must end in .pdf, .png, .svg, got 'moves.gif'.
    """
    if path is not None and path.suffix.lower() not in _FORMATS:
        raise InputError(f"a picture must end in {', '.join(_FORMATS)}, got {path.name!r}.")


@contextmanager
def new_axes(
    width: float = 4.6, height: float = 3.0, rows: int = 1, columns: int = 1, **options: Any
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure (inches) and its axes, an array if there are several, in the house style; draw inside."""
    module = require("matplotlib.figure", extra="report", purpose="A picture")
    with _house_style():
        figure = module.Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, **options)


def _house_style() -> Any:
    return require("matplotlib", extra="report", purpose="A picture").rc_context(_STYLE)


def _recolored(svg: str, colors: dict[str, str]) -> str:
    for stand_in, color in colors.items():
        svg = svg.replace(stand_in, color)
    return svg


def bins_of(values: npt.ArrayLike, most: int) -> FloatArray:
    """Return the edges of a histogram's bins: one bin where the values differ by no more than rounding.

    Examples
    --------
    >>> bins_of([0.0, 1.0], 2), bins_of([2.0, 2.0], 20)
    (array([0. , 0.5, 1. ]), array([1., 3.]))
    """
    numbers = np.asarray(values, dtype=np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    if high / 2 - low / 2 > 1e-12 * max(abs(low), abs(high)):  # halves, since the difference may overflow
        return np.linspace(low / 2, high / 2, most + 1) * 2
    half = max(abs(low) / 2, 1.0)
    return np.array([low - half, high + half])
