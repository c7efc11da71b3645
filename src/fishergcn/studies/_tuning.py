"""Search for settings by a validation score; test nodes are taken out of the splits before anything is trained."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.files import make_folder
from fishergcn._base.imports import require
from fishergcn._base.locks import folder_lock
from fishergcn._settings.choices import Scaling, Settings
from fishergcn._settings.seeds import FIRST_SEED, check_seeds
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.execution import Executor, Listener, choose_executor, chosen_config, cut
from fishergcn.graph import Graph
from fishergcn.perturbation import Neighborhood
from fishergcn.splits import Split, choose
from fishergcn.studies._candidates import scalings_of
from fishergcn.studies._planning import check_classified
from fishergcn.studies._schema import check_search
from fishergcn.studies._tuned import Trial, Tuning, write_tuning
from fishergcn.training import (
    Method,
    Problem,
    Run,
    RunRecord,
    Score,
    TrainConfig,
    check_runs,
    find_score,
    parse_method,
    prepare,
    rank,
)

Grid: TypeAlias = Literal["paper"]
# The settings among which the paper's own search chose.
PAPER_GRID: Mapping[str, tuple[float, ...]] = {
    "learning_rate": (0.02, 0.01, 0.005, 0.001),
    "dropout": (0.5, 0.8),
    "weight_decay": (0.002, 0.001, 0.0005),
    "hidden": (16, 32, 64),
}
HIDDEN = (16, 32, 64, 128)  # units among which a search without a grid chooses
ORDERS = range(2, 9)  # the same of high-order methods
_TRIALS = 50
_MOST_RADIUS = 0.3


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
    score: str = "accuracy",
    seed: int = 0,
    device: str = "auto",
    workers: int | None = 1,
    listener: Listener | None = None,
) -> Tuning:
    """Search for the settings with the best mean validation score.

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
        these, the scaling of features and a bias; for ``fishergcn`` the radius (0.01 to 0.3, or less where draws would
        leave λ_max(L) ≤ 2), with suffix ``-t`` the order (2 to 8), with ``-c`` λ (0.1 to 2) and τ (0.3 to 0.9).
    trials
        How many trials there are to be in all; 50 by default, and all points of a grid.
    score
        By which trials are judged, as in :func:`fishergcn.fit`; of equal ones the least validation loss decides.
    seed, device, workers, listener
        Of the search; as in :func:`fishergcn.train`; what receives a line about each trial and the best so far.

    Returns
    -------
    Tuning
        ``method`` and ``config``, what to train now; ``trials`` in order, each with ``settings``, ``val_accuracy`` and
        ``val_loss``; the ``best`` of them; ``dataset`` and ``runs``.

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
    optuna, by = require("optuna", extra="tune", purpose="tuning"), find_score(score)
    space, wanted = planned_trials(grid, trials)
    check_classified([graph] if isinstance(graph, Graph) else [], "tune")
    base = prepare(graph, tunable(method), chosen_config(config, settings))
    by.check_classes(base.graph.num_classes)
    place, seed, numbers = Path(folder), check_integer("seed", seed, minimum=0), check_seeds(seeds)
    runs = [Run(split, number) for split in map(without_test, choose(base.graph, splits)) for number in numbers]
    check_runs(base, runs)
    listener = Listener() if listener is None else listener
    with (
        _claimed(place),
        contextlib.closing(choose_executor(device, workers, most=len(runs), on_epoch=listener.epoch)) as executor,
    ):
        study = _open_study(optuna, place, _identity(base, runs, grid, by), by)
        objective, found = _Objective(base, runs, executor, space, by), _finished(optuna, study, by)
        while len(found) < wanted:
            if space is not None:
                _enqueue_next(optuna, study, space, found)
            # drawn by the finished trials alone: a search that was killed goes on as it would have
            study.sampler = optuna.samplers.TPESampler(seed=_seed_of_trial(seed, len(found)))
            study.optimize(objective, n_trials=1)
            found = _finished(optuna, study, by)
            listener.say(f"trial {len(found)} of {wanted}: {_written(place, base, found, runs, by).last}")
        return _written(place, base, found, runs, by)


