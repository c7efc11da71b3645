"""Pictures and markup: colors, axes, SVG, HTML."""

from __future__ import annotations

from fishergcn.drawing._curves import draw_curves, draw_sweep
from fishergcn.drawing._embedding import draw_embedding
from fishergcn.drawing._forest import draw_forest
from fishergcn.drawing._geometry import draw_fisher, draw_links, radial_layout
from fishergcn.drawing._html import Html, data_link, json_script, tag
from fishergcn.drawing._palette import Look, looks
from fishergcn.drawing._panels import draw_panels
from fishergcn.drawing._picture import Picture, check_picture
from fishergcn.drawing._spectrum import draw_distances, draw_shape, draw_spectrum

__all__ = [
    "Html", "Look", "Picture", "check_picture", "data_link", "draw_curves", "draw_distances", "draw_embedding",
    "draw_fisher", "draw_forest", "draw_links", "draw_panels", "draw_shape", "draw_spectrum", "draw_sweep",
    "json_script", "looks", "radial_layout", "tag",
]  # fmt: skip
