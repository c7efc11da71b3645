"""Many graphs: a map of them, a tree of them, and their changes over time with the nodes and links behind these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.cluster.hierarchy
from scipy.spatial.distance import squareform

from fishergcn._base.text import csv_text
from fishergcn._base.types import FloatArray
from fishergcn.drawing._chart import Chart
from fishergcn.drawing._marks import ROLES, Layer, Panel, Series
from fishergcn.drawing._palette import Look, looks

_MOST_NAMES = 40  # beside the dots of a map
_MOST_TICKS = 8
_MOST_LINKS = 20
_SIDES = {"stronger after the change": "main", "weaker": "accent"}


def draw_changes(facts: Mapping[str, Any], names: Sequence[str], name: str = "changes") -> Chart:
    """Draw the time line of a sequence: what each step changed, and what each graph is off on its own, with marks.

    ``facts`` are the plain values of change points, as ``fishergcn graphs changes --json`` prints them, and ``names``
    those of the graphs.

    Examples
    --------
    >>> facts = {"window": 2, "sizes": [None, None, 0.1, 0.5, None], "alone": [None, 0.2, 0.9, 0.3, None]}
    >>> draw_changes({**facts, "changes": [{"step": 3, "p_value": 0.01}]}, list("abcde")).data.splitlines()[4]
    '3,d,0.5,0.3,1'
    """
    steps = range(len(names))
    marked = [each["step"] for each in facts["changes"]]
    panels = []
    titles = {"sizes": ("What each step changed for good", "squared distance"),
              "alone": ("What each graph is off on its own", "squared distance")}  # fmt: skip
    ticks = np.unique(np.linspace(0, len(names) - 1, min(len(names), _MOST_TICKS)).round().astype(int)).tolist()
    for part, (title, label) in titles.items():
        values = np.array([math.nan if each is None else each for each in facts[part]], dtype=np.float64)
        text = [f"{names[step]} (step {step})\n{label} {values[step]:.4g}" for step in steps]
        layers = [Layer("rule", axis="x", at=float(step), color="accent", opacity=0.5) for step in marked]
        layers.append(Layer("line", x=steps, y=values, color="main"))
        layers.append(Layer("dot", x=steps, y=values, size=2, color="main", text=text))
        here = [step for step in marked if math.isfinite(values[step])]
        words = [names[step] for step in here]
        layers.append(Layer("dot", x=here, y=values[here], size=5, color="accent", text=[text[step] for step in here]))
        layers.append(Layer("text", x=here, y=values[here], text=words))
        panels.append(Panel(title, "", label, layers, x_ticks=ticks, x_labels=[names[at] for at in ticks]))
    rows = [[int(step), names[step], facts["sizes"][step], facts["alone"][step], int(step in marked)] for step in steps]
    data = csv_text(["step", "graph", "changed", "alone", "marked"], rows)
    label = f"{len(marked)} marked changes in a sequence of {len(names)} graphs"
    return Chart(name, label, panels, zoom=True, data=data)


def draw_change(change: Mapping[str, Any], name: str) -> Chart:
    """Draw the nodes and links that account for a change: shares of nodes as bars, links between nodes on a circle."""
    nodes, links = list(change.get("nodes", ())), list(change.get("links", ()))[:_MOST_LINKS]
    shares = [each["share"] for each in nodes]
    text = [f"{each['node']}\n{each['share']:.1%} of the squared distance" for each in nodes]
    rows = list(range(len(nodes)))
    bars = [
        Layer("rangeX", y=rows, low=[0.0] * len(rows), high=shares, color="main", size=6, text=text),
        Layer("dot", x=shares, y=rows, color="main", size=4, text=text),
    ]
    panels = [Panel(f"Nodes behind the change at {change['name']}", "share of the squared distance", "", bars,
                    rows=[each["node"] for each in nodes], percent="x", row_height=22)]  # fmt: skip
    panels.append(Panel("Links behind it", "", "", _circle(links), bare=True))
    series = [Series(words, Look(ROLES[color], (), "o")) for words, color in _SIDES.items()]
    columns = ["kind", "node", "other", "share", "before", "after"]
    data = [["node", each["node"], None, each["share"], None, None] for each in nodes]
    data += [["link", *(each[part] for part in columns[1:])] for each in links]
    label = f"Nodes and links behind the change at {change['name']}"
    return Chart(name, label, panels, series, switches=True, data=csv_text(columns, data))


def draw_shifts(links: Sequence[Mapping[str, Any]], name: str) -> Chart:
    """Draw links that change, between nodes on a circle: those of large changes are bold.

    Rows are as ``fishergcn graphs pca --json`` prints them: node, other, share (of the largest change), before, after.

    Examples
    --------
    >>> row = {"node": "a", "other": "b", "share": 1.0, "before": 0.25, "after": 0.5}
    >>> draw_shifts([row], "component-1").data.splitlines()[1]
    'a,b,1.0,0.25,0.5'
    """
    series = [Series(words, Look(ROLES[color], (), "o")) for words, color in _SIDES.items()]
    columns = ["node", "other", "share", "before", "after"]
    data = csv_text(columns, [[each[part] for part in columns] for each in links])
    panel = Panel("Links that change", "", "", _circle(links[:_MOST_LINKS], "of the largest change"), bare=True)
    return Chart(name, f"{len(links)} links that change", [panel], series, switches=True, data=data)


def _circle(links: Sequence[Mapping[str, Any]], of: str = "of the squared distance") -> list[Layer]:
    """Return links between nodes on a circle; those of large shares are bold."""
    names = list(dict.fromkeys(each[end] for each in links for end in ("node", "other")))
    angles = 2 * np.pi * np.arange(len(names)) / max(len(names), 1)
    place = {each: (float(np.cos(angle)), float(np.sin(angle))) for each, angle in zip(names, angles, strict=True)}
    largest = max([each["share"] for each in links], default=1.0) or 1.0
    layers = []
    for each in reversed(links):
        (x, y), (x2, y2) = place[each["node"]], place[each["other"]]
        words = list(_SIDES)[0 if each["after"] >= each["before"] else 1]
        text = [f"{each['node']} – {each['other']}\nweight {each['before']:.3g} → {each['after']:.3g}\n"
                f"{each['share']:.1%} {of}"]  # fmt: skip
        layers.append(Layer("link", series=words, x=[x], y=[y], x2=[x2], y2=[y2], text=text,
                            size=1 + 4 * max(each["share"], 0.0) / largest))  # fmt: skip
    across, along = [place[each][0] for each in names], [place[each][1] for each in names]
    dots = Layer("dot", x=across, y=along, size=4, text=names)
    return [*layers, dots, Layer("text", x=across, y=along, text=names)]


def draw_map(
    coordinates: FloatArray,
    names: Sequence[str],
    groups: Sequence[str] | None = None,
    *,
    path: bool = False,
    name: str = "map",
) -> Chart:
    """Draw graphs as points in the plane, in the colors of ``groups``; a ``path`` joins them in their order.

    Examples
    --------
    >>> import numpy as np
    >>> draw_map(np.array([[0.0, 0.0], [1.0, 0.5]]), ["before", "after"], path=True).data.splitlines()[1]
    'before,,0.0,0.0'
    """
    x, y = np.asarray(coordinates, dtype=np.float64)[:, :2].T
    given = list(groups) if groups is not None else [""] * len(names)
    chosen = looks(dict.fromkeys(given)) if groups is not None else {}
    layers = [Layer("line", x=x, y=y, color="rest", opacity=0.6)] if path else []
    for group in dict.fromkeys(given):
        here = [at for at, each in enumerate(given) if each == group]
        text = [f"{names[at]}\n{group}".strip() for at in here]
        style: dict[str, Any] = {"series": group} if chosen else {"color": "main"}
        layers.append(Layer("dot", x=x[here], y=y[here], size=4, text=text, **style))
    shown = range(len(names)) if len(names) <= _MOST_NAMES else range(0, len(names), -(-len(names) // _MOST_NAMES))
    layers.append(Layer("text", x=x[list(shown)], y=y[list(shown)], text=[names[at] for at in shown]))
    panel = Panel("A map of the graphs: close points are close graphs", "", "", layers, bare=True)
    rows = [[names[at], given[at], float(x[at]), float(y[at])] for at in range(len(names))]
    series = [Series(group, look) for group, look in chosen.items()]
    data = csv_text(["graph", "group", "x", "y"], rows)
    return Chart(name, f"Map of {len(names)} graphs", [panel], series, switches=bool(series), data=data)


def draw_tree(values: FloatArray, names: Sequence[str], name: str = "tree") -> Chart:
    """Draw which graphs join at which distance: the dendrogram of average linkage, a row for each graph.

    Examples
    --------
    >>> import numpy as np
    >>> chart = draw_tree(np.array([[0, 1, 4.0], [1, 0, 4.0], [4, 4, 0.0]]), ["a", "b", "c"])
    >>> sorted(chart.panels[0].rows), chart.data.splitlines()[1]
    (['a', 'b', 'c'], '1.0,a b')
    """
    joined = scipy.cluster.hierarchy.linkage(squareform(np.asarray(values), checks=False), "average")
    drawn = scipy.cluster.hierarchy.dendrogram(joined, no_plot=True)
    order = drawn["leaves"] or []
    lines: dict[str, list[float]] = {each: [] for each in ("x", "y", "x2", "y2")}
    for heights, places in zip(drawn["dcoord"], drawn["icoord"], strict=True):
        level = [(place - 5) / 10 for place in places]
        for at in range(3):
            for key, value in zip(lines, (heights[at], level[at], heights[at + 1], level[at + 1]), strict=True):
                lines[key].append(float(value))
    layers = [Layer("link", x=lines["x"], y=lines["y"], x2=lines["x2"], y2=lines["y2"], color="main", size=2)]
    rows = [names[at] for at in order]
    panel = Panel("Close graphs join first", "mean distance at which they join", "", layers, rows=rows, row_height=16)
    members: dict[int, list[str]] = {at: [each] for at, each in enumerate(names)}
    data = []
    for at, (one, other, height, _) in enumerate(joined.tolist()):
        members[len(names) + at] = members[int(one)] + members[int(other)]
        data.append([height, " ".join(members[len(names) + at])])
    return Chart(name, f"Tree of {len(names)} graphs", [panel], data=csv_text(["distance", "graphs"], data))
