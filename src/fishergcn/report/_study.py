"""The page of a study: a reproduction, a comparison, a study of robustness or of perturbations."""

from __future__ import annotations

from pathlib import Path

from fishergcn._base.files import make_folder, write_text
from fishergcn.drawing import looks
from fishergcn.report import _sections as parts
from fishergcn.report._attacks import attack_csv, attack_markdown, attack_points, robustness, robustness_headline
from fishergcn.report._headline import headline, summary
from fishergcn.report._outcome import Outcome, read_outcome
from fishergcn.report._page import Section, write_page
from fishergcn.report._perturbations import is_study_of_perturbations, judge, perturbations, verdict
from fishergcn.report._tables import tables_csv, tables_markdown
from fishergcn.studies import open_runs


def report_study(folder: Path, score: str = "accuracy") -> Path:
    """Write page, tables and figures of a study, by a score."""
    with open_runs(folder) as source:
        outcome = read_outcome(source, score)
    if outcome.plan.measure == "attack":
        points = attack_points(outcome)
        csv, markdown = attack_csv(points), attack_markdown(points)
        found = [robustness_headline(points), robustness(points)]
    else:
        csv, markdown = tables_csv(outcome), tables_markdown(outcome)
        found = _sections(outcome)
    found += [parts.geometry(folder), parts.failures(outcome), parts.protocol(outcome)]
    sections = [section for section in found if section is not None]
    _write_figures(folder / "figures", sections)
    write_text(folder / "tables.csv", csv, inside=folder)
    write_text(folder / "tables.md", markdown, inside=folder)
    return write_page(folder, outcome.plan.title, _lead(outcome), sections)


def _sections(outcome: Outcome) -> list[Section | None]:
    chosen = looks(cell.name for cell in outcome.plan.cells)
    middle = (parts.results, parts.forest, parts.curves, parts.spectra, parts.ablation)
    judged = judge(outcome) if is_study_of_perturbations(outcome) else None
    said = "" if judged is None else verdict(judged)
    found = [headline(outcome, chosen, said), None if judged is None else perturbations(judged), summary(outcome)]
    return [*found, *(make(outcome, chosen) for make in middle)]


def _write_figures(folder: Path, sections: list[Section]) -> None:
    """Write charts as files; equal names, of data sets whose names differ in signs alone, get numbers."""
    known: dict[str, int] = {}
    for figure in (each for section in sections for each in section.figures):
        for chart in figure.charts if figure.files is None else figure.files:
            make_folder(folder, inside=folder.parent)
            known[chart.name] = known.get(chart.name, 0) + 1
            name = chart.name if known[chart.name] == 1 else f"{chart.name}-{known[chart.name]}"
            for suffix in (".svg", ".png"):
                chart.save(folder / f"{name}{suffix}", inside=folder.parent)
            write_text(folder / f"{name}.csv", chart.data, inside=folder.parent)


def _lead(outcome: Outcome) -> str:
    done, planned = sum(map(len, outcome.runs.values())), len(outcome.plan)
    methods = len({cell.method if cell.options else cell.name for cell in outcome.runs})
    noun = "method" if methods == 1 else "methods"
    text = f"{done:,} finished runs of {methods} {noun} on {', '.join(outcome.datasets)}."
    missing = planned - done - len(outcome.failed)
    if missing:
        text += f" {missing:,} of {planned:,} planned runs are not done yet: all numbers are preliminary."
    return text + (f" {len(outcome.failed):,} failed." if outcome.failed else "")