@contextlib.contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Make the folder of a search if needed, and be the only one who writes there."""
    try:
        make_folder(folder)
    except DataFileError as error:
        raise DataFileError(f"C{str(error)[1:]}") from error
    with folder_lock(folder):
        yield


def _seed_of_trial(seed: int, number: int) -> int:
    """Return the seed by which the settings of a trial are drawn."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


class _Objective:
    """The value of a trial: all runs with its settings; Ã and its spectrum are made once, or when the order changes."""

    def __init__(
        self,
        base: Problem,
        runs: Sequence[Run],
        executor: Executor,
        space: Mapping[str, Sequence[float]] | None,
        by: Score,
    ) -> None:
        self.last, self.runs, self.executor, self.space, self.by = base, runs, executor, space, by
        self.scalings = [each for each in get_args(Scaling) if each in scalings_of(base.graph)]
        self.largest = _most_radius(base)

    def __call__(self, trial: Any) -> float:
        records = self.records(self._suggest(trial))
        good = [record for record in records if record.status == "ok"]
        trial.set_user_attr("val_loss", float(np.mean([record.val_loss for record in good])) if good else None)
        trial.set_user_attr("val_accuracy", _mean(records, find_score("accuracy")))
        return _mean(records, self.by)

    def _suggest(self, trial: Any) -> dict[str, Any]:
        """Let Optuna choose the settings of a trial, from a grid or from the ranges that concern the method."""
        if self.space is not None:
            return {name: trial.suggest_categorical(name, list(values)) for name, values in self.space.items()}
        settings = {
            "learning_rate": trial.suggest_float("learning_rate", 1e-3, 5e-2, log=True),
            "dropout": trial.suggest_float("dropout", 0.2, 0.8, step=0.1),
            "weight_decay": trial.suggest_float("weight_decay", 1e-5, 1e-2, log=True),
            "hidden": trial.suggest_categorical("hidden", list(HIDDEN)),
            "scaling": trial.suggest_categorical("scaling", self.scalings),
            "bias": trial.suggest_categorical("bias", [False, True]),
        }
        method = self.last.method
        if method.perturbed:
            settings["radius"] = trial.suggest_float("radius", min(0.01, self.largest / 2), self.largest, log=True)
        if method.high_order:
            settings["order"] = trial.suggest_int("order", ORDERS[0], ORDERS[-1])
        if method.consistent:
            settings["consistency"] = trial.suggest_float("consistency", 0.1, 2.0, log=True)
            settings["temperature"] = trial.suggest_float("temperature", 0.3, 0.9, step=0.1)
        return settings

    def records(self, settings: Mapping[str, Any]) -> list[RunRecord]:
        """Train all runs with some settings."""
        last = self.last
        config = TrainConfig.from_dict({**last.config.to_dict(), **settings})
        known: dict[str, Any] = {}
        if config.order == last.config.order:
            spectrum = None if last.neighborhood is None else last.neighborhood.spectrum
            known = {"propagation": last.propagation, "spectrum": spectrum}
        problem = self.last = prepare(last.graph, last.method, config, **known)
        jobs = cut(problem, self.runs, self.executor.chunk_size(problem))
        return [record for _, found in self.executor.run(jobs) for record in found]


def _mean(records: Sequence[RunRecord], score: Score) -> float:
    """Return the mean of a score on validation nodes; what diverged has the worst value that there is."""
    good = [record for record in records if record.status == "ok"]
    values = [getattr(record, f"val_{score.name}") for record in good]
    if any(map(math.isnan, values)):
        splits = {record.split for record, value in zip(good, values, strict=True) if math.isnan(value)}
        raise InputError(f"score {score.name!r} is not defined on the validation nodes of split {min(splits)!r}.")
    lost = len(records) - len(good)
    worst = score.bounds[0 if score.better == "high" else 1]
    return float((sum(values) + (lost * worst if lost else 0.0)) / len(records))


def _written(folder: Path, base: Problem, found: Sequence[Trial], runs: Sequence[Run], by: Score) -> Tuning:
    """Write what was found so far, and return it."""
    config = TrainConfig.from_dict({**base.config.to_dict(), **rank(found, by.name)[0].settings})
    named = tuple((run.split.name, run.seed) for run in runs)
    result = Tuning(base.method.name, config, tuple(found), base.graph.name or "", named, by.name)
    write_tuning(folder, result, base.graph)
    return result


