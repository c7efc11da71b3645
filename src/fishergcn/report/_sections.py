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
    tag,
)
from fishergcn.report import _captions as captions
from fishergcn.report._ablation import sweeps
from fishergcn.report._chart import Chart, Panel, chart_figure
from fishergcn.report._chart_study import difference_panel, row_chart, shape_panel, spectrum_panel, sweep_panel
from fishergcn.report._curves import FIRST_SHOWN, MOST_SERIES, PANELS, curves_chart, points_of_a_curve
from fishergcn.report._forest import controls_first, finding, paired_table
from fishergcn.report._markup import Section, number, slug, table
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
    unknown = any(each.balanced_accuracy is None for each in outcome.summaries.values() if each.accuracy is not None)
    missing = "; older versions did not measure them" if unknown else ""
    words = captions.RESULTS.format(source=_source(outcome), missing=missing)
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
    charts: list[Chart] = []
    for dataset in outcome.datasets:
        rows = controls_first(one for one in shown if one.dataset == dataset)
        if rows:
            drawn = draw_forest(dataset, rows, looks, f"forest-{slug(dataset)}")
            panel = difference_panel(dataset, rows, outcome, looks)
            charts.append(row_chart(drawn.name, drawn.label, [panel], looks, drawn.data))
            pictures.append(drawn)
            tables += [tag("h3", dataset), paired_table(rows)]
    said = [finding(one) for one in shown if one.role == "control"]
    words = [tag("p", "In words, compared with the control:"), tag("ul", *said, class_="findings")] if said else []
    if outcome.equivalence is not None and len(said) > 1:
        words.append(tag("p", outcome.equivalence.sentence, id="equivalence"))
    figure = chart_figure("Paired differences", captions.FOREST.format(source=_source(outcome)), charts)
    return Section("differences", "Does it help? Paired differences", [figure, *words, *tables], charts, pictures)


def curves(outcome: Outcome, looks: Looks) -> Section | None:
    """Learning curves that can be read point by point."""
    found = {dataset: bands for dataset in outcome.datasets if (bands := outcome.curves(dataset))}
    if not found:
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
        for dataset in found
        for key, title, percent in PANELS
    ]
    curves = sum(min(len(bands), MOST_SERIES) for bands in found.values()) * len(PANELS)
    charts = [curves_chart(dataset, bands, looks, points_of_a_curve(curves)) for dataset, bands in found.items()]
    words = captions.CURVES
    if any(len(bands) > MOST_SERIES for bands in found.values()):
        words += f" The first {MOST_SERIES} methods of each data set are here, all of them in figures/."
    body = []
    for dataset, chart in zip(found, charts, strict=True):
        last = dataset == list(found)[-1]
        body += [tag("h3", dataset), chart_figure("Learning curves" if last else "", words if last else "", [chart])]
    return Section("curves", "Learning curves", body, charts, pictures)


def spectra(outcome: Outcome, looks: Looks) -> Section | None:
    """The spectrum with its perturbed part, and the learned shape beside it."""
    pictures: list[Picture] = []
    charts: list[Chart] = []
    for cell, records in outcome.runs.items():
        if cell.variant or not cell.perturbs_the_top:
            continue
        config, look, name = cell.config, looks[cell.name], f"{slug(cell.dataset)}-{slug(cell.name)}"
        if cell in outcome.spectra:
            title = f"{cell.dataset}: spectrum used by {cell.method}"
            pictures.append(draw_spectrum(title, outcome.spectra[cell], config.rank, look, f"spectrum-{name}"))
            charts.append(_alone(pictures[-1], spectrum_panel(title, outcome.spectra[cell], config.rank, look)))
        shapes = [record.shape for record in records if len(record.shape) == config.rank]
        if shapes and config.adversarial:
            title = f"{cell.dataset}: shape learned by {cell.method}"
            pictures.append(draw_shape(title, np.array(shapes), config.radius, look, f"shape-{name}"))
            charts.append(_alone(pictures[-1], shape_panel(title, np.array(shapes), config.radius, look)))
    if not pictures:
        return None
    drawn = chart_figure("Spectrum and learned shape", captions.SPECTRUM, charts)
    return Section("spectrum", "What is perturbed", [drawn], charts, pictures)


