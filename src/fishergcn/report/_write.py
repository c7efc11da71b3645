"""From a folder of runs to a folder with a report."""

from __future__ import annotations

import os
from pathlib import Path

from fishergcn._base.files import atomic_path, write_text
from fishergcn.drawing import Picture, looks
from fishergcn.errors import DataFileError
from fishergcn.report import _sections as parts
from fishergcn.report._geometry import geometry_figures
from fishergcn.report._models import draw_models
from fishergcn.report._page import assemble
from fishergcn.report._robustness import draw_robustness, robustness_parts, robustness_words
from fishergcn.report._study import Study, read_study
from fishergcn.report._tables import tables_csv, tables_markdown
from fishergcn.studies import holds_robustness, holds_runs, open_runs

__all__ = ["write_report"]

_ROBUSTNESS = "When the graph changes"


def write_report(folder: str | os.PathLike[str]) -> Path:
    """Write the report of an experiment beside its runs and return the path of the page.

    Writes ``report.html`` (one file that works offline), ``tables.md``, ``tables.csv``, and every figure as
    SVG and PNG, with its data as CSV, in ``figures/``. Models saved in the folder or in its sub-folders are
    drawn as ``figures/geometry-*.svg``; such pictures that are there already are shown too, and so is a study
    of robustness, which may stand alone: then ``report.html`` and its figures are all that is written. Each file
    is written wholly or not at all; equal runs give equal files.

    Parameters
    ----------
    folder
        Holds the runs: a database or an archive (see :func:`fishergcn.studies._store.open_runs`), or a study
        made by ``fishergcn robustness``.

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
    if holds_robustness(target) and not holds_runs(target):
        return _write_robustness(target)
    source = open_runs(target)
    try:
        study = read_study(source)
    finally:
        source.close()
    figures = target / "figures"
    draw_models(target, figures)
    sections = _sections(study, target, figures)
    for section in sections:
        for picture in section.pictures:
            _write_picture(figures, picture)
    write_text(target / "tables.csv", tables_csv(study))
    write_text(target / "tables.md", tables_markdown(study))
    page = target / "report.html"
    write_text(page, assemble(study.plan.title, _lead(study), sections))
    return page


def _write_robustness(target: Path) -> Path:
    """Write the page of a study of robustness without other runs; its tables were written with it."""
    figures = target / "figures"
    draw_robustness(target, figures)
    section = parts.Section("robustness", _ROBUSTNESS, robustness_parts(target, figures))
    page = target / "report.html"
    write_text(page, assemble("Robustness", robustness_words(target), [section]))
    return page


def _sections(study: Study, target: Path, figures: Path) -> list[parts.Section]:
    chosen = looks(cell.name for cell in study.plan.cells)
    made = [
        parts.protocol(study),
        parts.results(study, chosen),
        parts.forest(study, chosen),
        parts.curves(study, chosen),
        parts.spectra(study, chosen),
        parts.ablation(study, chosen),
        parts.failures(study),
    ]
    others = (
        ("geometry", "Geometry of the trained model", geometry_figures(figures)),
        ("robustness", _ROBUSTNESS, robustness_parts(target, figures)),
    )
    for kind, title, body in others:
        if body:
            made.insert(-1, parts.Section(kind, title, body))
    return [section for section in made if section is not None]


def _lead(study: Study) -> str:
    done, planned = sum(map(len, study.runs.values())), len(study.plan)
    methods = len({cell.name for cell in study.runs})
    noun = "method" if methods == 1 else "methods"
    text = f"{done:,} finished runs of {methods} {noun} on {', '.join(study.datasets)}."
    missing = planned - done - len(study.failed)
    if missing:
        text += f" {missing:,} of {planned:,} planned runs are not done yet: all numbers are preliminary."
    return text + (f" {len(study.failed):,} failed." if study.failed else "")


def _write_picture(folder: Path, picture: Picture) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise DataFileError(f"Cannot write {folder}: {error.strerror}.") from error
    write_text(folder / f"{picture.name}.svg", picture.svg_file)
    write_text(folder / f"{picture.name}.csv", picture.data)
    with atomic_path(folder / f"{picture.name}.png") as temporary:
        temporary.write_bytes(picture.png)
