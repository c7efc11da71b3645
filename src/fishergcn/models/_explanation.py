"""Why a model gives a node its class: what speaks for it and against it, by computing anew without each.

    change = p(class) - p(class without the link or the feature)

of one node, in float64: positive where the link or the feature speaks for the class. Without a link its two arcs are
gone, and with them what they add to degrees and to the propagation matrix. Without a feature the node has the usual
value instead, the median over all nodes of training, which is 0 for words that most nodes do not have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from fishergcn._base.checks import check_integer
from fishergcn._base.imports import require
from fishergcn._base.reprs import one_line
from fishergcn._base.text import html_table, signed_points
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import InputError, suggestion
from fishergcn.execution import check_graph
from fishergcn.models._matching import has_one_feature_each, node_names_of
from fishergcn.models._other_tasks import check_classes
from fishergcn.models._trained import TrainedModel
from fishergcn.models._without import Place, reads_features, reads_links, usual_values

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

    from fishergcn.graph import Graph

_NAMED = 3  # on either side, in sentences
_FELT = 0.0005  # a change below 0.05 points is none, in words


@dataclass(frozen=True)
class Evidence:
    """A link or a feature of a node, and what the model says without it.

    ``name`` is the neighbor or the column; ``value`` the weight of the link or the value of the feature, and
    ``instead`` what the model was given in its place; ``about`` the class that the neighbor is predicted to have;
    ``probability`` and ``predicted`` what the model says then.
    """

    kind: Literal["link", "feature"]
    name: str
    value: float
    instead: float
    about: str
    probability: float
    change: float
    predicted: str


@dataclass(frozen=True)
class Explanation:
    """What speaks for and against a class of one node; :meth:`fishergcn.TrainedModel.explain` makes it.

    Attributes
    ----------
    node, label
        The node and the class by their names.
    probability
        Of this class.
    probabilities, without_links
        Of all classes by their names, on the graph and without all links of the node; ``without_links`` is empty where
        there are none, or where the model does not read links.
    evidence
        Links, then features, each by the size of the change.
    links, features
        How many there are, of which ``evidence`` has those that were computed.
    sentences
        All of it in words.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> links, names = [(0, 1), (1, 2), (2, 3)], ["left", "right"]
    >>> graph = fishergcn.Graph.from_edges(links, features=np.eye(4), labels=[0, 0, 1, 1], class_names=names)
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=50), keep_weights=True)
    >>> found = fishergcn.TrainedModel.from_records(graph, records, split).explain(2)
    >>> found.label, [(each.name, each.change > 0) for each in found.evidence if each.kind == "link"]
    ('right', [('3', True), ('1', False)])
    >>> found.sentences[0].startswith("Node 2 is classified as right, with probability")
    True
    """

    node: str
    label: str
    probability: float
    probabilities: Mapping[str, float]
    without_links: Mapping[str, float]
    evidence: tuple[Evidence, ...]
    links: int
    features: int
    sentences: tuple[str, ...]

    __repr__ = one_line

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def to_frame(self) -> pd.DataFrame:
        """Return the evidence as a table, a row for each link and feature that was computed."""
        require("pandas", extra="report", purpose="A table of the evidence")
        import pandas as pd

        names = [field.name for field in dataclasses.fields(Evidence)]
        return pd.DataFrame([dataclasses.asdict(each) for each in self.evidence], columns=names)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return dataclasses.asdict(self)

    def _repr_html_(self) -> str:
        """Return the sentences and a short table for notebooks."""
        rows = [
            (f"{each.kind} {each.name}", f"without it {each.probability:.1%} ({signed_points(-each.change, 1)} points)")
            for each in self.evidence[:20]
        ]
        return html_table(f"{self.label}: {self.probability:.1%}", rows, self.sentences)


def explain(
    model: TrainedModel, node: int | str, graph: Graph | None = None, *, label: int | str | None = None, limit: int = 20
) -> Explanation:
    """Compute an :class:`Explanation`: see :meth:`fishergcn.TrainedModel.explain`."""
    limit = check_integer("limit", limit, minimum=1)
    check_classes(model, "explain")
    model._check_for_other_graphs()
    whole = model.graph if graph is None else check_graph(graph)
    at = position("node", node, node_names_of(whole))
    stated = model.only().probabilities(graph)
    place = Place.of(model.only().to("cpu", torch.float64), whole, at)
    here = place.probabilities()
    classes = model.class_names
    chosen = int(here.argmax()) if label is None else position("class", label, classes)

    def evidence(changed: Graph, **facts: Any) -> Evidence:
        found = place.probabilities(changed)
        then, predicted = float(found[chosen]), classes[int(found.argmax())]
        return Evidence(**facts, probability=then, change=float(here[chosen]) - then, predicted=predicted)

    neighbors = place.neighbors if reads_links(model) else place.neighbors[:0]
    known: Any = model.graph.features if reads_features(model) else np.zeros((1, 0))
    usual = usual_values(known)
    columns = np.flatnonzero(place.features != usual) if len(usual) else np.zeros(0, dtype=np.int64)
    tried = neighbors, columns
    if len(neighbors) > limit or len(columns) > limit:
        ranks = place.foretold(chosen, columns, usual)
        tried = _both_ends(neighbors, ranks[0], limit), _both_ends(columns, ranks[1], limit)
    names, row = node_names_of(place.graph), place.graph.adjacency[[place.node]].toarray()[0]
    number = {name: place for place, name in enumerate(node_names_of(whole))}
    about = stated.argmax(axis=1)
    links = [
        evidence(place.without_links(np.array([each])), kind="link", name=names[each], value=float(row[each]),
                 instead=0.0, about=classes[about[number[names[each]]]])
        for each in tried[0].tolist()
    ]  # fmt: skip
    features = [
        evidence(place.with_feature(each, usual[each]), kind="feature", name=_feature_name(model, names, each),
                 value=float(place.features[each]), instead=float(usual[each]), about="")
        for each in tried[1].tolist()
    ]  # fmt: skip
    alone: FloatArray = place.probabilities(place.without_links()) if len(neighbors) else np.zeros(0)
    return _explanation(model, names[place.node], chosen, here, alone, links, features, (len(neighbors), len(columns)))


def position(what: str, name: int | str, names: Sequence[str]) -> int:
    """Return the number of a node or a class that is given by number or by name, or raise."""
    if isinstance(name, str):
        if name in names:
            return names.index(name)
        known = f"there are {len(names):,}, from {names[0]!r} to {names[-1]!r}"
        raise InputError(f"{what} {name!r} is unknown{suggestion(name, list(names))}; {known}.")
    return check_integer(what, name, minimum=0, maximum=len(names) - 1)


def _both_ends(places: IntArray, ranks: FloatArray, limit: int) -> IntArray:
    """Return the places, at most ``limit``, half of them with the largest and half with the smallest ranks."""
    if len(places) <= limit:
        return places
    order = np.argsort(ranks, kind="stable")
    return places[np.append(order[: (limit + 1) // 2], order[len(order) - limit // 2 :])]


def _feature_name(model: TrainedModel, names: Sequence[str], column: int) -> str:
    if model.graph.feature_names is not None:
        return model.graph.feature_names[column]
    return f"being node {model.node_names[column]}" if has_one_feature_each(model.graph) else f"feature {column}"


def _explanation(
    model: TrainedModel,
    node: str,
    chosen: int,
    here: FloatArray,
    alone: FloatArray,
    links: list[Evidence],
    features: list[Evidence],
    counts: tuple[int, int],
) -> Explanation:
    classes = model.class_names
    ordered = (
        *sorted(links, key=lambda each: -abs(each.change)),
        *sorted(features, key=lambda each: -abs(each.change)),
    )
    made = Explanation(
        node=node,
        label=classes[chosen],
        probability=float(here[chosen]),
        probabilities=dict(zip(classes, here.tolist(), strict=True)),
        without_links=dict(zip(classes, alone.tolist(), strict=True)) if len(alone) else {},
        evidence=ordered,
        links=counts[0],
        features=counts[1],
        sentences=(),
    )
    return dataclasses.replace(made, sentences=tuple(_in_words(made, model)))


def _in_words(found: Explanation, model: TrainedModel) -> list[str]:
    """Say what is found to somebody who knows the data and no more."""
    ranked = sorted(found.probabilities.items(), key=lambda each: -each[1])
    (best, most), *others = ranked
    said = f"Node {found.node} is classified as {best}, with probability {most:.1%}"
    rest = [each for each in others if each[0] == found.label] or others[:1]
    second = f"; {rest[0][0]} has {rest[0][1]:.1%}" if rest else ""
    sentences = [f"{said}{second}.", *_about_training(found.node, model), *_about_links(found, model)]
    for kind, none, many in (
        ("link", "No single link", "Neighbors that speak"),
        ("feature", "No single feature", "Features that speak"),
    ):
        felt = [each for each in found.evidence if each.kind == kind and abs(each.change) >= _FELT]
        if not felt and any(each.kind == kind for each in found.evidence):
            sentences.append(f"{none} that was tried matters: taking it away changes the probability of "
                             f"{found.label} by less than 0.05 points.")  # fmt: skip
        for side, word in ((1, "for"), (-1, "against")):
            if here := [each for each in felt if each.change * side > 0]:
                listed = "; ".join(map(_named, here[:_NAMED]))
                more = f"; and {len(here) - _NAMED} more" if len(here) > _NAMED else ""
                sentences.append(f"{many} {word} {found.label}: {listed}{more}.")
    if not reads_features(model):
        sentences.append("The model does not read features, so they play no part.")
    return sentences + _how(found)


def _about_training(node: str, model: TrainedModel) -> list[str]:
    """Say if the class of the node was known in training: then the answer is no surprise."""
    labels, names = model.graph.labels, model.node_names
    learned = [] if labels is None or not model.runs else model.runs[0].split.train.tolist()
    at = names.index(node) if node in names else -1
    if labels is None or at not in learned:
        return []
    return [f"The model was trained with this node, whose class was given as {model.class_names[labels[at]]}."]


def _about_links(found: Explanation, model: TrainedModel) -> list[str]:
    if not reads_links(model):
        return ["The model does not read the links, so neighbors play no part."]
    if not found.without_links:
        return ["The node has no links, so no neighbor plays a part."]
    best = max(found.without_links, key=lambda name: found.without_links[name])
    stated = found.without_links[found.label]
    moved = f"{_points(found.probability - stated)}"
    count = "its only link" if found.links == 1 else f"any of its {found.links:,} links"
    if best == found.label:
        return [f"Without {count} the model would still say {best}, with probability {stated:.1%} ({moved})."]
    return [
        f"Without {count} the model would say {best} ({found.without_links[best]:.1%}); {found.label} would have "
        f"{stated:.1%} ({moved})."
    ]


def _named(each: Evidence) -> str:
    """Return a link or a feature with what the model says without it."""
    then = f"{each.probability:.1%}, {_points(each.change)}"
    if each.kind == "link":
        return f"{each.name}, itself predicted as {each.about} (without this link {then})"
    return f"{each.name} = {each.value:.6g} (with the usual {each.instead:.6g} instead {then})"


def _points(change: float) -> str:
    if abs(change) < _FELT:
        return "the same"
    return f"{100 * abs(change):.1f} points {'less' if change > 0 else 'more'}"


def _how(found: Explanation) -> list[str]:
    """Say how the numbers came about, and of how many links and features."""
    said = []
    for kind, total in (("link", found.links), ("feature", found.features)):
        count = sum(each.kind == kind for each in found.evidence)
        if 0 < count < total:
            said.append(f"{count} of {total:,} {kind}s")
    some = f" {' and '.join(said)} were computed: those that derivatives rank first on either side." if said else ""
    if not found.evidence:
        return []
    return [
        "Each number is a new computation by the model without this one link or feature; they do not add up, since "
        f"links and features act together.{some}"
    ]
