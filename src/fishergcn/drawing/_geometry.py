"""Pictures of how a network responds to changes of its graph: the extrinsic geometry, and the links of one node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fishergcn._base.imports import require
from fishergcn._base.text import csv_text
from fishergcn._base.types import FloatArray
from fishergcn.drawing._picture import INK, REST, Picture, bins_of, new_axes
from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks

_FIRST, _OTHERS = "#d55e00", "#1f7fc4"
# More links, or names, make a picture that nobody can read.
_MOST_LINKS, _MOST_NAMES = 120, 40


def draw_fisher(found: GeometryRecord, name: str = "fisher") -> Picture:
    """Draw the spectrum of G^E, the adversarial direction, and how the loss grows against random directions.

    Examples
    --------
    >>> from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks
    >>> links = NodeLinks("a", "red", 0.9, (("a", "b", True, -0.25),), {"a": 0, "b": 1})
    >>> found = GeometryRecord("gcn on mine", (2.0, 1.0), (0.5, 0.1, -0.6), 0.01, (0.2, 0.1), (0.05,), links)
    >>> draw_fisher(found).data.splitlines()[:2]
    ['quantity,place,value', 'eigenvalue,1,2.0']
    """
    with new_axes(12, 3.6, 1, 3) as (figure, (spectrum, direction, growth)):
        spectrum.bar(np.arange(1, len(found.eigenvalues) + 1), found.eigenvalues, color=_OTHERS)
        spectrum.set(title="Fisher information per Bures distance²", xlabel="direction", ylabel="μ")
        direction.bar(np.arange(1, len(found.direction) + 1), found.direction, color=_FIRST)
        direction.axhline(0, color=INK, linewidth=0.8)
        direction.set(title="most adversarial direction", xlabel="eigenvector of L", ylabel="φ")
        if found.random_growth:
            growth.hist(
                found.random_growth, bins=bins_of(found.random_growth, 20), color=REST, label="random directions"
            )
        for position, worst in enumerate(found.growth):
            label = {0: "most adversarial", 1: "the other directions"}.get(position)
            color, width = (_FIRST, 2) if position == 0 else (_OTHERS, 0.8)
            growth.axvline(worst, color=color, linewidth=width, label=label)
        growth.set(title=f"growth of the loss at distance {found.distance:.3g}", xlabel="growth, at the worse end")
        growth.ticklabel_format(axis="x", scilimits=(-3, 4))  # long numbers would run into each other
        growth.locator_params(axis="x", nbins=6)
        handles, labels = growth.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower right", ncols=max(len(labels), 1), fontsize="small")
        figure.suptitle(found.title)
    parts = {
        "eigenvalue": found.eigenvalues,
        "direction": found.direction,
        "growth": found.growth,
        "random growth": found.random_growth,
    }
    rows = [[part, place + 1, value] for part, values in parts.items() for place, value in enumerate(values)]
    return Picture(
        name,
        f"How {found.title} responds to changes of its graph",
        figure,
        csv_text(["quantity", "place", "value"], rows),
    )


def draw_links(found: NodeLinks, name: str = "links") -> Picture:
    """Draw the links around a node, colored by what more of them does to its prediction.

    The node stands in the middle, the others on rings by their distance along these links, colored by class.

    Examples
    --------
    >>> from fishergcn.geometry.extrinsic import NodeLinks
    >>> draw_links(NodeLinks("a", "red", 0.9, (("a", "b", True, -0.25),), {"a": 0, "b": 1})).label
    'node a: red (90.0%)'
    """
    collections = require("matplotlib.collections", extra="report", purpose="A picture")
    title = f"node {found.node}: {found.label} ({found.probability:.1%})"
    links = found.links[:_MOST_LINKS]
    places = radial_layout(found.node, [(one, other) for one, other, _, _ in links])
    with new_axes(7, 6) as (figure, axes):
        weakest_first = links[::-1]
        limit = max([abs(value) for *_, value in links], default=1.0)
        segments = [[places[one], places[other]] for one, other, _, _ in weakest_first]
        lines = collections.LineCollection(segments, cmap="coolwarm_r", linewidths=2)
        lines.set_array([value for *_, value in weakest_first])
        lines.set_clim(-limit, limit)
        lines.set_linestyles(["solid" if is_link else "dotted" for _, _, is_link, _ in weakest_first])
        axes.add_collection(lines)
        figure.colorbar(lines, ax=axes, label="derivative of log p")
        sizes = [160 if each == found.node else 40 for each in places]
        style = {"cmap": "tab10", "vmin": 0, "vmax": 9, "edgecolors": INK, "zorder": 2}
        axes.scatter(*np.array([*places.values()]).T, c=[found.classes[each] for each in places], s=sizes, **style)
        if len(places) <= _MOST_NAMES:
            for each, place in places.items():
                axes.annotate(each, place, fontsize=7, xytext=(4, 4), textcoords="offset points")
        axes.set(title=title, xticks=[], yticks=[], aspect="equal")
        axes.margins(0.08)
        axes.spines[:].set_visible(False)
    data = csv_text(
        ["node", "other", "present", "derivative"], [[*ends, int(there), value] for *ends, there, value in links]
    )
    return Picture(name, title, figure, data)


def radial_layout(node: str, links: Sequence[tuple[str, str]]) -> dict[str, FloatArray]:
    """Place a node at the origin and the others on rings by their distance along the links.

    Each node owns a sector of the circle, as wide as its share of the leaves of the breadth-first tree, so that
    no two links of the tree cross. Parts that the node does not reach hang from it by nothing, further out.

    Examples
    --------
    >>> {name: (place.round(6) + 0.0).tolist() for name, place in radial_layout("a", [("a", "b")]).items()}
    {'a': [0.0, 0.0], 'b': [-1.0, 0.0]}
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
