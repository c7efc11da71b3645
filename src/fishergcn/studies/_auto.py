"""``fit``: a good model for a graph, chosen among a few candidates by validation nodes alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fishergcn._base.checks import check_real
from fishergcn._base.temporary import temporary_folder
from fishergcn._settings.choices import Settings
from fishergcn._settings.seeds import FIRST_SEED
from fishergcn.errors import InputError
from fishergcn.execution import Display, Listener, check_graph, chosen_config, find_device
from fishergcn.graph import Graph, Task, for_task
from fishergcn.models import TrainedModel, split_for
from fishergcn.splits import Split, choose
from fishergcn.studies._candidates import recipes_of, scalings_of
from fishergcn.studies._choice import Choice
from fishergcn.training import find_score, find_task, learnable


def fit(
    graph: Graph,
    split: Split | str | None = None,
    device: str = "auto",
    *,
    methods: Sequence[str] | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    workers: int | None = None,
    score: str | None = None,
    task: Task | None = None,
    ensemble: bool = True,
    refit: bool = False,
    coverage: float | None = None,
    time_limit: float | None = None,
    folder: str | Path | None = None,
    progress: bool | Listener = False,
    seed: int = FIRST_SEED,
) -> TrainedModel:
    """Choose a model that suits a graph, and return it trained, with what to expect of it.

    Candidates (:data:`fishergcn.studies.CANDIDATES`) and means of them are judged by nodes that inner splits of the
    training and validation nodes set aside. Test nodes play no part. The same data and seed give the same model.

    Parameters
    ----------
    graph
        A graph with labels. One without features gets the identity matrix, and a warning says so.
    split
        Which nodes to learn from, to choose by and to test on; by default the public split, or a fifth of the labeled
        nodes of each class for validation.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    methods, workers
        Other candidates than the usual ones; processes on the CPU, by default one for each core.
    settings
        Settings that all candidates share, as in :func:`fishergcn.train`. A scaling, bias or weight decay that is given
        is not chosen, and with ``"paper"`` none of them is.
    score
        What to choose by and to report: ``"accuracy"`` (the default), ``"balanced-accuracy"``, ``"macro-f1"``,
        ``"roc-auc"``, ``"average-precision"``, ``"log-loss"`` or another; of several labels ``"micro-f1"`` by default,
        of numbers ``"r2"``.
    task
        One class, several labels or a number of a node, if the graph is to be of this task: whole numbers as numbers.
        Of numbers, a fifth of the known nodes is set aside for :meth:`fishergcn.TrainedModel.predict_interval`.
    ensemble
        Whether a mean of several candidates may be chosen; if not, the best single one is.
    refit
        Train what was chosen once more, for as many epochs, on validation nodes too. The scores are those of before.
    coverage
        Set half of the validation nodes aside for ``model.predict_sets()`` that hold the true class in this share.
    time_limit
        Seconds that all of it may take: what could not be finished is left out. None by default.
    folder, progress, seed
        Where runs are kept, so that an interrupted choice goes on; show what happens; of initialization and dropout.

    Returns
    -------
    TrainedModel
        An :class:`fishergcn.models.Ensemble` if a mean of several was best. Its ``selection`` has what to expect of it
        on nodes without a label, the score of each candidate, and how much the links add.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 20)
    >>> likely = np.where(labels[:, None] == labels, 0.3, 0.02)
    >>> links = np.argwhere(np.triu(rng.random((40, 40)) < likely, 1))
    >>> graph = Graph.from_edges(links, features=rng.random((40, 5)), labels=labels, name="two groups")
    >>> model = fit(graph, device="cpu", workers=1, methods=["mlp", "gcn"], ensemble=False)
    >>> model.selection.chosen, model.selection.gain > 0
    ('gcn', True)
    """
    options: dict[str, Any] = {"ensembles": ensemble, "refit": refit, "coverage": coverage, "workers": workers}
    options |= {"limit": time_limit}
    choice = _choice(for_task(check_graph(graph), task), split, device, methods, settings, score, seed, options)
    listener = progress if isinstance(progress, Listener) else Display() if progress else Listener()
    place = temporary_folder() if folder is None else contextlib.nullcontext(Path(folder))
    with place as kept, listener:
        return choice(folder=kept, listener=listener).made()


def _choice(
    graph: Graph,
    split: Split | str | None,
    device: str,
    methods: Sequence[str] | None,
    settings: Settings | Mapping[str, Any] | None,
    score: str | None,
    seed: int,
    options: dict[str, Any],
) -> Callable[..., Choice]:
    """Check all arguments before anything is written, and return what begins the choice."""
    graph = learnable(graph)
    [chosen] = choose(graph, split)
    if len(chosen.val) == 0:
        raise InputError(f"split {chosen.name!r} has no val nodes; at least one is needed.")
    chosen, options["aside"] = split_for(graph, chosen, options["coverage"], seed)  # refused here where it is no share
    if options["limit"] is not None:
        check_real("time_limit", options["limit"], above=0.0)
    entry = find_score(score or find_task(graph.task).score).check_outputs()
    entry.check_classes(graph.num_classes, graph.task)
    general = chosen_config(None, settings)
    every, given = general.to_dict(), settings if isinstance(settings, Mapping) else {}
    fixed = every if settings == "paper" else {name: every[name] for name in given}
    find_device(device)
    facts: dict[str, Any] = {"general": general, "fixed": fixed, "score": entry, "seed": seed}
    recipes = recipes_of(methods, fixed, by_row=scalings_of(graph) != ("none", "columns"))  # where none is negative
    return partial(Choice, graph=graph, split=chosen, device=device, recipes=recipes, **facts, **options)
