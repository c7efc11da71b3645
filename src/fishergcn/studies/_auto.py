"""``fit``: a good model for a graph, chosen among a few candidates by validation nodes alone."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
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
from fishergcn.studies._candidates import CANDIDATES
from fishergcn.studies._choice import Choice
from fishergcn.training import learnable, parse_method

_USUAL_SECONDS = 120.0  # what a choice may take where no limit is given


def fit(
    graph: Graph,
    split: Split | str | None = None,
    device: str = "auto",
    *,
    methods: Sequence[str] | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    workers: int | None = None,
    time_limit: float | None = None,
    folder: str | Path | None = None,
    progress: bool | Listener = False,
    seed: int = FIRST_SEED,
) -> TrainedModel:
    """Choose a method and settings that suit a graph, and return the trained model.

    The candidates are networks with and without the links, of first and high order, with and without consistency on
    unlabeled nodes, each with the scaling of features, the bias and the weight decay that suit it, besides label
    propagation and the most frequent class. Validation nodes decide, on several inner splits of the labeled nodes; of
    candidates that cannot be told apart the simplest is taken. Test nodes play no part.

    First every preparation of ``fishergcn.studies.PREPARATIONS`` is tried with the cheapest network that uses the links
    and with the cheapest that does not; the two best of each go on. Then the candidates are trained with both, on one
    or two inner splits, and the four best of them on the others.

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
    time_limit
        Seconds that the choice may take. Candidates that would take too long are left out, and the selection says so;
        the simplest is trained in any case. Without a limit it aims at two minutes.
    folder
        Where the runs are kept, so that a choice that was interrupted goes on; by default in a temporary folder.
    progress
        Show what happens on standard error, or tell it to a listener.
    seed
        Of initialization and dropout.

    Returns
    -------
    TrainedModel
        Its ``selection`` has the score of each candidate and how much the links add.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 20)
    >>> likely = np.where(labels[:, None] == labels, 0.3, 0.02)
    >>> links = np.argwhere(np.triu(rng.random((40, 40)) < likely, 1))
    >>> graph = Graph.from_edges(links, features=rng.random((40, 5)), labels=labels, name="two groups")
    >>> model = fit(graph, device="cpu", workers=1, methods=["majority", "mlp", "gcn"])
    >>> model.selection.chosen, model.selection.gain > 0
    ('gcn', True)
    """
    graph = learnable(check_graph(graph))
    [chosen] = choose(graph, split)
    if len(chosen.val) == 0:
        raise InputError(f"split {chosen.name!r} has no val nodes; at least one is needed.")
    limit = _USUAL_SECONDS if time_limit is None else check_real("time_limit", time_limit, above=0.0)
    names = CANDIDATES if methods is None else tuple(parse_method(name).name for name in methods)
    listener = progress if isinstance(progress, Listener) else Display() if progress else Listener()
    general = chosen_config(None, settings)
    fixed = general.to_dict() if settings == "paper" else settings if isinstance(settings, Mapping) else {}
    find_device(device)  # one that is not there is refused before anything is written
    place = tempfile.TemporaryDirectory(prefix="fishergcn-") if folder is None else contextlib.nullcontext(str(folder))
    with place as kept, listener:
        return Choice(graph, chosen, device, workers, limit, Path(kept), listener, seed, names, general, fixed).made()
