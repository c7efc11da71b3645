"""Search for settings by validation accuracy; test nodes are taken out of the splits before anything is trained."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fishergcn._base.checks import check_integer
from fishergcn._base.imports import require
from fishergcn._settings.choices import Scaling, Settings
from fishergcn._settings.seeds import FIRST_SEED, check_seeds
from fishergcn.execution import Executor, Listener, choose_executor, chosen_config, cut
from fishergcn.graph import Graph
from fishergcn.splits import Split, choose
from fishergcn.studies._candidates import scalings_of
from fishergcn.studies._search import (
    Grid,
    enqueue_next,
    finished,
    most_radius,
    open_study,
    planned_trials,
    suggest,
    tunable,
    without_test,
)
from fishergcn.studies._tuned import Trial, Tuning, write_tuning
from fishergcn.training import Problem, Run, TrainConfig, check_runs, prepare, rank


def tune(
    graph: Graph,
    method: str,
    splits: Split | int | str | Iterable[Split | int | str] | None,
    folder: str | os.PathLike[str],
    seeds: int | Iterable[int] = (FIRST_SEED,),
    config: TrainConfig | None = None,
    *,
    settings: Settings | Mapping[str, Any] | None = None,
    grid: Grid | None = None,
    trials: int | None = None,
    seed: int = 0,
    device: str = "auto",
    workers: int | None = 1,
    listener: Listener | None = None,
) -> Tuning:
    """Search for the settings with the best mean validation accuracy.

    Parameters
    ----------
    graph, method, splits, seeds
        What each trial trains, as in :func:`fishergcn.train`. Test nodes are never looked at.
    folder
        Where the study (``study.sqlite``) and the result (``tuning.json``) are kept. A search that was begun there
        with the same arguments goes on; one with others is refused.
    config, settings
        The settings that are not searched, as in :func:`fishergcn.train`.
    grid
        ``"paper"`` tries the 72 points of the paper's grid: learning rate 0.02, 0.01, 0.005, 0.001; dropout 0.5, 0.8;
        weight decay 0.002, 0.001, 0.0005; hidden units 16, 32, 64. By default Optuna's TPE sampler searches ranges of
        these, the scaling of features and a bias; for ``fishergcn`` the radius (0.01 to 0.3, or less where draws of
        the neighborhood would leave λ_max(L) ≤ 2), with suffix ``-t`` the
        order (2 to 8), with suffix ``-c`` λ (0.1 to 2) and τ (0.3 to 0.9).
    trials
        How many trials there are to be in all; 50 by default, and all points of a grid.
    seed
        Of the search.
    device, workers
        As in :func:`fishergcn.train`.
    listener
        Is told in words of each trial and the best so far.

    Returns
    -------
    Tuning

    Examples
    --------
    >>> import tempfile, fishergcn
    >>> cora = fishergcn.datasets.load("cora")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     short = fishergcn.TrainConfig(max_epochs=1)
    ...     found = tune(cora, "gcn", fishergcn.splits.public(cora), folder, config=short, trials=1)
    >>> sorted(found.best.settings)
    ['bias', 'dropout', 'hidden', 'learning_rate', 'scaling', 'weight_decay']
    """
    optuna = require("optuna", extra="tune", purpose="tuning")
    config = chosen_config(config, settings)
    space, wanted = planned_trials(grid, trials)
    parsed = tunable(method)
    base = prepare(graph, parsed, config)
    graph, numbers = base.graph, check_seeds(seeds)
    runs = [Run(split, number) for split in map(without_test, choose(graph, splits)) for number in numbers]
    check_runs(base, runs)
    place = Path(folder)
    study = open_study(optuna, place, check_integer("seed", seed, minimum=0), _identity(base, runs, grid))
    listener = Listener() if listener is None else listener
    scalings = [each for each in get_args(Scaling) if each in scalings_of(graph)]
    largest = most_radius(base)
    with contextlib.closing(choose_executor(device, workers, most=len(runs), on_epoch=listener.epoch)) as executor:
        objective = _Objective(base, runs, executor)

        def value(trial: Any) -> float:
            accuracy, loss = objective(suggest(trial, space, parsed, scalings, largest))
            trial.set_user_attr("val_loss", loss)
            return accuracy

        found = finished(optuna, study)
        while len(found) < wanted:
            if space is not None:
                enqueue_next(optuna, study, space, found)
            study.optimize(value, n_trials=1)
            found = finished(optuna, study)
            result = _result(base, found, runs)
            write_tuning(place, result, graph)
            last, best = f"{found[-1].val_accuracy:.2%}", f"{result.best.val_accuracy:.2%}"
            listener.say(f"trial {len(found)} of {wanted}: validation {last}, best {best}")
    result = _result(base, found, runs)
    write_tuning(place, result, graph)
    return result


class _Objective:
    """Train all runs with some settings; Ã and its spectrum are computed once, or when the order changes."""

    def __init__(self, base: Problem, runs: Sequence[Run], executor: Executor) -> None:
        self.last, self.runs, self.executor = base, runs, executor

    def __call__(self, settings: Mapping[str, Any]) -> tuple[float, float | None]:
        """Return mean validation accuracy and loss."""
        last = self.last
        config = TrainConfig.from_dict({**last.config.to_dict(), **settings})
        known: dict[str, Any] = {}
        if config.order == last.config.order:
            spectrum = None if last.neighborhood is None else last.neighborhood.spectrum
            known = {"propagation": last.propagation, "spectrum": spectrum}
        problem = self.last = prepare(last.graph, last.method, config, **known)
        jobs = cut(problem, self.runs, self.executor.chunk_size(problem))
        records = [record for _, found in self.executor.run(jobs) for record in found]
        good = [record for record in records if record.status == "ok"]
        accuracy = sum(record.val_accuracy for record in good) / len(records)
        return accuracy, float(np.mean([record.val_loss for record in good])) if good else None


def _result(base: Problem, found: Sequence[Trial], runs: Sequence[Run]) -> Tuning:
    best = rank(found)[0]
    config = TrainConfig.from_dict({**base.config.to_dict(), **best.settings})
    named = tuple((run.split.name, run.seed) for run in runs)
    return Tuning(base.method.name, config, tuple(found), base.graph.name or "", named)


def _identity(base: Problem, runs: Sequence[Run], grid: str | None) -> str:
    """Return a hash of all that a trial's value depends on, and of the space that is searched."""
    parts = [
        hashlib.sha256(np.concatenate([run.split.train, [-1], run.split.val]).tobytes()).hexdigest() for run in runs
    ]
    named = [[run.split.name, run.seed, part] for run, part in zip(runs, parts, strict=True)]
    facts = [base.graph.name, base.graph.digest, base.method.name, base.config.to_dict(), grid, named]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
