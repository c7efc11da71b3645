"""The graph of a model, the nodes of which it is least certain, and the links on which these predictions depend."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fishergcn.drawing import Chart, Html, draw_bars, draw_links, tag
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic import NodeLinks, check_links, node_links
from fishergcn.models import TrainedModel
from fishergcn.report._assessment import GraphFacts, Subject, least_certain, wilson
from fishergcn.report._captions import LINKS
from fishergcn.report._page import Figure, Section, count, share, table

_DEGREES = (
    "How many nodes have how many neighbors. On the logarithmic axis each bar is about 1.4 times as wide as the last."
)
_NODES, _LINKS = 10, 3
# With more links than this the derivatives of all of them take long: fewer nodes are looked at.
_MANY_LINKS, _FEW_NODES = 1_000_000, 3


def graph_section(subject: Subject) -> Section:
    """Facts as numbers to look at, sentences, and the degrees as a chart."""
    graph, facts = subject.model.graph, subject.facts
    cards = [
        (f"{graph.num_nodes:,}", "nodes"),
        (f"{graph.num_links:,}", "links"),
        (f"{facts.degrees.mean():.1f}", f"neighbors on average (median {np.median(facts.degrees):g})"),
        (f"{len(facts.sizes):,}", "components" if len(facts.sizes) > 1 else "component"),
    ]
    if graph.targets is None:
        share = "–" if math.isnan(facts.homophily) else f"{facts.homophily:.0%}"
        cards.append((share, "of links join nodes of one class"))
    body = [tag("ul", *(tag("li", tag("b", value), tag("span", words)) for value, words in cards), class_="cards")]
    body += [tag("p", each) for each in _sentences(facts, graph.num_nodes)]
    figures = [Figure("Degrees", _DEGREES, [_draw_degrees(facts)])] if facts.degrees.any() else []
    return Section("graph", "The graph", [*body, *figures])


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
        share, chance = f"{facts.homophily:.0%}", f"{facts.chance:.0%}"
        low, high = wilson(round(facts.homophily * facts.labeled_links), facts.labeled_links)
        side = f"not clearly different from the {chance} expected by chance: neighbors may say little about the class"
        if low > facts.chance and share != chance:
            side = f"more than the {chance} expected by chance: neighbors are likely to help"
        elif high < facts.chance and share != chance:
            side = f"less than the {chance} expected by chance: neighbors tend to be of other classes"
        links = f"{facts.labeled_links:,} links between labeled nodes"
        texts.append(f"Homophily: {share} of the {links} join nodes of the same class, {side}.")
    return texts


def _draw_degrees(facts: GraphFacts) -> Chart:
    degrees = facts.degrees[facts.degrees > 0]
    edges = [0.5]
    while edges[-1] < degrees.max():
        edges.append(max(edges[-1] + 1, math.floor(edges[-1] * 1.4) + 0.5))
    counts, _ = np.histogram(degrees, bins=edges)
    text = [
        (f"{math.ceil(low)}" if high - low == 1 else f"{math.ceil(low)} to {math.floor(high)}")
        + f" neighbors\n{count:,} nodes"
        for (low, high), count in zip(pairwise(edges), counts, strict=True)
    ]
    ticks = [each for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000)
             if each <= degrees.max()]  # fmt: skip
    return draw_bars("", edges, counts, "degrees", x="neighbors of a node", y="nodes", text=text, x_ticks=ticks,
                     log=True, label="Number of nodes by number of neighbors")  # fmt: skip


def has_derivatives(model: TrainedModel) -> bool:
    """Say whether predictions have a derivative in the links: of one network, or of all members of an ensemble."""
    try:
        check_links(model)
    except InputError:
        return False
    return True


def uncertain_nodes(subject: Subject) -> Section:
    """A table of nodes, with the links that their predictions depend on most."""
    model, names = subject.model, subject.model.class_names
    every = np.arange(model.graph.num_nodes)
    outside = every if subject.split is None else np.setdiff1d(every, subject.split.train)
    nodes = least_certain(subject.probabilities, outside if len(outside) else every, _NODES)
    looked = nodes if model.graph.num_links <= _MANY_LINKS else nodes[:_FEW_NODES]
    found: dict[int, NodeLinks] = {}
    why = ""
    if has_derivatives(model):
        found = {node: node_links(model, node) for node in looked.tolist()}
    elif model.facts():
        why = (
            "A member of the ensemble has no derivative in the links, so none are listed; fishergcn explain computes "
            "anew without each link of a node."
        )
    else:
        why = f"A model of method {model.method.name} has no derivative in the links, so none are listed."
    labels = model.graph.labels
    rows = []
    for node in nodes.tolist():
        order = np.argsort(-subject.probabilities[node], kind="stable")
        best, second = int(order[0]), int(order[1]) if len(order) > 1 else None
        stated = subject.probabilities[node]
        known = "–" if labels is None or labels[node] < 0 else names[labels[node]]
        rows.append([
            model.node_names[node],
            names[best],
            share(stated[best], 1, "main"),
            "–" if second is None else names[second],
            share(math.nan if second is None else stated[second], 1),
            known,
            count(subject.facts.degrees[node]),
            *([tag("td", _in_words(found.get(node)), class_="wrap")] if not why else []),
        ])  # fmt: skip
    heads = ["node", "predicted", "#probability %", "second choice", "#probability %", "known class", "#neighbors"]
    heads += [] if why else ["links it depends on most"]
    body: list[Html | Figure] = [tag("p", _words(subject, why)), table("Least certain nodes", heads, rows)]
    if found and (first := found[next(iter(found))]).links:
        body.append(Figure("", LINKS.format(node="least certain node"), [draw_links(first, "uncertain-links")]))
    return Section("uncertain", "Where it is least certain", body)


def _words(subject: Subject, why: str) -> str:
    text = (
        "Among all nodes that the model was not trained on, its predictions for these have the lowest probabilities. "
        "They are worth checking by hand."
    )
    if why:
        return f"{text} {why}"
    unit = "their entry of the propagation matrix" if subject.model.method.high_order else "the weight of the link"
    return (
        f"{text} A plus means that a stronger link would make the prediction more certain, a minus less certain: the "
        f"numbers are derivatives of the log-probability with respect to {unit}."
    )


def _in_words(links: NodeLinks | None) -> str:
    if links is None:
        return "not computed: the graph has many links"
    if not links.links:
        return "none"
    return ", ".join(f"{one} – {other} ({_signed(value)})" for one, other, _, value in links.links[:_LINKS])


def _signed(value: float) -> str:
    return f"{value:+.2g}".replace("-", "−")
