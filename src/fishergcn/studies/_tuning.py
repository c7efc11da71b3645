"""Search for settings by validation accuracy; test nodes are taken out of the splits before anything is trained.

The study lives in an SQLite file, so that a search that was interrupted goes on where it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fishergcn._base.checks import check_choice, check_integer, check_real, check_text
from fishergcn._base.choices import Scaling, Settings
from fishergcn._base.files import read_bytes, write_text
from fishergcn._base.imports import require
from fishergcn._base.json import parse_json
from fishergcn._base.reprs import one_line
from fishergcn._base.seeds import FIRST_SEED, check_seeds
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.execution import Executor, Job, Listener, choose_executor, chosen_config
from fishergcn.graph import Graph
from fishergcn.perturbation import Neighborhood
from fishergcn.splits import Split, choose
from fishergcn.studies._candidates import scalings_of
from fishergcn.training import (
    Method,
    Problem,
    Run,
    RunRecord,
    TrainConfig,
    check_runs,
    parse_method,
    prepare,
)

Grid: TypeAlias = Literal["paper"]
#: The settings among which the paper's own search chose, by name.
PAPER_GRID: Mapping[str, tuple[float, ...]] = {
    "learning_rate": (0.02, 0.01, 0.005, 0.001),
    "dropout": (0.5, 0.8),
    "weight_decay": (0.002, 0.001, 0.0005),
    "hidden": (16, 32, 64),
}
HIDDEN = (16, 32, 64, 128)  # units among which a search without a grid chooses
ORDERS = range(2, 9)  # the same of high-order methods
_TRIALS = 50
_FORMAT = "fishergcn-tuning"
_LARGEST = 256 << 20  # bytes of tuning.json
_MOST_RADIUS = 0.3


@dataclass(frozen=True)
class Trial:
    """One configuration and how it did on validation nodes, in the mean over splits and seeds.

    Attributes
    ----------
    settings
        The settings that were searched.
    val_accuracy, val_loss
        Means; a run that diverged counts with accuracy 0.

    Examples
    --------
    >>> first = Trial({"dropout": 0.8}, val_accuracy=0.79, val_loss=1.1)
    >>> second = Trial({"dropout": 0.5}, val_accuracy=0.79, val_loss=0.9)
    >>> max(first, second, key=lambda trial: trial.order).settings  # as accurate, with less loss
    {'dropout': 0.5}
    """

    settings: dict[str, Any]
    val_accuracy: float
    val_loss: float | None

    @property
    def order(self) -> tuple[float, float]:
        """What the best trial has most of: accuracy, then less loss."""
        return self.val_accuracy, -(np.inf if self.val_loss is None else self.val_loss)


@dataclass(frozen=True)
class Tuning:
    """What a search found.

    Attributes
    ----------
    method, config
        What was trained, with the best settings.
    trials
        All trials, in the order in which they were made.
    dataset
        The name of the graph.
    runs
        Split and seed of each run of a trial.

    Examples
    --------
    >>> import tempfile, numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = tune(graph, "gcn", split, folder, config=fishergcn.TrainConfig(max_epochs=2), trials=2)
    >>> found.best in found.trials, found.config.dropout == found.best.settings["dropout"]
    (True, True)
    >>> [record] = fishergcn.train(graph, found.method, split, config=found.config)  # now with test nodes
    """

    method: str
    config: TrainConfig
    trials: tuple[Trial, ...]
    dataset: str = ""
    runs: tuple[tuple[str, int], ...] = ()

    __repr__ = one_line

    @property
    def best(self) -> Trial:
        """The trial with the best validation accuracy, of equal ones that with the least validation loss."""
        return max(self.trials, key=lambda trial: trial.order)


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
    study = _study(optuna, place, check_integer("seed", seed, minimum=0), _identity(base, runs, grid))
    listener = Listener() if listener is None else listener
    scalings = [each for each in get_args(Scaling) if each in scalings_of(graph)]
    most_radius = _most_radius(base)
    with contextlib.closing(choose_executor(device, workers, most=len(runs), on_epoch=listener.epoch)) as executor:
        objective = _Objective(base, runs, executor)

        def value(trial: Any) -> float:
            accuracy, loss = objective(_suggest(trial, space, parsed, scalings, most_radius))
            trial.set_user_attr("val_loss", loss)
            return accuracy

        found = _finished(optuna, study)
        while len(found) < wanted:
            if space is not None:
                _enqueue_next(optuna, study, space, found)
            study.optimize(value, n_trials=1)
            found = _finished(optuna, study)
            result = _result(base, found, runs)
            _write(place, result, graph)
            last, best = f"{found[-1].val_accuracy:.2%}", f"{result.best.val_accuracy:.2%}"
            listener.say(f"trial {len(found)} of {wanted}: validation {last}, best {best}")
    result = _result(base, found, runs)
    _write(place, result, graph)
    return result


def load_tuning(folder: str | os.PathLike[str]) -> Tuning:
    """Read what :func:`tune` has found so far from the ``tuning.json`` of its folder.

    Examples
    --------
    >>> import tempfile, fishergcn
    >>> cora = fishergcn.datasets.load("cora")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = tune(cora, "gcn", "public", folder, config=fishergcn.TrainConfig(max_epochs=1), trials=1)
    ...     load_tuning(folder) == found
    True
    """
    path = Path(folder, "tuning.json")
    try:
        values = parse_json(read_bytes(path, limit=_LARGEST))
        if values["format"] != _FORMAT or values["version"] != 1:
            raise DataFileError(f"{path}: the format must be {_FORMAT!r} of version 1.")
        runs = tuple(
            (check_text("split", each["split"]), check_integer("seed", each["seed"])) for each in values["runs"]
        )
        dataset = values["dataset"] and check_text("dataset", values["dataset"])
        trials = tuple(_trial(each) for each in values["trials"])
        method, config = parse_method(values["method"]).name, TrainConfig.from_dict(values["config"])
    except DataFileError:
        raise
    except (InputError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DataFileError(f"{path} cannot be read as a search by fishergcn tune ({reason(error)}).") from None
    if not trials:
        raise DataFileError(f"{path} has no finished trial.")
    return Tuning(method, config, trials, dataset or "", runs)


def _trial(values: Any) -> Trial:
    loss = values["val_loss"]
    settings = {check_text("a setting", name): value for name, value in values["settings"].items()}
    if any(not isinstance(value, str | int | float) for value in settings.values()):
        raise InputError(f"settings must be numbers or words, got {settings!r:.80}.")
    return Trial(
        settings,
        check_real("val_accuracy", values["val_accuracy"], minimum=0.0, maximum=1.0),
        None if loss is None else check_real("val_loss", loss),
    )


def _most_radius(base: Problem) -> float:
    """Return the largest radius of a search: where draws along eigenvectors keep λ_max(L) ≤ 2, as graphs do."""
    around = base.neighborhood
    if not isinstance(around, Neighborhood) or around.directions == "random" or around.scale == "trace":
        return _MOST_RADIUS
    return max(around.largest_radius(_MOST_RADIUS), 1e-3)


def planned_trials(grid: Grid | None, trials: int | None) -> tuple[Mapping[str, tuple[float, ...]] | None, int]:
    """Return the points of a grid, if one is searched, and how many trials there are to be."""
    space = None if grid is None else {"paper": PAPER_GRID}[check_choice("grid", grid, get_args(Grid))]
    points = _TRIALS if space is None else int(np.prod([len(values) for values in space.values()]))
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
            spectrum = last.neighborhood.spectrum if isinstance(last.neighborhood, Neighborhood) else None
            known = {"propagation": last.propagation, "spectrum": spectrum}
        problem = self.last = prepare(last.graph, last.method, config, **known)
        size = self.executor.chunk_size(problem)
        parts = [tuple(self.runs[start : start + size]) for start in range(0, len(self.runs), size)]
        records: list[RunRecord] = []
        for _, found in self.executor.run([Job(problem, part, False) for part in parts]):
            records += found
        good = [record for record in records if record.status == "ok"]
        accuracy = sum(record.val_accuracy for record in good) / len(records)
        return accuracy, float(np.mean([record.val_loss for record in good])) if good else None


def _suggest(
    trial: Any,
    space: Mapping[str, Sequence[float]] | None,
    method: Method,
    scalings: Sequence[str],
    most_radius: float,
) -> dict[str, Any]:
    if space is not None:
        return {name: trial.suggest_categorical(name, list(values)) for name, values in space.items()}
    settings = {
        "learning_rate": trial.suggest_float("learning_rate", 1e-3, 5e-2, log=True),
        "dropout": trial.suggest_float("dropout", 0.2, 0.8, step=0.1),
        "weight_decay": trial.suggest_float("weight_decay", 1e-5, 1e-2, log=True),
        "hidden": trial.suggest_categorical("hidden", list(HIDDEN)),
        "scaling": trial.suggest_categorical("scaling", scalings),
        "bias": trial.suggest_categorical("bias", [False, True]),
    }
    if method.perturbed:
        settings["radius"] = trial.suggest_float("radius", min(0.01, most_radius / 2), most_radius, log=True)
    if method.high_order:
        settings["order"] = trial.suggest_int("order", ORDERS[0], ORDERS[-1])
    if method.consistent:
        settings["consistency"] = trial.suggest_float("consistency", 0.1, 2.0, log=True)
        settings["temperature"] = trial.suggest_float("temperature", 0.3, 0.9, step=0.1)
    return settings


def _study(optuna: Any, folder: Path, seed: int, identity: str) -> Any:
    """Open the study in a folder, or begin one; refuse one of another search."""
    # As a warning Optuna shows the traceback of a trial that ends in an error, which is raised anyway.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataFileError(f"Cannot make the folder {folder}: {error.strerror or reason(error)}.") from error
    path = folder.resolve() / "study.sqlite"
    if "?" in str(path):
        raise InputError(f"the folder of a study must not have '?' in its path, got {str(folder)!r}.")
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        study = optuna.create_study(storage=storage, study_name="tune", direction="maximize", load_if_exists=True)
    except Exception as error:  # of the database driver, of whatever type
        raise DataFileError(f"{path} is not a study that can be opened ({reason(error)}).") from error
    if study.user_attrs.setdefault("identity", identity) != identity:
        raise InputError(f"{folder} holds another search (data, method, splits, seeds or settings differ).")
    study.set_user_attr("identity", identity)
    # A search that goes on must not draw again what it drew at first.
    drawn = seed + len(study.trials)
    study.sampler = optuna.samplers.TPESampler(seed=drawn)
    return study


def _enqueue_next(optuna: Any, study: Any, space: Mapping[str, Sequence[float]], found: Sequence[Trial]) -> None:
    """Put the next point of a grid in the queue (Optuna's own grid takes a trial that was interrupted for done)."""
    if study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.WAITING,)):
        return
    done = {tuple(trial.settings[name] for name in space) for trial in found}
    point = next(point for point in itertools.product(*space.values()) if point not in done)
    study.enqueue_trial(dict(zip(space, point, strict=True)))


def _finished(optuna: Any, study: Any) -> list[Trial]:
    done = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    return [Trial(dict(each.params), float(each.value), each.user_attrs.get("val_loss")) for each in done]


def _result(base: Problem, found: Sequence[Trial], runs: Sequence[Run]) -> Tuning:
    best = max(found, key=lambda trial: trial.order)
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


def _write(folder: Path, result: Tuning, graph: Graph) -> None:
    values = {
        "format": _FORMAT,
        "version": 1,
        "dataset": result.dataset,
        "graph_digest": graph.digest,
        "method": result.method,
        "runs": [{"split": split, "seed": seed} for split, seed in result.runs],
        "best": _plain(result.best),
        "config": result.config.to_dict(),
        "trials": [_plain(trial) for trial in result.trials],
    }
    write_text(folder / "tuning.json", json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _plain(trial: Trial) -> dict[str, Any]:
    return {"settings": trial.settings, "val_accuracy": trial.val_accuracy, "val_loss": trial.val_loss}
