"""``majority``: the shares of the classes among the training nodes, for every node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import FloatArray, IntArray
from fishergcn.nn._network import Look, Role, Rule, register
from fishergcn.operators import Operator


def class_shares(labels: IntArray, nodes: Sequence[IntArray], classes: int) -> Tensor:
    """Return the share of each class among the training nodes of each run, shape (R, C), in float64.

    Each class counts one node more than it has, so that none is impossible.
    """
    counts = np.stack([np.bincount(labels[each], minlength=classes) for each in nodes]) + 1
    return torch.as_tensor(counts / counts.sum(axis=1, keepdims=True))


class Majority(Rule):
    """The most frequent class of the training nodes."""

    name = "majority"
    title = "the most frequent class of the training nodes"
    summary = "the most frequent class for every node"
    matrix = "identity"

    def look(self, *, high_order: bool, consistent: bool, role: Role) -> Look | None:
        """Return color and marker in figures."""
        return "#9e3ffc", "d"

    def log_probabilities(
        self, operator: Operator, labels: IntArray, nodes: Sequence[IntArray], classes: int
    ) -> Tensor:
        """Return the logarithms of the shares of the classes, whatever the node."""
        shares = class_shares(labels, nodes, classes).to(operator.device)
        return shares.log().expand(operator.shape[0], *shares.shape)

    def expectations(self, operator: Operator, values: FloatArray, nodes: Sequence[IntArray]) -> Tensor:
        """Return the mean over the training nodes, whatever the node."""
        means = torch.as_tensor(np.stack([values[each].mean(axis=0) for each in nodes]), device=operator.device)
        return means.expand(operator.shape[0], *means.shape)


register(Majority())
