"""The parts of the page, each from the outcome of the study alone: its markup and the pictures in it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fishergcn.drawing import (
    Look,
    Picture,
    data_link,
    draw_curves,
    draw_forest,
    draw_shape,
    draw_spectrum,
    draw_sweep,
    json_script,
    tag,
)
from fishergcn.report import _captions as captions
from fishergcn.report._ablation import sweeps
from fishergcn.report._curves import FIRST_SHOWN, PANELS, curves_json
from fishergcn.report._forest import controls_first, finding, paired_table
from fishergcn.report._markup import Section, figure, slug, table
from fishergcn.report._outcome import Outcome
from fishergcn.report._protocol import protocol_card
from fishergcn.report._tables import judged, result_table, tables_csv
from fishergcn.studies import SPLITS_TO_JUDGE, Cell, Estimate, interval_source

Looks = Mapping[str, Look]


def protocol(outcome: Outcome) -> Section:
    """What was run."""
    return Section("protocol", "What was run", [protocol_card(outcome)])


def results(outcome: Outcome, looks: Looks) -> Section | None:
    """The result table beside the paper's."""
    if not outcome.summaries:
        return None
    tables = [part for name in outcome.datasets for part in (tag("h3", name), result_table(outcome, name, looks))]
    link = data_link("tables.csv", "tables.csv", tables_csv(outcome))
    words = captions.RESULTS.format(source=_source(outcome))
    if outcome.plan.published:
        if judged(outcome):
            words += captions.PUBLISHED
        elif outcome.plan.changed:
            words += captions.CHANGED.format(changed=", ".join(outcome.plan.changed))
        else:
            words += captions.FEW_SPLITS.format(splits=SPLITS_TO_JUDGE)
    caption = tag("p", words, tag("span", " Data: ", link, class_="data"), class_="caption")
    title = "Results and the paper’s numbers" if outcome.plan.published else "Results"
    return Section("results", title, [*tables, caption])


def forest(outcome: Outcome, looks: Looks) -> Section | None:
    """Paired differences, as a picture and in words."""
    plain = {cell.name for cell in outcome.runs if not cell.variant}
    shown = [comparison for comparison in outcome.comparisons if comparison.cell in plain]
    if not shown:
        return None
    pictures, tables = [], []
    for dataset in outcome.datasets:
        rows = controls_first(one for one in shown if one.dataset == dataset)
        if rows:
            pictures.append(draw_forest(dataset, rows, looks, f"forest-{slug(dataset)}"))
            tables += [tag("h3", dataset), paired_table(rows)]
    said = [finding(one) for one in shown if one.role == "control"]
    words = [tag("p", "In words, compared with the control:"), tag("ul", *said, class_="findings")] if said else []
    if outcome.equivalence is not None and len(said) > 1:
        words.append(tag("p", outcome.equivalence.sentence, id="equivalence"))
    drawn = figure("Paired differences", captions.FOREST.format(source=_source(outcome)), pictures)
    return Section("differences", "Does it help? Paired differences", [drawn, *words, *tables], pictures)


def curves(outcome: Outcome, looks: Looks) -> Section | None:
    """Learning curves that can be read point by point."""
    values = curves_json(outcome, looks)
    if not values["datasets"]:
        return None
    pictures = [
        draw_curves(
            f"{dataset}: {title.lower()}",
            {name: bands[key] for name, bands in outcome.curves(dataset).items() if key in bands},
            looks,
            f"curves-{slug(dataset)}-{key.replace('_', '-')}",
            percent=percent,
            most=FIRST_SHOWN,
        )
        for dataset in outcome.datasets
        if outcome.curves(dataset)
        for key, title, percent in PANELS
    ]
    places = []
    for index, dataset in enumerate(values["datasets"]):
        missing = tag("p", "This page draws its curves with JavaScript; static versions are in figures/.")
        places += [tag("h3", dataset["name"]), tag("div", tag("noscript", missing), data_curves=str(index))]
    legend = tag("fieldset", tag("legend", "Methods shown"), class_="legend", id="curves-legend", hidden=True)
    target = {"class_": "data", "id": "curves-download", "download": "curves.csv", "href": "#curves"}
    data = tag("span", " Data: ", tag("a", "curves.csv", **target, hidden=True), class_="data")
    caption = tag("figcaption", tag("b", "Learning curves. "), captions.CURVES, data)
    body = [json_script("curves-data", values), tag("figure", legend, *places, caption)]
    return Section("curves", "Learning curves", body, pictures)


