"""How methods look: one hue for each graph, one weight for each role.

The hues are those of Okabe and Ito, which stay apart for color-blind readers; dashes and markers say the same
again, for print. A method and its control share the hue: the perturbed one is solid, the control dashed,
plain training dotted. Methods without links or features are black or gray.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fishergcn.errors import InputError
from fishergcn.training import parse_method


@dataclass(frozen=True)
class Look:
    """Color, dash pattern (lengths in points; empty is solid) and marker of a method.

    Examples
    --------
    >>> look = looks(["gcn"])["gcn"]
    >>> look.color, look.dash, look.marker
    ('#8a929c', (1.5, 2.5), '^')
    """

    color: str
    dash: tuple[float, ...]
    marker: str


_DASHES = {"perturbed": (), "control": (6.0, 3.0), "plain": (1.5, 2.5)}
_MARKERS = {"perturbed": "o", "control": "s", "plain": "^"}
# (high-order graph, consistency term) -> color of each role.
_COLORS = {
    (False, False): {"perturbed": "#1f7fc4", "control": "#4fb0ea", "plain": "#8a929c"},
    (True, False): {"perturbed": "#d55e00", "control": "#e69f00", "plain": "#cc79a7"},
    (False, True): {"perturbed": "#009e73", "control": "#5cc4a4"},
    (True, True): {"perturbed": "#8f6fd1", "control": "#b59ce6"},
}
# Without links, without features, without either: no hue.
_BLACKS = {"mlp": "#4d4d4d", "lp": "#000000", "majority": "#b3b3b3"}
_OTHERS = ("#1f7fc4", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#4fb0ea", "#8f6fd1", "#8a929c")


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """Return a look for each method: the same one in any company, unless another method before it has it.

    Names that are no method's, and methods whose look is taken, get the next free one; no two looks are equal.

    Examples
    --------
    >>> chosen = looks(["fishergcn", "gcn-x5", "gcn-x3"])
    >>> chosen["fishergcn"].dash, chosen["gcn-x5"].dash
    ((), (6.0, 3.0))
    >>> chosen["gcn-x5"] == chosen["gcn-x3"]
    False
    """
    own = {method: _of_method(method) for method in methods}
    chosen: dict[str, Look] = {}
    for method, look in sorted(own.items(), key=lambda item: item[1] is None):
        taken = set(chosen.values())
        chosen[method] = next(other for other in itertools.chain([look], _others()) if other and other not in taken)
    return {method: chosen[method] for method in own}


def _of_method(name: str) -> Look | None:
    try:
        method = parse_method(name)
    except InputError:
        return None
    role = "perturbed" if method.perturbed else "plain" if method.samples == 1 else "control"
    if method.base in _BLACKS:
        return Look(_BLACKS[method.base], () if method.consistent else _DASHES[role], _MARKERS[role])
    color = _COLORS[method.high_order, method.consistent][role]
    return Look(color, _DASHES[role], _MARKERS[role])


def _others() -> Iterator[Look]:
    """Yield looks without end: when every color has been used with every dash, dashes get one more dot."""
    patterns = zip(_DASHES.values(), _MARKERS.values(), strict=True)
    dotted = (((6.0, 2.0, *(1.5, 2.0) * dots), "D") for dots in itertools.count(1))
    for dash, marker in itertools.chain(patterns, dotted):
        for color in _OTHERS:
            yield Look(color, dash, marker)
