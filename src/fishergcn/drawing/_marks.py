"""What a chart is made of, as data: layers of marks, panels with axes, series with looks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fishergcn._base.foreign import printable
from fishergcn.drawing._palette import Look

Kind: TypeAlias = Literal[
    "line", "band", "dot", "rangeX", "rangeY", "rect", "stem", "rule", "link", "arrow", "text"
]  # fmt: skip
#: Colors of what is in no method's color, by role: most things, what stands out of them, and what stands back.
ROLES = {"main": "#1a6fb0", "accent": "#c44f00", "rest": "#808993"}
_COLUMNS = ("x", "y", "x2", "y2", "low", "high", "text")
_STYLE = ("opacity", "size", "hollow", "dash", "axis", "at", "step")


@dataclass(frozen=True, eq=False)
class Layer:
    """One kind of mark over columns of equal length; a place that is not finite is a gap.

    ``line``: a curve; ``band``: what it varies in; ``dot``: marks; ``rangeX``, ``rangeY``: intervals; ``rect``: bars
    from x to x2, as high as y; ``stem``: a line from zero; ``rule``: a line across an axis; ``link``, ``arrow``: from
    one place to another; ``text``: words above a place.
    """

    kind: Kind
    series: str | None = None  # whose look it has, and with which it is switched
    x: Iterable[float] | None = None
    y: Iterable[float] | None = None
    x2: Iterable[float] | None = None
    y2: Iterable[float] | None = None
    low: Iterable[float] | None = None
    high: Iterable[float] | None = None
    text: Sequence[str] | None = None  # words of a "text"; of other marks, what a page shows when one points at them
    color: str | None = None  # a role, "paper" or a color; by default the series' own, else the ink
    opacity: float | None = None
    size: float | None = None  # the radius of dots, the width of lines
    hollow: bool = False
    dash: Sequence[float] | None = None
    step: bool = False  # draws a line as a staircase
    axis: Literal["x", "y"] | None = None  # which axis a rule crosses, and where
    at: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the script of a page; numbers are rounded to six digits."""
        found: dict[str, Any] = {"kind": self.kind}
        if self.series is not None:
            found["series"] = printable(self.series)
        for name in (*_COLUMNS, *_STYLE):
            value = getattr(self, name)
            if value is not None and value is not False:
                found[name] = _plain(value)
        if self.color is not None:
            found["color"] = "var(--page)" if self.color == "paper" else ROLES.get(self.color, self.color)
        return found


@dataclass(frozen=True)
class Series:
    """A name with its look, and whether it is shown before a reader switches it on; files hold what is shown."""

    name: str
    look: Look
    shown: bool = True


@dataclass(frozen=True, eq=False)
class Panel:
    """Layers over common axes, in the order in which they are drawn."""

    title: str
    x: str
    y: str
    layers: Sequence[Layer]
    rows: Sequence[str] = ()  # names of rows, which y counts from 0 downward; then there is no other y axis
    percent: str = ""  # the axes, of "x" and "y", that show fractions in percent
    log: str = ""  # the axes with a logarithmic scale
    x_domain: tuple[float, float] | None = None  # by default what the layers need
    y_domain: tuple[float, float] | None = None
    x_ticks: Sequence[float] = ()  # by default at round numbers
    x_labels: Sequence[str] = ()  # words for the ticks
    height: int = 260  # in pixels on a page: of the panel, or of each of its rows
    row_height: int = 30
    bare: bool = False  # without axes, as high as wide: for a drawing

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the script of a page."""
        names = {name: getattr(self, name) for name in ("rows", "percent", "log", "bare")}
        axes = {"xDomain": self.x_domain, "yDomain": self.y_domain, "xTicks": self.x_ticks, "xLabels": self.x_labels}
        optional = {**names, **axes, "rowHeight": self.row_height if self.rows else 0}
        return {
            "title": printable(self.title),
            "x": printable(self.x),
            "y": printable(self.y),
            "layers": [each.to_dict() for each in self.layers],
            "height": self.height,
            **{name: _plain(value) for name, value in optional.items() if value},
        }


def spread(count: int) -> list[float]:
    """Return offsets between -1/4 and 1/4 that keep dots of one row apart, the same ones each time."""
    golden = 0.618  # its multiples, without their whole parts, fill the interval evenly
    return [0.5 * ((step * golden) % 1 - 0.5) for step in range(count)]


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
