"""How models saved with the runs respond to changes of their graph, from the records kept with them."""

from __future__ import annotations

from pathlib import Path

from fishergcn.drawing import draw_fisher, draw_links
from fishergcn.geometry.extrinsic import GeometryRecord
from fishergcn.report._captions import FISHER, LINKS
from fishergcn.report._chart import Chart, chart_figure
from fishergcn.report._chart_geometry import fisher_chart, links_chart
from fishergcn.report._markup import Section, slug


def geometry(folder: Path) -> Section | None:
    """Draw what ``fishergcn geometry fisher MODEL --keep`` kept of the models in a folder, or of itself."""
    body, pictures = [], []
    charts: list[Chart] = []
    for path in sorted([*folder.glob("geometry.json"), *folder.glob("*/geometry.json")]):
        record = GeometryRecord.load(path)
        stem = "geometry-" + ("" if path.parent == folder else f"{slug(path.parent.name)}-")
        fisher, links = draw_fisher(record, f"{stem}fisher"), draw_links(record.links, f"{stem}links")
        own = [
            fisher_chart(record, fisher.name, fisher.data),
            links_chart(record.links, links.name, links.data),
        ]
        body += [
            chart_figure(f"How {record.title} responds to changes of its graph", FISHER, own[:1]),
            chart_figure(f"The links that matter most to {record.title}", LINKS, own[1:]),
        ]
        charts += own
        pictures += [fisher, links]
    return Section("geometry", "How it responds to changes of the graph", body, charts, pictures) if body else None
