"""``fishergcn compare``: any methods, beside their controls, on any graphs; or saved models on the same nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json, warnings_as_notes
from fishergcn.cli._data import ManyGraphs
from fishergcn.cli._settings import SomeSettings
from fishergcn.cli.reproduce import run_plan
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.studies import Honest


@shared.takes_options()
def compare(
    *,
    models: Annotated[
        list[Path] | None, typer.Argument(help="Model folders to compare, two or more.", metavar="MODEL")
    ] = None,
    out: shared.SomeStudyOut = None,
    data: ManyGraphs,
    runs: shared.Runs,
    settings: SomeSettings,
    machine: shared.StudyMachine,
    printed: shared.StudyPrinted,
) -> None:
    """Compare methods on your graphs, on the same splits and seeds, with paired statistics; or saved models.

    For example:
    fishergcn compare --graph a.npz --graph b.npz --method gcn-x5-c --method fishergcn --splits 10 --out DIR

    Each run is saved to DIR/runs.sqlite as soon as it finishes. You can stop at any time, even with kill -9; the same
    command continues where it stopped. The plain GCN, each method's control and the same network without links are
    always included.

    Models that fishergcn train --out saved are compared on the nodes that none of them was trained on, with --score
    and --json alone: fishergcn compare MODEL MODEL
    """
    from fishergcn.studies import make_comparison
    from fishergcn.training import find_score

    score = find_score(printed.score or "accuracy")
    if models:
        usual = shared.options_of(compare)
        given = {"out": out, **shared.values_of(data, runs, settings, machine, printed)}
        changed = [name for name, value in given.items() if value not in (None, usual.get(name))]
        if others := sorted(set(changed) - {"score", "json", "quiet"}):
            raise InputError(f"--{others[0].replace('_', '-')} cannot be used with model folders, which are trained.")
        _compare_models(models, score.name, as_json=printed.json)
        return
    if out is None:
        raise InputError("--out is missing: the folder for the results, or give two model folders or more.")
    config, numbers = settings.config(), runs.numbers
    with warnings_as_notes():
        graphs = list(data.load().values())
        for graph in graphs:
            score.check_classes(graph.num_classes)
        methods = runs.method or [shared.DEFAULT_METHOD]
        plan = make_comparison(graphs, methods, splits=data.splits, seeds=numbers, config=config)
    run_plan(plan, out, machine, printed)


def _compare_models(folders: Sequence[Path], score: str, *, as_json: bool) -> None:
    from fishergcn.models import load_model
    from fishergcn.studies import compare_models

    if len(set(folders)) < 2:
        raise InputError(f"compare takes two different model folders or more, got {folders[0]} alone.")
    found = compare_models({str(folder): load_model(folder) for folder in folders}, score)
    if as_json:
        print_json(found.to_dict())
        return
    measure, rows = found.score, []
    for name, value in found.values.items():
        gap, row = found.differences.get(name), [name, *_texts(value, measure.text)]
        rows.append(row + (["", ""] if gap is None else _texts(gap, measure.difference)))
    change = f"difference from the first{',' * measure.percent}{measure.unit}"
    heads = ["model", measure.title, "95% interval", change, "95% interval"]
    screen = console()
    screen.print(table(f"On {found.where}", heads, rows))
    how = "as in McNemar's test" if measure.name == "accuracy" else "by draws of nodes (bootstrap)"
    screen.print(f"Intervals are normal, with the variance over the nodes, {how}.", soft_wrap=True)
    screen.print(found.sentence, soft_wrap=True)


def _texts(found: Honest, text: Callable[[float, int], str]) -> list[str]:
    return [text(found.value, 1), f"{text(found.low, 1)} to {text(found.high, 1)}"]
