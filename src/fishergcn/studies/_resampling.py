"""A mean and how well it is known, for runs that come in groups.

Runs on the same split share its luck, so 200 runs on 20 splits are 20 independent observations rather than
200. Intervals come from resampling whole splits (cluster bootstrap); methods are compared pair by pair on the
same split and seed. With a single split there is nothing to resample but the seeds; results then say
``unit="seeds"`` and hold for that split alone.

A handful of splits has too few resamples for that: of two, the interval would leave out zero whenever both differences
have the same sign, which chance alone brings about half of the time. With fewer than six splits (or seeds) the interval
is therefore Student's, mean ± t(0.975, G - 1) s / √G, as wide as so few observations make it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.types import FloatArray
from fishergcn.errors import InputError

RESAMPLES = 10_000
FEW = 6  # with fewer groups the bootstrap is too narrow, and Student's interval takes its place
_ENUMERATED = 13  # up to so many values with ties, all signs are tried
TIE = 1e-12  # means of equal accuracies differ by rounding, others by far more

Key = tuple[str, int]  # split, seed


@dataclass(frozen=True)
class Estimate:
    """A mean over runs that come in groups (``unit``: splits or seeds), and how well it is known.

    The interval of 95% and the standard error of the mean are those of :func:`student` with fewer than six groups, else
    of :func:`cluster_bootstrap`; NaN with a single one. ``std`` is the standard deviation over the runs, as papers
    report it; it says nothing about the error of the mean.
    """

    mean: float
    low: float
    high: float
    standard_error: float
    std: float
    runs: int
    groups: int
    unit: str

    def __repr__(self) -> str:
        interval = f" [{self.low:.4g}, {self.high:.4g}]" if math.isfinite(self.low) else ""
        return f"Estimate(mean={self.mean:.4g}{interval}, {self.runs} runs, {self.groups} {self.unit})"


def cluster_bootstrap(
    values: npt.ArrayLike, groups: Sequence[Hashable], *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float, float]:
    """Return the standard error of a mean and its confidence interval, resampling whole groups.

    A resample draws G of the G groups with replacement and takes the mean of all their values. Its deviations
    from the mean are widened by sqrt(G / (G - 1)): G resampled groups vary less than G new ones would, in
    just this proportion. The interval is made of quantiles of the widened distribution. All are NaN with fewer than two
    groups; the same data give the same interval.
    """
    numbers, level = _checked(values, groups, level)
    sums, sizes = _group_sums(numbers, groups)
    count = len(sums)
    if count < 2:
        return math.nan, math.nan, math.nan
    resamples = check_integer("resamples", resamples, minimum=1)
    draws = _draws(count, resamples, seed)
    deviations = (draws @ sums) / (draws @ sizes) - numbers.mean()
    deviations *= math.sqrt(count / (count - 1))
    low, high = numbers.mean() + np.quantile(deviations, [(1 - level) / 2, (1 + level) / 2])
    return float(np.sqrt(np.mean(deviations**2))), float(low), float(high)


@lru_cache(maxsize=4)
def _draws(count: int, resamples: int, seed: int) -> FloatArray:
    """Return how often each group is drawn in each resample: the same for every cell of a table."""
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1.0 / count), size=resamples)
    return drawn.astype(np.float64)


def student(values: npt.ArrayLike, groups: Sequence[Hashable], *, level: float = 0.95) -> tuple[float, float, float]:
    """Return the standard error of a mean and its confidence interval by Student's t over groups.

    mean ± t s / √G, where s is the standard deviation of the G group means and t the quantile (1 + level) / 2 of
    Student's distribution with G - 1 degrees of freedom. Where groups differ in size, the mean is that of all values,
    and s² / G becomes G / (G - 1) Σ_g (m_g / N)² (mean_g - mean)² with m_g of the N values in group g, which for groups
    of one size is the same. All are NaN with fewer than two groups.
    """
    numbers, level = _checked(values, groups, level)
    sums, sizes = _group_sums(numbers, groups)
    count, mean = len(sums), float(numbers.mean())
    if count < 2:
        return math.nan, math.nan, math.nan
    deviations = sums - sizes * mean
    error = float(np.linalg.norm(deviations)) / len(numbers) * math.sqrt(count / (count - 1))
    half = float(special.stdtrit(count - 1, (1 + level) / 2)) * error
    return error, mean - half, mean + half


def _checked(values: npt.ArrayLike, groups: Sequence[Hashable], level: float) -> tuple[FloatArray, float]:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) != len(groups) or not np.isfinite(numbers).all():
        raise InputError("values must be a list of finite numbers, with one group each.")
    return numbers, check_real("level", level, above=0.0, below=1.0)


def _group_sums(values: FloatArray, groups: Sequence[Hashable]) -> tuple[FloatArray, FloatArray]:
    order = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    index = np.array([order[group] for group in groups], dtype=np.int64)
    return np.bincount(index, weights=values).astype(np.float64), np.bincount(index).astype(np.float64)


def estimate(values: Mapping[Key, float], *, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Estimate:
    """Summarize one number per (split, seed).

    The interval is that of :func:`student` with fewer than six splits (seeds, where there is one split), else that of
    :func:`cluster_bootstrap`; it ends at the ``bounds`` within which such a number lies, as an accuracy does in [0, 1].
    """
    unit, groups = units_of(values)
    return estimate_groups(list(values.values()), groups, unit, bounds=bounds)


def estimate_groups(
    values: Sequence[float],
    groups: Sequence[Hashable],
    unit: str,
    *,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """Summarize one number per run, of runs that come in the given groups; see :func:`estimate`."""
    if not values:
        raise InputError("an estimate needs at least one run.")
    numbers = np.array(values)
    error, low, high = (student if len(set(groups)) < FEW else cluster_bootstrap)(numbers, groups)
    low, high = (end if math.isnan(end) else min(max(end, bounds[0]), bounds[1]) for end in (low, high))
    std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else math.nan
    return Estimate(float(numbers.mean()), low, high, error, std, len(numbers), len(set(groups)), unit)


def interval_source(found: Iterable[Estimate]) -> str:
    """Say in words how the intervals of some estimates were made, for captions."""
    ways = {(f"Student's t over {one.unit}" if one.groups < FEW else f"resampling {one.unit}"): None for one in found}
    return " or ".join(ways) or "resampling splits"


def units_of(keys: Iterable[Key]) -> tuple[str, list[Hashable]]:
    """Say what the independent units are, and which one each run belongs to."""
    known = list(keys)
    if len({split for split, _ in known}) > 1:
        return "splits", [split for split, _ in known]
    return "seeds", [seed for _, seed in known]


def paired_difference(
    values: Mapping[Key, float],
    reference: Mapping[Key, float],
    *,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[Estimate, float, tuple[int, int, int]]:
    """Compare two methods on the runs that both have.

    Parameters
    ----------
    values, reference
        One number per (split, seed).
    bounds
        Within which such a number lies, (0, 1) for an accuracy; the interval of the difference then stays in [-1, 1].

    Returns
    -------
    difference
        Of values minus reference.
    p_value
        Of the two-sided Wilcoxon signed-rank test over splits; over seeds where there is one split only.
    won, tied, lost
        Counts of splits (or seeds) by the sign of their mean difference.

    Examples
    --------
    >>> ours = {("a", 1): 0.80, ("b", 1): 0.75, ("c", 1): 0.82}
    >>> theirs = {("a", 1): 0.79, ("b", 1): 0.73, ("c", 1): 0.82}
    >>> difference, p_value, counts = paired_difference(ours, theirs)
    >>> round(difference.mean, 6), counts
    (0.01, (2, 1, 0))
    """
    differences = {key: values[key] - reference[key] for key in values if key in reference}
    width = bounds[1] - bounds[0]
    found = estimate(differences, bounds=(-width, width))
    _, groups = units_of(differences)
    sums, sizes = _group_sums(np.array(list(differences.values())), groups)
    means = np.where(np.abs(sums / sizes) < TIE, 0.0, np.round(sums / sizes, 12))
    counts = int((means > 0).sum()), int((means == 0).sum()), int((means < 0).sum())
    moved = means[means != 0]
    return found, _wilcoxon(moved), counts


def _wilcoxon(values: FloatArray) -> float:
    """Return the p-value of the two-sided signed-rank test of values that are not zero."""
    if len(values) == 0:
        return 1.0
    ranks = stats.rankdata(np.abs(values))
    if len(values) > _ENUMERATED or len(set(ranks)) == len(ranks):
        return float(stats.wilcoxon(values).pvalue)
    # With ties SciPy enumerates all signs as well, a thousand times slower.
    signs = np.arange(1 << len(values))[:, None] >> np.arange(len(values)) & 1
    sums, observed = signs @ ranks, ranks[values > 0].sum()
    return float(min(1.0, 2.0 * min(np.mean(sums <= observed), np.mean(sums >= observed))))
