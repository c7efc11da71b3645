"""A model trained again on other data, by the choice that was made before."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from fishergcn.errors import InputError
from fishergcn.execution import check_graph, train
from fishergcn.models._ensemble import Ensemble
from fishergcn.models._folder import class_names_of
from fishergcn.models._sets import split_for
from fishergcn.models._trained import TrainedModel
from fishergcn.splits import Split, choose
from fishergcn.training import learnable, temperature_of

if TYPE_CHECKING:
    from fishergcn.graph import Graph

_SAID = (
    "It was trained again on other data by the choice that was made before; what follows was found on the data of then."
)


def refit(
    model: TrainedModel, graph: Graph, split: Split | str | None = None, device: str = "auto", *, progress: bool = False
) -> TrainedModel:
    """Train a model again on a graph with more labels, other nodes or links: the same methods, settings and shares.

    Parameters
    ----------
    model
        What was chosen or trained before.
    graph
        With the same classes; features may be others.
    split
        Which nodes to learn from; by default the public split, or a fifth of the labeled nodes of each class for
        validation.
    device, progress
        As in :func:`fishergcn.train`.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=5), keep_weights=True)
    >>> model = fishergcn.TrainedModel.from_records(graph, records, split)
    >>> refit(model, graph, fishergcn.splits.Split("more", train=[0, 2, 3], val=[1], test=[])).split_sizes["train"]
    3
    """
    graph = learnable(check_graph(graph))
    if graph.task != model.graph.task:
        raise InputError(f"the task must be that of the model, {model.graph.task!r}, got {graph.task!r}.")
    if class_names_of(graph) != model.class_names:
        known, got = ", ".join(model.class_names), ", ".join(class_names_of(graph))
        raise InputError(f"the classes must be those of the model, {known:.200}, got {got:.200}.")
    [chosen] = choose(graph, split)
    chosen, aside = split_for(graph, chosen, None if model.aside is None else model.aside.coverage)
    members = model.members if isinstance(model, Ensemble) else (model.only(),)
    place: dict[str, Any] = {"device": device, "progress": progress, "keep_weights": True}
    found, heats = [], []
    for each in members:
        [record] = train(graph, each.record.method, chosen, [each.record.seed], each.config, **place)
        if record.status != "ok" or record.outputs is None:
            raise InputError(
                f"training {each.record.method} again failed ({record.status}); the old model is as it was."
            )
        found.append(TrainedModel.from_records(graph, [record], chosen))
        heats.append(temperature_of(record.outputs["val"], model.task.known(graph)[chosen.val], model.task))
    made = found[0]
    if isinstance(model, Ensemble):
        made = Ensemble.from_models(found, model.shares, heats, name=str(model.record.extra.get("kind", "mean")))
    selection = model.selection
    if selection is not None:
        words = tuple(dict.fromkeys([_SAID, *selection.sentences]))
        selection = dataclasses.replace(selection, sentences=words)
    if model.aside is not None:
        made = made.set_aside(aside, model.aside.coverage)
    return dataclasses.replace(made, selection=selection)
