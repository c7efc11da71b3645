"""Pictures and markup: colors, axes, SVG, HTML."""

from __future__ import annotations

from fishergcn.drawing._drawing import GRID, INK, PAPER, Picture, inline_svg, new_axes, render
from fishergcn.drawing._extrinsic import fisher_figure, links_figure
from fishergcn.drawing._html import Html, data_link, json_script, tag
from fishergcn.drawing._palette import Look, looks
from fishergcn.drawing._robustness import write_pictures

__all__ = [
    "GRID",
    "INK",
    "PAPER",
    "Html",
    "Look",
    "Picture",
    "data_link",
    "fisher_figure",
    "inline_svg",
    "json_script",
    "links_figure",
    "looks",
    "new_axes",
    "render",
    "tag",
    "write_pictures",
]
