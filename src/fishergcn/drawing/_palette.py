"""How methods look: one hue for each graph, one dash for each role, one mark for each method.

Colors with the same dash stay apart for color-blind readers (as simulated by Machado et al., 2009) and have a contrast
of at least 3 : 1 on white and on the dark page. A method and its control share the hue: the perturbed one is solid, the
control dashed, plain training dotted. Marks say the same again, for print and for those who see no hues.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from fishergcn.drawing._html import Html, tag
from fishergcn.errors import InputError
from fishergcn.nn import Role
from fishergcn.training import parse_method


@dataclass(frozen=True)
class Look:
    """Color, dash pattern (lengths in points; empty is solid) and marker (as Matplotlib names it) of a method."""

    color: str
    dash: tuple[float, ...]
    marker: str

    @property
    def outline(self) -> tuple[tuple[float, float], ...]:
        """The corners of the marker, y downward, in units of its radius."""
        corners, first, inner = _OUTLINES[self.marker]
        points = []
        for step in range(corners * (1 if inner == 1 else 2)):
            angle = math.radians(first) + math.pi * step * (2 if inner == 1 else 1) / corners
            radius = inner if inner != 1 and step % 2 else 1.0
            points.append((round(radius * math.cos(angle), 3), round(radius * math.sin(angle), 3)))
        return tuple(points)

    @property
    def swatch(self) -> Html:
        """A short line with a mark, for a page."""
        dash = " ".join(f"{length:g}" for length in self.dash)
        line = tag("line", x1="1", x2="29", y1="7", y2="7", stroke=self.color, stroke_width="2", stroke_dasharray=dash)
        corners = " ".join(f"{15 + 5.5 * x:.1f},{7 + 5.5 * y:.1f}" for x, y in self.outline)
        mark = tag("polygon", points=corners, fill=self.color)
        return tag("svg", line, mark, viewBox="0 0 30 14", class_="swatch", aria_hidden="true")


# Number of corners, angle of the first in degrees (clockwise from the right), radius of the corners between; 1: none.
_OUTLINES = {
    "o": (20, 0, 1),
    "s": (4, 45, 1),
    "^": (3, -90, 1),
    "v": (3, 90, 1),
    "<": (3, 180, 1),
    ">": (3, 0, 1),
    "D": (4, 0, 1),
    "p": (5, -90, 1),
    "h": (6, -90, 1),
    "H": (6, 0, 1),
    "*": (5, -90, 0.45),
    "P": (4, 0, 0.4),
    "X": (4, 45, 0.4),
    "d": (2, -90, 0.6),
}
_DASHES = {"perturbed": (), "control": (6.0, 3.0), "plain": (1.5, 2.5)}
_OTHERS = ("#3091f2", "#e5722e", "#007347", "#bf6099", "#b58d00", "#2a5bd7", "#9e3ffc", "#808993")
_OTHER_MARKERS = ("o", "D", "h", "v", "P", "s", "*", "^")


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """Return a look for each method: the same one in any company, unless another method before it has it.

    Names that are no method's, and methods without a look or whose look is taken, get the next free one: one whose
    color and marker no other has, as long as there is one. No two looks are equal.
    """
    own = {method: _of_method(method) for method in methods}
    chosen: dict[str, Look] = {}
    for method, look in sorted(own.items(), key=lambda item: item[1] is None):
        taken = set(chosen.values())
        chosen[method] = look if look is not None and look not in taken else _free(taken)
    return {method: chosen[method] for method in own}


def _of_method(name: str) -> Look | None:
    try:
        method = parse_method(name)
    except InputError:
        return None
    role: Role = "perturbed" if method.perturbed else "plain" if method.samples == 1 else "control"
    look = partial(method.described.look, high_order=method.high_order, role=role)
    found = look(consistent=method.consistent)
    # A consistency term that has no color of its own shows in the dash.
    same = method.consistent and found == look(consistent=False)
    return None if found is None else Look(found[0], () if same else _DASHES[role], found[1])


def _free(taken: set[Look]) -> Look:
    """Return a look that differs from all others, in color and marker too while that is possible."""
    colors, markers = {look.color for look in taken}, {look.marker for look in taken}
    every = itertools.islice(_others(), len(_OTHERS))
    apart = (look for look in every if look.color not in colors and look.marker not in markers)
    return next(apart, None) or next(look for look in _others() if look not in taken)


def _others() -> Iterator[Look]:
    """Yield looks without end: the next dash has colors with other markers; when dashes end they get more dots."""
    dotted = ((6.0, 2.0, *(1.5, 2.0) * dots) for dots in itertools.count(1))
    for turn, dash in enumerate(itertools.chain(_DASHES.values(), dotted)):
        for place, color in enumerate(_OTHERS):
            yield Look(color, dash, _OTHER_MARKERS[(place + turn) % len(_OTHER_MARKERS)])
