"""The nodes of which a model is least certain, and the links on which these predictions depend."""

from __future__ import annotations

import numpy as np

from fishergcn.drawing import tag
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic import NodeLinks, node_links
from fishergcn.report._assessment import least_certain
from fishergcn.report._chart import chart_figure
from fishergcn.report._chart_geometry import links_chart
from fishergcn.report._markup import Section, number, table
from fishergcn.report._subject import Subject

_NODES, _LINKS = 10, 3
# With more links than this the derivatives of all of them take long: fewer nodes are looked at.
_MANY_LINKS, _FEW_NODES = 1_000_000, 3
_CAPTION = (
    "The links around the least certain node. Blue: a stronger link would make the model more certain of its "
    "prediction; orange: less certain. The bolder the line, the larger the effect. Filled nodes have the same "
    "predicted class as the large one, hollow nodes another."
)


def uncertain_nodes(subject: Subject) -> Section:
    """A table of nodes, with the links that their predictions depend on most."""
    model, names = subject.model, subject.model.class_names
    every = np.arange(model.graph.num_nodes)
    outside = every if subject.split is None else np.setdiff1d(every, subject.split.train)
    nodes = least_certain(subject.probabilities, outside if len(outside) else every, _NODES)
    looked = nodes if model.graph.num_links <= _MANY_LINKS else nodes[:_FEW_NODES]
    found: dict[int, NodeLinks] = {}
    why = ""
    try:
        model.check_network(links=True)
        for node in looked.tolist():
            found[node] = node_links(model, node)
    except InputError:
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
            number(f"{100 * stated[best]:.1f}", float(stated[best]), "main"),
            "–" if second is None else names[second],
            number("–", None) if second is None else number(f"{100 * stated[second]:.1f}", float(stated[second])),
            known,
            number(f"{subject.facts.degrees[node]:,}", int(subject.facts.degrees[node])),
            *([tag("td", _in_words(found.get(node)), class_="wrap")] if not why else []),
        ])  # fmt: skip
    heads = ["node", "predicted", "#probability %", "second choice", "#probability %", "known class", "#neighbors"]
    heads += [] if why else ["links it depends on most"]
    body = [tag("p", _words(subject, why)), table("Least certain nodes", heads, rows)]
    charts = []
    if found and (first := found[next(iter(found))]).links:
        charts = [links_chart(first, "uncertain-links")]
        body.append(chart_figure("", _CAPTION, charts))
    return Section("uncertain", "Where it is least certain", body, charts)


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
