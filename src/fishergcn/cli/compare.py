"""``fishergcn compare``: any methods, beside their controls, on any graphs."""

from __future__ import annotations

from fishergcn._settings.seeds import FIRST_SEED, check_seeds
from fishergcn.cli import _options as shared
from fishergcn.cli._common import warnings_as_notes
from fishergcn.cli._tables import Tables, takes_tables
from fishergcn.cli.reproduce import run_plan


@takes_tables()
def compare(
    *,
    out: shared.StudyOut,
    dataset: shared.Dataset = None,
    graph: shared.Graphs = None,
    edges: shared.Edges = None,
    tables: Tables,
    name: shared.Name = None,
    splits: shared.Splits = None,
    method: shared.Methods = None,
    seeds: shared.Seeds = 1,
    first_seed: shared.FirstSeed = FIRST_SEED,
    epochs: shared.Epochs = None,
    settings: shared.Settings = "general",
    set_: shared.OtherSettings = None,
    device: shared.Device = "auto",
    workers: shared.Workers = None,
    cluster: shared.Cluster = None,
    tensorboard: shared.TensorBoard = None,
    dry_run: shared.DryRun = False,
    quiet: shared.Quiet = False,
    json: shared.Json = False,
) -> None:
    """Compare methods on your graphs, on the same splits and seeds, with paired statistics.

    For example:
    fishergcn compare --graph a.npz --graph b.npz --method gcn-x5-c --method fishergcn --splits 10 --out DIR

    Each run is saved to DIR/runs.sqlite as soon as it finishes. You can stop at any time, even with kill -9; the same
    command continues where it stopped. The plain GCN, each method's control and the same network without links are
    always included.
    """
    from fishergcn import studies
    from fishergcn.cli._own_data import Source
    from fishergcn.cli._settings import make_config

    data = Source(dataset, graph, edges, name, tables)
    config, numbers = make_config(settings, {"max_epochs": epochs}, set_), check_seeds(seeds, first_seed)
    with warnings_as_notes():
        graphs = list(data.load(mixed=True).values())
        methods = method or [shared.DEFAULT_METHOD]
        plan = studies.make_comparison(graphs, methods, splits=splits, seeds=numbers, config=config)
    options = {"device": device, "workers": workers, "cluster": cluster, "tensorboard": tensorboard}
    run_plan(plan, out, dry_run=dry_run, quiet=quiet, as_json=json, **options)
