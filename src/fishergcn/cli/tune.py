"""``fishergcn tune``: search for settings, by validation accuracy alone."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fishergcn._base.terminal import console, note, table
from fishergcn._settings.seeds import FIRST_SEED, check_seeds
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json, tell_of_report, this_command, told_when_stopped, warnings_as_notes
from fishergcn.cli._tables import Tables, takes_tables
from fishergcn.cli.train import train

if TYPE_CHECKING:
    from fishergcn.studies import Tuning


@takes_tables()
def tune(
    *,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for the search; a search that was interrupted there continues. Several methods or data sets "
            "each get a folder in it.",
            rich_help_panel=shared.SEARCH,
        ),
    ],
    dataset: shared.Dataset = None,
    graph: shared.Graph = None,
    edges: shared.Edges = None,
    tables: Tables,
    name: shared.Name = None,
    splits: shared.Splits = None,
    method: shared.Methods = None,
    grid: Annotated[
        Literal["paper"] | None,
        typer.Option(
            help="Try the 72 points of the paper's grid instead of searching ranges (TPE).",
            rich_help_panel=shared.SEARCH,
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Total number of trials; by default 50, or the whole grid.", rich_help_panel=shared.SEARCH),
    ] = None,
    search_seed: Annotated[int, typer.Option(help="Seed of the search.", rich_help_panel=shared.SEARCH)] = 0,
    seeds: shared.Seeds = 1,
    first_seed: shared.FirstSeed = FIRST_SEED,
    device: shared.Device = "auto",
    workers: shared.Workers = None,
    dry_run: shared.DryRun = False,
    quiet: shared.Quiet = False,
    json: shared.Json = False,
    settings: shared.Settings = "general",
    epochs: shared.Epochs = None,
    set_: shared.OtherSettings = None,
) -> None:
    """Search for the settings with the best validation accuracy.

    Searches learning rate, dropout, weight decay, hidden units, feature scaling and bias; also the radius of fishergcn,
    the order of -t methods, and the weight and temperature of the consistency term of -c methods.

    The test nodes are never used. For example:
    fishergcn tune --dataset cora --method fishergcn --grid paper --out study
    """
    from fishergcn import studies
    from fishergcn._base.imports import require
    from fishergcn.cli._cost import show_cost
    from fishergcn.cli._own_data import Source
    from fishergcn.cli._settings import make_config, parse_setting
    from fishergcn.execution import Display, Listener

    require("optuna", extra="tune", purpose="fishergcn tune")
    data = Source(dataset, graph, edges, name, tables)
    config = make_config(settings, {"max_epochs": epochs}, set_)
    numbers = check_seeds(seeds, first_seed)
    methods = method or [shared.DEFAULT_METHOD]
    if dry_run:
        with warnings_as_notes():
            cost = studies.tuning_cost(
                data.load().values(), methods, splits or None, numbers, config,
                grid=grid, trials=trials, device=device, workers=workers,
            )  # fmt: skip
        if grid is None:
            note("a bound: the search chooses as it goes, and every trial counts with the settings that take longest.")
        show_cost(cost, as_json=json)
        return
    found: list[tuple[Path, dict[str, Any], Tuning]] = []
    with told_when_stopped(f"finished trials are kept; continue with: {this_command()}"), warnings_as_notes():
        graphs = data.load()
        for index, (each, loaded) in enumerate(graphs.items()):
            given_data = data.options() | {"dataset": data.dataset and [data.dataset[index]]}
            for one in methods:
                place = out / (each if len(graphs) > 1 else "") / (one if len(methods) > 1 else "")
                listener = Listener() if quiet else Display()
                tuning = studies.tune(
                    loaded,
                    one,
                    splits or None,
                    place,
                    numbers,
                    config,
                    grid=grid,
                    trials=trials,
                    seed=search_seed,
                    device=device,
                    workers=workers,
                    listener=listener,
                )
                found.append((place, given_data, tuning))
    if json:
        print_json([_facts(tuning) for _, _, tuning in found])
        return
    given = {
        "splits": splits,
        "settings": settings,
        "seeds": seeds,
        "first_seed": first_seed,
        "device": device,
        "workers": workers,
    }
    for place, given_data, tuning in found:
        _print_table(tuning)
        kept = [text for text in set_ or [] if parse_setting(text)[0] not in tuning.best.settings]
        best = {"lr" if name == "learning_rate" else name: value for name, value in tuning.best.settings.items()}
        kept += [f"{name}={_shown(best.pop(name))}" for name in list(best) if name not in shared.options_of(train)]
        options = {**given_data, "method": [tuning.method], **given, "epochs": epochs, "set_": kept or None}
        # Trains the best trial again, to the last digit, and then looks at the test nodes.
        command = shlex.join(["fishergcn", "train", *shared.words_of(train, {**options, **best})])
        note(f"all trials are in {place / 'tuning.json'}; to train with the best settings: {command}")
    tell_of_report(out)


def _facts(found: Tuning) -> dict[str, Any]:
    best = found.best
    facts = {"method": found.method, "trials": len(found.trials), "val_accuracy": best.val_accuracy}
    return {**facts, "val_loss": best.val_loss, "settings": best.settings, "config": found.config.to_dict()}


def _print_table(found: Tuning) -> None:
    rows = [[name, _shown(value, ".6g")] for name, value in found.best.settings.items()]
    rows.append(["mean validation accuracy", f"{found.best.val_accuracy:.2%}"])
    console().print(table(f"Best of {len(found.trials)} trials, {found.method}", ["setting", "value"], rows))


def _shown(value: Any, form: str = "") -> str:
    """Return a setting as --set reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else format(value, form)
