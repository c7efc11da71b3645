"""``lp``: label propagation (Zhou et al. 2004), which spreads the labels Y of the training nodes over S = D^-½ A D^-½.

    F ← α S F + (1 - α) Y,   which converges to   (1 - α) (I - α S)^-1 Y

from F = Y, in the same number of steps for every graph: a run must not depend on those beside it. P is F with its rows
divided by their sums, mixed with a little of the classes' shares among the training nodes: those are all that is known
of a node that no label reaches, and no class has probability 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._base.types import IntArray
from fishergcn.nn._network import Look, Role, Rule, register
from fishergcn.nn.networks.majority import class_shares
from fishergcn.operators import Operator

_ALPHA = 0.9
_STEPS = 100  # α^100 is 3e-5
_SHARE = 1e-3  # of the classes' shares in P


class LabelPropagation(Rule):
    """What the labels of the training nodes say of others along the links."""

    name = "lp"
    title = "label propagation, which uses links but no features,"
    summary = "label propagation, which passes known classes along the links"
    matrix = "labels"

    def look(self, *, high_order: bool, consistent: bool, role: Role) -> Look | None:
        """Return color and marker in figures."""
        return "#008244", ">"

    def log_probabilities(
        self, operator: Operator, labels: IntArray, nodes: Sequence[IntArray], classes: int
    ) -> Tensor:
        """Return log P."""
        shares = class_shares(labels, nodes, classes).to(operator.device)
        given = torch.zeros((operator.shape[0], *shares.shape), dtype=torch.float64, device=operator.device)
        for run, each in enumerate(nodes):
            place, known = (torch.tensor(part, device=operator.device) for part in (each, labels[each]))
            given[place, run] = functional.one_hot(known, classes).double()
        found = given
        for _ in range(_STEPS):
            found = torch.lerp(given, operator.propagate(found), _ALPHA)
        sums = found.sum(-1, keepdim=True)
        spread = torch.where(sums > 0, found / sums, shares)
        return torch.lerp(spread, shares.expand_as(spread), _SHARE).log()


register(LabelPropagation())
