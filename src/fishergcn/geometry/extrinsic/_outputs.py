"""The metric of predictions: how far apart two outputs of a classifier are, to second order.

At a node with probabilities p and labels that occur with frequencies f, the mean outer product of the
gradient of -log p(y) in the logits is

    F = Σ_y f_y (p - e_y)(p - e_y)ᵀ = diag f - f pᵀ - p fᵀ + p pᵀ.

The three kinds of Fisher information differ in f alone: the network's own p (exact; F = diag p - p pᵀ), the
observed label (empirical), the share of each class among labels drawn from p (Monte Carlo).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._base.checks import check_choice, check_integer

Kind: TypeAlias = Literal["exact", "empirical", "monte-carlo"]


@dataclass(frozen=True)
class OutputMetric:
    """F of each node, as what it does.

    Attributes
    ----------
    probabilities, frequencies : Tensor of shape (N, C)
        p and f.
    """

    probabilities: Tensor
    frequencies: Tensor

    def apply(self, tangents: Tensor) -> Tensor:
        """Return F_i V_i for V of shape (N, C, k), at O(NCk)."""
        p, f = self.probabilities.unsqueeze(-1), self.frequencies.unsqueeze(-1)
        mean = (p * tangents).sum(1, keepdim=True)
        return f * (tangents - mean) - p * ((f * tangents).sum(1, keepdim=True) - mean)


def check_kind(kind: Kind) -> bool:
    """Return whether a kind of Fisher information needs labels, or raise if there is no such kind."""
    return check_choice("kind", kind, get_args(Kind)) == "empirical"


def output_metric(
    logits: Tensor, kind: Kind, observed: Callable[[], Tensor], samples: int = 100, seed: int = 0
) -> OutputMetric:
    """Return the metric of one kind at the logits (N, C); ``observed`` gives the labels, where they are needed.

    Examples
    --------
    >>> import torch
    >>> metric = output_metric(torch.zeros(1, 2), "exact", lambda: torch.tensor([1]))
    >>> metric.apply(torch.eye(2).unsqueeze(0))
    tensor([[[ 0.2500, -0.2500],
             [-0.2500,  0.2500]]])
    """
    p = torch.softmax(logits.detach(), dim=1)
    if kind == "exact":
        return OutputMetric(p, p)
    if kind == "empirical":
        return OutputMetric(p, functional.one_hot(observed(), p.shape[1]).to(p))
    draws = check_integer("samples", samples, minimum=1)
    generator = torch.Generator().manual_seed(check_integer("seed", seed, minimum=0))
    labels = torch.multinomial(p.cpu(), draws, replacement=True, generator=generator)
    counts = torch.zeros(p.shape, dtype=torch.float64).scatter_add_(
        1, labels, torch.ones(labels.shape, dtype=torch.float64)
    )
    return OutputMetric(p, (counts / draws).to(p))
