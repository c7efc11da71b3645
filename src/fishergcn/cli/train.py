"""``fishergcn train``: train one method or several, compare them, save what was learned."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fishergcn.cli import _options as shared
from fishergcn.cli._common import console, note, print_json, warnings_as_notes

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.splits import Split
    from fishergcn.training import RunRecord

__all__ = ["chosen_seeds", "chosen_splits", "told_when_stopped", "train"]

_SETTINGS = "Settings (the paper's by default)"
_LARGE = "Large graphs (also in several processes: torchrun --nproc-per-node 2 -m fishergcn train ...)"


@contextlib.contextmanager
def told_when_stopped(kept: str) -> Iterator[None]:
    """End a command that Ctrl-C stops with one line that says what is ``kept``."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"stopped by SIGINT; {kept}")
        raise typer.Exit(130) from None


@told_when_stopped("nothing was written.")
def train(
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
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"{shared.METHODS}; repeat to compare. {shared.DEFAULT_METHOD} by default.",
            rich_help_panel=shared.RUNS,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds per split.", rich_help_panel=shared.RUNS)] = 1,
    first_seed: shared.FirstSeed = 2019,
    device: shared.Device = "cpu",
    workers: shared.Workers = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save model and predictions to this new folder; of several methods, to a folder each.",
            rich_help_panel=shared.RUNS,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace models saved in --out.", rich_help_panel=shared.RUNS)
    ] = False,
    quiet: shared.Quiet = False,
    json: shared.Json = False,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", "--max-epochs", help="Epochs at most.", show_default="500", rich_help_panel=_SETTINGS),
    ] = None,
    hidden: Annotated[
        str | None,
        typer.Option(help="Sizes of hidden layers, as 64 or 64,64.", show_default="64", rich_help_panel=_SETTINGS),
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option("--lr", "--learning-rate", help="Learning rate.", show_default="0.01", rich_help_panel=_SETTINGS),
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Dropout rate.", show_default="0.5", rich_help_panel=_SETTINGS)
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="wd of (wd/2) ‖W‖².", show_default="0.0005", rich_help_panel=_SETTINGS)
    ] = None,
    stopping: Annotated[
        str | None, typer.Option(help="paper, patience or none.", show_default="paper", rich_help_panel=_SETTINGS)
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Epochs, for --stopping patience.", show_default="100", rich_help_panel=_SETTINGS)
    ] = None,
    test_at: Annotated[
        str | None,
        typer.Option(
            help="Take the weights of epoch last or best-val.", show_default="last", rich_help_panel=_SETTINGS
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Perturbed graphs a step, M.", show_default="5", rich_help_panel=_SETTINGS)
    ] = None,
    rank: Annotated[
        int | None, typer.Option(help="Perturbed eigenvalues, k.", show_default="10", rich_help_panel=_SETTINGS)
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Size of the neighborhood, ε.", show_default="0.1", rich_help_panel=_SETTINGS)
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Train in mini-batches of so many nodes, for large graphs.", rich_help_panel=_LARGE),
    ] = None,
    fanout: Annotated[
        str | None,
        typer.Option(
            help="Neighbors that a node of a batch draws in each layer, the last first, as 10,10; -1 for all.",
            rich_help_panel=_LARGE,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of TrainConfig; may be repeated.",
            rich_help_panel=_SETTINGS,
        ),
    ] = None,
) -> None:
    """Train graph convolutional networks on a data set or on your own files.

    Own data in one command:
    fishergcn train --edges links.csv --features nodes.csv --labels labels.csv --out model
    """
    from fishergcn import execution
    from fishergcn.cli._large import parse_batches, train_in_batches
    from fishergcn.cli._own_data import Source
    from fishergcn.cli._settings import make_config
    from fishergcn.models import check_model_target

    # All that can be wrong with the options is found before the work begins.
    methods = _methods(method)
    execution.find_device(device)
    batches = parse_batches(batch_size, fanout, workers)
    if out is not None:
        check_model_target(out, overwrite=overwrite)
    loaded = Source(dataset, graph, edges, features, labels, header, directed, self_links, name).load()
    options = {
        "max_epochs": epochs,
        "hidden": hidden,
        "learning_rate": lr,
        "dropout": dropout,
        "weight_decay": weight_decay,
        "stopping": stopping,
        "patience": patience,
        "test_at": test_at,
        "samples": samples,
        "rank": rank,
        "radius": radius,
    }
    config = make_config(options, setting or [], loaded)
    chosen = chosen_splits(loaded, split)
    numbers = chosen_seeds(seeds, first_seed)
    keep = out is not None
    results: dict[str, list[RunRecord]] | None
    with warnings_as_notes():
        if batches is not None:
            results = train_in_batches(loaded, methods, chosen, numbers, config, batches, device, quiet, keep)
        else:
            results = {
                each: execution.train(
                    loaded, each, chosen, numbers, config, device, workers, not quiet, keep_weights=keep
                )
                for each in methods
            }
    if results is None:  # it is for another process to show and save them
        return
    _show(loaded, results, as_json=json)
    if out is not None:
        _save(out, loaded, chosen, results, overwrite=overwrite)


