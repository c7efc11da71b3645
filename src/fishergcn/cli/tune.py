"""``fishergcn tune``: search for settings, by a validation score alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fishergcn._base.files import folder_inside
from fishergcn._base.terminal import console, note, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import (
    exit_on_interrupt,
    print_json,
    show_cost,
    tell_of_report,
    this_command,
    warnings_as_notes,
)
from fishergcn.cli._data import Data
from fishergcn.cli._settings import SomeSettings, parse_setting
from fishergcn.cli.train import train

if TYPE_CHECKING:
    from fishergcn.studies import Tuning


_search = partial(shared.option, panel="Search")


@dataclass(frozen=True)
class Search:
    """Which settings are tried, and where the trials are kept."""

    out: Path = _search(
        "Folder for the search; a search that was interrupted there continues. Several methods or data sets each get a "
        "folder in it.",
        default=shared.REQUIRED,
    )
    grid: Literal["paper"] | None = _search("Try the 72 points of the paper's grid instead of searching ranges (TPE).")
    score: str = _search(
        "Which validation score to search by: accuracy, balanced-accuracy, macro-f1, roc-auc, average-precision, "
        "log-loss or loss.",
        default="accuracy",
        metavar="NAME",
    )
    trials: int | None = _search("Total number of trials; by default 50, or the whole grid.")
    search_seed: int = _search("Seed of the search.", default=0)


@shared.takes_options()
def tune(
    *,
    search: Search,
    data: Data,
    runs: shared.Runs,
    machine: shared.Machine,
    printed: shared.Printed,
    settings: SomeSettings,
) -> None:
    """Search for the settings with the best validation score, accuracy unless --score names another.

    Searches learning rate, dropout, weight decay, hidden units, feature scaling and bias; also the radius of fishergcn,
    the order of -t methods, and the weight and temperature of the consistency term of -c methods.

    The test nodes are never used. For example:
    fishergcn tune --dataset cora --method fishergcn --grid paper --out study
    """
    from fishergcn import studies
    from fishergcn._base.imports import require
    from fishergcn.execution import Display, Listener
    from fishergcn.training import find_score

    require("optuna", extra="tune", purpose="fishergcn tune")
    score = find_score(search.score).name
    config, numbers = settings.config(), runs.numbers
    methods = runs.method or [shared.DEFAULT_METHOD]
    given: dict[str, Any] = {"grid": search.grid, "trials": search.trials, **vars(machine)}
    if printed.dry_run:
        with warnings_as_notes():
            cost = studies.tuning_cost(data.load().values(), methods, data.splits or None, numbers, config, **given)
        if search.grid is None:
            note("a bound: the search chooses as it goes, and every trial counts with the settings that take longest.")
        show_cost(cost, as_json=printed.json)
        return
    for one in methods:  # before the first of several is trained
        studies.tunable(one)
    found: list[tuple[Path, Data, Tuning]] = []
    with exit_on_interrupt(f"finished trials are kept; continue with: {this_command()}"), warnings_as_notes():
        graphs = data.load()
        for index, (each, loaded) in enumerate(graphs.items()):
            own = replace(data, dataset=data.dataset and [data.dataset[index]])
            for one in methods:
                place = folder_inside(search.out, *[each] * (len(graphs) > 1), *[one] * (len(methods) > 1))
                listener = Listener() if printed.quiet else Display()
                tuning = studies.tune(
                    loaded, one, data.splits or None, place, numbers, config,
                    score=score, seed=search.search_seed, listener=listener, **given,
                )  # fmt: skip
                found.append((place, own, tuning))
    if printed.json:
        print_json([_facts(tuning) for _, _, tuning in found])
        return
    for place, own, tuning in found:
        _print_table(tuning)
        command = _command(tuning, settings, shared.values_of(own, replace(runs, method=[tuning.method]), machine))
        note(f"all trials are in {place / 'tuning.json'}; to train with the best settings: {command}")
    tell_of_report(search.out)


def _command(found: Tuning, settings: SomeSettings, options: Mapping[str, Any]) -> str:
    """Return the command that trains the best trial again, to the last digit, and then looks at the test nodes."""
    kept = [text for text in settings.set_ or () if parse_setting(text)[0] not in found.best.settings]
    best = dict(found.best.settings)
    kept += [f"{name}={_shown(best.pop(name))}" for name in list(best) if name not in shared.options_of(train)]
    values = {**options, **vars(settings), "set_": kept or None, **best}
    return shlex.join(["fishergcn", "train", *shared.words_of(train, values)])


def _facts(found: Tuning) -> dict[str, Any]:
    best = found.best
    facts = {"method": found.method, "trials": len(found.trials), "score": found.score}
    facts |= {"val_accuracy": best.val_accuracy, **best.scores}
    return {**facts, "val_loss": best.val_loss, "settings": best.settings, "config": found.config.to_dict()}


def _print_table(found: Tuning) -> None:
    rows = [[name, _shown(value, ".6g")] for name, value in found.best.settings.items()]
    rows.append([f"mean validation {found.measure.title}", found.measure.text(found.value(found.best))])
    console().print(table(f"Best of {len(found.trials)} trials, {found.method}", ["setting", "value"], rows))


def _shown(value: Any, form: str = "") -> str:
    """Return a setting as --set reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else format(value, form)
