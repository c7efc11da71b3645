"""Why a model gives two nodes their classes: what speaks for and against, computed anew without each."""

from __future__ import annotations

import shlex

import numpy as np

from fishergcn._base.text import signed_points
from fishergcn.drawing import Html, tag
from fishergcn.errors import InputError
from fishergcn.models import Explanation
from fishergcn.report._assessment import Subject, least_certain
from fishergcn.report._page import Figure, Section, command, number, share, table

_TRIED = 6  # links, and features, of a node
_ROWS = 8  # of a table, on either side
_LARGE = 1_000_000  # links of a graph in which each number would take long
_WORDS = (
    "Two examples, as far as there are: the least certain prediction, and the surest one that is wrong. Of any other "
    "node the same is said by the command below."
)


def why(subject: Subject) -> Section | None:
    """Explain the least certain node, and the one of which the model is wrongly the surest."""
    model = subject.model
    asked = {"The least certain prediction": _least(subject), "The surest wrong prediction": _wrong(subject)}
    if model.graph.num_links > _LARGE:
        asked = {}
    try:
        found = {head: model.explain(node, limit=_TRIED) for head, node in asked.items() if node is not None}
    except InputError:
        return None  # a function or a matrix of its own
    body: list[Html | Figure] = [tag("p", _WORDS)] if found else []
    for head, each in found.items():
        body += [tag("h3", f"{head}: node {each.node}"), *(tag("p", one) for one in each.sentences), *_table(each)]
    place = shlex.quote(str(subject.folder))
    body += [tag("p", "Explain any node:"), command(f"fishergcn explain {place} --node NODE")]
    return Section("why", "Why this class?", body)


def _least(subject: Subject) -> int:
    """Return the node of least probability that the model was not trained on."""
    every = np.arange(subject.model.graph.num_nodes)
    outside = every if subject.split is None else np.setdiff1d(every, subject.split.train)
    return int(least_certain(subject.probabilities, outside if len(outside) else every, 1)[0])


def _wrong(subject: Subject) -> int | None:
    """Return the judged node with the largest probability of a wrong class, if there is one."""
    found = subject.probabilities[subject.judged]
    wrong = np.flatnonzero(found.argmax(axis=1) != subject.labels) if len(found) else found[:0]
    return int(subject.judged[wrong[found[wrong].max(axis=1).argmax()]]) if len(wrong) else None


def _table(found: Explanation) -> list[Html]:
    rows = [
        [f"{each.kind} {'to ' if each.kind == 'link' else ''}{each.name}", each.about or "–",
         share(each.probability, 1, "main"), number(signed_points(-each.change, 1), -each.change), each.predicted]
        for each in sorted(found.evidence, key=lambda each: -abs(each.change))[:_ROWS]
    ]  # fmt: skip
    heads = (
        "without",
        "neighbor predicted as",
        f"#probability of {found.label} %",
        "#change, points",
        "then predicted",
    )
    return [table(f"Node {found.node} without each", heads, rows)] if rows else []
