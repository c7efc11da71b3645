"""Table 1: statistics of the data sets, computed and published side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fishergcn import datasets
from fishergcn._base.files import make_folder, write_text
from fishergcn._base.foreign import markdown
from fishergcn._base.text import csv_text, markdown_table
from fishergcn.graph import Graph
from fishergcn.propagation import high_order, renormalized
from fishergcn.studies._folders import check_free
from fishergcn.studies._preset import Preset

_QUANTITIES = {
    "nodes": "nodes",
    "links": "links",
    "components": "components",
    "features": "features",
    "classes": "classes",
    "split": "train:val:test",
    "share": "non-zeros of Ã, %",
    "share_high_order": "non-zeros of high-order Ã, %",
}


def write_data_table(preset: Preset, folder: str | Path) -> list[dict[str, Any]]:
    """Compute the statistics of a preset of kind ``"data"``; write them beside the published ones as CSV and Markdown.

    Returns one row per data set and quantity: ``computed``, ``published``, and whether they print ``equal``.
    """
    folder = Path(folder)
    check_free(folder)
    rows = [row for facts in preset.facts for row in _rows(preset, facts)]
    make_folder(folder)
    write_text(
        folder / f"{preset.name}.csv", csv_text(list(rows[0]), [list(row.values()) for row in rows]), inside=folder
    )
    head = ["data set", "quantity", "computed", "published"]
    shown = markdown_table(head, [list(row.values())[:4] for row in rows], right=(2, 3))
    lines = [f"# {markdown(preset.title)}", "", shown]
    notes = ["", f"Published: {markdown(preset.source)}.", *map(markdown, preset.notes), ""]
    write_text(folder / f"{preset.name}.md", "\n".join(lines + notes), inside=folder)
    return rows


def _rows(preset: Preset, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    computed = _computed(datasets.load(facts["dataset"]), preset)
    for key, quantity in _QUANTITIES.items():
        ours, theirs = _shown(key, computed[key]), _shown(key, facts[key])
        entry = {"dataset": facts["dataset"], "quantity": quantity, "computed": ours, "published": theirs}
        yield {**entry, "equal": ours == theirs}


def _computed(graph: Graph, preset: Preset) -> dict[str, Any]:
    config, cells = preset.config, graph.num_nodes**2
    dense = high_order(graph.adjacency, order=config.order, threshold=config.threshold)
    split = graph.standard_split or {}
    return {
        "nodes": graph.num_nodes,
        "links": graph.num_links,
        "components": graph.num_components,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "split": [len(split[part]) for part in ("train", "val", "test")],
        "share": 100 * renormalized(graph.adjacency).nnz / cells,
        "share_high_order": 100 * dense.nnz / cells,
    }


def _shown(key: str, value: Any) -> str:
    if key == "split":
        return ":".join(map(str, value))
    return f"{value:.2f}" if key.startswith("share") else f"{value:,}"
