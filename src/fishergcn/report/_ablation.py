"""Variants of a study: accuracy as one setting changes."""

from __future__ import annotations

from collections.abc import Mapping

from fishergcn.studies import Cell, Estimate

Point = tuple[float, Estimate]  # value of the setting, accuracy
# A curve needs so many values of its setting.
FEWEST_POINTS = 3


def sweeps(results: Mapping[Cell, Estimate]) -> dict[tuple[str, str], list[Point]]:
    """Find the settings that were varied alone, with numbers, among the cells of one data set with their accuracies.

    Return their curves: (method, setting) -> values of the setting, ascending, each with its accuracy; the plain cell
    is one of them.
    """
    bases = {cell.method: cell for cell in results if not cell.variant}
    found: dict[tuple[str, str], list[Point]] = {}
    for cell, accuracy in results.items():
        base = bases.get(cell.method, cell)
        usual = base.config.to_dict()
        changed = {key: value for key, value in cell.config.to_dict().items() if value != usual[key]}
        if len(changed) != 1:
            continue
        ((setting, value),) = changed.items()
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        start = [(float(getattr(base.config, setting)), results[base])]
        found.setdefault((cell.method, setting), start).append((float(value), accuracy))
    return {
        key: sorted(points, key=lambda point: point[0]) for key, points in found.items() if len(points) >= FEWEST_POINTS
    }
