"""Charts of how a network responds to changes of its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fishergcn._base.types import FloatArray
from fishergcn.drawing import radial_layout
from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks
from fishergcn.report._chart import BLUE, GRAY, ORANGE, UNSEEN, Chart, Panel, layer

_MOST_LINKS, _MOST_NAMES = 60, 24
_BINS = 20


def fisher_chart(found: GeometryRecord, name: str, data: str) -> Chart:
    """Draw how strongly predictions respond in each direction, the worst change, and how the loss grows along it."""
    places = list(range(1, len(found.eigenvalues) + 1))
    response = [
        layer("rect", x1=[place - 0.5 for place in places], x2=[place + 0.5 for place in places], y=found.eigenvalues,
              color=BLUE),
        layer("dot", x=places, y=found.eigenvalues, color=BLUE, opacity=UNSEEN,
              text=[f"direction {place}\nresponse {value:.4g}" for place, value in
                    zip(places, found.eigenvalues, strict=True)]),
    ]  # fmt: skip
    steps = list(range(1, len(found.direction) + 1))
    text = [f"eigenvector {place}\nshare {value:+.3g}" for place, value in zip(steps, found.direction, strict=True)]
    change = [
        layer("rule", axis="y", at=0),
        layer("stem", x=steps, y=found.direction, color=ORANGE, size=3, opacity=0.9, text=text),
        layer("dot", x=steps, y=found.direction, color=ORANGE, size=3, text=text),
    ]
    panels = [
        Panel("How strongly predictions respond", "direction, strongest first",
              "response per squared Bures distance, μ", response),
        Panel("The change they respond to most", "pattern of the graph (eigenvector of L)",
              "share of each pattern, φ", change),
        _growth(found),
    ]  # fmt: skip
    return Chart(name, f"How {found.title} responds to changes of its graph", panels, data=data)


def _growth(found: GeometryRecord) -> Panel:
    layers = []
    top = 1.0
    if found.random_growth:
        counts, edges = np.histogram(found.random_growth, bins=_BINS if len(set(found.random_growth)) > 1 else 1)
        top = float(counts.max())
        text = [f"{count} random changes\nloss grows by {low:.3g} to {high:.3g}" for count, low, high in
                zip(counts, edges[:-1], edges[1:], strict=True)]  # fmt: skip
        layers += [
            layer("rect", x1=edges[:-1], x2=edges[1:], y=counts, color=GRAY, opacity=0.6),
            layer("dot", x=(edges[:-1] + edges[1:]) / 2, y=counts, color=GRAY, opacity=UNSEEN, text=text),
        ]
    for place, worst in reversed(list(enumerate(found.growth))):
        words = "the change they respond to most" if place == 0 else f"direction {place + 1}"
        color = ORANGE if place == 0 else BLUE
        layers.append(layer("rangeY", x=[worst], low=[0], high=[top], color=color, size=3 if place == 0 else 1))
        layers.append(layer("dot", x=[worst], y=[top], color=color, size=5 if place == 0 else 2,
                            text=[f"{words}\nloss grows by {worst:.3g}"]))  # fmt: skip
    title = f"How much the loss grows at distance {found.distance:.3g}"
    return Panel(title, "growth of the loss", "random changes of the same size", layers)


def links_chart(found: NodeLinks, name: str, data: str = "") -> Chart:
    """Draw the links around a node: blue ones support the prediction, orange ones speak against it.

    Strong ones are bold, pairs that are no links are dotted; nodes of the same predicted class are filled.
    """
    links = found.links[:_MOST_LINKS]
    places = radial_layout(found.node, [(one, other) for one, other, _, _ in links])
    limit = max([abs(value) for *_, value in links], default=0.0)
    layers = [_line(link, places, limit) for link in reversed(links)]
    for same in (True, False):
        own = [each for each in places if (found.classes[each] == found.classes[found.node]) == same]
        if own:
            words = "predicted class: " + ("the same" if same else "another")
            layers.append(layer("dot", **_columns(own, places), size=5, hollow=not same,
                                text=[f"node {each}\n{words}" for each in own]))  # fmt: skip
    layers.append(layer("dot", **_columns([found.node], places), size=9, text=[f"node {found.node}"]))
    shown = list(places) if len(places) <= _MOST_NAMES else [found.node]
    layers.append(layer("text", **_columns(shown, places), text=shown))
    title = f"node {found.node}: {found.label} ({found.probability:.1%})"
    return Chart(name, title, [Panel(title, "", "", layers, bare=True)], data=data)


def _columns(names: Sequence[str], places: Mapping[str, FloatArray]) -> dict[str, Any]:
    return {"x": [float(places[each][0]) for each in names], "y": [float(places[each][1]) for each in names]}


def _line(link: tuple[str, str, bool, float], places: Mapping[str, FloatArray], limit: float) -> dict[str, Any]:
    one, other, present, value = link
    (x, y), (x2, y2) = places[one], places[other]
    share = abs(value) / limit if limit else 0.0
    return layer("link", x=[x], y=[y], x2=[x2], y2=[y2], color=BLUE if value >= 0 else ORANGE,
                 size=1.2 + 3.8 * share, opacity=0.5 + 0.5 * share, dash=[] if present else [2, 3])  # fmt: skip
