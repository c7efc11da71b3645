"""Pictures of the extrinsic geometry, as Matplotlib figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from fishergcn._base.imports import require
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.geometry.extrinsic import AdversarialDirection, LinkSensitivity, Sharpness

__all__ = ["fisher_figure", "links_figure", "radial_layout"]


def fisher_figure(found: AdversarialDirection, grown: Sharpness, title: str) -> Any:
    """Draw the spectrum of G^E, the adversarial direction, and how the loss grows against random directions."""
    figure = _figure(12, 3.6)
    spectrum, direction, growth = figure.subplots(1, 3)
    count = np.arange(1, len(found.eigenvalues) + 1)
    spectrum.bar(count, found.eigenvalues)
    spectrum.set(title="Fisher information per Bures distance²", xlabel="direction", ylabel="μ")
    direction.bar(np.arange(1, len(found.direction) + 1), found.direction)
    direction.axhline(0, color="black", linewidth=0.8)
    direction.set(title="most adversarial direction", xlabel="eigenvector of L", ylabel="φ")
    if len(grown.random):
        growth.hist(grown.random.max(axis=1), bins=20, color="0.7", label="random directions")
    for position, worst in enumerate(grown.adversarial.max(axis=1)):
        label = {0: "most adversarial", 1: "the other eigenvectors of G^E"}.get(position)
        growth.axvline(worst, color="C3" if position == 0 else "C0", linewidth=2 if position == 0 else 0.8, label=label)
    growth.set(title=f"growth of the loss at D_B = {grown.distance:.3g}", xlabel="worse end of the direction")
    growth.legend(fontsize="small")
    figure.suptitle(title)
    return figure


def links_figure(found: LinkSensitivity, node: int, classes: IntArray, names: list[str], title: str) -> Any:
    """Draw the links around a node, colored by what more of them does to its prediction.

    Parameters
    ----------
    found
        The links to draw.
    node
        Stands in the middle; the others on rings by their distance along these links.
    classes
        The class of each node of the graph, which colors it.
    names
        The name of each node of the graph.
    title
        Of the figure.
    """
    collections = require("matplotlib.collections", extra="report", purpose="A picture")
    figure = _figure(7, 6)
    axes = figure.subplots()
    places = radial_layout(node, found.links)
    limit = max(float(np.abs(found.values).max(initial=0.0)), np.finfo(float).tiny)
    weakest_first = np.argsort(np.abs(found.values), kind="stable")
    segments = [[places[int(i)], places[int(j)]] for i, j in found.links[weakest_first]]
    lines = collections.LineCollection(segments, cmap="coolwarm_r", linewidths=2)
    lines.set_array(found.values[weakest_first])
    lines.set_clim(-limit, limit)
    lines.set_linestyles(["solid" if present else "dotted" for present in found.present[weakest_first]])
    axes.add_collection(lines)
    figure.colorbar(lines, ax=axes, label="derivative of log p")
    shown = list(places)
    points = np.array([places[each] for each in shown])
    axes.scatter(
        *points.T,
        c=classes[shown],
        cmap="tab10",
        vmin=0,
        vmax=9,
        s=[160 if each == node else 40 for each in shown],
        edgecolors="black",
        zorder=2,
    )
    if len(shown) <= 40:
        for each, place in zip(shown, points, strict=True):
            axes.annotate(names[each], place, fontsize=7, xytext=(4, 4), textcoords="offset points")
    axes.set(title=title, xticks=[], yticks=[], aspect="equal")
    axes.margins(0.08)
    return figure


def radial_layout(node: int, links: IntArray) -> dict[int, FloatArray]:
    """Place a node at the origin and the others on rings by their distance along the links.

    Each node owns a sector of the circle, as wide as its share of the leaves of the breadth-first tree, so that
    no two links of the tree cross. Parts that the node does not reach hang from it by nothing, further out.

    Examples
    --------
    >>> import numpy as np
    >>> {name: (place.round(6) + 0.0).tolist() for name, place in radial_layout(3, np.array([[3, 5]])).items()}
    {3: [0.0, 0.0], 5: [-1.0, 0.0]}
    """
    children, ring = _breadth_first_tree(node, links)
    leaves: dict[int, int] = {}
    for each in reversed(ring):  # from the outside in
        leaves[each] = max(1, sum(leaves[child] for child in children[each]))
    places: dict[int, FloatArray] = {}
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


def _breadth_first_tree(node: int, links: IntArray) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Return the children of each node and the ring of each, in an order in which parents come first."""
    neighbors: dict[int, list[int]] = {node: []}
    for i, j in links.tolist():
        neighbors.setdefault(i, []).append(j)
        neighbors.setdefault(j, []).append(i)
    children: dict[int, list[int]] = {each: [] for each in neighbors}
    ring: dict[int, int] = {}
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


def _figure(width: float, height: float) -> Any:
    module = require("matplotlib.figure", extra="report", purpose="A picture")
    return module.Figure(figsize=(width, height), layout="constrained")