def _alone(picture: Picture, panel: Panel) -> Chart:
    return Chart(picture.name, picture.label, [panel], data=picture.data)


def ablation(outcome: Outcome, looks: Looks) -> Section | None:
    """What happens when settings change."""
    variants = {cell.name for cell in outcome.runs if cell.variant}
    if not variants:
        return None
    by_method = {cell.name: looks.get(cell.method, looks[cell.name]) for cell in outcome.runs}
    drawn: list[Picture] = []
    judged: list[Picture] = []
    swept: list[Chart] = []
    compared: list[Chart] = []
    for dataset in outcome.datasets:
        accuracies = {cell: outcome.summaries[cell].accuracy for cell in outcome.cells(dataset).values()}
        pairs = _sweeps(dataset, {cell: found for cell, found in accuracies.items() if found}, looks)
        drawn += [picture for picture, _ in pairs]
        swept += [chart for _, chart in pairs]
        here = [one for one in outcome.comparisons if one.dataset == dataset and one.role == "control"]
        rows = [one for one in here if one.cell in variants]
        if rows:
            picture = draw_forest(f"{dataset}: variants", rows, by_method, f"variants-{slug(dataset)}")
            panel = difference_panel(picture.label.partition(".")[0], rows, outcome, by_method)
            compared.append(row_chart(picture.name, picture.label, [panel], by_method, picture.data))
            judged.append(picture)
    body = [chart_figure("One setting at a time", captions.ABLATION, swept)] if swept else []
    body += [chart_figure("Variants against their controls", captions.VARIANTS, compared)] if compared else []
    title = "What makes the difference? Ablation"
    return Section("ablation", title, body, swept + compared, drawn + judged) if body else None


def failures(outcome: Outcome) -> Section | None:
    """The runs that did not end well, if any."""
    if not outcome.failed:
        return None
    heads = ("data set", "method", "split", "#seed", "status", "#epochs")
    rows = [
        [cell.dataset, cell.name, record.split, number(str(record.seed), record.seed),
         tag("td", record.status, class_="wrap"), number(str(record.epochs), record.epochs)]
        for cell, record in outcome.failed
    ]  # fmt: skip
    words = (
        "These runs are not included in any mean, interval or curve above. A run diverges when its loss is not finite."
    )
    return Section("failures", "Failed runs", [tag("p", words), table("Failed runs", heads, rows)])


def _sweeps(dataset: str, accuracies: Mapping[Cell, Estimate], looks: Looks) -> list[tuple[Picture, Chart]]:
    by_name = {cell.name: cell for cell in accuracies}
    pairs = []
    for (method, setting), points in sweeps(accuracies).items():
        name = by_name[method].control
        # With another number of samples the control is another one, so no level stands for all points.
        control = (name, accuracies[by_name[name]], looks[name]) if name in by_name and setting != "samples" else None
        title, stem = f"{dataset}: {method}", f"ablation-{slug(dataset)}-{slug(method)}-{slug(setting)}"
        picture = draw_sweep(title, setting, points, looks[method], control, stem)
        pairs.append((picture, _alone(picture, sweep_panel(title, setting, points, looks[method], control))))
    return pairs


def _source(outcome: Outcome) -> str:
    """Say how intervals were made, and what they hold for."""
    found = [one.difference for one in outcome.comparisons]
    found += [one.accuracy for one in outcome.summaries.values() if one.accuracy]
    single = bool(found) and all(one.unit == "seeds" for one in found)
    return interval_source(found) + (" (for this one split only)" if single else "")
