"""In what two plans differ, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fishergcn.studies._plan import Cell
    from fishergcn.training import TrainConfig

__all__ = ["cell_differences", "config_differences", "shown"]


def cell_differences(here: Sequence[Cell], there: Sequence[Cell]) -> list[str]:
    """Say in which methods and settings some cells differ from others, one phrase each."""
    ours, theirs = ({cell.name: cell for cell in cells} for cells in (here, there))
    found = []
    if set(ours) != set(theirs):
        found.append(f"methods {', '.join(ours)} instead of {', '.join(theirs)}")
    changed: dict[str, None] = {}
    for name in ours.keys() & theirs.keys():
        changed |= dict.fromkeys(config_differences(ours[name].config, theirs[name].config))
    return found + list(changed)


def config_differences(here: TrainConfig, there: TrainConfig) -> list[str]:
    """Return a phrase with both values for each setting that differs."""
    new, old = here.to_dict(), there.to_dict()
    return [f"{key} {new[key]} instead of {old[key]}" for key in new if new[key] != old[key]]


def shown(value: Any) -> str:
    """Return a value in words, a long list by its ends."""
    if isinstance(value, tuple):
        return str(value[0]) if len(value) == 1 else f"{value[0]} … {value[-1]} ({len(value)})"
    return str(value)
