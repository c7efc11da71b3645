"""``fishergcn fit-large``: classes for the nodes of a graph that does not fit into memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fishergcn._base.terminal import console, note, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import exit_on_interrupt, print_json
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.large import LargeFit


@dataclass(frozen=True)
class FitLargeOptions:
    """Where the graph is, how it is cut, and where the work is done."""

    out: Path = shared.option(
        "Folder for result.json, predictions/part-*.parquet and, until it is done, the blocks. If it holds part of "
        "this work, only the rest is done.",
        default=shared.REQUIRED,
    )
    edges: Path | None = shared.option(
        "Instead of GRAPH: links as Parquet, a file or a folder of files; its first two columns hold node numbers."
    )
    nodes: Path | None = shared.option(
        "Nodes as Parquet, numbered by their rows: a column of classes, features and, if you like, part (train, val, "
        "test) and node (the row's number)."
    )
    label: str = shared.option("Column of --nodes that holds the classes.", default="label")
    memory: float = shared.option("GB that the work may take on one machine; blocks are cut accordingly.", default=4.0)
    hops: int = shared.option("How many steps features are propagated.", default=2)
    epochs: int = shared.option("Passes over the training nodes at most.", default=30)
    seed: int = shared.option("Seed of networks and, without a split, of the nodes held out.", default=0)
    tasks: int | None = shared.option("Tasks at once here; by default one per core, as far as memory allows.")
    cluster: str | None = shared.option(
        "Run on a Ray cluster: auto or its address. Its machines must share --out and the graph's files.",
        metavar="auto|ADDRESS",
    )
    keep_blocks: bool = shared.option("Keep the blocks when all is done.", "--keep-blocks", default=False)
    overwrite: shared.Overwrite = False
    dry_run: bool = shared.option(
        "Only say how the graph is cut and how much disk it takes.", "--dry-run", default=False
    )
    quiet: bool = shared.option("Hide progress.", "--quiet", default=False)
    json: shared.Json = False


@shared.takes_options()
@exit_on_interrupt("finished blocks are kept, and the same command continues.")
def fit_large(
    options: FitLargeOptions,
    graph: Annotated[
        Path | None, typer.Argument(help="A mapped graph folder: Graph.save(folder, mapped=True).", metavar="GRAPH")
    ] = None,
) -> None:
    """Predict the classes of a graph that does not fit into memory.

    Features of neighbors and labels are streamed from files, a block of nodes at a time; networks on them, label
    propagation and correct-and-smooth are compared on validation nodes, and the best predicts all nodes. For example:
    fishergcn fit-large graph-folder --out result --memory 4
    """
    from fishergcn.large import LargeSettings, plan_large
    from fishergcn.large import fit_large as fitted

    if (graph is None) == (options.edges is None):
        raise InputError(f"either GRAPH or --edges must be given, got {'both' if graph is not None else 'neither'}.")
    if (options.edges is None) != (options.nodes is None):
        raise InputError("--edges and --nodes go together.")
    settings = LargeSettings(
        memory=int(options.memory * 1e9), hops=options.hops, epochs=options.epochs, seed=options.seed
    )
    source = {"edges": options.edges, "nodes": options.nodes, "label": options.label, "settings": settings}
    if options.dry_run:
        plan = plan_large(graph, **source)  # type: ignore[arg-type]
        if options.json:
            facts = {"nodes": plan.nodes, "entries": plan.links, "blocks": plan.blocks, "disk_bytes": plan.disk}
            print_json(facts)
            return
        console().print(
            f"{plan.nodes:,} nodes, at most {plan.links:,} entries of the matrix, {plan.columns} features, "
            f"{plan.classes} classes: {plan.blocks} blocks, {len(plan.slabs(plan.columns)) or 1} pass(es) over the "
            f"links a step, up to {plan.disk / 1e9:.2f} GB of disk.",
            soft_wrap=True,
        )
        return
    found = fitted(
        graph,
        out=options.out,
        cluster=options.cluster,
        workers=options.tasks,
        overwrite=options.overwrite,
        keep=options.keep_blocks,
        progress=None if options.quiet else note,
        **source,  # type: ignore[arg-type]
    )
    if options.json:
        print_json(found.to_dict())
    else:
        _show(found)


def _show(found: LargeFit) -> None:
    rows = [
        [
            each.name,
            f"{each.val:.2%}",
            f"{each.val_nodes:,}",
            f"{each.test:.2%}" if each.test_nodes else "-",
            f"{each.test_nodes:,}",
        ]
        for each in sorted(found.candidates, key=lambda each: -each.val)
    ]
    heads = ["candidate", "validation", "of nodes", "test", "of nodes"]
    console().print(table(f"{found.nodes:,} nodes in {found.blocks} blocks", heads, rows))
    console().print(f"Chosen: {found.chosen}. Predictions: {found.predictions}", soft_wrap=True)
