"""Robustness: how trained networks do when the graph is not the one they were trained on."""

from __future__ import annotations

from fishergcn.robustness.bures_ball import worst_in_ball
from fishergcn.robustness.features import replace_entries
from fishergcn.robustness.links import add_links, remove_links, toggle_links
from fishergcn.robustness.models import Stack, train_runs
from fishergcn.robustness.points import Point, read_points
from fishergcn.robustness.prbcd import prbcd_flips
from fishergcn.robustness.settings import Settings, load_settings
from fishergcn.robustness.study import run_study

__all__ = [
    "Point",
    "Settings",
    "Stack",
    "add_links",
    "load_settings",
    "prbcd_flips",
    "read_points",
    "remove_links",
    "replace_entries",
    "run_study",
    "toggle_links",
    "train_runs",
    "worst_in_ball",
]
