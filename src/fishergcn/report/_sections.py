"""The parts of the page of a study, each from its outcome alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fishergcn._base.files import without_links
from fishergcn._base.text import duration
from fishergcn.drawing import (
    Chart,
    Html,
    Look,
    data_link,
    draw_curves,
    draw_fisher,
    draw_forest,
    draw_links,
    draw_shape,
    draw_spectrum,
    draw_sweep,
    tag,
)
from fishergcn.geometry.extrinsic import GeometryRecord
from fishergcn.report import _captions as captions
from fishergcn.report._forest import controls_first, finding, paired_table
from fishergcn.report._outcome import Outcome
from fishergcn.report._page import Figure, Section, command, entries, in_words, named_digest, number, slug, table
from fishergcn.report._tables import beside_paper, judged, result_table, scores_of_tables, tables_csv
from fishergcn.studies import SPLITS_TO_JUDGE, Band, Comparison, Estimate, interval_source
from fishergcn.training import parse_method

Looks = Mapping[str, Look]
# Name in the record, title, whether it is shown in percent.
_CURVES = (
    ("train_loss", "Training loss", False),
    ("val_loss", "Validation loss", False),
    ("train_accuracy", "Training accuracy", True),
    ("val_accuracy", "Validation accuracy", True),
)
_FIRST_SHOWN = 8  # methods switched on when the page opens; more would hide each other
_FEWEST_POINTS = 3  # values of a setting, for a curve
_RULES = {
    "public": "public: the fixed training, validation and test nodes that come with the data",
    "shuffled": "shuffled: the nodes of the public split, reassigned at random with each seed",
    "per-class": "per class: equally many training and validation nodes from every class, drawn with each seed",
}
_TUNING = (
    "The paper chose its hyperparameters by the test accuracy of GCN, on splits other than those of its tables; runs "
    "with these settings inherit that choice."
)


def results(outcome: Outcome, looks: Looks) -> Section | None:
    """The result table beside the paper's."""
    if not outcome.summaries:
        return None
    tables = [part for name in outcome.datasets for part in (tag("h3", name), result_table(outcome, name, looks))]
    link = data_link("tables.csv", "tables.csv", tables_csv(outcome))
    shown = scores_of_tables(outcome)
    unknown = any(each.name not in summary.scores for summary in outcome.summaries.values() for each in shown)
    missing = " Older versions did not measure all of them." if unknown else ""
    meanings = " ".join(map(captions.meaning, shown))
    words = captions.RESULTS.format(meanings=meanings, source=_source(outcome), missing=missing)
    if beside_paper(outcome):
        if judged(outcome):
            words += captions.PUBLISHED
        elif outcome.plan.changed:
            words += captions.CHANGED.format(changed=", ".join(outcome.plan.changed))
        else:
            words += captions.FEW_SPLITS.format(splits=SPLITS_TO_JUDGE)
    caption = tag("p", words, tag("span", " Data: ", link, class_="data"), class_="caption")
    title = "Results and the paper’s numbers" if beside_paper(outcome) else "Results"
    return Section("results", title, [*tables, caption])


def forest(outcome: Outcome, looks: Looks) -> Section | None:
    """Paired differences, as a picture and in words."""
    plain = {cell.name for cell in outcome.runs if not cell.variant}
    shown = [comparison for comparison in outcome.comparisons if comparison.cell in plain]
    if not shown:
        return None
    charts, tables = [], []
    for dataset in outcome.datasets:
        rows = controls_first(one for one in shown if one.dataset == dataset)
        if rows:
            charts.append(draw_forest(dataset, rows, looks, f"forest-{slug(dataset)}", _paired(outcome, rows)))
            tables += [tag("h3", dataset), paired_table(rows)]
    said = [finding(one) for one in shown if one.role == "control"]
    words = [tag("p", "In words, compared with the control:"), tag("ul", *said, class_="findings")] if said else []
    if outcome.equivalence is not None and len(said) > 1:
        words.append(tag("p", outcome.equivalence.sentence, id="equivalence"))
    control = captions.CONTROLS[any(parse_method(cell.method).perturbed for cell in outcome.runs)]
    caption = captions.FOREST.format(source=_source(outcome), control=control, **captions.about(outcome.score))
    title = f"Paired differences in test {outcome.score.title}"
    return Section("differences", f"Does it help? {title}", [Figure(title, caption, charts), *words, *tables])


def _paired(outcome: Outcome, comparisons: Sequence[Comparison]) -> list[list[float]]:
    """Return the differences of single runs, comparison by comparison."""
    found = []
    for one in comparisons:
        ours, theirs = (outcome.values(one.dataset, name) for name in (one.cell, one.reference))
        found.append([ours[key] - theirs[key] for key in ours if key in theirs])
    return found


