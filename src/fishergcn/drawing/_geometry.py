"""How a network responds to changes of its graph, the links of one node, and an embedding with its extreme motions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fishergcn._base.text import csv_text
from fishergcn._base.types import FloatArray
from fishergcn.drawing._chart import Chart
from fishergcn.drawing._marks import ROLES, Layer, Panel, Series
from fishergcn.drawing._palette import Look, looks
from fishergcn.drawing._spectrum import bins_of
from fishergcn.geometry.embedding import EmbeddingFit, ExtremeMotions
from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks

# More links, or names, make a picture that nobody can read; the data hold more of the links.
_MOST_LINKS, _MOST_NAMES, _MOST_KEPT = 60, 24, 120
_BINS = 20


def draw_fisher(found: GeometryRecord, name: str = "fisher") -> Chart:
    """Draw the spectrum of G^E, the adversarial direction, and how the loss grows against random directions.

    Examples
    --------
    >>> from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks
    >>> links = NodeLinks("a", "red", 0.9, (("a", "b", True, -0.25),), {"a": 0, "b": 1})
    >>> found = GeometryRecord("gcn on mine", (2.0, 1.0), (0.5, 0.1, -0.6), 0.01, (0.2, 0.1), (0.05,), links)
    >>> draw_fisher(found).data.splitlines()[:2]
    ['quantity,place,value', 'eigenvalue,1,2.0']
    """
    edges = np.arange(len(found.eigenvalues) + 1) + 0.5
    words = [f"direction {place}\nresponse {value:.4g}" for place, value in enumerate(found.eigenvalues, 1)]
    response = Layer("rect", x=edges[:-1], x2=edges[1:], y=found.eigenvalues, color="main", text=words)
    steps = list(range(1, len(found.direction) + 1))
    text = [f"eigenvector {place}\nshare {value:+.3g}" for place, value in enumerate(found.direction, 1)]
    change = [
        Layer("rule", axis="y", at=0),
        Layer("stem", x=steps, y=found.direction, color="accent", size=3, opacity=0.9, text=text),
        Layer("dot", x=steps, y=found.direction, color="accent", size=3, text=text),
    ]
    panels = [
        Panel("How strongly predictions respond", "direction, strongest first",
              "response per squared Bures distance, μ", [response]),
        Panel("The change they respond to most", "pattern of the graph (eigenvector of L)",
              "share of each pattern, φ", change),
        _growth(found),
    ]  # fmt: skip
    parts = {
        "eigenvalue": found.eigenvalues,
        "direction": found.direction,
        "growth": found.growth,
        "random growth": found.random_growth,
    }
    rows = [[part, place, value] for part, values in parts.items() for place, value in enumerate(values, 1)]
    label = f"How {found.title} responds to changes of its graph"
    return Chart(name, label, panels, data=csv_text(["quantity", "place", "value"], rows))


def _growth(found: GeometryRecord) -> Panel:
    layers = []
    top = 1.0
    if found.random_growth:
        counts, edges = np.histogram(found.random_growth, bins_of(found.random_growth, _BINS))
        top = float(counts.max())
        text = [f"{count} random changes\nloss grows by {low:.3g} to {high:.3g}" for count, low, high in
                zip(counts, edges[:-1], edges[1:], strict=True)]  # fmt: skip
        layers.append(Layer("rect", x=edges[:-1], x2=edges[1:], y=counts, color="rest", opacity=0.6, text=text))
    for place, worst in reversed(list(enumerate(found.growth))):
        words = "the change they respond to most" if place == 0 else f"direction {place + 1}"
        color = "accent" if place == 0 else "main"
        text = [f"{words}\nloss grows by {worst:.3g}"]
        layers.append(Layer("rangeY", x=[worst], low=[0], high=[top], color=color, size=3 if place == 0 else 1))
        layers.append(Layer("dot", x=[worst], y=[top], color=color, size=5 if place == 0 else 2, text=text))
    title = f"How much the loss grows at distance {found.distance:.3g}"
    return Panel(title, "growth of the loss", "random changes of the same size", layers)


def draw_links(found: NodeLinks, name: str = "links") -> Chart:
    """Draw the links around a node: those that support its prediction, and those that speak against it.

    The node stands in the middle, the others on rings by their distance along these links, filled if they have its
    predicted class. Strong links are bold; pairs that are no links are dotted.

    Examples
    --------
    >>> from fishergcn.geometry.extrinsic import NodeLinks
    >>> draw_links(NodeLinks("a", "red", 0.9, (("a", "b", True, -0.25),), {"a": 0, "b": 1})).label
    'node a: red (90.0%)'
    """
    links = found.links[:_MOST_LINKS]
    places = radial_layout(found.node, [(one, other) for one, other, _, _ in links])
    strongest = max([abs(value) for *_, value in links], default=0.0)
    layers = [_line(link, places, strongest) for link in reversed(links)]
    for words, hollow in (("the same", False), ("another", True)):
        own = [each for each in places if (found.classes[each] != found.classes[found.node]) == hollow]
        text = [f"node {each}\npredicted class: {words}" for each in own]
        if own:
            layers.append(Layer("dot", **_at(own, places), size=5, hollow=hollow, text=text))
    layers.append(Layer("dot", **_at([found.node], places), size=9, text=[f"node {found.node}"]))
    shown = list(places) if len(places) <= _MOST_NAMES else [found.node]
    layers.append(Layer("text", **_at(shown, places), text=shown))
    title = f"node {found.node}: {found.label} ({found.probability:.1%})"
    data = [[one, other, int(present), value] for one, other, present, value in found.links[:_MOST_KEPT]]
    drawn = {layer.series for layer in layers}
    series = [Series(words, Look(ROLES[color], (), "o")) for words, color in _SIDES.items() if words in drawn]
    return Chart(name, title, [Panel(title, "", "", layers, bare=True)], series, switches=True,
                 data=csv_text(["node", "other", "present", "derivative"], data))  # fmt: skip


_SIDES = {"a stronger link makes it more certain": "main", "less certain": "accent"}


def _line(link: tuple[str, str, bool, float], places: Mapping[str, FloatArray], strongest: float) -> Layer:
    one, other, present, value = link
    (x, y), (x2, y2) = places[one], places[other]
    share = abs(value) / strongest if strongest else 0.0
    series = list(_SIDES)[0 if value >= 0 else 1]
    return Layer("link", series=series, x=[x], y=[y], x2=[x2], y2=[y2], size=1.2 + 3.8 * share,
                 opacity=0.5 + 0.5 * share, dash=[] if present else [2, 3])  # fmt: skip


def _at(names: Iterable[str], places: Mapping[str, FloatArray]) -> dict[str, Any]:
    x, y = np.array([places[each] for each in names]).T.tolist()
    return {"x": x, "y": y}


def draw_embedding(
    title: str, fitted: EmbeddingFit, motions: ExtremeMotions, classes: Sequence[str], name: str = "embedding"
) -> Chart:
    """Draw the first two coordinates of each node, and the motions of least and largest metric.

    ``classes`` are the names of the nodes' classes, empty where they are unknown.

    Examples
    --------
    >>> import fishergcn
    >>> from fishergcn.geometry import embedding
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    >>> W = embedding.similarities(graph, 2)
    >>> fitted = embedding.fit(W)
    >>> motions = embedding.extreme_motions(W, fitted.embedding)
    >>> draw_embedding("a square", fitted, motions, ["a", "a", "b", "b"]).data.splitlines()[0]
    'class,x,y,smallest_x,smallest_y,largest_x,largest_y'
    """
    Y, shown = fitted.embedding[:, :2], np.array([each or "unknown" for each in classes])
    chosen = looks(dict.fromkeys(sorted(shown.tolist())))
    dots = [Layer("dot", series=each, x=Y[shown == each, 0], y=Y[shown == each, 1], size=2) for each in chosen]
    panels = [Panel(f"{title}: KL = {fitted.divergence:.1f}", "", "", dots, bare=True)]
    parts = (
        (motions.smallest_motion[:, :2], motions.smallest, "smallest"),
        (motions.largest_motion[:, :2], motions.largest, "largest"),
    )
    for motion, squared, which in parts:
        ends = Y + motion * (0.1 * float(np.ptp(Y)) / max(float(np.abs(motion).max()), np.finfo(float).tiny))
        layers = [
            Layer("dot", x=Y[:, 0], y=Y[:, 1], size=1, color="rest"),
            Layer("arrow", x=Y[:, 0], y=Y[:, 1], x2=ends[:, 0], y2=ends[:, 1]),
        ]
        panels.append(Panel(f"motion of {which} metric, ds² = {squared:.3g}", "", "", layers, bare=True))
    columns = ["class", "x", "y", "smallest_x", "smallest_y", "largest_x", "largest_y"]
    numbers = np.hstack([Y, *(motion for motion, _, _ in parts)]).tolist()
    rows = [[label, *row] for label, row in zip(classes, numbers, strict=True)]
    series = [Series(each, look) for each, look in chosen.items()]
    return Chart(name, f"Embedding, {title}", panels, series, switches=True, data=csv_text(columns, rows))


def radial_layout(node: str, links: Sequence[tuple[str, str]]) -> dict[str, FloatArray]:
    """Place a node at the origin and the others on rings by their distance along the links.

    Each node owns a sector of the circle, as wide as its share of the leaves of the breadth-first tree, so that
    no two links of the tree cross. Parts that the node does not reach hang from it by nothing, further out.
    """
    children, ring = _breadth_first_tree(node, links)
    leaves: dict[str, int] = {}
    for each in reversed(ring):  # from the outside in
        leaves[each] = max(1, sum(leaves[child] for child in children[each]))
    places: dict[str, FloatArray] = {}
    sectors = {node: (0.0, 2 * np.pi)}
    for each, radius in ring.items():
        start, width = sectors[each]
        middle = start + width / 2
        places[each] = radius * np.array([np.cos(middle), np.sin(middle)])
        for child in children[each]:
            share = width * leaves[child] / leaves[each]
            sectors[child] = (start, share)
            start += share
    return places


def _breadth_first_tree(node: str, links: Sequence[tuple[str, str]]) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Return the children of each node and the ring of each, in an order in which parents come first."""
    neighbors: dict[str, list[str]] = {node: []}
    for i, j in links:
        neighbors.setdefault(i, []).append(j)
        neighbors.setdefault(j, []).append(i)
    children: dict[str, list[str]] = {each: [] for each in neighbors}
    ring: dict[str, int] = {}
    for root in [node, *sorted(neighbors)]:
        if root in ring:
            continue
        ring[root] = max(ring.values()) + 1 if ring else 0
        if root != node:
            children[node].append(root)
        waiting = [root]
        for near in waiting:
            for far in sorted(neighbors[near]):
                if far not in ring:
                    ring[far] = ring[near] + 1
                    children[near].append(far)
                    waiting.append(far)
    return children, ring
