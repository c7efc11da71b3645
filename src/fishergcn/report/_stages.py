"""The page of the runs from which ``fishergcn train`` chose a model: a folder with a study for each stage."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from fishergcn.drawing import Html, Row, draw_rows, looks, tag
from fishergcn.errors import DataFileError
from fishergcn.models import Selection
from fishergcn.report._model_choice import candidates, candidates_figure
from fishergcn.report._page import (
    Figure,
    Section,
    entries,
    in_short,
    in_words,
    named_digest,
    number,
    share,
    table,
    write_page,
)
from fishergcn.studies import load_selection, open_runs
from fishergcn.training import RunRecord

# The stages in their order, with the title of each and what it is for.
STAGES = {
    "settings": ("First: settings", "Ways to prepare the features, each with the cheapest networks."),
    "candidates": ("Then: candidates", "All candidates, each with the two best preparations."),
    "finalists": ("Last: finalists", "The best candidates on more inner splits."),
}
_RUNS = (
    "Small dots are single runs on inner splits of the labeled nodes, large marks their means. Only validation nodes "
    "count: test nodes play no part in the choice."
)


def report_stages(folder: Path) -> Path:
    """Write the page of a choice, finished or not."""
    selection = load_selection(folder)
    stages = {name: _read(folder / name) for name in STAGES if (folder / name / "runs.sqlite").is_file()}
    if not any(cells for cells in stages.values()):
        raise DataFileError(f"{folder} holds a search without a finished run, so there is nothing to report.")
    records = [each for cells in stages.values() for some in cells.values() for each in some]
    dataset = records[0].dataset
    sections = [
        _headline(selection, stages),
        candidates(selection, "How the model was chosen"),
        *(_stage(name, cells) for name, cells in stages.items() if cells),
        _facts(records, selection),
    ]
    title = f"Search for a model on {dataset}"
    lead = f"{len(records):,} runs from which fishergcn train {'chose' if selection else 'is to choose'} a model."
    return write_page(folder, title, lead, sections)


Cells = dict[str, list[RunRecord]]


def _read(folder: Path) -> Cells:
    with open_runs(folder) as source:
        found = {cell.name: list(source.of_cell(cell)) for cell in source.plan.cells}
    return {name: records for name, records in found.items() if records}


def _headline(selection: Selection | None, stages: dict[str, Cells]) -> Section:
    if selection is not None:
        return in_short(selection.sentences[:2], candidates_figure(selection))
    last = next(cells for cells in reversed(stages.values()) if cells)
    means = {name: _mean(_scores(records)) for name, records in last.items()}
    best = max(means, key=lambda name: means[name] if math.isfinite(means[name]) else -math.inf)
    text = (
        f"The search is not finished: so far {best} has the best mean validation accuracy, {means[best]:.1%}. The same "
        "command continues it."
    )
    return in_short([text], _figure("Validation accuracy so far", "headline", last))


def _scores(records: list[RunRecord]) -> list[float]:
    return [each.val_accuracy for each in records if each.status == "ok" and math.isfinite(each.val_accuracy)]


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _figure(title: str, name: str, cells: Cells) -> Figure:
    own = looks(dict.fromkeys(records[0].method for records in cells.values()))
    rows = []
    for cell, records in cells.items():
        method, values = records[0].method, _scores(records)
        text = f"{cell}\nmean of {len(values)}: {_mean(values):.2%}"
        rows.append(Row(cell, _mean(values), look=own[method], runs=values, series=method, size=5, tip=text))
    chart = draw_rows("Validation accuracy", {"": rows}, name, x="validation accuracy")
    return Figure(title, _RUNS, [chart])


def _stage(name: str, cells: Cells) -> Section:
    heads = ("candidate", "method", "#runs", "#validation %", "#cross entropy", "#seconds", "status")
    rows: list[list[Html | str]] = []
    for cell, records in cells.items():
        values = _scores(records)
        loss = _mean([each.val_cross_entropy for each in records if math.isfinite(each.val_cross_entropy)])
        failed = len(records) - len(values)
        seconds = sum(each.seconds for each in records)
        rows.append([
            cell,
            records[0].method,
            number(str(len(records)), len(records)),
            share(_mean(values), kind="main"),
            number("–" if math.isnan(loss) else f"{loss:.4f}", loss),
            number(f"{seconds:.1f}", seconds),
            "ok" if not failed else f"{failed} failed",
        ])  # fmt: skip
    title, words = STAGES[name]
    figure = _figure("Validation accuracy", f"stage-{name}", cells)
    return Section(f"stage-{name}-section", title, [tag("p", words), figure, table(title, heads, rows)])


def _facts(records: list[RunRecord], selection: Selection | None) -> Section:
    first = records[0]
    found: list[tuple[str, list[Html | str]]] = [
        ("Data", [named_digest(first.dataset, first.graph_digest)]),
        ("Inner splits", [", ".join(dict.fromkeys(each.split for each in records))]),
        ("Device", list(dict.fromkeys(each.device for each in records))),
        ("Versions", [in_words(first.versions)]),
        ("Time", [f"{selection.seconds:.0f} s in total"] if selection is not None else []),
    ]
    return Section("protocol", "What was run", [entries(found)])
