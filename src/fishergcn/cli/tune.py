"""``fishergcn tune``: search for settings, by validation accuracy alone."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fishergcn.cli import _options as shared
from fishergcn.cli._common import console, note, print_json, table, warnings_as_notes

if TYPE_CHECKING:
    from fishergcn.cli._own_data import Source
    from fishergcn.studies import Trial, Tuning

__all__ = ["tune"]

_SEARCH, _SETTINGS = "Search", "Settings that are not searched"
_USUAL = {"seeds": 1, "first-seed": 2019, "device": "cpu", "workers": 1}  # defaults of train


def tune(
    out: Annotated[
        Path,
        typer.Option(help="Folder of the study; a search that was interrupted there goes on.", rich_help_panel=_SEARCH),
    ],
    dataset: shared.Dataset = None,
    graph: shared.Graph = None,
    edges: shared.Edges = None,
    features: shared.Features = None,
    labels: shared.Labels = None,
    header: shared.Header = None,
    directed: shared.Directed = "undirected",
    self_links: shared.SelfLinks = "keep",
    name: shared.Name = None,
    split: shared.Split = None,
    method: Annotated[str, typer.Option(help=f"{shared.METHODS}.", rich_help_panel=_SEARCH)] = shared.DEFAULT_METHOD,
    grid: Annotated[
        str | None,
        typer.Option(help="paper: the paper's 72 points. By default ranges (TPE).", rich_help_panel=_SEARCH),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Trials in all; 50 by default, or all points of the grid.", rich_help_panel=_SEARCH),
    ] = None,
    search_seed: Annotated[int, typer.Option(help="Seed of the search.", rich_help_panel=_SEARCH)] = 0,
    seeds: Annotated[int, typer.Option(help="How many seeds per split and trial.", rich_help_panel=shared.RUNS)] = 1,
    first_seed: shared.FirstSeed = 2019,
    device: shared.Device = "cpu",
    workers: shared.Workers = 1,
    quiet: shared.Quiet = False,
    json: shared.Json = False,
    epochs: Annotated[
        int | None, typer.Option("--epochs", "--max-epochs", help="Epochs at most.", rich_help_panel=_SETTINGS)
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any of TrainConfig; may be repeated.",
            rich_help_panel=_SETTINGS,
        ),
    ] = None,
) -> None:
    """Search for learning rate, dropout, weight decay and hidden units with the best validation accuracy.

    Test nodes are never looked at: fishergcn tune --dataset cora --method fishergcn --grid paper --out study
    """
    from fishergcn import studies
    from fishergcn._base.imports import require
    from fishergcn.cli._own_data import Source
    from fishergcn.cli._settings import make_config, parse_setting
    from fishergcn.cli.train import chosen_seeds, chosen_splits, told_when_stopped

    require("optuna", extra="tune", purpose="fishergcn tune")
    source = Source(dataset, graph, edges, features, labels, header, directed, self_links, name)
    again = shlex.join(["fishergcn", *sys.argv[1:]])
    with told_when_stopped(f"finished trials are kept, go on with: {again}"):
        loaded = source.load()
        config = make_config({"max_epochs": epochs}, setting or [], loaded)
        with warnings_as_notes():
            found = studies.tune(
                loaded,
                method,
                chosen_splits(loaded, split),
                out,
                chosen_seeds(seeds, first_seed),
                config,
                grid=grid,
                trials=trials,
                seed=search_seed,
                device=device,
                workers=workers,
                on_trial=None if quiet else _tell,
            )
    if json:
        _print_json(found)
        return
    _print_table(found)
    given: dict[str, Any] = {"split": split, "seeds": seeds, "first-seed": first_seed, "device": device}
    kept = [text for text in setting or [] if parse_setting(text)[0] not in found.best.settings]
    command = _train_command(found, source, {**given, "workers": workers, "epochs": epochs, "set": kept})
    note(f"all trials are in {out / 'tuning.json'}; train with: {command}")


def _tell(number: int, wanted: int, trial: Trial, best: Trial) -> None:
    note(f"trial {number} of {wanted}: validation {trial.val_accuracy:.2%}, best {best.val_accuracy:.2%}")


def _print_json(found: Tuning) -> None:
    best = found.best
    facts = {"method": found.method, "trials": len(found.trials), "val_accuracy": best.val_accuracy}
    print_json({**facts, "val_loss": best.val_loss, "settings": best.settings, "config": found.config.to_dict()})


def _print_table(found: Tuning) -> None:
    rows = [[name, f"{value:.6g}"] for name, value in found.best.settings.items()]
    rows.append(["mean validation accuracy", f"{found.best.val_accuracy:.2%}"])
    console().print(table(f"Best of {len(found.trials)} trials, {found.method}", ["setting", "value"], rows))


def _train_command(found: Tuning, source: Source, given: dict[str, Any]) -> str:
    """Return the command that trains the best trial again, to the last digit, and then looks at the test nodes."""
    words = ["fishergcn", "train", *source.options(), "--method", found.method]
    for name, value in given.items():
        if value not in (None, _USUAL.get(name)):
            words += [word for each in (value if isinstance(value, list) else [value]) for word in (f"--{name}", each)]
    for name, value in found.best.settings.items():
        words += [f"--{'lr' if name == 'learning_rate' else name.replace('_', '-')}", value]
    return shlex.join(map(str, words))
