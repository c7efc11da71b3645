"""Split conformal prediction: how large a score may be so that a share of unseen nodes stays below it.

    q = the ⌈(m + 1) γ⌉-th smallest of s_1, …, s_m,   P(s_new ≤ q) ≥ γ,

for scores s of m calibration nodes and of a new one that are exchangeable (Vovk et al., 2005; Lei et al., JASA 2018).
"""

from __future__ import annotations

import math

import numpy as np

from fishergcn._base.checks import check_real
from fishergcn._base.types import AnyArray
from fishergcn.errors import InputError

_ROUNDING = 1e-9  # (m + 1) γ of 9.000000000000002 asks for the 9th, not the 10th


def check_coverage(coverage: float) -> float:
    """Return a coverage, or raise where it is not between 0 and 1."""
    if not 0 < check_real("coverage", coverage) < 1:
        raise InputError(f"coverage must be a number between 0 and 1, such as 0.9, got {coverage!r:.40}.")
    return float(coverage)


def nodes_needed(coverage: float) -> int:
    """Return how many calibration nodes a coverage needs: the least m with ⌈(m + 1) γ⌉ ≤ m."""
    return math.ceil(coverage / (1 - coverage) - _ROUNDING)


def conformal_quantile(scores: AnyArray, coverage: float) -> float:
    """Return q, the ⌈(m + 1) γ⌉-th smallest of m scores; infinity where they are too few for this coverage γ."""
    known = np.sort(np.asarray(scores, dtype=np.float64))
    place = math.ceil((len(known) + 1) * check_coverage(coverage) - _ROUNDING)
    return float(known[place - 1]) if place <= len(known) else math.inf


def weighted_quantile(scores: AnyArray, weights: AnyArray, own: float, coverage: float) -> float:
    """Return the least score up to which the weights reach γ (Σ_i w_i + w), where the new node itself counts w.

    Infinity where they never do. With equal weights this is :func:`conformal_quantile` (Tibshirani et al., NeurIPS
    2019).
    """
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(np.asarray(weights, dtype=np.float64)[order])
    wanted = check_coverage(coverage) * ((reached[-1] if len(reached) else 0.0) + own)
    place = int(np.searchsorted(reached, wanted * (1 - _ROUNDING)))
    return float(np.asarray(scores, dtype=np.float64)[order][place]) if place < len(reached) else math.inf


def adaptive_scores(probabilities: AnyArray, draws: AnyArray) -> AnyArray:
    """Return the adaptive scores of all classes, n x C: how much probability lies before a class in the ranking.

        s(x, y) = Σ_{k: p_k > p_y} p_k + (1 - u) p_y

    with ``probabilities`` p (n, C) and one u in [0, 1) for each node, ``draws`` (n,) (Romano et al., NeurIPS 2020). Of
    equal classes the first comes first.
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    found = np.empty_like(probabilities)
    np.put_along_axis(found, order, np.cumsum(ranked, axis=1) - draws[:, None] * ranked, axis=1)
    return found