def curves(outcome: Outcome, looks: Looks) -> Section | None:
    """Learning curves that can be read point by point."""
    body: list[Html | Figure] = []
    found = {dataset: bands for dataset in outcome.datasets if (bands := outcome.curves(dataset))}
    for dataset, bands in found.items():
        charts = _curves(dataset, bands, looks)
        panels = [
            dataclasses.replace(chart.panels[0], title=title)
            for chart, (_, title, _) in zip(charts, _CURVES, strict=True)
            if chart.panels[0].layers
        ]
        named = {each.name: each for chart in charts for each in chart.series}
        series = [named[name] for name in bands if name in named]
        chart = Chart(f"curves-{slug(dataset)}", f"Learning curves, {dataset}", panels, series, True, True, True)
        last = dataset == list(found)[-1]
        words = captions.CURVES
        if any(len(each) > len(series) for each in found.values()):
            words += f" The first {len(series)} methods of each data set are here, all of them in figures/."
        figure = Figure("Learning curves" if last else "", words if last else "", [chart], files=charts)
        body += [tag("h3", dataset), figure]
    return Section("curves", "Learning curves", body) if body else None


def _curves(dataset: str, bands: Mapping[str, Mapping[str, Band]], looks: Looks) -> list[Chart]:
    return [
        draw_curves(
            f"{dataset}: {title.lower()}",
            {name: own[key] for name, own in bands.items() if key in own},
            looks,
            f"curves-{slug(dataset)}-{key.replace('_', '-')}",
            percent=percent,
            most=_FIRST_SHOWN,
        )
        for key, title, percent in _CURVES
    ]


def spectra(outcome: Outcome, looks: Looks) -> Section | None:
    """The spectrum with its perturbed part, and the learned shape beside it."""
    charts: list[Chart] = []
    for cell, records in outcome.runs.items():
        if cell.variant or not cell.perturbs_the_top:
            continue
        config, look, name = cell.config, looks[cell.name], f"{slug(cell.dataset)}-{slug(cell.name)}"
        if cell in outcome.spectra:
            title = f"{cell.dataset}: spectrum used by {cell.method}"
            charts.append(draw_spectrum(title, outcome.spectra[cell], config.rank, look, f"spectrum-{name}"))
        shapes = [record.shape for record in records if len(record.shape) == config.rank]
        if shapes and config.adversarial:
            title = f"{cell.dataset}: shape learned by {cell.method}"
            charts.append(draw_shape(title, np.array(shapes), config.radius, look, f"shape-{name}"))
    figure = Figure("Spectrum and learned shape", captions.SPECTRUM, charts)
    return Section("spectrum", "What is perturbed", [figure]) if charts else None


def ablation(outcome: Outcome, looks: Looks) -> Section | None:
    """What happens when settings change."""
    variants = {cell.name for cell in outcome.runs if cell.variant}
    by_method = {cell.name: looks.get(cell.method, looks[cell.name]) for cell in outcome.runs}
    swept: list[Chart] = []
    compared: list[Chart] = []
    for dataset in outcome.datasets if variants else ():
        swept += _sweeps(dataset, outcome, looks)
        here = [one for one in outcome.comparisons if one.dataset == dataset and one.role == "control"]
        rows = [one for one in here if one.cell in variants]
        if rows:
            name = f"variants-{slug(dataset)}"
            compared.append(draw_forest(f"{dataset}: variants", rows, by_method, name, _paired(outcome, rows)))
    about = captions.about(outcome.score)
    body = [Figure("One setting at a time", captions.ABLATION.format(**about), swept)] if swept else []
    variants_caption = captions.VARIANTS.format(**about)
    body += [Figure("Variants against their controls", variants_caption, compared)] if compared else []
    return Section("ablation", "What makes the difference? Ablation", body) if body else None


def _sweeps(dataset: str, outcome: Outcome, looks: Looks) -> list[Chart]:
    """Draw the settings that were varied alone, with numbers; the plain cell is a point of their curves."""
    results = {cell: outcome.estimate(cell) for cell in outcome.summaries if cell.dataset == dataset}
    plain = {cell.method: cell for cell in results if not cell.variant}
    found: dict[tuple[str, str], list[tuple[float, Estimate]]] = {}
    for cell, estimate in results.items():
        base = plain.get(cell.method, cell)
        usual = base.config.to_dict()
        changed = {key: value for key, value in cell.config.to_dict().items() if value != usual[key]}
        for setting, value in changed.items() if len(changed) == 1 else ():
            if isinstance(value, int | float) and not isinstance(value, bool):
                start = [(float(getattr(base.config, setting)), results[base])]
                found.setdefault((cell.method, setting), start).append((float(value), estimate))
    by_name = {cell.name: cell for cell in results}
    charts = []
    for (method, setting), points in found.items():
        if len(points) >= _FEWEST_POINTS:
            name = by_name[method].control
            # With another number of samples the control is another one, so no level stands for all points.
            control = None
            if name is not None and name in by_name and setting != "samples":
                control = (name, results[by_name[name]], looks[name])
            title, stem = f"{dataset}: {method}", f"ablation-{slug(dataset)}-{slug(method)}-{slug(setting)}"
            points.sort(key=lambda point: point[0])
            charts.append(draw_sweep(title, setting, points, looks[method], control, stem, outcome.score.name))
    return charts


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


