"""Methods that train nothing: label propagation, which reads the links, and the majority class, which reads neither.

Label propagation (Zhou et al. 2004) spreads the labels Y of the training nodes over S = D^-1/2 A D^-1/2:

    F ← α S F + (1 - α) Y,   which converges to   (1 - α) (I - α S)^-1 Y

from F = Y, in as many steps for every graph: a run must not depend on those beside it. P is F with its rows divided by their sums, mixed with a little of the classes' shares among the training nodes: those
are all that is known of a node that no label reaches, and no class has probability 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._base.types import IntArray
from fishergcn.operators import Operator
from fishergcn.training._methods import Method

_ALPHA = 0.9
_STEPS = 100  # α^100 is 3e-5
_SHARE = 1e-3  # of the classes' shares in P


def log_probabilities(
    method: Method,
    operator: Operator,
    labels: IntArray,
    nodes: Sequence[IntArray],
    classes: int,
) -> Tensor:
    """Return log P, by node, run and class, shape (n, R, C), in float64: the logits of a method without a network.

    Parameters
    ----------
    method
        ``lp`` or ``majority``.
    operator
        S in float64, n x n; it says where, too.
    labels
        The classes of all nodes, of which only those of the training nodes are read.
    nodes
        The training nodes of each run.
    classes
        C.

    Examples
    --------
    >>> from fishergcn import propagation
    >>> from fishergcn.operators import SparseMatrix
    >>> from fishergcn.training import parse_method
    >>> path = SparseMatrix.from_scipy(propagation.normalized_adjacency([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> learned = np.array([0, 0, 1]), [np.array([0])], 2
    >>> log_probabilities(parse_method("lp"), path, *learned).exp()[:, 0].round(decimals=3)
    tensor([[1., 0.],
            [1., 0.],
            [1., 0.]], dtype=torch.float64)
    >>> log_probabilities(parse_method("majority"), path, *learned).exp()[2, 0].round(decimals=3)
    tensor([0.6670, 0.3330], dtype=torch.float64)
    """
    counts = np.stack([np.bincount(labels[each], minlength=classes) for each in nodes])
    # One more of each class than there are, so that no class is impossible.
    shares = torch.as_tensor((counts + 1) / (counts + 1).sum(axis=1, keepdims=True), device=operator.device)
    if method.base == "majority":
        return shares.log().expand(operator.shape[0], *shares.shape)
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
