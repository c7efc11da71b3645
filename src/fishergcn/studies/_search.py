"""The settings that are searched, and Optuna's study of them.

The study lives in an SQLite file, so that a search that was interrupted goes on where it was.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fishergcn._base.checks import check_choice, check_integer
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.perturbation import Neighborhood
from fishergcn.splits import Split
from fishergcn.studies._tuned import Trial
from fishergcn.training import Method, Problem, parse_method

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
_MOST_RADIUS = 0.3


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


def most_radius(base: Problem) -> float:
    """Return the largest radius of a search: where draws along eigenvectors keep λ_max(L) ≤ 2, as graphs do."""
    around = base.neighborhood
    if not isinstance(around, Neighborhood) or around.directions == "random" or around.scale == "trace":
        return _MOST_RADIUS
    return max(around.largest_radius(_MOST_RADIUS), 1e-3)


def suggest(
    trial: Any,
    space: Mapping[str, Sequence[float]] | None,
    method: Method,
    scalings: Sequence[str],
    largest: float,
) -> dict[str, Any]:
    """Let Optuna choose the settings of a trial, from a grid or from the ranges that concern the method."""
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
        settings["radius"] = trial.suggest_float("radius", min(0.01, largest / 2), largest, log=True)
    if method.high_order:
        settings["order"] = trial.suggest_int("order", ORDERS[0], ORDERS[-1])
    if method.consistent:
        settings["consistency"] = trial.suggest_float("consistency", 0.1, 2.0, log=True)
        settings["temperature"] = trial.suggest_float("temperature", 0.3, 0.9, step=0.1)
    return settings


def open_study(optuna: Any, folder: Path, seed: int, identity: str) -> Any:
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


def enqueue_next(optuna: Any, study: Any, space: Mapping[str, Sequence[float]], found: Sequence[Trial]) -> None:
    """Put the next point of a grid in the queue (Optuna's own grid takes a trial that was interrupted for done)."""
    if study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.WAITING,)):
        return
    done = {tuple(trial.settings[name] for name in space) for trial in found}
    point = next(point for point in itertools.product(*space.values()) if point not in done)
    study.enqueue_trial(dict(zip(space, point, strict=True)))


def finished(optuna: Any, study: Any) -> list[Trial]:
    """Return the trials of a study that came to an end."""
    done = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    return [Trial(dict(each.params), float(each.value), each.user_attrs.get("val_loss")) for each in done]