def geometry(folder: Path) -> Section | None:
    """Draw what ``fishergcn geometry fisher MODEL --keep`` kept of the models in a folder, or of itself."""
    body = []
    for path in sorted([*folder.glob("geometry.json"), *folder.glob("*/geometry.json")]):
        without_links(path, folder)
        record = GeometryRecord.load(path)
        stem = "geometry-" + ("" if path.parent == folder else f"{slug(path.parent.name)}-")
        fisher, links = draw_fisher(record, f"{stem}fisher"), draw_links(record.links, f"{stem}links")
        body.append(Figure(fisher.label, captions.FISHER, [fisher]))
        words = captions.LINKS.format(node="node that contributes most to that response")
        body.append(Figure(f"The links that matter most to {record.title}", words, [links]))
    return Section("geometry", "How it responds to changes of the graph", body) if body else None


def _source(outcome: Outcome) -> str:
    """Say how intervals were made, and what they hold for."""
    found = [one.difference for one in outcome.comparisons]
    found += map(outcome.estimate, outcome.summaries)
    single = bool(found) and all(one.unit == "seeds" for one in found)
    return interval_source(found) + (" (for this one split only)" if single else "")


def protocol(outcome: Outcome) -> Section:
    """What was run: everything that is needed to repeat the study."""
    plan, records = outcome.plan, outcome.records
    done, failed = sum(map(len, outcome.runs.values())), len(outcome.failed)
    digests = dict(plan.digests) | {record.dataset: record.graph_digest for record in records}
    found: list[tuple[str, list[Html | str]]] = [
        ("Study", [f"{plan.title} (preset {plan.preset})", plan.source]),
        ("Command", [command(outcome.command)] if outcome.command else []),
        ("Data", [named_digest(name, digests.get(name, "unknown")) for name in plan.datasets]),
        ("Splits", _split_rule(plan.splits)),
        ("Seeds", [f"{_ranges(plan.seeds)} ({_count(len(plan.seeds), 'initialization')} per split)"]),
        ("Runs", [f"{done:,} finished of {len(plan):,} planned" + (f", {failed:,} failed" if failed else "")]),
        ("Settings", [_settings(outcome)]),
        ("Changed from the preset", [*plan.changed]),
        ("Versions", list(dict.fromkeys(in_words(record.versions) for record in records))),
        ("Device", list(dict.fromkeys(record.device for record in records))),
        ("Time", [f"{duration(sum(record.seconds for record in records))} of training in total"]),
        ("Notes", [*plan.notes] if any("hyperparameters" in note for note in plan.notes) else [*plan.notes, _TUNING]),
    ]
    return Section("protocol", "What was run", [entries(found)])


def _split_rule(splits: Sequence[str]) -> list[Html | str]:
    """Describe split names by rule: how it is made, and its seeds."""
    lines: list[Html | str] = []
    for rule in dict.fromkeys(name.partition(":")[0] for name in splits):
        lines.append(_RULES.get(rule, rule))
        seeds = [name.rpartition(":")[2] for name in splits if name.startswith(f"{rule}:")]
        if seeds:
            shown = _ranges([int(seed) for seed in seeds]) if all(map(str.isdigit, seeds)) else ", ".join(seeds)
            lines.append(f"seeds {shown} ({_count(len(seeds), 'split')})")
    return lines


def _ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers as ranges."""
    spans: list[list[int]] = []
    for each in sorted(set(numbers)):
        if spans and each == spans[-1][1] + 1:
            spans[-1][1] = each
        else:
            spans.append([each, each])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans)


def _settings(outcome: Outcome) -> Html:
    configs = [cell.config.to_dict() for cell in outcome.plan.cells]
    common = {key: value for key, value in configs[0].items() if all(config[key] == value for config in configs)}
    texts = {
        key: "×".join(map(str, value)) if isinstance(value, list | tuple) else value for key, value in common.items()
    }
    return tag("details", tag("summary", "settings common to all runs"), tag("code", in_words(texts)))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
