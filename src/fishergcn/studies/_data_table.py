"""Table 1: statistics of the data sets, computed and published side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fishergcn import datasets
from fishergcn._base.files import make_folder, write_text
from fishergcn._base.text import csv_text
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


def data_table(preset: Preset) -> list[dict[str, Any]]:
    """Return a row for each data set and quantity: ``computed``, ``published``, and whether they print ``equal``."""
    rows = []
    for facts in preset.facts:
        computed = _computed(datasets.load(facts["dataset"]), preset)
        for key, quantity in _QUANTITIES.items():
            ours, theirs = _shown(key, computed[key]), _shown(key, facts[key])
            entry = {"dataset": facts["dataset"], "quantity": quantity, "computed": ours, "published": theirs}
            rows.append({**entry, "equal": ours == theirs})
    return rows


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


def write_data_table(preset: Preset, rows: list[dict[str, Any]], folder: str | Path) -> list[Path]:
    """Write the rows as ``NAME.csv`` and ``NAME.md`` and return the paths."""
    folder = Path(folder)
    check_free(folder)
    make_folder(folder)
    paths = [folder / f"{preset.name}.csv", folder / f"{preset.name}.md"]
    columns = ["dataset", "quantity", "computed", "published", "equal"]
    write_text(paths[0], csv_text(columns, [[row[name] for name in columns] for row in rows]))
    lines = [f"# {preset.title}", "", "| data set | quantity | computed | published |", "|---|---|---:|---:|"]
    lines += [f"| {row['dataset']} | {row['quantity']} | {row['computed']} | {row['published']} |" for row in rows]
    notes = ["", f"Published: {preset.source}.", *preset.notes, ""]
    write_text(paths[1], "\n".join(lines + notes))
    return paths
