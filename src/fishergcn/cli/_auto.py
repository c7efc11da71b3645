"""``fishergcn train`` without a method: the choice of a model, as the command line shows it."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fishergcn._base.files import folder_inside, refuse_links
from fishergcn._base.terminal import console, narrow, note, table
from fishergcn.cli._common import (
    COMMAND_BEGAN,
    exit_on_interrupt,
    print_json,
    tell_of_report,
    this_command,
    warnings_as_notes,
)
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.cli import _options as shared
    from fishergcn.cli._data import Data
    from fishergcn.cli.train import Saved, Search
    from fishergcn.models import Selection, TrainedModel


def choose_models(
    data: Data,
    settings: Mapping[str, Any],
    machine: shared.Machine,
    seed: int,
    saved: Saved,
    printed: shared.Printed,
    options: Search,
) -> None:
    """Choose a model for every graph and split, show how, and save it."""
    from fishergcn.splits import choose
    from fishergcn.studies import OtherChoiceError, counting_from, fit, forget_choice
    from fishergcn.training import learnable

    found: list[TrainedModel] = []
    with warnings_as_notes():
        graphs = {name: learnable(graph) for name, graph in data.load().items()}
        places = [(name, split) for name, graph in graphs.items() for split in choose(graph, data.splits or None)]
        if len({(name, split.name) for name, split in places}) < len(places):
            raise InputError("splits must have distinct names, but one was given twice.")
        for name, split in places:
            target = saved.out
            if target is not None and len(places) > 1:
                target = folder_inside(target, f"{name} {split.name}".replace(":", "-"))
            search = None if target is None else target.with_name(f"{target.name}-search")
            if search is not None:
                refuse_links(search.parent, search.name)
            again = f"finished runs are in {search}; continue with: {this_command()}"
            known: dict[str, Any] = dataclasses.asdict(options) | {
                "settings": settings, "workers": machine.workers, "progress": not printed.quiet, "seed": seed,
            }  # fmt: skip
            now = time.monotonic()
            begun = now if found else COMMAND_BEGAN.get(now)  # the first limit has the start of the command in it
            with exit_on_interrupt("nothing was saved." if search is None else again), counting_from(begun):
                try:
                    model = fit(graphs[name], split, machine.device, folder=search, **known)
                except OtherChoiceError:
                    if not saved.overwrite or search is None:
                        raise
                    forget_choice(search)  # of other data, which is to be overwritten
                    model = fit(graphs[name], split, machine.device, folder=search, **known)
            found.append(model)
            if not printed.json:
                _show(model)
            if target is not None:
                model.save(target, overwrite=saved.overwrite)
                note(f"saved {target}; the runs it was chosen from are in {search}.")
    if printed.json:
        print_json([_facts(model) for model in found])
    elif saved.out is not None:
        tell_of_report(saved.out)


def update_model(data: Data, machine: shared.Machine, saved: Saved, printed: shared.Printed) -> None:
    """Train the model in a folder again on other data, and put the new one in its place."""
    from fishergcn.models import load_model, refit

    if saved.out is None:
        raise AssertionError("the command refuses --update without --out")
    with warnings_as_notes():
        model = load_model(saved.out)
        graphs = list(data.load(like=model.graph).values())
        splits: list[str | None] = list(data.splits or ()) or [None]
        if len(graphs) != 1 or len(splits) != 1:
            raise InputError(f"--update takes one graph and one split, got {len(graphs)} and {len(splits)}.")
        found = refit(model, graphs[0], splits[0], machine.device, progress=not printed.quiet)
        found.save(saved.out, overwrite=True)
    if printed.json:
        print_json([_facts(found)])
        return
    sizes = found.split_sizes
    nodes = f"{sizes['train']:,} training and {sizes['val']:,} validation nodes"
    note(f"updated {saved.out}: {found.record.method}, {nodes}.")
    tell_of_report(saved.out)


def _facts(model: TrainedModel) -> dict[str, Any]:
    selection = None if model.selection is None else model.selection.to_dict()
    found: dict[str, Any] = {"run": model.record.to_dict(), "selection": selection}
    if model.graph.targets is None:
        found["calibration"] = model.calibration.to_dict()
    if model.task.decided:
        found["threshold"] = model.threshold
    return found | ({} if model.aside is None else {"sets": model.aside.to_dict()})


def _show(model: TrainedModel) -> None:
    from fishergcn.models import words_of_trust
    from fishergcn.training import registered_scores

    record = model.record
    if model.selection is None:
        return
    show_selection(model.selection, f"{record.dataset}, split {record.split}: candidates")
    if not math.isnan(record.test_loss):
        shown = [each for each in registered_scores(model.graph.task) if each.shown and each.name != "loss"]
        tested = ", ".join(f"{each.title} {each.text(getattr(record, f'test_{each.name}'))}" for each in shown)
        console().print(f"On the test nodes: {tested}.", soft_wrap=True)
    for sentence in words_of_trust(model):
        console().print(sentence, soft_wrap=True)


def show_selection(selection: Selection, title: str) -> None:
    """Print the candidates, best first and those left out last, and in words what came out."""
    screen, made = console(), narrow(table(title, *selection.table()))
    made.columns[1].justify = "left"
    screen.print(made)
    for sentence in selection.sentences:
        screen.print(sentence, soft_wrap=True)