def _identity(base: Problem, runs: Sequence[Run], grid: str | None, by: Score) -> str:
    """Return a hash of all that a trial's value depends on, and of the space that is searched."""
    parts = [
        hashlib.sha256(np.concatenate([run.split.train, [-1], run.split.val]).tobytes()).hexdigest() for run in runs
    ]
    named = [[run.split.name, run.seed, part] for run, part in zip(runs, parts, strict=True)]
    # What is as it was before there was a choice is left out, so that older searches go on.
    config = {name: value for name, value in base.config.to_dict().items() if (name, value) != ("score", "loss")}
    facts = [base.graph.name, base.graph.digest, base.method.name, config, grid, named]
    facts += [] if by.name == "accuracy" else [by.name]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def planned_trials(grid: Grid | None, trials: int | None) -> tuple[Mapping[str, tuple[float, ...]] | None, int]:
    """Return the points of a grid, if one is searched, and how many trials there are to be."""
    space = None if grid is None else {"paper": PAPER_GRID}[check_choice("grid", grid, get_args(Grid))]
    points = _TRIALS if space is None else math.prod(len(values) for values in space.values())
    wanted = points if trials is None else check_integer("trials", trials, minimum=1)
    return space, wanted if space is None else min(wanted, points)


def tunable(method: str) -> Method:
    """Return a method that has settings to search for."""
    parsed = parse_method(method)
    if not parsed.trained:
        raise InputError(f"method {parsed.name!r} trains nothing, so there is nothing to tune.")
    return parsed


def without_test(split: Split) -> Split:
    """Return a split whose test nodes nobody can look at."""
    return dataclasses.replace(split, test=np.empty(0, dtype=np.int64))


def _most_radius(base: Problem) -> float:
    """Return the largest radius of a search: where draws along eigenvectors keep λ_max(L) ≤ 2, as graphs do."""
    around = base.neighborhood
    if not isinstance(around, Neighborhood) or around.directions == "random" or around.scale == "trace":
        return _MOST_RADIUS
    return max(around.largest_radius(_MOST_RADIUS), 1e-3)


def _open_study(optuna: Any, folder: Path, identity: str, by: Score) -> Any:
    """Open the study in a folder, or begin one; refuse one of another search."""
    # As a warning Optuna shows the traceback of a trial that ends in an error, which is raised anyway.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = folder.resolve() / "study.sqlite"
    if "?" in str(path):
        raise InputError(f"the folder of a study must not have '?' in its path, got {str(folder)!r}.")
    check_search(path, mode="rw")
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        direction = "maximize" if by.better == "high" else "minimize"
        study = optuna.create_study(storage=storage, study_name="tune", direction=direction, load_if_exists=True)
    except Exception as error:  # of the database driver, of whatever type
        raise DataFileError(f"{path} is not a study that can be opened ({reason(error)}).") from error
    if study.user_attrs.setdefault("identity", identity) != identity:
        raise InputError(f"{folder} holds another search (data, method, splits, seeds, score or settings differ).")
    study.set_user_attr("identity", identity)
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)  # left by a process that was killed
    return study


def _enqueue_next(optuna: Any, study: Any, space: Mapping[str, Sequence[float]], found: Sequence[Trial]) -> None:
    """Put the next point of a grid in the queue (Optuna's own grid takes a trial that was interrupted for done)."""
    if study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.WAITING,)):
        return
    done = {tuple(trial.settings[name] for name in space) for trial in found}
    point = next(point for point in itertools.product(*space.values()) if point not in done)
    study.enqueue_trial(dict(zip(space, point, strict=True)))


def _finished(optuna: Any, study: Any, by: Score) -> list[Trial]:
    """Return the trials of a study that came to an end."""
    done = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    found = []
    for each in done:
        value = float(each.value) if math.isfinite(each.value) else math.nan
        own = {} if by.name in ("accuracy", "loss") else {f"val_{by.name}": value}
        accuracy = value if by.name == "accuracy" else float(each.user_attrs["val_accuracy"])
        loss = None if by.name == "loss" and math.isnan(value) else each.user_attrs.get("val_loss")
        found.append(Trial(dict(each.params), accuracy, loss, own))
    return found
