"""The page of a study: a reproduction, a comparison, a study of robustness or of perturbations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from fishergcn._base.files import make_folder, write_text
from fishergcn.drawing import Picture, looks
from fishergcn.report import _sections as parts
from fishergcn.report._attack_headline import robustness_headline
from fishergcn.report._attacks import attack_csv, attack_markdown, attack_points, robustness
from fishergcn.report._geometry import geometry
from fishergcn.report._headline import headline
from fishergcn.report._markup import Section
from fishergcn.report._outcome import Outcome, read_outcome
from fishergcn.report._page import assemble
from fishergcn.report._perturbations import is_study_of_perturbations, judge, perturbations, verdict
from fishergcn.report._summary import summary
from fishergcn.report._tables import tables_csv, tables_markdown
from fishergcn.studies import open_runs


def report_study(folder: Path) -> Path:
    """Write page, tables and figures of a study."""
    with open_runs(folder) as source:
        outcome = read_outcome(source)
    sections = _sections(outcome, folder)
    pictures = _named_apart([picture for section in sections for picture in section.pictures])
    if pictures:
        make_folder(folder / "figures")
    for picture in pictures:
        stem = folder / "figures" / picture.name
        for suffix in (".svg", ".png"):
            picture.save(stem.with_name(picture.name + suffix))
        write_text(stem.with_name(f"{picture.name}.csv"), picture.data)
    csv, markdown = _tables(outcome)
    write_text(folder / "tables.csv", csv)
    write_text(folder / "tables.md", markdown)
    page = folder / "report.html"
    write_text(page, assemble(outcome.plan.title, _lead(outcome), sections))
    return page


def _named_apart(pictures: Iterable[Picture]) -> list[Picture]:
    """Give pictures whose names are equal, since those of their data sets differ in signs alone, numbers."""
    known: dict[str, int] = {}
    found = []
    for picture in pictures:
        known[picture.name] = known.get(picture.name, 0) + 1
        number = known[picture.name]
        found.append(dataclasses.replace(picture, name=f"{picture.name}-{number}") if number > 1 else picture)
    return found


def _sections(outcome: Outcome, target: Path) -> list[Section]:
    chosen = looks(cell.name for cell in outcome.plan.cells)
    middle = (parts.results, parts.forest, parts.curves, parts.spectra, parts.ablation)
    if _of_attacks(outcome):
        made = [robustness_headline(outcome), robustness(outcome)]
    else:
        of_perturbations = is_study_of_perturbations(outcome)
        said = verdict(judge(outcome)) if of_perturbations else ""
        judged = [perturbations(outcome)] if of_perturbations else []
        made = [headline(outcome, chosen, said), *judged, summary(outcome), *(make(outcome, chosen) for make in middle)]
    every = [*made, geometry(target), parts.failures(outcome), parts.protocol(outcome)]
    return [section for section in every if section is not None]


def _tables(outcome: Outcome) -> tuple[str, str]:
    """Return all results as CSV and as Markdown."""
    if _of_attacks(outcome):
        points = attack_points(outcome)
        return attack_csv(points), attack_markdown(points)
    return tables_csv(outcome), tables_markdown(outcome)


def _of_attacks(outcome: Outcome) -> bool:
    return outcome.plan.measure == "attack"


def _lead(outcome: Outcome) -> str:
    done, planned = sum(map(len, outcome.runs.values())), len(outcome.plan)
    methods = len({cell.method if cell.options else cell.name for cell in outcome.runs})
    noun = "method" if methods == 1 else "methods"
    text = f"{done:,} finished runs of {methods} {noun} on {', '.join(outcome.datasets)}."
    missing = planned - done - len(outcome.failed)
    if missing:
        text += f" {missing:,} of {planned:,} planned runs are not done yet: all numbers are preliminary."
    return text + (f" {len(outcome.failed):,} failed." if outcome.failed else "")
