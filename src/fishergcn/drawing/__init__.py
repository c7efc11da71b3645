"""Charts as data, which files and pages draw, the looks of methods, and markup."""

from __future__ import annotations

from fishergcn.drawing._chart import Chart
from fishergcn.drawing._figure import check_picture
from fishergcn.drawing._geometry import draw_embedding, draw_fisher, draw_links
from fishergcn.drawing._html import Html, data_link, json_script, tag
from fishergcn.drawing._lines import draw_certified, draw_curves, draw_panels, draw_sweep
from fishergcn.drawing._maps import draw_change, draw_changes, draw_map, draw_shifts, draw_tree
from fishergcn.drawing._marks import Layer, Panel, Series, spread
from fishergcn.drawing._palette import Look, looks
from fishergcn.drawing._rows import Row, draw_forest, draw_rows
from fishergcn.drawing._spectrum import draw_bars, draw_distances, draw_shape, draw_spectrum

__all__ = [
    "Chart", "draw_changes", "draw_distances", "draw_embedding", "draw_fisher", "draw_links", "draw_map",
    "draw_spectrum",
]  # fmt: skip

SHARED = (
    "Html", "Layer", "Look", "Panel", "Row", "Series", "check_picture", "data_link", "draw_bars", "draw_certified",
    "draw_change", "draw_curves", "draw_forest", "draw_panels", "draw_rows", "draw_shape", "draw_shifts",
    "draw_sweep", "draw_tree", "json_script", "looks", "spread", "tag",
)  # fmt: skip
