"""``fishergcn train`` without a method: the choice of a model, as the command line shows it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fishergcn._base.terminal import console, note, table
from fishergcn.cli._common import exit_on_interrupt, print_json, tell_of_report, this_command, warnings_as_notes
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.cli import _options as shared
    from fishergcn.cli._data import Data
    from fishergcn.cli.train import Saved, Search
    from fishergcn.models import TrainedModel


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
    from fishergcn.studies import OtherChoiceError, fit, forget_choice
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
                target /= f"{name} {split.name}".replace(":", "-")
            search = None if target is None else target.with_name(f"{target.name}-search")
            again = f"finished runs are in {search}; continue with: {this_command()}"
            known: dict[str, Any] = dataclasses.asdict(options) | {
                "settings": settings, "workers": machine.workers, "progress": not printed.quiet, "seed": seed,
            }  # fmt: skip
            with exit_on_interrupt("nothing was saved." if search is None else again):
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
        graphs = list(data.load().values())
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
    return {"run": model.record.to_dict(), "selection": selection}


def _show(model: TrainedModel) -> None:
    from fishergcn.training import registered_scores

    selection, record, screen = model.selection, model.record, console()
    if selection is None:
        return
    rows = [
        [
            ("* " if each.name == selection.chosen else "  ") + each.name,
            each.settings.get("scaling", ""),
            ("yes" if each.settings["bias"] else "no") if "bias" in each.settings else "",
            f"{each.settings['weight_decay']:g}" if "weight_decay" in each.settings else "",
            selection.entry.text(each.value),
            f"{each.cross_entropy:.4f}" if each.tried else "-",
            str(each.runs),
            f"{each.seconds:.1f}",
        ]
        for each in selection.candidates
    ]
    heads = ["candidate", "scaling", "bias", "decay", "validation", "cross entropy", "runs", "seconds"]
    screen.print(table(f"{record.dataset}, split {record.split}: candidates", heads, rows))
    for sentence in selection.sentences:
        screen.print(sentence, soft_wrap=True)
    if not math.isnan(record.test_accuracy):
        shown = [each for each in registered_scores() if each.shown and each.name != "loss"]
        tested = ", ".join(f"{each.title} {each.text(getattr(record, f'test_{each.name}'))}" for each in shown)
        screen.print(f"On the test nodes: {tested}.", soft_wrap=True)
