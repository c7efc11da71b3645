"""Graphs that do not fit into memory: classes of all nodes, in blocks, on one machine or a Ray cluster."""

from __future__ import annotations

from fishergcn.large._fit import (
    LARGE_BLOCKS,
    LARGE_FILES,
    LargeCandidate,
    LargeFit,
    LargeSettings,
    fit_large,
    plan_large,
)
from fishergcn.large._parts import check_parts

__all__: list[str] = []  # used through the command
SHARED = (
    "LARGE_BLOCKS", "LARGE_FILES", "LargeCandidate", "LargeFit", "LargeSettings", "check_parts", "fit_large",
    "plan_large",
)  # fmt: skip
