"""What the graph of a model looks like: degrees, components, homophily."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fishergcn.drawing import tag
from fishergcn.report._assessment import GraphFacts
from fishergcn.report._chart import BLUE, UNSEEN, Chart, Panel, chart_figure, layer
from fishergcn.report._markup import Section
from fishergcn.report._subject import Subject

_CAPTION = (
    "How many nodes have how many neighbors. On the logarithmic axis each bar is about 1.4 times as wide as the last."
)


def graph_section(subject: Subject) -> Section:
    """Facts as numbers to look at, sentences, and the degrees as a chart."""
    graph, facts = subject.model.graph, subject.facts
    cards = [
        (f"{graph.num_nodes:,}", "nodes"),
        (f"{graph.num_links:,}", "links"),
        (f"{facts.degrees.mean():.1f}", f"neighbors on average (median {np.median(facts.degrees):g})"),
        (f"{len(facts.sizes):,}", "components" if len(facts.sizes) > 1 else "component"),
        ("–" if math.isnan(facts.homophily) else f"{facts.homophily:.0%}", "of links join nodes of one class"),
    ]
    body = [tag("ul", *(tag("li", tag("b", value), tag("span", words)) for value, words in cards), class_="cards")]
    body += [tag("p", each) for each in _sentences(facts, graph.num_nodes)]
    chart = _degree_chart(facts)
    if chart is not None:
        body.append(chart_figure("Degrees", _CAPTION, [chart]))
    return Section("graph", "The graph", body, [chart] if chart else [])


def _sentences(facts: GraphFacts, nodes: int) -> list[str]:
    alone = int((facts.degrees == 0).sum())
    largest = facts.sizes[0]
    texts = []
    if len(facts.sizes) == 1:
        texts.append("All nodes are connected, directly or through others.")
    else:
        lonely = f", {alone:,} of them single nodes without links" if alone else ""
        texts.append(
            f"The largest component has {largest:,} nodes ({largest / nodes:.0%}); the graph has {len(facts.sizes):,} "
            f"components{lonely}. No information passes between components."
        )
    if math.isfinite(facts.homophily):
        side = "more" if facts.homophily > facts.chance else "less"
        texts.append(
            f"Homophily: {facts.homophily:.0%} of the {facts.told:,} links between labeled nodes join nodes of the "
            f"same class, {side} than the {facts.chance:.0%} expected by chance. The higher it is, the more "
            "neighbors help."
        )
    return texts


def _degree_chart(facts: GraphFacts) -> Chart | None:
    degrees = facts.degrees[facts.degrees > 0]
    if len(degrees) == 0:
        return None
    edges = [0.5]
    while edges[-1] < degrees.max():
        edges.append(max(edges[-1] + 1, math.floor(edges[-1] * 1.4) + 0.5))
    counts, _ = np.histogram(degrees, bins=edges)
    text = [
        f"{math.ceil(low)} neighbors" if high - low == 1 else f"{math.ceil(low)} to {math.floor(high)} neighbors"
        for low, high in pairwise(edges)
    ]
    text = [f"{words}\n{count:,} nodes" for words, count in zip(text, counts, strict=True)]
    middle = [math.sqrt(low * high) for low, high in pairwise(edges)]
    layers = [
        layer("rect", x1=edges[:-1], x2=edges[1:], y=counts, color=BLUE),
        layer("dot", x=middle, y=counts, color=BLUE, opacity=UNSEEN, text=text),
    ]
    ticks = [each for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000)
             if each <= degrees.max()]  # fmt: skip
    panel = Panel("", "neighbors of a node", "nodes", layers, log="x", x_ticks=ticks)
    return Chart("degrees", "Number of nodes by number of neighbors", [panel])