def _methods(names: Sequence[str] | None) -> list[str]:
    from fishergcn.errors import InputError
    from fishergcn.training import parse_method

    methods = [parse_method(name).name for name in names or [shared.DEFAULT_METHOD]]
    if len(set(methods)) != len(methods):
        raise InputError(f"--method must name distinct methods, got {', '.join(methods)}.")
    return methods


def chosen_seeds(count: int, first: int) -> list[int]:
    """Return the seeds of --seeds and --first-seed."""
    from fishergcn._base.checks import check_integer

    first = check_integer("--first-seed", first, minimum=0)
    return list(range(first, first + check_integer("--seeds", count, minimum=1)))


def chosen_splits(graph: Graph, texts: Sequence[str] | None) -> list[Split]:
    """Return the splits that --split names, or those that suit the graph."""
    from fishergcn import splits

    if texts:
        return [splits.parse(graph, text) for text in texts]
    if graph.standard_split is not None:
        return [splits.public(graph)]
    held = splits.held_out(graph)
    labeled = len(held.train) + len(held.val)
    note(
        f"{len(held.val)} of {labeled} labeled nodes are held out for validation "
        "(20 % of each class, at least one where it has two)."
    )
    _note_single_members(graph)
    return [held]


def _note_single_members(graph: Graph) -> None:
    import numpy as np

    labels = graph.labels
    if labels is None:
        return
    counts = np.bincount(labels[labels >= 0], minlength=graph.num_classes)
    names = graph.class_names or [str(label) for label in range(graph.num_classes)]
    single = [repr(names[label]) for label in np.flatnonzero(counts == 1)]
    if single:
        note(f"with one labeled node, a class is learned but not validated: {', '.join(single)}.")


def _show(graph: Graph, results: dict[str, list[RunRecord]], *, as_json: bool) -> None:
    from fishergcn.cli._results import differences, differences_table, means, means_table, runs_table

    if as_json:
        runs = [record.to_dict() for records in results.values() for record in records]
        print_json({"methods": means(results), "differences": differences(results), "runs": runs})
        return
    title = graph.name or "the graph"
    screen = console()
    if len(results) == 1:
        screen.print(runs_table(results, title))
    screen.print(means_table(results, title))
    compared = differences_table(results)
    if compared is not None:
        screen.print(compared)


def _save(
    out: Path,
    graph: Graph,
    splits: Sequence[Split],
    results: dict[str, list[RunRecord]],
    *,
    overwrite: bool,
) -> None:
    from fishergcn.models import save_models

    records = [record for each in results.values() for record in each]
    for place, model in save_models(out, graph, records, splits, overwrite=overwrite).items():
        best, runs = model.record, model.chosen_from
        rule = f", the best of {runs} by validation accuracy" if runs > 1 else ""
        note(f"saved {place}: {best.method}, split {best.split}, seed {best.seed}{rule}.")
