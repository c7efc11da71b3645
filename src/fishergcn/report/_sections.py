"""The parts of the page, each from the study alone: its markup and the pictures in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fishergcn.drawing import Html, Look, Picture, data_link, inline_svg, json_script, tag
from fishergcn.report import _captions as captions
from fishergcn.report._ablation import draw_sweep, sweeps
from fishergcn.report._curves import curves_json, draw_curves
from fishergcn.report._forest import controls_first, draw_forest, finding, paired_table
from fishergcn.report._protocol import protocol_card
from fishergcn.report._spectrum import draw_shape, draw_spectrum, top_eigenvalues
from fishergcn.report._study import Study
from fishergcn.report._tables import result_table, tables_csv
from fishergcn.studies import Cell, Estimate, interval_source
from fishergcn.training import parse_method

__all__ = ["Section", "ablation", "curves", "failures", "forest", "protocol", "results", "spectra"]

Looks = Mapping[str, Look]


@dataclass(frozen=True)
class Section:
    """A part of the page: its name in links, its head, its markup, and the pictures to write as files."""

    name: str
    title: str
    body: list[Html]
    pictures: list[Picture] = field(default_factory=list)


def protocol(study: Study) -> Section:
    """What was run."""
    return Section("protocol", "What was run", [protocol_card(study)])


def results(study: Study, looks: Looks) -> Section | None:
    """The result table beside the paper's."""
    if not study.summaries:
        return None
    tables = [part for name in study.datasets for part in (tag("h3", name), result_table(study, name, looks))]
    link = data_link("tables.csv", "tables.csv", tables_csv(study))
    words = captions.RESULTS.format(source=_source(study))
    if study.plan.changed:
        words += captions.CHANGED.format(changed=", ".join(study.plan.changed))
    caption = tag("p", words, tag("span", " Data: ", link, class_="data"), class_="caption")
    return Section("results", "Results beside the paper’s", [*tables, caption])


def forest(study: Study, looks: Looks) -> Section | None:
    """Paired differences, as a picture and in words."""
    plain = {cell.name for cell in study.runs if not cell.variant}
    shown = [comparison for comparison in study.comparisons if comparison.cell in plain]
    if not shown:
        return None
    pictures, tables = [], []
    for dataset in study.datasets:
        rows = controls_first(one for one in shown if one.dataset == dataset)
        if rows:
            pictures.append(draw_forest(dataset, rows, looks, f"forest-{_slug(dataset)}"))
            tables += [tag("h3", dataset), paired_table(rows)]
    findings = [finding(one) for one in shown if one.role == "control"]
    words = [tag("p", "In words, against the control:"), tag("ul", *findings, class_="findings")] if findings else []
    figure = _figure("Paired differences", captions.FOREST.format(source=_source(study)), pictures)
    return Section("differences", "Does it help? Paired differences", [figure, *words, *tables], pictures)


def curves(study: Study, looks: Looks) -> Section | None:
    """Learning curves that can be read point by point."""
    values = curves_json(study, looks)
    if not values["datasets"]:
        return None
    pictures = [
        picture
        for dataset in values["datasets"]
        for picture in draw_curves(dataset, looks, f"curves-{_slug(dataset['name'])}")
    ]
    places = []
    for index, dataset in enumerate(values["datasets"]):
        missing = tag("p", "The curves are drawn by a script in this page; static pictures of them are in figures/.")
        places += [tag("h3", dataset["name"]), tag("div", tag("noscript", missing), data_curves=str(index))]
    legend = tag("fieldset", tag("legend", "Methods shown"), class_="legend", id="curves-legend", hidden=True)
    link = tag(
        "a",
        "curves.csv",
        class_="data",
        id="curves-download",
        download="curves.csv",
        href="#curves",
        hidden=True,
    )
    caption = tag(
        "figcaption", tag("b", "Learning curves. "), captions.CURVES, tag("span", " Data: ", link, class_="data")
    )
    body = [json_script("curves-data", values), tag("figure", legend, *places, caption)]
    return Section("curves", "Learning curves", body, pictures)


