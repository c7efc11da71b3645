"""``lp``: label propagation (Zhou et al. 2004), which spreads the labels Y of the training nodes over S = D^-½ A D^-½.

    F ← α S F + (1 - α) Y,   which converges to   (1 - α) (I - α S)^-1 Y

from F = Y, in the same number of steps for every graph: a run must not depend on those beside it. P is F with its rows
divided by their sums, mixed with a little of the classes' shares among the training nodes: those are all that is known
of a node that no label reaches, and no class has probability 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._base.types import FloatArray, IntArray
from fishergcn.nn._network import Look, Role, Rule, register
from fishergcn.nn.networks.majority import class_shares
from fishergcn.operators import Operator


class LabelPropagation(Rule):
    """What the labels of the training nodes say of others along the links."""

    name = "lp"
    title = "label propagation, which uses links but no features,"
    summary = "label propagation, which passes known classes along the links"
    matrix = "labels"
    alpha = 0.9
    steps = 100  # α^100 is 3e-5
    share = 1e-3  # of the classes' shares in P

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
        for _ in range(self.steps):
            found = torch.lerp(given, operator.propagate(found), self.alpha)
        sums = found.sum(-1, keepdim=True)
        spread = torch.where(sums > 0, found / sums, shares)
        return torch.lerp(spread, shares.expand_as(spread), self.share).log()

    def expectations(self, operator: Operator, values: FloatArray, nodes: Sequence[IntArray]) -> Tensor:
        """Return the mean of the training nodes' values by how much of each arrives, or of all where nothing does.

        Spread are the values and a 1 beside each, and the first are divided by the second.
        """
        means = torch.as_tensor(np.stack([values[each].mean(axis=0) for each in nodes]), device=operator.device)
        given = torch.zeros((operator.shape[0], len(nodes), values.shape[1] + 1), dtype=torch.float64,
                            device=operator.device)  # fmt: skip
        for run, each in enumerate(nodes):
            ones = np.ones((len(each), 1))
            place = torch.tensor(each, device=operator.device)
            given[place, run] = torch.as_tensor(np.hstack([values[each], ones]), device=operator.device)
        found = given
        for _ in range(self.steps):
            found = torch.lerp(given, operator.propagate(found), self.alpha)
        reached = found[..., -1:]
        return torch.where(reached > 0, found[..., :-1] / reached, means)


register(LabelPropagation())
