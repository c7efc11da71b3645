"""``fishergcn train``: train one method or several, compare them, save what was learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fishergcn._base.checks import check_integer
from fishergcn._base.seeds import FIRST_SEED, check_seeds
from fishergcn._base.terminal import console, note
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json, tell_of_report, told_when_stopped, warnings_as_notes
from fishergcn.cli._tables import Tables, takes_tables

if TYPE_CHECKING:
    from fishergcn.training import RunRecord, TrainConfig

    Results = dict[str, dict[str, list[RunRecord]]]  # of each data set, of each method


@takes_tables()
@told_when_stopped("nothing was saved.")
def train(
    *,
    dataset: shared.Dataset = None,
    graph: shared.Graph = None,
    edges: shared.Edges = None,
    tables: Tables,
    name: shared.Name = None,
    splits: shared.Splits = None,
    method: shared.Methods = None,
    seeds: shared.Seeds = 1,
    first_seed: shared.FirstSeed = FIRST_SEED,
    device: shared.Device = "auto",
    workers: shared.Workers = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save the model and its predictions to this new folder, or each model of several to a folder in it.",
            rich_help_panel=shared.RUNS,
        ),
    ] = None,
    overwrite: shared.Overwrite = False,
    dry_run: shared.DryRun = False,
    quiet: shared.Quiet = False,
    json: shared.Json = False,
    settings: shared.Settings = "general",
    epochs: shared.Epochs = None,
    hidden: shared.Hidden = None,
    lr: shared.LearningRate = None,
    dropout: shared.Dropout = None,
    weight_decay: shared.WeightDecay = None,
    stopping: shared.Stopping = None,
    patience: shared.Patience = None,
    test_at: shared.TestAt = None,
    scaling: shared.Scaling = None,
    bias: shared.Bias = None,
    class_weight: shared.ClassWeight = None,
    samples: shared.Samples = None,
    rank: shared.Rank = None,
    radius: shared.Radius = None,
    set_: shared.OtherSettings = None,
    time_limit: shared.TimeLimit = None,
    batch_size: shared.BatchSize = None,
    fanout: shared.Fanout = None,
) -> None:
    """Train a model on a data set or on your own files.

    Without --method, several networks (with and without links, first-order and high-order, with and without
    consistency on unlabeled nodes) are compared on the validation nodes, and the best one is trained.

    Your own data in one command:
    fishergcn train --edges links.csv --features nodes.csv --labels labels.csv --out model
    """
    from fishergcn import execution
    from fishergcn.cli._auto import choose_models
    from fishergcn.cli._cost import show_cost
    from fishergcn.cli._own_data import Source
    from fishergcn.cli._settings import given_settings, make_config, parse_batches
    from fishergcn.errors import InputError
    from fishergcn.models import check_model_target, save_models
    from fishergcn.splits import choose
    from fishergcn.training import is_first_process, learnable, parse_method

    # All that can be wrong with the options is found before the work begins.
    methods = [parse_method(each).name for each in method or ()]
    execution.find_device(device)
    batches = parse_batches(batch_size, fanout)
    numbers = check_seeds(seeds, first_seed)
    options = {
        "max_epochs": epochs,
        "hidden": hidden,
        "learning_rate": lr,
        "dropout": dropout,
        "weight_decay": weight_decay,
        "stopping": stopping,
        "patience": patience,
        "test_at": test_at,
        "scaling": scaling,
        "bias": bias,
        "class_weight": class_weight,
        "samples": samples,
        "rank": rank,
        "radius": radius,
    }
    config = make_config(settings, options, set_)
    if workers is not None:
        check_integer("workers", workers, minimum=1)
    if time_limit is not None and methods:
        raise InputError("--time-limit limits the search for a method, so it cannot be used with --method.")
    if batches is not None and not methods:
        raise InputError("--batch-size needs a --method, such as gcn: the search for a method works on whole graphs.")
    if dry_run and not methods:
        raise InputError("--dry-run needs a --method, such as gcn; the search for one takes what --time-limit says.")
    if out is not None:
        check_model_target(out, overwrite=overwrite)
    data = Source(dataset, graph, edges, name, tables)
    if not methods:
        choose_models(
            data,
            splits,
            given_settings(options, set_),
            device,
            workers,
            first_seed,
            out,
            overwrite,
            quiet,
            json,
            time_limit,
        )
        return
    with warnings_as_notes():
        loaded = data.load()
        graphs = {each: learnable(found, map(parse_method, methods)) for each, found in loaded.items()}
        chosen = {each: choose(found, splits) for each, found in graphs.items()}
        if dry_run:
            costs = [
                execution.Part.of(found, parse_method(one), config, picked, len(picked) * len(numbers), dataset=each)
                for (each, found), picked in zip(graphs.items(), chosen.values(), strict=True)
                for one in methods
            ]
            show_cost(execution.cost_of(costs, device, workers, batches=batches), as_json=json)
            return
        results: Results = {}
        for each, found in graphs.items():
            records = execution.train(
                found,
                methods,
                chosen[each],
                numbers,
                config,
                device,
                1 if batches is not None and workers is None else workers,
                not quiet,
                keep_weights=out is not None,
                batches=batches,
            )
            results[each] = {one: [record for record in records if record.method == one] for one in methods}
    if not is_first_process():
        return
    _show(results, config, as_json=json)
    if out is not None:
        for each, found in graphs.items():
            place = out / each if len(graphs) > 1 else out
            every = [record for records in results[each].values() for record in records]
            for folder, model in save_models(place, found, every, chosen[each], overwrite=overwrite).items():
                best, runs = model.record, model.chosen_from
                rule = f", the best of {runs} by validation accuracy" if runs > 1 else ""
                note(f"saved {folder}: {best.method}, split {best.split}, seed {best.seed}{rule}.")
        if not json:
            tell_of_report(out)


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
