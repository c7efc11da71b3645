"""``fishergcn compare``: any methods, beside their controls, on any graphs."""

from __future__ import annotations

from fishergcn.cli import _options as shared
from fishergcn.cli._common import warnings_as_notes
from fishergcn.cli._data import ManyGraphs
from fishergcn.cli._settings import SomeSettings
from fishergcn.cli.reproduce import run_plan


@shared.takes_options()
def compare(
    *,
    out: shared.StudyOut,
    data: ManyGraphs,
    runs: shared.Runs,
    settings: SomeSettings,
    machine: shared.StudyMachine,
    printed: shared.StudyPrinted,
) -> None:
    """Compare methods on your graphs, on the same splits and seeds, with paired statistics.

    For example:
    fishergcn compare --graph a.npz --graph b.npz --method gcn-x5-c --method fishergcn --splits 10 --out DIR

    Each run is saved to DIR/runs.sqlite as soon as it finishes. You can stop at any time, even with kill -9; the same
    command continues where it stopped. The plain GCN, each method's control and the same network without links are
    always included.
    """
    from fishergcn.studies import make_comparison
    from fishergcn.training import find_score

    score = find_score(printed.score or "accuracy")
    config, numbers = settings.config(), runs.numbers
    with warnings_as_notes():
        graphs = list(data.load().values())
        for graph in graphs:
            score.check_classes(graph.num_classes)
        methods = runs.method or [shared.DEFAULT_METHOD]
        plan = make_comparison(graphs, methods, splits=data.splits, seeds=numbers, config=config)
    run_plan(plan, out, machine, printed)
