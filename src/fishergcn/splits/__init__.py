"""Which nodes train, which validate, which test.

A split is three disjoint lists of node indices. The two protocols of the paper are :func:`public` (the fixed
Planetoid split) and :func:`shuffled` (the same nodes, dealt again at random); :func:`per_class` draws a
split that is balanced by class on any labeled graph; :func:`held_out` is for one's own data, where all labels
are there to learn from; :func:`masks` are several splits that came with the data.
"""

from __future__ import annotations

from fishergcn.splits._names import Rule, choose, named, parse, usual_rule
from fishergcn.splits._protocols import held_out, masks, per_class, public, set_aside, shuffled
from fishergcn.splits._split import Split

__all__ = ["Split", "held_out", "masks", "parse", "per_class", "public", "shuffled"]

SHARED = ("Rule", "choose", "named", "set_aside", "usual_rule")
