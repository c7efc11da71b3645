"""The page of the runs from which ``fishergcn train`` chose a model: a folder with a study for each stage."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from fishergcn._base.files import refuse_links
from fishergcn.drawing import Html, Row, draw_rows, looks, tag
from fishergcn.errors import DataFileError
from fishergcn.models import CALIBRATED, Selection
from fishergcn.report._model_choice import candidates, candidates_figure, usable
from fishergcn.report._page import (
    Figure,
    Section,
    entries,
    in_short,
    in_words,
    named_digest,
    number,
    slug,
    table,
    write_page,
)
from fishergcn.studies import load_selection, open_runs
from fishergcn.training import RunRecord, Score, find_score, main_score

# The stages in their order, with what each is for. What has another name, such as a larger network that is tried
# where a smaller one was the best, comes between.
_FIRST = {
    "settings": "Ways to prepare the features, each with the cheapest networks.",
    "candidates": "The candidates, with the preparations that suit them, on one inner split.",
}
_BETWEEN = "Tried because of what came before: a larger network where a smaller one was the best, for example."
_LAST = {
    "balanced": "The best network with classes that count the same.",
    "finalists": "The best candidates on more inner splits.",
    "final": "What was chosen, trained on the split itself.",
}
_RUNS = (
    "Small dots are single runs on inner splits of the labeled nodes, large marks their means over the validation "
    "nodes of these splits."
)
_ONE_RUN = "Marks are single runs, measured on their validation nodes."


def report_stages(folder: Path) -> Path:
    """Write the page of a choice, finished or not."""
    selection = load_selection(folder)
    stages = {name: _read(folder / name) for name in _stages(folder)}
    if not any(cells for cells in stages.values()):
        raise DataFileError(f"{folder} holds a search without a finished run, so there is nothing to report.")
    records = [each for cells in stages.values() for some in cells.values() for each in some]
    dataset = records[0].dataset
    score = main_score(records[0]) if selection is None else find_score(selection.score)
    sections = [
        _headline(selection, stages, score),
        candidates(selection, "How the model was chosen"),
        *(_stage(place, name, cells, score) for place, (name, cells) in enumerate(stages.items(), start=1) if cells),
        _facts(records, selection),
    ]
    title = f"Search for a model on {dataset}"
    lead = f"{len(records):,} runs from which fishergcn train {'chose' if selection else 'is to choose'} a model."
    return write_page(folder, title, lead, sections)


Cells = dict[str, list[RunRecord]]


def _stages(folder: Path) -> list[str]:
    """Return the names of the studies in a folder, in the order of the stages."""
    there = [path.parent.name for path in folder.glob("*/runs.sqlite") if path.is_file()]
    refuse_links(folder, *there)
    names = [*_FIRST, "", *_LAST]
    return sorted(there, key=lambda name: (names.index(_known(name)), name))


def _known(name: str) -> str:
    """Return the stage that a study is of; a last one that is done again has a number."""
    bare = name.rstrip("0123456789").rstrip("-")
    return bare if bare in _FIRST or bare in _LAST else ""


def _read(folder: Path) -> Cells:
    with open_runs(folder) as source:
        found = {cell.name: list(source.of_cell(cell)) for cell in source.plan.cells}
    return {name: records for name, records in found.items() if records}


def _headline(selection: Selection | None, stages: dict[str, Cells], score: Score) -> Section:
    if selection is not None:
        said = [usable(selection.task), *selection.sentences[:1]] if selection.useful else selection.sentences[:2]
        return in_short(said, candidates_figure(selection))
    last = next(cells for cells in reversed(stages.values()) if cells)
    means = {name: _mean(_scores(records, score)) for name, records in last.items()}
    best = max(means, key=lambda name: score.gain(means[name]) if math.isfinite(means[name]) else -math.inf)
    text = (
        f"The search is not finished: so far {best} has the best mean validation {score.title}, "
        f"{score.text(means[best], 1)}. The same command continues it."
    )
    return in_short([text], _figure(f"Validation {score.title} so far", "headline", last, score))


def _scores(records: list[RunRecord], score: Score) -> list[float]:
    values = (getattr(each, f"val_{score.name}") for each in records if each.status == "ok")
    return [each for each in values if math.isfinite(each)]


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _figure(title: str, name: str, cells: Cells, score: Score) -> Figure:
    own = looks(dict.fromkeys(records[0].method for records in cells.values()))
    rows = []
    for cell, records in cells.items():
        method, values = records[0].method, _scores(records, score)
        text = f"{cell}\nmean of {len(values)}: {score.text(_mean(values))}"
        rows.append(Row(cell, _mean(values), look=own[method], runs=values, series=method, size=5, tip=text))
    x = f"validation {score.title} ({score.direction})"
    chart = draw_rows(f"Validation {score.title}", {"": rows}, name, x=x, score=score.name,
                      least=0.1 if score.percent else 1e-9)  # fmt: skip
    return Figure(title, _RUNS if any(len(row.runs) > 1 for row in rows) else _ONE_RUN, [chart])


def _cost(score: Score) -> tuple[str, str]:
    """Return what a stage also shows, as records and as people call it."""
    return ("val_rmse", "RMSE") if score.fits("regression") else ("val_cross_entropy", CALIBRATED)


def _stage(place: int, name: str, cells: Cells, score: Score) -> Section:
    # The scores first, which a narrow screen then shows.
    heads = ("candidate", f"#validation {score.head}", f"#{_cost(score)[1]}", "#runs", "#seconds", "status", "method")
    rows: list[list[Html | str]] = []
    for cell, records in cells.items():
        values = _scores(records, score)
        losses = [each.extra.get("val_calibrated_cross_entropy", getattr(each, _cost(score)[0])) for each in records]
        loss = _mean([each for each in losses if math.isfinite(each)])
        failed = len(records) - len(values)
        seconds = sum(each.seconds for each in records)
        rows.append([
            cell,
            number(score.number(_mean(values), missing="–"), _mean(values), "main"),
            number("–" if math.isnan(loss) else f"{loss:.4f}", loss),
            number(str(len(records)), len(records)),
            number(f"{seconds:.1f}", seconds),
            "ok" if not failed else f"{failed} failed",
            records[0].method,
        ])  # fmt: skip
    title, words = f"Stage {place}: {name}", (_FIRST | _LAST).get(_known(name), _BETWEEN)
    figure = _figure(f"Validation {score.title}", f"stage-{slug(name)}", cells, score)
    return Section(f"stage-{slug(name)}-section", title, [tag("p", words), figure, table(title, heads, rows)])


def _facts(records: list[RunRecord], selection: Selection | None) -> Section:
    first = records[0]
    found: list[tuple[str, list[Html | str]]] = [
        ("Data", [named_digest(first.dataset, first.graph_digest)]),
        ("Splits", [", ".join(dict.fromkeys(each.split for each in records))]),
        ("Device", list(dict.fromkeys(each.device for each in records))),
        ("Versions", [in_words(first.versions)]),
        ("Time", [f"{selection.seconds:.0f} s in total"] if selection is not None else []),
    ]
    return Section("protocol", "What was run", [entries(found)])
