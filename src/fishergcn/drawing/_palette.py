"""How methods look: one hue for each graph, one weight for each role.

The hues are those of Okabe and Ito, which stay apart for color-blind readers; dashes and markers say the same
again, for print. A method and its control share the hue: the perturbed one is solid, the control dashed,
plain training dotted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fishergcn.errors import InputError
from fishergcn.training import parse_method

__all__ = ["Look", "looks"]


@dataclass(frozen=True)
class Look:
    """Color, dash pattern (lengths in points; empty is solid) and marker of a method."""

    color: str
    dash: tuple[float, ...]
    marker: str


_DASHES = {"perturbed": (), "control": (6.0, 3.0), "plain": (1.5, 2.5)}
_MARKERS = {"perturbed": "o", "control": "s", "plain": "^"}
# (high-order graph, consistency term) -> color of each role.
_COLORS = {
    (False, False): {"perturbed": "#1f7fc4", "control": "#4fb0ea", "plain": "#8a929c"},
    (True, False): {"perturbed": "#d55e00", "control": "#e69f00", "plain": "#cc79a7"},
    (False, True): {"perturbed": "#009e73", "control": "#5cc4a4", "plain": "#8a929c"},
    (True, True): {"perturbed": "#8f6fd1", "control": "#b59ce6", "plain": "#cc79a7"},
}
_OTHERS = ("#1f7fc4", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#4fb0ea", "#8f6fd1", "#8a929c")


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """Return a look for each method; those with an unknown name, or a taken look, get the next free one.

    Examples
    --------
    >>> chosen = looks(["fishergcn", "gcn-x5"])
    >>> chosen["fishergcn"].dash, chosen["gcn-x5"].dash
    ((), (6.0, 3.0))
    """
    chosen: dict[str, Look] = {}
    for method in methods:
        if method in chosen:
            continue
        look = _of_method(method)
        if look is None or look in chosen.values():
            free = (other for other in _cycle() if other not in chosen.values())
            look = next(free, Look(_OTHERS[len(chosen) % len(_OTHERS)], (), "o"))
        chosen[method] = look
    return chosen


def _of_method(name: str) -> Look | None:
    try:
        method = parse_method(name)
    except InputError:
        return None
    role = "perturbed" if method.perturbed else "plain" if method.samples == 1 else "control"
    color = _COLORS[method.high_order, method.consistent][role]
    return Look(color, _DASHES[role], _MARKERS[role])


def _cycle() -> Iterable[Look]:
    for dash, marker in (((), "o"), ((6.0, 3.0), "s"), ((1.5, 2.5), "^"), ((6.0, 2.0, 1.5, 2.0), "D")):
        for color in _OTHERS:
            yield Look(color, dash, marker)
