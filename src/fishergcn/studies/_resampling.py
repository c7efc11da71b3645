"""A mean and how well it is known, for runs that come in groups.

Runs on the same split share its luck, so 200 runs on 20 splits are 20 independent observations rather than
200. Intervals are Student's over the means of splits, mean ± t(0.975, G - 1) s / √G; methods are compared pair by pair
on the same split and seed. With a single split the seeds are the observations; results then say ``unit="seeds"`` and
hold for that split alone.

The streams of a run are drawn from its data set, split *and* seed, so that seed 1 on one split has nothing in common
with seed 1 on another: seeds lie within splits. A measure of your own may start from the same weights on every split.
Seeds are then crossed with splits, runs of one seed share its luck too, and the variance has two parts
(:func:`crossed_error`).

Resampling whole splits (:func:`cluster_bootstrap`) asks for no distribution, but covers less than it says: 88% with 6
groups and 93% with 20, where 95% were wanted (``benchmarks/coverage_of_intervals.py``).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import sparse, special, stats
from scipy.sparse.csgraph import connected_components

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import InputError

RESAMPLES = 10_000
_ENUMERATED = 13  # values, up to which all signs are tried if there are ties
TIE = 1e-12  # means of equal accuracies differ by rounding, others by far more

Key = tuple[str, int]  # split, seed


@dataclass(frozen=True)
class Estimate:
    """A mean over runs that come in groups (``unit``: splits or seeds), and how well it is known.

    The interval of 95% and the standard error of the mean are those of :func:`student`, NaN with a single group; where
    ``seeds`` are crossed with the groups (0 if they are not) the error is that of :func:`crossed_error`. ``degrees`` of
    freedom are those of Student's t. ``std`` is the standard deviation over the runs, as papers report it; it says
    nothing about the error of the mean.
    """

    mean: float
    low: float
    high: float
    standard_error: float
    std: float
    runs: int
    groups: int
    unit: str
    degrees: float = math.nan
    seeds: int = 0

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
    if len(set(groups)) < 2:
        return math.nan, math.nan, math.nan
    mean, error = float(numbers.mean()), math.sqrt(_variance(numbers, groups))
    half = float(special.stdtrit(len(set(groups)) - 1, (1 + level) / 2)) * error
    return error, mean - half, mean + half


def _variance(numbers: FloatArray, groups: Sequence[Hashable]) -> float:
    sums, sizes = _group_sums(numbers, groups)
    deviations = sums - sizes * numbers.mean()
    return float(deviations @ deviations) / len(numbers) ** 2 * len(sums) / (len(sums) - 1)


def crossed_error(values: npt.ArrayLike, groups: Sequence[Hashable], seeds: Sequence[Hashable]) -> tuple[float, float]:
    """Return the standard error of a mean, and its degrees of freedom, where seeds are crossed with groups.

    y_gs = μ + a_g + b_s + e_gs has a mean with the variance σ_a²/G + σ_b²/S + σ_e²/(GS), which

        v = v_a + max(v_b - v_e, 0)

    estimates: v_a and v_b are the variances of the mean over groups and over seeds, as in :func:`student`, each of
    which counts the residual once, and v_e is that of the residuals of the additive fit. Satterthwaite's degrees of
    freedom are v² / (v_a²/(G - 1) + v_b²/(S - 1) + v_e²/d) with d those of the residuals, never fewer than the smaller
    of G - 1 and S - 1; where v_b ≤ v_e they are G - 1. Groups and seeds of several data sets, which have none in
    common, are blocks: seeds deviate from the mean of their block. Several values of one group and seed (methods that
    are pooled) count as their mean. NaN with fewer than two groups.
    """
    numbers, _ = _checked(values, groups, 0.95)
    degrees = float(len(set(groups)) - 1)
    if degrees < 1:
        return math.nan, math.nan
    plain = _variance(numbers, groups)
    of_seeds, rest, beside, left = _seed_variances(numbers, list(zip(groups, seeds, strict=True)))
    if of_seeds <= rest:
        return math.sqrt(plain), degrees
    total = plain + of_seeds - rest
    found = total**2 / (plain**2 / degrees + of_seeds**2 / beside + rest**2 / left)
    return math.sqrt(total), min(max(found, min(degrees, beside)), degrees + beside)


def _seed_variances(numbers: FloatArray, runs: Sequence[tuple[Hashable, Hashable]]) -> tuple[float, float, int, int]:
    """Return v_b, v_e and their degrees of freedom; all are 0 where seeds and residuals cannot be told apart."""
    sums, sizes = _group_sums(numbers, runs)
    cells, means = list(dict.fromkeys(runs)), sums / sizes
    row, column = (_numbered(names) for names in zip(*cells, strict=True))
    rows, columns = int(row.max()) + 1, int(column.max()) + 1
    links = sparse.coo_array((np.ones(len(cells)), (row, rows + column)), shape=(rows + columns, rows + columns))
    blocks, block = connected_components(links, directed=False)
    beside, left = columns - blocks, len(cells) - (rows + columns - blocks)
    if beside == 0 or left == 0:
        return 0.0, 0.0, 0, 0
    design = np.zeros((len(cells), rows + columns))
    design[np.arange(len(cells)), row] = design[np.arange(len(cells)), rows + column] = 1.0
    residuals = sizes * (means - design @ np.linalg.lstsq(design, means, rcond=None)[0])
    where = block[row]
    within = means - (np.bincount(where, means) / np.bincount(where))[where]
    seed_sums = np.bincount(column, within * sizes)
    of_seeds = float(seed_sums @ seed_sums) * columns / beside
    rest = float(residuals @ residuals) * len(cells) / left
    return of_seeds / len(numbers) ** 2, rest / len(numbers) ** 2, beside, left


def _checked(values: npt.ArrayLike, groups: Sequence[Hashable], level: float) -> tuple[FloatArray, float]:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) != len(groups) or not np.isfinite(numbers).all():
        raise InputError("values must be a list of finite numbers, with one group each.")
    return numbers, check_real("level", level, above=0.0, below=1.0)


def _numbered(groups: Sequence[Hashable]) -> IntArray:
    order = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    return np.array([order[group] for group in groups], dtype=np.int64)


def _group_sums(values: FloatArray, groups: Sequence[Hashable]) -> tuple[FloatArray, FloatArray]:
    index = _numbered(groups)
    return np.bincount(index, weights=values).astype(np.float64), np.bincount(index).astype(np.float64)


def estimate(
    values: Mapping[Key, float], *, bounds: tuple[float, float] = (-math.inf, math.inf), crossed: bool = False
) -> Estimate:
    """Summarize one number per (split, seed).

    The interval is Student's over splits (seeds, where there is one split); with ``crossed`` seeds, which mean the same
    on every split, its error is that of :func:`crossed_error`. It ends at the ``bounds`` within which such a number
    lies, as an accuracy does in [0, 1].
    """
    unit, groups = units_of(values)
    seeds = [seed for _, seed in values] if crossed and unit == "splits" else None
    return estimate_groups(list(values.values()), groups, unit, bounds=bounds, seeds=seeds)


def estimate_groups(
    values: Sequence[float],
    groups: Sequence[Hashable],
    unit: str,
    *,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    seeds: Sequence[Hashable] | None = None,
) -> Estimate:
    """Summarize one number per run, of runs in the given groups and with crossed ``seeds``; see :func:`estimate`."""
    if not values:
        raise InputError("an estimate needs at least one run.")
    numbers, count = np.array(values), len(set(groups))
    error, low, high = student(numbers, groups)
    degrees, mean = (count - 1.0 if count > 1 else math.nan), float(numbers.mean())
    if seeds is not None and count > 1:
        error, degrees = crossed_error(numbers, groups, seeds)
        half = float(special.stdtrit(degrees, 0.975)) * error
        low, high = mean - half, mean + half
    low, high = (end if math.isnan(end) else min(max(end, bounds[0]), bounds[1]) for end in (low, high))
    std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else math.nan
    crossed = len(set(seeds)) if seeds is not None else 0
    return Estimate(mean, low, high, error, std, len(numbers), count, unit, degrees, crossed)


def interval_source(found: Iterable[Estimate]) -> str:
    """Say in words how the intervals of some estimates were made, for captions."""
    ways = {f"Student's t over {one.unit}{' and seeds' if one.seeds > 1 else ''}": None for one in found}
    return " or ".join(ways) or "Student's t over splits"


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
    crossed: bool = False,
) -> tuple[Estimate, float, tuple[int, int, int]]:
    """Compare two methods on the runs that both have.

    Parameters
    ----------
    values, reference
        One number per (split, seed).
    bounds
        Within which such a number lies, (0, 1) for an accuracy; the interval of the difference then stays in [-1, 1].
    crossed
        Whether a seed means the same on every split, as in :func:`estimate`.

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
    found = estimate(differences, bounds=(-width, width), crossed=crossed)
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
