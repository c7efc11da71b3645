"""The table of predictions: classes and probabilities, and sets, answers and cautions where they are asked for.

Of other tasks labels and probabilities, or numbers and intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn._base.text import csv_text
from fishergcn.execution import check_graph
from fishergcn.models._decisions import ABSTAINED
from fishergcn.models._matching import node_names_of
from fishergcn.models._other_tasks import BETWEEN, check_classes, task_rows

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.models._trained import TrainedModel


@dataclass(frozen=True)
class Asked:
    """What is asked for beside classes and probabilities: arguments of ``predict_sets`` and ``decide``.

    ``certified`` is a word for each node, a column of its own.
    """

    coverage: float | None = None
    by_class: bool = False
    threshold: float | str | None = None
    costs: Any = None
    abstain: float | str | None = None
    certified: Sequence[str] | None = None

    @property
    def sets(self) -> bool:
        """Whether sets are."""
        return self.coverage is not None or self.by_class

    @property
    def answers(self) -> bool:
        """Whether answers are, other than the most probable class."""
        return any(each is not None for each in (self.threshold, self.costs, self.abstain))


def prediction_rows(model: TrainedModel, graph: Graph | None, asked: Asked) -> Iterator[dict[str, Any]]:
    """Yield for each node its id, what is predicted of it, all probabilities and, of another graph, a caution."""
    if model.graph.targets is None:
        rows = _class_rows(model, graph, asked)
    else:
        if asked.answers or asked.by_class or (asked.coverage is not None and model.graph.task == "multilabel"):
            given = (name for name, each in vars(asked).items() if each is not None and each is not False)
            check_classes(model, next(name for name in given if name != "coverage" or not asked.answers))
        rows = task_rows(model, graph, asked.coverage)
    warned = None if graph is None or not model.new_nodes(check_graph(graph)) else model.cautions(graph)
    for place, made in enumerate(rows):
        yield made if warned is None else {**made, "caution": warned[place]}


def _class_rows(model: TrainedModel, graph: Graph | None, asked: Asked) -> Iterator[dict[str, Any]]:
    """Yield for each node its id, the most probable class, the answer, the set and all probabilities."""
    names, found = model.class_names, model.probabilities(graph)  # first: it refuses what is not a graph
    nodes = node_names_of(model.graph if graph is None else graph)
    sets = model.predict_sets(graph, coverage=asked.coverage, by_class=asked.by_class) if asked.sets else None
    answers = None
    if asked.answers:
        chosen: dict[str, Any] = {name: getattr(asked, name) for name in ("threshold", "costs", "abstain", "coverage")}
        answers = model.decide(graph, **chosen)
    for place, (node, row) in enumerate(zip(nodes, found, strict=True)):
        made: dict[str, Any] = {"node": node, "class": names[row.argmax()]}
        if answers is not None:
            made["decision"] = None if answers[place] == ABSTAINED else names[answers[place]]
        if sets is not None:
            made["set"] = [names[each] for each in np.flatnonzero(sets[place])]
        made["probabilities"] = dict(zip(names, row.tolist(), strict=True))
        if asked.certified is not None:
            made["certified"] = asked.certified[place]
        yield made


def predictions_csv(model: TrainedModel, graph: Graph | None, asked: Asked) -> str:
    """Return the table as CSV; a set is its classes with semicolons between them, and labels have | between them."""
    heads, rows = [], []
    for made in prediction_rows(model, graph, asked):
        stated = made.pop("probabilities", {})
        after = {name: made.pop(name) for name in ("certified", "caution") if name in made}
        before = {name: _cell(name, each) for name, each in made.items()}
        heads = [*before, *(f"p:{name}" for name in stated), *after]
        rows.append([*before.values(), *(f"{each:.9g}" for each in stated.values()), *after.values()])
    return csv_text(heads, rows)


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    return {"set": ";", "labels": BETWEEN}[name].join(value) if isinstance(value, list) else value or ""
