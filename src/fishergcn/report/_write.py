"""From a folder of runs to a folder with a report."""

from __future__ import annotations

import os
from pathlib import Path

from fishergcn._base.files import make_folder, write_text
from fishergcn.drawing import looks
from fishergcn.report import _sections as parts
from fishergcn.report._attacks import attack_csv, attack_markdown, attack_points, robustness
from fishergcn.report._geometry import geometry
from fishergcn.report._markup import Section
from fishergcn.report._outcome import Outcome, read_outcome
from fishergcn.report._page import assemble
from fishergcn.report._perturbations import is_study_of_perturbations, perturbations
from fishergcn.report._summary import summary
from fishergcn.report._tables import tables_csv, tables_markdown
from fishergcn.studies import open_runs


def write_report(folder: str | os.PathLike[str]) -> Path:
    """Write the report of a study beside its runs and return the path of the page.

    Writes ``report.html`` (one file that works offline), ``tables.md``, ``tables.csv``, and every figure as
    SVG and PNG, with its data as CSV, in ``figures/``. What ``fishergcn geometry fisher MODEL --keep`` kept of models
    in the folder or in its sub-folders is drawn too. Everything comes from records: no data set is loaded and nothing
    is computed anew but statistics. Each file is written wholly or not at all; equal runs give equal files.

    Parameters
    ----------
    folder
        Holds the runs: a database or an archive (see :func:`fishergcn.studies.open_runs`).

    Raises
    ------
    DataFileError
        If there are no runs, or a file cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import studies
    >>> small = studies.make_plan("quick", datasets=["cora"], methods=["gcn"], splits=1, seeds=1, epochs=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counts = studies.run(small, folder, device="cpu", workers=1)
    ...     page = write_report(folder)
    ...     print(page.name, sorted(path.name for path in page.parent.glob("tables.*")))
    report.html ['tables.csv', 'tables.md']
    """
    target = Path(folder)
    with open_runs(target) as source:
        outcome = read_outcome(source)
    sections = _sections(outcome, target)
    pictures = [picture for section in sections for picture in section.pictures]
    if pictures:
        make_folder(target / "figures")
    for picture in pictures:
        stem = target / "figures" / picture.name
        for suffix in (".svg", ".png"):
            picture.save(stem.with_name(picture.name + suffix))
        write_text(stem.with_name(f"{picture.name}.csv"), picture.data)
    csv, markdown = _tables(outcome)
    write_text(target / "tables.csv", csv)
    write_text(target / "tables.md", markdown)
    page = target / "report.html"
    write_text(page, assemble(outcome.plan.title, _lead(outcome), sections))
    return page


def _sections(outcome: Outcome, target: Path) -> list[Section]:
    chosen = looks(cell.name for cell in outcome.plan.cells)
    middle = (parts.results, parts.forest, parts.curves, parts.spectra, parts.ablation)
    made = [robustness(outcome)] if _of_attacks(outcome) else [make(outcome, chosen) for make in middle]
    if is_study_of_perturbations(outcome):
        made = [perturbations(outcome), *made]
    first = None if _of_attacks(outcome) else summary(outcome)
    every = [first, parts.protocol(outcome), *made, geometry(target), parts.failures(outcome)]
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
