"""The page of the runs from which ``fishergcn train`` chose a model: a folder with a study for each stage."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from fishergcn._base.files import write_text
from fishergcn.drawing import Html, looks, tag
from fishergcn.errors import DataFileError
from fishergcn.models import Selection
from fishergcn.report._chart import Chart, Panel, Series, chart_figure, layer
from fishergcn.report._chart_study import single_runs
from fishergcn.report._markup import Section, number, table
from fishergcn.report._model_choice import CAPTION, candidates_chart, candidates_table
from fishergcn.report._page import assemble
from fishergcn.report._protocol import entries
from fishergcn.studies import load_selection, open_runs
from fishergcn.training import RunRecord

#: The stages in their order, with what each is for.
STAGES = {
    "settings": "ways to prepare the features, each with the cheapest networks",
    "candidates": "all candidates, each with the two best preparations",
    "finalists": "the best candidates on more inner splits",
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
    sections = [_headline(selection, stages, folder), *(_stage(name, cells) for name, cells in stages.items() if cells)]
    if selection is not None:
        words = [tag("ul", *(tag("li", each) for each in selection.sentences)), candidates_table(selection)]
        sections.insert(1, Section("candidates", "How the model was chosen", words))
    sections.append(_facts(records, selection))
    title = f"Search for a model on {dataset}"
    lead = f"{len(records):,} runs from which fishergcn train {'chose' if selection else 'is to choose'} a model."
    page = folder / "report.html"
    write_text(page, assemble(title, lead, sections))
    return page


Cells = dict[str, list[RunRecord]]


def _read(folder: Path) -> Cells:
    with open_runs(folder) as source:
        found = {cell.name: list(source.of_cell(cell)) for cell in source.plan.cells}
    return {name: records for name, records in found.items() if records}


def _headline(selection: Selection | None, stages: dict[str, Cells], folder: Path) -> Section:
    if selection is not None:
        words = [tag("p", each, class_="verdict") for each in selection.sentences[:2]]
        chart = candidates_chart(selection)
        if chart is not None:
            return Section("headline", "In short", [*words, chart_figure("Candidates", CAPTION, [chart])], [chart])
        return Section("headline", "In short", words)
    last = next(cells for cells in reversed(stages.values()) if cells)
    means = {name: _mean(records) for name, records in last.items()}
    best = max(means, key=lambda name: means[name])
    text = (
        f"The search is not finished: so far {best} has the best mean validation accuracy, {means[best]:.1%}. The same "
        "command continues it."
    )
    chart = _chart("headline", last)
    body = [tag("p", text, class_="verdict"), chart_figure("Validation accuracy so far", _RUNS, [chart])]
    return Section("headline", "In short", body, [chart])


def _good(records: list[RunRecord]) -> list[float]:
    return [each.val_accuracy for each in records if each.status == "ok" and math.isfinite(each.val_accuracy)]


def _mean(records: list[RunRecord]) -> float:
    values = _good(records)
    return float(np.mean(values)) if values else -math.inf


def _chart(name: str, cells: Cells) -> Chart:
    own = looks(dict.fromkeys(records[0].method for records in cells.values()))
    layers = []
    for row, (cell, records) in enumerate(cells.items()):
        method, values = records[0].method, _good(records)
        if not values:
            continue
        if len(values) > 1:
            layers.append(single_runs(cell, row, values, own[method], "{:.2%}".format))
        text = [f"{cell}\nmean of {len(values)}: {np.mean(values):.2%}"]
        layers.append(layer("dot", series=method, x=[float(np.mean(values))], y=[row], size=5, text=text))
    panel = Panel("", "validation accuracy", "", layers, rows=list(cells), percent="x")
    return Chart(name, "Validation accuracy", [panel], [Series(each, look) for each, look in own.items()])


def _stage(name: str, cells: Cells) -> Section:
    chart = _chart(f"stage-{name}", cells)
    heads = ("candidate", "method", "#runs", "#validation %", "#cross entropy", "#seconds", "status")
    rows: list[list[Html | str]] = []
    for cell, records in cells.items():
        values = _good(records)
        entropy = [each.val_cross_entropy for each in records if math.isfinite(each.val_cross_entropy)]
        mean = float(np.mean(values)) if values else math.nan
        loss = float(np.mean(entropy)) if entropy else math.nan
        failed = len(records) - len(values)
        seconds = sum(each.seconds for each in records)
        rows.append([
            cell,
            records[0].method,
            number(str(len(records)), len(records)),
            number("–" if math.isnan(mean) else f"{100 * mean:.2f}", mean, "main"),
            number("–" if math.isnan(loss) else f"{loss:.4f}", loss),
            number(f"{seconds:.1f}", seconds),
            "ok" if not failed else f"{failed} failed",
        ])  # fmt: skip
    title = {"settings": "First: settings", "candidates": "Then: candidates", "finalists": "Last: finalists"}[name]
    said = tag("p", f"{STAGES[name][0].upper()}{STAGES[name][1:]}.")
    body = [said, chart_figure("Validation accuracy", _RUNS, [chart]), table(title, heads, rows)]
    return Section(f"stage-{name}-section", title, body, [chart])


def _facts(records: list[RunRecord], selection: Selection | None) -> Section:
    first = records[0]
    found: list[tuple[str, list[Html | str]]] = [
        ("Data", [Html(tag("b", first.dataset) + " " + tag("code", f"sha256:{first.graph_digest}"))]),
        ("Inner splits", [", ".join(dict.fromkeys(each.split for each in records))]),
        ("Device", list(dict.fromkeys(each.device for each in records))),
        ("Versions", [", ".join(f"{name} {version}" for name, version in first.versions.items())]),
        ("Time", [f"{selection.seconds:.0f} s in total"] if selection is not None else []),
    ]
    return Section("protocol", "What was run", [entries(found)])
