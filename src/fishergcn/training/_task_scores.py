"""Scores of tasks without classes: functions of outputs and of what is known, for the entries of ``_scores.py``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def micro_f1(logits: Tensor, labels: Tensor) -> Tensor:
    """Return 2 TP / (2 TP + FP + FN) over all labels; NaN where there is nothing to find and nothing is said."""
    yes, true = logits > 0, labels > 0
    return 2.0 * (yes & true).sum() / (yes.sum() + true.sum())


def macro_f1(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of F1 over the labels that some node has."""
    yes, true = logits > 0, labels > 0
    found = 2.0 * (yes & true).sum(0) / (yes.sum(0) + true.sum(0))
    return found[true.any(0)].mean()


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over the nodes of -log p of all their labels."""
    return functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").sum(1).mean()


def r2(found: Tensor, wanted: Tensor) -> Tensor:
    """Return 1 - Σ (y - ŷ)² / Σ (y - ȳ)²; NaN where all numbers are equal."""
    around = (wanted - wanted.mean()).square().sum()
    left = (found - wanted).square().sum()
    return torch.where(around > 0, 1 - left / around, torch.nan)


def mae(found: Tensor, wanted: Tensor) -> Tensor:
    """Return the mean of |y - ŷ|."""
    return (found - wanted).abs().mean()


def rmse(found: Tensor, wanted: Tensor) -> Tensor:
    """Return the root of the mean of (y - ŷ)²."""
    return (found - wanted).square().mean().sqrt()


def not_alone(found: Tensor, wanted: Tensor) -> Tensor:
    """Return NaN: the loss has a weight decay, which outputs do not tell."""
    return found.new_tensor(torch.nan)
