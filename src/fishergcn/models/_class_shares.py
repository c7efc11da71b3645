"""Shares of classes among nodes that nobody has labeled, from what a model says of them.

Labeled nodes may be chosen class by class, so that their classes are not as frequent as those of the other nodes. With
M_cd the mean probability of class c for nodes of class d, and b_c that of unlabeled nodes,

    π = argmin_{π ≥ 0} ‖M π - b‖² + λ² ‖π - ρ‖²,

normalized, where ρ are the shares among labeled nodes (Lipton et al., ICML 2018, with a ridge λ that weakens as the N
labeled nodes say more: 2/√N, at most 0.3). Nodes of class c then count π_c / ρ_c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize

from fishergcn._base.types import FloatArray, IntArray

_RIDGE, _LARGEST_RIDGE = 2.0, 0.3
_FAR = 4.0  # standard errors between mean probabilities of a class


def class_shares(judged: FloatArray, labels: IntArray, others: FloatArray) -> FloatArray:
    """Return π (C,) among nodes of which only probabilities (U, C) are known, from nodes (N, C) of known class (N,)."""
    classes = judged.shape[1]
    known = np.bincount(labels, minlength=classes) / len(labels)
    if len(others) == 0:
        return known
    there = [judged[labels == each].mean(axis=0) if known[each] else np.eye(classes)[each] for each in range(classes)]
    matrix, target = np.array(there).T, others.mean(axis=0)
    ridge = min(_RIDGE / math.sqrt(len(labels)), _LARGEST_RIDGE)
    both = np.vstack([matrix, ridge * np.eye(classes)])
    found, _ = optimize.nnls(both, np.concatenate([target, ridge * known]))
    found = np.where(known > 0, found, 0.0)
    return np.asarray(found / found.sum()) if found.sum() > 0 else known


def class_weights(labels: Sequence[IntArray], shares: FloatArray) -> FloatArray:
    """Return how much a node of each class counts, so that classes count as their shares and not as they are there."""
    known = np.bincount(np.concatenate(labels), minlength=len(shares)) / sum(map(len, labels))
    return np.divide(shares, known, out=np.zeros_like(shares), where=known > 0)


def differs(some: FloatArray, others: FloatArray) -> bool:
    """Say whether the mean probability of a class among some nodes (N, C) is 4 standard errors from others' (U, C).

    The errors are those of nodes drawn from all of them alike: few nodes may have none of a rare class. Both are said
    by one model: two trainings may differ by more than their nodes do.
    """
    if len(some) == 0 or len(others) == 0:
        return False
    variance = np.concatenate([some, others]).var(axis=0) * (1 / len(some) + 1 / len(others))
    return bool((np.abs(some.mean(axis=0) - others.mean(axis=0)) > _FAR * np.sqrt(variance) + 1e-9).any())