def spectra(outcome: Outcome, looks: Looks) -> Section | None:
    """The spectrum with its perturbed part, and the learned shape beside it."""
    pictures: list[Picture] = []
    for cell, records in outcome.runs.items():
        if cell.variant or not cell.perturbs_the_top:
            continue
        config, look, name = cell.config, looks[cell.name], f"{slug(cell.dataset)}-{slug(cell.name)}"
        if cell in outcome.spectra:
            title = f"{cell.dataset}: spectrum used by {cell.method}"
            pictures.append(draw_spectrum(title, outcome.spectra[cell], config.rank, look, f"spectrum-{name}"))
        shapes = [record.shape for record in records if len(record.shape) == config.rank]
        if shapes and config.adversarial:
            title = f"{cell.dataset}: shape learned by {cell.method}"
            pictures.append(draw_shape(title, np.array(shapes), config.radius, look, f"shape-{name}"))
    if not pictures:
        return None
    drawn = figure("Spectrum and learned shape", captions.SPECTRUM, pictures)
    return Section("spectrum", "What is perturbed", [drawn], pictures)


def ablation(outcome: Outcome, looks: Looks) -> Section | None:
    """What happens when settings change."""
    variants = {cell.name for cell in outcome.runs if cell.variant}
    if not variants:
        return None
    by_method = {cell.name: looks.get(cell.method, looks[cell.name]) for cell in outcome.runs}
    drawn: list[Picture] = []
    judged: list[Picture] = []
    for dataset in outcome.datasets:
        accuracies = {cell: outcome.summaries[cell].accuracy for cell in outcome.cells(dataset).values()}
        drawn += _sweep_pictures(dataset, {cell: found for cell, found in accuracies.items() if found}, looks)
        here = [one for one in outcome.comparisons if one.dataset == dataset and one.role == "control"]
        rows = [one for one in here if one.cell in variants]
        if rows:
            judged.append(draw_forest(f"{dataset}: variants", rows, by_method, f"variants-{slug(dataset)}"))
    body = [figure("One setting at a time", captions.ABLATION, drawn)] if drawn else []
    body += [figure("Variants against their controls", captions.VARIANTS, judged)] if judged else []
    return Section("ablation", "What makes the difference? Ablation", body, drawn + judged) if body else None


def failures(outcome: Outcome) -> Section | None:
    """The runs that did not end well, if any."""
    if not outcome.failed:
        return None
    heads = ("data set", "method", "split", "seed", "status", "epochs")
    rows = [
        tag("tr", *(tag("td", text) for text in (cell.dataset, cell.name, record.split, str(record.seed))),
            tag("td", record.status, class_="wrap"), tag("td", str(record.epochs), class_="number"))
        for cell, record in outcome.failed
    ]  # fmt: skip
    words = (
        "These runs are not included in any mean, interval or curve above. A run diverges when its loss is not finite."
    )
    return Section("failures", "Failed runs", [tag("p", words), table("Failed runs", heads, rows)])


def _sweep_pictures(dataset: str, accuracies: Mapping[Cell, Estimate], looks: Looks) -> list[Picture]:
    by_name = {cell.name: cell for cell in accuracies}
    pictures = []
    for (method, setting), points in sweeps(accuracies).items():
        name = by_name[method].control
        # With another number of samples the control is another one, so no level stands for all points.
        control = (name, accuracies[by_name[name]], looks[name]) if name in by_name and setting != "samples" else None
        title, stem = f"{dataset}: {method}", f"ablation-{slug(dataset)}-{slug(method)}-{slug(setting)}"
        pictures.append(draw_sweep(title, setting, points, looks[method], control, stem))
    return pictures


def _source(outcome: Outcome) -> str:
    """Say how intervals were made, and what they hold for."""
    found = [one.difference for one in outcome.comparisons]
    found += [one.accuracy for one in outcome.summaries.values() if one.accuracy]
    single = bool(found) and all(one.unit == "seeds" for one in found)
    return interval_source(found) + (" (for this one split only)" if single else "")
