"""The page of many graphs: a map and a tree of them, changes over time with their nodes, tests, tables to copy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.entries import Entries
from fishergcn._base.text import csv_text
from fishergcn._base.types import FloatArray
from fishergcn.drawing import Html, data_link, draw_change, draw_changes, draw_map, draw_shifts, draw_tree, tag
from fishergcn.errors import DataFileError, InputError
from fishergcn.geometry.statistics import GraphResults, embed, load_results
from fishergcn.report._page import Figure, Section, count, entries, in_short, number, table, write_page

_MOST_TREE = 80  # rows of a tree that can be read
_MOST_ROWS = 400


def report_graphs(folder: Path) -> Path:
    """Write the page of results on many graphs."""
    results = load_results(folder)
    try:
        return _write(folder, results)
    except (InputError, KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{folder / 'graphs.json'} is damaged: {error}.") from None


def _write(folder: Path, results: GraphResults) -> Path:
    values = _distances(results)
    parts = results.parts
    changes = Entries(parts["changes"], "changes").values if "changes" in parts else None
    sections: list[Section | None] = [
        _headline(results, values, changes),
        None if changes is None else _timeline(changes, results.names),
        *_change_sections(changes),
        None if values is None else _closeness(results, values),
        _clusters(parts.get("cluster"), results.names),
        _mean(parts.get("mean"), results.names),
        *_components(parts.get("pca"), results.names),
        _line(parts.get("line"), results.names),
        _tested(parts.get("test")),
        _facts(results),
    ]
    return write_page(folder, f"{len(results.names)} graphs", _lead(results), sections)


def _lead(results: GraphResults) -> str:
    first, last = results.names[0], results.names[-1]
    order = f", from {first} to {last}" if results.times is not None else ""
    return f"{len(results.names)} graphs on {results.nodes:,} nodes{order}, compared in the Bures geometry."


def _distances(results: GraphResults) -> FloatArray | None:
    if "distances" not in results.parts:
        return None
    values = np.array(results.parts["distances"]["values"], dtype=np.float64)
    if values.shape != (len(results.names),) * 2 or not np.isfinite(values).all():
        raise InputError("its distances are not those of its graphs")
    return values


def _headline(results: GraphResults, values: FloatArray | None, changes: Mapping[str, Any] | None) -> Section:
    sentences = []
    figure = None
    if changes is not None:
        marked = changes["changes"]
        names = ", ".join(each["name"] for each in marked)
        if changes["level"] is None:
            top = ", ".join(results.names[step] for step in changes["ranked"][:3])
            sentences.append(f"The sequence is too short for a level. The most distinct steps are those to {top}.")
        elif marked:
            sentences.append(f"The sequence changed at {names} (level {changes['level']:g}).")
        else:
            top = ", ".join(results.names[step] for step in changes["ranked"][:3])
            words = f"No step changed more than chance explains (level {changes['level']:g})"
            sentences.append(f"{words}; the most distinct are those to {top}.")
        if changes["odd"]:
            sentences.append(f"Graphs that stand alone: {', '.join(results.names[at] for at in changes['odd'][:8])}.")
        sentences += changes["notes"]
    if "test" in results.parts:
        sentences.append(str(results.parts["test"].get("words", "")))
    if values is not None:
        groups = results.parts.get("cluster", {}).get("labels")
        labels = None if groups is None else [f"cluster {each}" for each in groups]
        chart = draw_map(_flat(values), results.names, labels, path=changes is not None and results.times is not None)
        caption = "Classical scaling of the distances to two dimensions"
        caption += "; a line joins the graphs in the order of time." if changes is not None else "."
        figure = Figure("Map", caption, [chart])
    if not sentences:
        sentences.append(f"{len(results.names)} graphs on {results.nodes:,} nodes.")
    return in_short(filter(None, sentences), figure)


def _flat(values: FloatArray) -> FloatArray:
    found = embed(values, min(2, len(values) - 1)).coordinates
    return np.asarray(np.pad(found, ((0, 0), (0, 2 - found.shape[1]))))


def _timeline(changes: Mapping[str, Any], names: Sequence[str]) -> Section:
    window = changes["window"]
    caption = (
        f"Squared distances of graphs up to {window} steps apart, as sums of what lies between them: first, what each "
        "step changed for good; then, by how much each graph is off on its own. Marked steps changed more than steps "
        "of random orders do. A statistic of 1 is what chance reaches at the level."
    )
    heads = ["graph", "#step", "#changed", "#alone", "#statistic", "#p-value", "marked"]
    marked = {each["step"] for each in changes["changes"]}
    rows = [
        [names[at], count(at), *(_value(changes[part][at]) for part in ("sizes", "alone", "statistics")),
         _value(changes["p_values"][at], ".3g"), "yes" if at in marked else ""]
        for at in range(min(len(names), _MOST_ROWS))
    ]  # fmt: skip
    figure = Figure("Time line", caption, [draw_changes(changes, names)])
    return Section("timeline", "Changes over time", [figure, table("Steps", heads, rows)])


def _value(value: float | None, form: str = ".4f") -> Html:
    return number("–" if value is None or math.isnan(value) else format(value, form), value)


def _change_sections(changes: Mapping[str, Any] | None) -> list[Section]:
    found = []
    for place, each in enumerate(() if changes is None else changes["changes"]):
        if not each.get("nodes"):
            continue
        caption = (
            "What each node and link contributes to the squared distance between the graphs before and after, through "
            "the derivative of the fidelity. Blue links are stronger afterwards, orange ones weaker."
        )
        figure = Figure(f"Change at {each['name']}", caption, [draw_change(each, f"change-{place + 1}")])
        nodes = [[row["node"], number(f"{row['share']:.2%}", row["share"])] for row in each["nodes"]]
        links = [
            [row["node"], row["other"], number(f"{row['share']:.2%}", row["share"]), _value(row["before"], ".4g"),
             _value(row["after"], ".4g")]
            for row in each["links"]
        ]  # fmt: skip
        body: list[Html | Figure] = [
            figure,
            table("Nodes", ["node", "#share"], nodes),
            table("Links", ["node", "other", "#share", "#weight before", "#weight after"], links),
        ]
        found.append(Section(f"change-{place + 1}", f"What changed at {each['name']}", body))
    return found


def _closeness(results: GraphResults, values: FloatArray) -> Section:
    body: list[Html | Figure] = []
    if len(results.names) <= _MOST_TREE:
        caption = "Average linkage: two groups join at the mean distance of their graphs."
        body.append(Figure("Tree", caption, [draw_tree(values, results.names)]))
    rows = [[name, *map(float, row)] for name, row in zip(results.names, values, strict=True)]
    body.append(
        tag("p", data_link("Save all distances (CSV)", "distances.csv", csv_text(["graph", *results.names], rows)))
    )
    low, high = _extremes(values)
    words = [
        f"Closest: {results.names[low[0]]} and {results.names[low[1]]}, {values[low]:.4f}.",
        f"Furthest: {results.names[high[0]]} and {results.names[high[1]]}, {values[high]:.4f}.",
    ]
    return Section("distances", "Distances", [*body, *(tag("p", each) for each in words)])


def _extremes(values: FloatArray) -> tuple[tuple[int, int], tuple[int, int]]:
    away = values + np.diag(np.full(len(values), np.inf))
    low, high = divmod(int(np.argmin(away)), len(values)), divmod(int(np.argmax(values)), len(values))
    return low, high


def _mean(facts: Any, names: Sequence[str]) -> Section | None:
    if facts is None:
        return None
    found = Entries(facts, "mean")
    words = (
        "The mean is the density matrix with the least mean squared distance from the graphs, "
        f"{found.real('variance'):.4g}; no other has less than {found.real('lowest_variance'):.4g}."
    )
    rows = [[name, _value(value)] for name, value in zip(names, found.reals("distances"), strict=True)]
    links = [[each["node"], each["other"], _value(each["weight"], ".4g")] for each in found.tables("links")]
    body = [
        tag("p", words),
        table("Distances from the mean", ["graph", "#distance"], rows[:_MOST_ROWS]),
        table("Strongest links of the mean", ["node", "other", "#weight, of 1 in all"], links),
    ]
    return Section("mean", "The mean", body)


def _clusters(facts: Any, names: Sequence[str]) -> Section | None:
    if facts is None:
        return None
    found = Entries(facts, "cluster")
    labels, central = found.wholes("labels"), found.texts("central")
    words = (
        f"{len(central)} clusters around {found.text('around')}; mean silhouette {found.number('silhouette'):.3f}: 1 "
        "for clusters far apart, about 0 where there are none."
    )
    parts = zip(names, labels, found.reals("distances"), found.reals("silhouettes"), strict=True)
    rows = [[name, count(label), _value(away), _value(inside, ".3f")] for name, label, away, inside in parts]
    centers = [[count(at + 1), count(labels.count(at + 1)), name] for at, name in enumerate(central)]
    body = [
        tag("p", words),
        table("Clusters", ["#cluster", "#graphs", "most central graph"], centers),
        table(
            "Graphs by cluster", ["graph", "#cluster", "#distance from its center", "#silhouette"], rows[:_MOST_ROWS]
        ),
    ]
    return Section("clusters", "Clusters", body)


def _changed_links(facts: Entries, name: str, caption: str, *ends: str) -> list[Html | Figure]:
    """Return a picture and a table of links that change along a direction."""
    links = facts.tables("links")
    rows = [[each["node"], each["other"], *(_value(each[end], ".4g") for end in ("before", "after"))] for each in links]
    chart = draw_shifts(links, name)
    return [Figure("Links", caption, [chart]), table("Links that change most", ["node", "other", *ends], rows)]


def _components(facts: Any, names: Sequence[str]) -> list[Section]:
    found = []
    for at, each in enumerate([] if facts is None else Entries(facts, "pca").tables("components"), 1):
        one = Entries(each, f"component {at}")
        caption = (
            "What one standard deviation along the component does to links: blue ones gain weight, orange lose it."
        )
        rows = [[name, _value(score)] for name, score in zip(names, one.reals("scores"), strict=True)]
        body: list[Html | Figure] = [
            tag("p", f"{one.real('share'):.1%} of the variance around the mean, as Bures angles."),
            *_changed_links(one, f"component-{at}", caption, "#weight at the mean", "#a standard deviation on"),
            table("Scores", ["graph", "#score"], rows[:_MOST_ROWS]),
        ]
        found.append(Section(f"component-{at}", f"Principal component {at}", body))
    return found


def _line(facts: Any, names: Sequence[str]) -> Section | None:
    if facts is None:
        return None
    found = Entries(facts, "line")
    words = (
        f"The geodesic closest to the graphs in time explains {found.number('explained'):.1%} of their variance "
        f"(p = {found.real('p_value'):.3g} over random orders of the times)."
    )
    caption = f"Changes of links over {found.real('span'):g} units of time along the line."
    rows = [[name, _value(away)] for name, away in zip(names, found.reals("distances"), strict=True)]
    body: list[Html | Figure] = [
        tag("p", words),
        *_changed_links(found, "line", caption, "#weight at the first time", "#at the last"),
        table("Distances from the line", ["graph", "#distance"], rows[:_MOST_ROWS]),
    ]
    return Section("line", "A line through the graphs", body)


def _tested(facts: Any) -> Section | None:
    if facts is None:
        return None
    found = Entries(facts, "test").values
    shown = [(str(key).replace("_", " "), [str(value)]) for key, value in found.items() if value is not None]
    return Section("test", "Test", [entries(shown)])


def _facts(results: GraphResults) -> Section:
    rows = [[name, count(links)] for name, links in zip(results.names[:_MOST_ROWS], results.links, strict=False)]
    settings = [(key, [value]) for key, value in results.settings.items()]
    return Section("graphs", "The graphs", [entries(settings), table("Graphs", ["graph", "#links"], rows)])