def spectra(study: Study, looks: Looks) -> Section | None:
    """The spectrum with its perturbed part, and the learned shape beside it."""
    pictures: list[Picture] = []
    for cell, records in study.runs.items():
        if not _perturbs_the_top(cell):
            continue
        look, name = looks[cell.name], f"{_slug(cell.dataset)}-{_slug(cell.name)}"
        eigenvalues = top_eigenvalues(cell, study.plan.digests.get(cell.dataset))
        if eigenvalues is not None:
            pictures.append(draw_spectrum(cell, eigenvalues, look, f"spectrum-{name}"))
        shape = draw_shape(cell, records, look, f"shape-{name}")
        if shape is not None:
            pictures.append(shape)
    if not pictures:
        return None
    figure = _figure("Spectrum and learned shape", captions.SPECTRUM, pictures)
    return Section("spectrum", "What is perturbed", [figure], pictures)


def ablation(study: Study, looks: Looks) -> Section | None:
    """What happens when settings change."""
    variants = {cell.name for cell in study.runs if cell.variant}
    if not variants:
        return None
    by_method = {cell.name: looks.get(cell.method, looks[cell.name]) for cell in study.runs}
    drawn: list[Picture] = []
    judged: list[Picture] = []
    for dataset in study.datasets:
        accuracies = {cell: study.summaries[cell].accuracy for cell in study.cells(dataset).values()}
        drawn += _sweep_pictures(dataset, {cell: found for cell, found in accuracies.items() if found}, looks)
        rows = [
            one
            for one in study.comparisons
            if one.dataset == dataset and one.cell in variants and one.role == "control"
        ]
        if rows:
            judged.append(draw_forest(f"{dataset}: variants", rows, by_method, f"variants-{_slug(dataset)}"))
    body = []
    if drawn:
        body.append(_figure("One setting at a time", captions.ABLATION, drawn))
    if judged:
        body.append(_figure("Variants against their controls", captions.VARIANTS, judged))
    return Section("ablation", "What makes the difference? Ablation", body, drawn + judged) if body else None


def failures(study: Study) -> Section | None:
    """The runs that did not end well, if any."""
    if not study.failed:
        return None
    heads = ("data set", "method", "split", "seed", "status", "epochs")
    rows = [
        tag("tr", *(tag("td", text) for text in (cell.dataset, cell.name, record.split, str(record.seed))),
            tag("td", record.status, class_="wrap"), tag("td", str(record.epochs), class_="number"))
        for cell, record in study.failed
    ]  # fmt: skip
    words = "These runs are in no mean, interval or curve above. A run diverges when its loss is not finite."
    table = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads))),
        tag("tbody", *rows),
    )
    region = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Failed runs")
    return Section("failures", "Failed runs", [tag("p", words), region])


def _sweep_pictures(dataset: str, accuracies: Mapping[Cell, Estimate], looks: Looks) -> list[Picture]:
    by_name = {cell.name: cell for cell in accuracies}
    pictures = []
    for (method, setting), points in sweeps(accuracies).items():
        name = by_name[method].control
        # With another number of samples the control is another one, so no level stands for all points.
        control = (name, accuracies[by_name[name]], looks[name]) if name in by_name and setting != "samples" else None
        title, stem = f"{dataset}: {method}", f"ablation-{_slug(dataset)}-{_slug(method)}-{_slug(setting)}"
        pictures.append(draw_sweep(title, setting, points, looks[method], control, stem))
    return pictures


def _figure(title: str, caption: str, pictures: Sequence[Picture]) -> Html:
    drawn = [tag("div", _drawn(picture), _link(picture)) for picture in pictures]
    return tag("figure", tag("div", *drawn, class_="pictures"), tag("figcaption", tag("b", f"{title}. "), caption))


def _drawn(picture: Picture) -> Html:
    return tag("div", Html(inline_svg(picture)), role="img", aria_label=picture.label, data_picture=picture.name)


def _link(picture: Picture) -> Html:
    return data_link("data (CSV)", f"{picture.name}.csv", picture.data)


def _perturbs_the_top(cell: Cell) -> bool:
    config = cell.config
    plain = parse_method(cell.method).perturbed and not cell.variant
    return plain and config.perturbation == "spectral" and config.directions == "high"


def _source(study: Study) -> str:
    """Say how intervals were made, and what they hold for."""
    found = [one.difference for one in study.comparisons]
    found += [one.accuracy for one in study.summaries.values() if one.accuracy]
    single = bool(found) and all(one.unit == "seeds" for one in found)
    return interval_source(found) + (" (there is one split, so it holds for that split alone)" if single else "")


def _slug(text: str) -> str:
    """Return a name for files: letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower() or "unnamed"
