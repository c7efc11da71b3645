"""Changes of a graph or its features that a network has not seen: random, or as harmful as possible."""

from __future__ import annotations

from fishergcn.attacks._bures_ball import Worst, farthest, project, worst_in_ball
from fishergcn.attacks._changed_links import add_links, count_links, operator_of, remove_links, toggle_links
from fishergcn.attacks._feature_noise import check_noise, count_replaced, replace_entries
from fishergcn.attacks._prbcd import LinkWeightGCN, prbcd_flips
from fishergcn.attacks._worst_congruence import worst_congruence

__all__ = [
    "add_links", "farthest", "prbcd_flips", "remove_links", "replace_entries", "worst_congruence", "worst_in_ball",
]  # fmt: skip

SHARED = (
    "LinkWeightGCN", "Worst", "check_noise", "count_links", "count_replaced", "operator_of", "project",
    "toggle_links",
)  # fmt: skip
