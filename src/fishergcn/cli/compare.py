"""``fishergcn compare``: any methods, beside their controls, on any graphs; or saved models on the same nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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

    Two or more folders of models, as written by fishergcn train --out, in the place of GRAPH are compared on the nodes
    that none of them was trained on; only --score and --json go with them.
    """
    from fishergcn.studies import make_comparison
    from fishergcn.training import find_score

    score = find_score(printed.score or "accuracy")
    folders = [Path(each) for each in data.dataset or ()]
    if models := [each for each in folders if os.path.isfile(each / "model.json")]:
        usual = {**shared.options_of(compare), "dataset": data.dataset}
        given = {"out": out, **shared.values_of(data, runs, settings, machine, printed)}
        changed = [name for name, value in given.items() if value not in (None, usual.get(name))]
        if others := sorted(set(changed) - {"score", "json", "quiet"}):
            raise InputError(f"--{others[0].replace('_', '-')} cannot be used with model folders, which are trained.")
        if len(set(models)) < 2 or models != folders:
            raise InputError(f"{models[0]} is a model, which is compared with other models: give two folders or more.")
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
