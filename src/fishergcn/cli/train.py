"""``fishergcn train``: train one method or several, compare them, save what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fishergcn._base.checks import check_integer
from fishergcn._base.files import folder_inside
from fishergcn._base.terminal import console, note
from fishergcn.cli import _options as shared
from fishergcn.cli._common import exit_on_interrupt, print_json, show_cost, tell_of_report, warnings_as_notes
from fishergcn.cli._data import Data
from fishergcn.cli._settings import AllSettings, Batches
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn._base.types import IntArray
    from fishergcn.execution import Cost
    from fishergcn.graph import Graph
    from fishergcn.splits import Split
    from fishergcn.training import BatchSettings, RunRecord, TrainConfig

    Results1 = dict[str, list[RunRecord]]  # of each method
    Results = dict[str, Results1]  # of each data set


@dataclass(frozen=True)
class Saved:
    """Where models are saved."""

    out: Path | None = shared.run_option(
        "Save the model and its predictions to this new folder, or each model of several to a folder in it."
    )
    overwrite: shared.Overwrite = False
    update: bool = shared.run_option(
        "Train the model in --out again on this data, with new labels, nodes or links: the same choice, nothing is "
        "compared anew. The old model stays until the new one is whole.",
        default=False,
    )


@dataclass(frozen=True)
class Search:
    """How a model is chosen where no method is given."""

    score: str | None = shared.run_option(
        "What to choose by: accuracy (the default), balanced-accuracy, macro-f1, roc-auc, average-precision or "
        "log-loss; of several labels micro-f1 (the default) and others, of numbers r2 (the default), mae or rmse."
    )
    ensemble: bool = shared.run_option(
        "Whether the mean of several models may be chosen.", "--ensemble/--no-ensemble", default=True
    )
    refit: bool = shared.run_option("Train what was chosen once more, on validation nodes too.", default=False)
    coverage: float | None = shared.run_option(
        "Set half of the validation nodes aside for prediction sets that contain the true class for this share of "
        "nodes, such as 0.9; predict --coverage then shows the sets. Of numbers: set aside as many nodes as "
        "intervals of this coverage need.",
        metavar="SHARE",
    )
    time_limit: float | None = shared.run_option(
        "How many seconds choosing a model may take; no limit by default. What could not be finished is left out."
    )


@shared.takes_options()
@exit_on_interrupt("nothing was saved.")
def train(
    *,
    data: Data,
    runs: shared.Runs,
    machine: shared.Machine,
    saved: Saved,
    printed: shared.Printed,
    settings: AllSettings,
    search: Search,
    batches: Batches,
) -> None:
    """Train a model on a data set or on your own files.

    Without --method, models of many kinds and means of them are compared on nodes set aside, and the best is trained;
    the first line says what to expect of it.

    Your own data in one command:
    fishergcn train --edges links.csv --features nodes.csv --labels labels.csv --out model
    """
    from fishergcn.cli._auto import choose_models, update_model
    from fishergcn.cli.data import show_graphs
    from fishergcn.execution import find_device
    from fishergcn.models import check_coverage, check_model_target
    from fishergcn.training import find_score, parse_method

    # All that can be wrong with the options is found before the work begins.
    if search.score is not None:
        find_score(search.score)
    methods = [parse_method(each).name for each in runs.method or ()]
    find_device(machine.device)
    if search.coverage is not None:
        check_coverage(search.coverage)
    batch_settings = batches.settings()
    seeds, config = runs.numbers, settings.config()
    if machine.workers is not None:
        check_integer("workers", machine.workers, minimum=1)
    given = [name for name in ("time_limit", "refit") if getattr(search, name)] + ["score"] * (search.score is not None)
    if given and methods:
        option = "--" + given[0].replace("_", "-")
        raise InputError(f"{option} is for the search for a model, so it cannot be used with --method.")
    if saved.update and (methods or saved.out is None):
        raise InputError("--update trains the model in --out again: it needs --out and goes without --method.")
    if saved.update and search.coverage is not None:
        raise InputError("--update keeps the coverage that the model has, so it goes without --coverage.")
    if batch_settings is not None and not methods:
        raise InputError("--batch-size needs a --method, such as gcn: the search for a method works on whole graphs.")
    if printed.dry_run and not methods:
        with warnings_as_notes():
            show_graphs(data.load(), as_json=printed.json)
        note("only the files were read: with a --method, such as gcn, --dry-run also measures time and memory.")
        return
    if saved.out is not None:
        check_model_target(saved.out, overwrite=saved.overwrite or saved.update)
    if saved.update:
        update_model(data, machine, saved, printed)
    elif methods:
        _train_methods(_Work(data, methods, seeds, config, machine, batch_settings, search.coverage), saved, printed)
    else:
        choose_models(data, settings.given(), machine, runs.first_seed, saved, printed, search)


@dataclass(frozen=True)
class _Work:
    """What is to be trained, once it is known that it can be."""

    data: Data
    methods: list[str]
    seeds: list[int]
    config: TrainConfig
    machine: shared.Machine
    batches: BatchSettings | None
    coverage: float | None

    def divided(self, graph: Graph) -> tuple[list[Split], dict[str, IntArray] | None]:
        """Return the splits of a graph, and by their names the nodes set aside where a coverage is asked for."""
        from fishergcn.models import split_for
        from fishergcn.splits import choose

        found = choose(graph, self.data.splits)
        pairs = [split_for(graph, each, self.coverage) for each in found]
        known = {each.name: nodes for each, nodes in pairs if nodes is not None}
        return [each for each, _ in pairs], known or None

    def cost(self, graphs: Mapping[str, Graph], splits: Mapping[str, Sequence[Split]]) -> Cost:
        """Return what it would take."""
        from fishergcn.execution import Part, cost_of
        from fishergcn.training import parse_method

        parts = [
            Part.of(
                graph, parse_method(each), self.config, splits[name], len(splits[name]) * len(self.seeds), dataset=name
            )
            for name, graph in graphs.items()
            for each in self.methods
        ]
        return cost_of(parts, self.machine.device, self.machine.workers, batches=self.batches)


def _train_methods(work: _Work, saved: Saved, printed: shared.Printed) -> None:
    """Train given methods, show how they do, and save them; or say what it would take."""
    from fishergcn import execution
    from fishergcn.training import is_first_process, learnable, parse_method

    methods, machine = work.methods, work.machine
    with warnings_as_notes():
        graphs = {name: learnable(found, map(parse_method, methods)) for name, found in work.data.load().items()}
        divided = {name: work.divided(found) for name, found in graphs.items()}
        splits = {name: found for name, (found, _) in divided.items()}
        if printed.dry_run:
            show_cost(work.cost(graphs, splits), as_json=printed.json)
            return
        results: Results = {}
        for name, found in graphs.items():
            records = execution.train(
                found,
                methods,
                splits[name],
                work.seeds,
                work.config,
                machine.device,
                1 if work.batches is not None and machine.workers is None else machine.workers,
                not printed.quiet,
                keep_weights=saved.out is not None,
                batches=work.batches,
            )
            results[name] = {each: [record for record in records if record.method == each] for each in methods}
    if not is_first_process():
        return
    _show(results, work.config, as_json=printed.json)
    if saved.out is not None:
        for name, found in graphs.items():
            place = folder_inside(saved.out, name) if len(graphs) > 1 else saved.out
            known = {"aside": divided[name][1], "coverage": work.coverage or 0.9, "overwrite": saved.overwrite}
            _save(place, found, results[name], splits[name], known)
        if not printed.json:
            tell_of_report(saved.out)


def _save(place: Path, graph: Graph, results: Results1, splits: Sequence[Split], options: Mapping[str, Any]) -> None:
    from fishergcn.models import save_models
    from fishergcn.training import find_score

    every = [record for records in results.values() for record in records]
    for folder, model in save_models(place, graph, every, splits, **options).items():
        best, runs = model.record, model.chosen_from
        rule = f", the best of {runs} by validation {find_score(model.chosen_by).title}" if runs > 1 else ""
        note(f"saved {folder}: {best.method}, split {best.split}, seed {best.seed}{rule}.")


def _show(results: Results, config: TrainConfig, *, as_json: bool) -> None:
    from fishergcn.cli._results import differences, differences_table, means, means_table, runs_table

    if as_json:
        both = {
            key: [{"dataset": name, **fact} for name, found in results.items() for fact in facts(found)]
            for key, facts in (("methods", means), ("differences", lambda found: differences(found, config)))
        }
        every = [record for found in results.values() for records in found.values() for record in records]
        print_json({**both, "runs": [record.to_dict() for record in every]})
        return
    screen = console()
    for name, found in results.items():
        runs = sum(map(len, found.values()))
        if len(found) == 1:
            screen.print(runs_table(found, name))
        if len(found) > 1 or runs > 1:  # the mean of a single run would be the same row again
            screen.print(means_table(found, name))
        compared = differences_table(found, config)
        if compared is not None:
            screen.print(compared)
