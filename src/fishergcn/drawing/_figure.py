"""Charts as files: panels of marks drawn by Matplotlib in dark gray on white."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.foreign import printable
from fishergcn._base.imports import require
from fishergcn._base.types import FloatArray
from fishergcn.drawing._marks import ROLES, Layer, Panel, Series
from fishergcn.drawing._palette import Look
from fishergcn.errors import InputError, reason

_COLORS = {**ROLES, "ink": "#22262b", "grid": "#d9dce0", "paper": "#ffffff"}
# What a figure is written with: equal input gives equal bytes.
_FORMATS: dict[str, dict[str, Any]] = {
    ".pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
    ".png": {"dpi": 200, "facecolor": "white", "metadata": {"Software": None}},
    ".svg": {"transparent": True, "metadata": {"Date": None, "Creator": None}},
}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fishergcn",
    "font.family": "sans-serif",
    "font.sans-serif": ["Liberation Sans", "Arial", "Helvetica", "DejaVu Sans"],
    "text.parse_math": False,  # names may hold dollar signs
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    **dict.fromkeys(
        ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color",
         "legend.labelcolor"),
        _COLORS["ink"],
    ),
    "grid.color": _COLORS["grid"],
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
}  # fmt: skip
# In characters; rows with longer labels have them above instead of beside.
_LONGEST_LABEL = 26
_COLUMNS = 3


def check_picture(path: Path | None) -> None:
    """Raise now, before the work that a picture is to show, if its format is not one we draw."""
    if path is not None and path.suffix.lower() not in _FORMATS:
        raise InputError(f"a picture must end in {', '.join(_FORMATS)}, got {path.name!r}.")


def write_figure(panels: Sequence[Panel], series: Sequence[Series], legend: bool, target: Any, suffix: str) -> None:
    """Draw panels into a file or stream, in the format of the suffix."""
    module = require("matplotlib.figure", extra="report", purpose="A picture")
    with require("matplotlib", extra="report", purpose="A picture").rc_context(_STYLE):
        columns = 2 if len(panels) == 4 else min(_COLUMNS, len(panels))
        rows = -(-len(panels) // columns)
        sizes = [_size(each, alone=len(panels) == 1) for each in panels]
        width, height = (max(size[side] for size in sizes) for side in (0, 1))
        size = (columns * width, rows * height + (0.4 if len(panels) > 1 else 0))
        figure = module.Figure(figsize=size, layout="constrained")
        if len(panels) > 1:
            figure.get_layout_engine().set(wspace=0.06, hspace=0.08)
        every = figure.subplots(rows, columns, squeeze=False).ravel()
        shown = {each.name: each.look for each in series if each.shown}
        hidden = {each.name for each in series if not each.shown}
        for axes, panel in zip(every, panels, strict=False):
            _draw_panel(axes, panel, shown, hidden, alone=len(panels) == 1)
        for axes in every[len(panels) :]:
            axes.set_visible(False)
        if legend and shown:
            marked = {each.series for panel in panels for each in panel.layers if each.kind == "dot"}
            lined = {each.series for panel in panels for each in panel.layers if each.kind not in ("dot", "text")}
            handles = [_handle(name, look, name in marked, name in lined) for name, look in shown.items()]
            if len(panels) == 1 and not panels[0].bare:
                every[0].legend(handles=handles, fontsize=7)
            else:
                figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(handles)))
        try:
            figure.savefig(target, format=suffix[1:], **_FORMATS[suffix])
        except (ValueError, OverflowError) as error:  # of ticks between numbers near the largest there are
            titles = ", ".join(repr(each.title) for each in panels)
            raise InputError(
                f"the chart {titles} cannot be drawn: its values are too large or too far apart ({reason(error)})."
            ) from error


def _size(panel: Panel, *, alone: bool) -> tuple[float, float]:
    """Return the width and height of a panel in inches."""
    if panel.bare:
        return (6.0, 6.0) if alone else (5.0, 5.0)
    if panel.rows:
        return (4.6, 0.95 + (0.4 if _has_long_rows(panel) else 0.27) * len(panel.rows))
    return (4.6, 3.0) if alone else (3.3, 2.6)


def _has_long_rows(panel: Panel) -> bool:
    return max(map(len, panel.rows)) > _LONGEST_LABEL


def _draw_panel(axes: Any, panel: Panel, looks: Mapping[str, Look], hidden: set[str], *, alone: bool) -> None:
    for place, layer in enumerate(panel.layers):
        if layer.series not in hidden:
            _draw_layer(axes, layer, looks.get(layer.series or ""), 2 + place / 1000)
    axes.set_title(textwrap.fill(printable(panel.title), 56 if alone else 38), fontsize=10 if alone else 8.5)
    if panel.bare:
        axes.set(xticks=[], yticks=[])
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.08)
        axes.spines[:].set_visible(False)
        return
    axes.set(xlabel=printable(panel.x), ylabel=printable(panel.y))
    axes.grid(axis="x" if panel.rows else "y")
    _scale(axes, panel)
    if panel.rows:
        _label_rows(axes, [printable(each) for each in panel.rows], _has_long_rows(panel))


def _scale(axes: Any, panel: Panel) -> None:
    """Set limits, scales and ticks."""
    if "x" in panel.log:
        axes.set_xscale("log")
    if "y" in panel.log:
        axes.set_yscale("symlog")
    for side in panel.percent:
        axis = axes.xaxis if side == "x" else axes.yaxis
        axis.set_major_formatter(lambda value, _: f"{round(100 * value, 3):g}%")
    if panel.x_domain:
        axes.set_xlim(panel.x_domain)
    if panel.y_domain:
        axes.set_ylim(panel.y_domain)
    if panel.x_ticks:
        shown = [*map(printable, panel.x_labels)] or [f"{value:g}" for value in panel.x_ticks]
        axes.set_xticks(panel.x_ticks, shown)
        axes.minorticks_off()
    elif "x" not in panel.log:
        axes.locator_params(axis="x", nbins=7, integer=_counts(panel))
        if "x" not in panel.percent:
            axes.ticklabel_format(axis="x", scilimits=(-3, 4))  # long numbers would run into each other


def _counts(panel: Panel) -> bool:
    """Return whether x counts something (epochs, directions), so that no tick may stand between whole numbers."""
    bars = [_column(each.x) + 0.5 for each in panel.layers if each.kind == "rect"]
    values = np.concatenate([np.empty(0), *bars, *(_column(each.x) for each in panel.layers if each.kind != "rect")])
    return values.size > 0 and "x" not in panel.percent and bool((values == values.round()).all())


def _label_rows(axes: Any, labels: Sequence[str], long: bool) -> None:
    """Write labels beside the rows, or, where they would leave no room for the rows, above them."""
    axes.set_ylim(len(labels) - 0.4, -0.9 if long else -0.6)
    axes.set_yticks(range(len(labels)), [""] * len(labels) if long else labels)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if long:
        for place, text in enumerate(labels):
            axes.text(0, place - 0.25, text, transform=axes.get_yaxis_transform(), va="bottom", fontsize=8)


def _draw_layer(axes: Any, layer: Layer, look: Look | None, order: float) -> None:
    color = layer.color or (look.color if look else "ink")
    color = _COLORS.get(color, color)
    x, y, x2, y2, low, high = (_column(getattr(layer, name)) for name in ("x", "y", "x2", "y2", "low", "high"))
    dash = layer.dash if layer.dash is not None else look.dash if look else ()
    style: dict[str, Any] = {"color": color, "alpha": layer.opacity, "zorder": order}
    line = {**style, "linestyle": (0, tuple(dash)) if len(dash) else "-"}
    width = {"linewidth": 0.7 * (layer.size or 2)}
    match layer.kind:
        case "line":
            axes.plot(x, y, drawstyle="steps-post" if layer.step else "default", linewidth=1.4, **line)
        case "band":
            axes.fill_between(x, low, high, **style | {"alpha": layer.opacity or 0.13, "linewidth": 0})
        case "dot":
            face = _COLORS["paper"] if layer.hollow else color
            edge = 0.0 if layer.opacity else 1.2
            marker = look.marker if look else "o"
            axes.plot(
                x, y, marker, markersize=1.2 * (layer.size or 4), markerfacecolor=face, markeredgewidth=edge, **style
            )
        case "rangeX":
            axes.hlines(y, low, high, **style, **width)
        case "rangeY":
            axes.vlines(x, low, high, **style, **width)
        case "rect":
            axes.bar(x, y, x2 - x, align="edge", edgecolor="white", **style | {"alpha": layer.opacity or 0.75})
        case "stem":
            axes.vlines(x, 0, y, **style | {"alpha": layer.opacity or 0.6}, **width)
        case "rule":
            (axes.axvline if layer.axis == "x" else axes.axhline)(layer.at, linewidth=0.8, **line)
        case "link":
            axes.plot(np.stack([x, x2]), np.stack([y, y2]), **line, **width)
        case "arrow":
            form = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.002}
            axes.quiver(x, y, x2 - x, y2 - y, **form, **style)
        case "text":
            for *place, words in zip(x, y, layer.text or (), strict=True):
                above = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center", "fontsize": 8}
                axes.annotate(printable(words), place, **above, **style)


def _column(values: Iterable[float] | None) -> FloatArray:
    return np.array([] if values is None else [*values], dtype=np.float64)


def _handle(name: str, look: Look, marked: bool, lined: bool) -> Any:
    lines = require("matplotlib.lines", extra="report", purpose="A picture")
    style = (0, look.dash) if look.dash else "-"
    return lines.Line2D([], [], color=look.color, label=printable(name), linestyle=style if lined else "none",
                        marker=look.marker if marked else "", linewidth=1.4, markersize=4.5)  # fmt: skip
