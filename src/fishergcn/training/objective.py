"""The loss of a batch of runs, and how well they do.

    loss_r = (1 / N_r M) Σ_i Σ_m -log p(y_i | sample m) + (wd/2) Σ_l ‖W_r^l‖² [+ λ · consistency]

for run r with its N_r labeled nodes i and M samples m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._types import IntArray
from fishergcn.nn.view import View

__all__ = ["Targets", "consistency", "penalty", "scores"]


@dataclass(frozen=True)
class Targets:
    """The labeled nodes of each run, padded to a common length.

    Attributes
    ----------
    rows
        Where the nodes stand in the output of a view, shape (R, N).
    labels
        Their classes, shape (R, N).
    shares
        1 / N_r for a node, 0 for padding, shape (R, N).
    """

    rows: Tensor
    labels: Tensor
    shares: Tensor

    @classmethod
    def of(
        cls, nodes: Sequence[IntArray], labels: IntArray, view: View, device: torch.device, dtype: torch.dtype
    ) -> Targets:
        """Place each run's nodes in the output of ``view``."""
        longest = max(len(each) for each in nodes)
        rows = np.zeros((len(nodes), longest), dtype=np.int64)
        classes, shares = np.zeros_like(rows), np.zeros(rows.shape)
        for run, each in enumerate(nodes):
            rows[run, : len(each)] = view.position(each)
            classes[run, : len(each)] = labels[each]
            shares[run, : len(each)] = 1.0 / max(len(each), 1)
        return cls(
            torch.as_tensor(rows, device=device),
            torch.as_tensor(classes, device=device),
            torch.as_tensor(shares, dtype=dtype, device=device),
        )

    def keep(self, runs: Tensor) -> Targets:
        """Return the targets of some runs."""
        return Targets(self.rows[runs], self.labels[runs], self.shares[runs])


def scores(logits: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
    """Return mean cross entropy and accuracy of each run over its nodes and samples, two of shape (R,).

    The accuracy is in float64.

    Parameters
    ----------
    logits
        Shape (p, R * M, C).
    targets
        The labeled nodes of the R runs.
    """
    runs = len(targets.rows)
    grouped = logits.view(len(logits), runs, -1, logits.shape[2])
    run = torch.arange(runs, device=logits.device).unsqueeze(1)
    chosen = grouped[targets.rows, run]  # (R, N, M, C)
    labels = targets.labels.unsqueeze(-1).expand(chosen.shape[:-1])
    losses = functional.cross_entropy(chosen.flatten(0, 2), labels.flatten(), reduction="none").view(labels.shape)
    hits = (chosen.detach().argmax(-1) == labels) & (targets.shares > 0).unsqueeze(-1)
    # Counted, not summed in floating point: a stopping rule must see equal accuracies as equal.
    accuracy = hits.sum((1, 2)).double() / ((targets.shares > 0).sum(1) * chosen.shape[2])
    return (losses.mean(-1) * targets.shares).sum(1), accuracy


def penalty(weights: Sequence[Tensor], weight_decay: float) -> Tensor:
    """Return (wd/2) Σ_l ‖W_r^l‖² of each run, shape (R,)."""
    return 0.5 * weight_decay * torch.stack([each.square().sum((1, 2)) for each in weights]).sum(0)


def consistency(logits: Tensor, runs: int, temperature: float) -> Tensor:
    """Return the mean over nodes and samples of ‖p_m - sharpen(p̄, τ)‖² of each run, shape (R,).

    p̄ is the mean of the M predictions, sharpen(p̄, τ) ∝ p̄^{1/τ}; no gradient flows through it.
    """
    predictions = torch.softmax(logits.view(len(logits), runs, -1, logits.shape[2]), dim=-1)
    target = predictions.detach().mean(2, keepdim=True) ** (1.0 / temperature)
    target = target / target.sum(-1, keepdim=True)
    return (predictions - target).square().sum(-1).mean((0, 2))
