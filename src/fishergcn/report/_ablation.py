"""Variants of an experiment: accuracy as one setting changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fishergcn._base.text import csv_text
from fishergcn.drawing import INK, Look, Picture, new_axes, render
from fishergcn.studies import Cell, Estimate

__all__ = ["changed_settings", "draw_sweep", "sweeps"]

Point = tuple[float, Estimate]  # value of the setting, accuracy
# A curve needs so many values of its setting.
FEWEST_POINTS = 3


def changed_settings(cell: Cell, base: Cell) -> dict[str, object]:
    """Return the settings of a cell that differ from those of another."""
    ours, theirs = cell.config.to_dict(), base.config.to_dict()
    return {key: value for key, value in ours.items() if value != theirs[key]}


def sweeps(results: Mapping[Cell, Estimate]) -> dict[tuple[str, str], list[Point]]:
    """Find the settings that were varied alone, with numbers, and return their curves.

    Parameters
    ----------
    results
        The accuracy of each cell on one data set.

    Returns
    -------
    dict
        (method, setting) -> values of the setting, ascending, each with its accuracy; the plain cell
        is one of them.
    """
    bases = {cell.method: cell for cell in results if not cell.variant}
    found: dict[tuple[str, str], list[Point]] = {}
    for cell, accuracy in results.items():
        base = bases.get(cell.method)
        changed = changed_settings(cell, base) if base and cell.variant else {}
        if base is None or len(changed) != 1:
            continue
        ((setting, value),) = changed.items()
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        start = [(float(getattr(base.config, setting)), results[base])]
        found.setdefault((cell.method, setting), start).append((float(value), accuracy))
    return {
        key: sorted(points, key=lambda point: point[0]) for key, points in found.items() if len(points) >= FEWEST_POINTS
    }


def draw_sweep(
    title: str,
    setting: str,
    points: Sequence[Point],
    look: Look,
    control: tuple[str, Estimate, Look] | None,
    name: str,
) -> Picture:
    """Draw accuracy with its interval against a setting; the control is a level with its own interval."""
    values = [value for value, _ in points]
    rows: list[list[object]] = [[setting, value, found.mean, found.low, found.high] for value, found in points]
    with new_axes() as (figure, axes):
        if control is not None:
            _draw_level(axes, *control)
            rows.append([control[0], None, control[1].mean, control[1].low, control[1].high])
        low, mean, high = ([100 * getattr(found, part) for _, found in points] for part in ("low", "mean", "high"))
        axes.vlines(values, low, high, color=look.color, linewidth=1.6)
        axes.plot(values, mean, "o-", color=look.color, markersize=5, linewidth=1.4)
        if min(values) > 0 and max(values) > 8 * min(values):
            axes.set_xscale("log")
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
        axes.set(title=title, xlabel=setting, ylabel="test accuracy, %")
        axes.grid(axis="y")
        data = csv_text(["setting", "value", "accuracy", "low", "high"], rows)
        return render(figure, name, f"{title}: accuracy for {len(points)} values of {setting}", data)


def _draw_level(axes: Any, name: str, level: Estimate, look: Look) -> None:
    axes.axhspan(100 * level.low, 100 * level.high, color=look.color, alpha=0.13, linewidth=0)
    axes.axhline(100 * level.mean, color=look.color, linewidth=1.4, linestyle=(0, (6, 3)))
    place = {"xycoords": ("axes fraction", "data"), "xytext": (-2, 3), "textcoords": "offset points"}
    axes.annotate(name, (1, 100 * level.mean), ha="right", color=INK, **place)
