"""``fit``: a good model for a graph, chosen among a few candidates by validation nodes alone."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fishergcn._base.checks import check_real
from fishergcn._settings.choices import Settings
from fishergcn._settings.seeds import FIRST_SEED
from fishergcn.errors import InputError
from fishergcn.execution import Display, Listener, check_graph, chosen_config, find_device
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.splits import Split, choose
from fishergcn.studies._candidates import recipes_of
from fishergcn.studies._choice import Choice
from fishergcn.training import find_score, learnable


def fit(
    graph: Graph,
    split: Split | str | None = None,
    device: str = "auto",
    *,
    methods: Sequence[str] | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    workers: int | None = None,
    score: str = "accuracy",
    ensemble: bool = True,
    refit: bool = False,
    time_limit: float | None = None,
    folder: str | Path | None = None,
    progress: bool | Listener = False,
    seed: int = FIRST_SEED,
) -> TrainedModel:
    """Choose a model that suits a graph, and return it trained, with what to expect of it.

    Candidates (:data:`fishergcn.studies.CANDIDATES`) and means of them are compared on inner splits, which deal the
    training and validation nodes anew and set some aside; these judge. Test nodes play no part. How much is tried
    depends on the data alone: the same data and seed give the same model, however busy the machine is.

    Parameters
    ----------
    graph
        A graph with labels. One without features gets the identity matrix, and a warning says so.
    split
        Which nodes to learn from, to choose by and to test on; by default the public split, or a fifth of the labeled
        nodes of each class for validation.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    methods
        Other candidates than the usual ones.
    settings
        Settings that all candidates share, as in :func:`fishergcn.train`. A scaling, bias or weight decay that is given
        is not chosen, and with ``"paper"`` none of them is.
    workers
        Processes on the CPU; by default one for each core.
    score
        What to choose by, and what is reported: ``"accuracy"``, ``"balanced-accuracy"``, ``"macro-f1"``, ``"roc-auc"``,
        ``"average-precision"``, ``"log-loss"`` or another registered score.
    ensemble
        Whether a mean of several candidates may be chosen; if not, the best single one is.
    refit
        Train what was chosen once more, for as many epochs, on validation nodes too. The scores are those of before.
    time_limit
        Seconds that all of it may take: what could not be finished is left out. None by default.
    folder
        Where the runs are kept, so that a choice that was interrupted goes on; by default in a temporary folder.
    progress
        Show what happens on standard error, or tell it to a listener.
    seed
        Of initialization and dropout.

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
    options: dict[str, Any] = {"ensembles": ensemble, "refit": refit, "workers": workers, "limit": time_limit}
    choice = _choice(graph, split, device, methods, settings, score, seed, options)
    listener = progress if isinstance(progress, Listener) else Display() if progress else Listener()
    place = tempfile.TemporaryDirectory(prefix="fishergcn-") if folder is None else contextlib.nullcontext(str(folder))
    with place as kept, listener:
        return choice(folder=Path(kept), listener=listener).made()


def _choice(
    graph: Graph,
    split: Split | str | None,
    device: str,
    methods: Sequence[str] | None,
    settings: Settings | Mapping[str, Any] | None,
    score: str,
    seed: int,
    options: dict[str, Any],
) -> Callable[..., Choice]:
    """Check all arguments before anything is written, and return what begins the choice."""
    graph = learnable(check_graph(graph))
    [chosen] = choose(graph, split)
    if len(chosen.val) == 0:
        raise InputError(f"split {chosen.name!r} has no val nodes; at least one is needed.")
    if options["limit"] is not None:
        check_real("time_limit", options["limit"], above=0.0)
    entry = find_score(score).check_classes(graph.num_classes)
    general = chosen_config(None, settings)
    every, given = general.to_dict(), settings if isinstance(settings, Mapping) else {}
    fixed = every if settings == "paper" else {name: every[name] for name in given}
    find_device(device)
    facts: dict[str, Any] = {"general": general, "fixed": fixed, "score": entry, "seed": seed}
    return partial(
        Choice, graph=graph, split=chosen, device=device, recipes=recipes_of(methods, fixed), **facts, **options
    )
