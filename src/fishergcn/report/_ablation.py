"""Variants of a study: accuracy as one setting changes."""

from __future__ import annotations

from collections.abc import Mapping

from fishergcn.studies import Cell, Estimate

Point = tuple[float, Estimate]  # value of the setting, accuracy
# A curve needs so many values of its setting.
FEWEST_POINTS = 3


def _changed_settings(cell: Cell, base: Cell) -> dict[str, object]:
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
        changed = _changed_settings(cell, base) if base and cell.variant else {}
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
