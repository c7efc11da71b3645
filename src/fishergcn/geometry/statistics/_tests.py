"""Tests on distances alone: whether two groups of graphs differ, and whether graphs depend on something else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.statistics._redraws import redrawn, spread

# Statistics that differ by less than this share of themselves are equal: they are sums of the same distances.
_TIE = 1e-10
_BATCH = 512  # permutations that are evaluated together


@dataclass(frozen=True)
class TwoSampleTest:
    """Whether two groups of graphs differ; see :func:`two_sample_test`."""

    groups: tuple[str, str]
    sizes: tuple[int, int]
    statistic: float
    p_value: float
    effect: float
    low: float
    high: float
    method: str
    permutations: int
    smallest_p: float
    p_range: tuple[float, float]
    __repr__ = one_line


@dataclass(frozen=True)
class IndependenceTest:
    """Whether graphs depend on a covariate; see :func:`independence`."""

    correlation: float
    p_value: float
    method: str
    permutations: int
    smallest_p: float
    p_range: tuple[float, float]
    __repr__ = one_line


def two_sample_test(
    distances: Any, groups: Sequence[Hashable], *, permutations: int = 9999, level: float = 0.95, seed: int = 0
) -> TwoSampleTest:
    """Test whether two groups of graphs come from one distribution, from their distances.

    For groups of n and m graphs, the energy statistic (Székely and Rizzo) is

        T = nm / (n + m) · (2 mean d(x, y) - mean d(x, x') - mean d(y, y')),

    with means over all pairs, those of a graph with itself included. It is large where graphs of different groups are
    further apart than graphs of the same. Its level needs no assumption about the distances: if group names could be
    exchanged, every assignment of them is equally likely. The p-value is the share of assignments with a T at least as
    large as the one found: of all of them where these are no more than ``permutations``, else of as many random ones,
    with the one found among them. It detects every difference if the distances are of strong negative type, as those
    of points in a Euclidean space are; for others, a difference in mean distances.

    Parameters
    ----------
    distances : (N, N) array
        Distances of all graphs, or an object that has them as ``values``.
    groups : sequence of N
        To which of two groups each graph belongs; at least two graphs in each.
    permutations : int
        How many assignments to look at, at most; at least 99.
    level : float
        Of the interval of the effect.
    seed : int
        Of the random assignments.

    Returns
    -------
    TwoSampleTest
        ``groups`` and ``sizes``, ``statistic`` T and ``p_value``; ``effect``, the share of the mean distance between
        the groups that is not there within them, 1 - (mean d(x, x') + mean d(y, y')) / (2 mean d(x, y)) with means over
        pairs of different graphs: about 0 for equal groups, 1 if graphs of one group are equal. ``low`` and ``high``
        are its interval by the jackknife, which errs on the wide side. ``method`` is "exact" or "random", and
        ``smallest_p`` the smallest p-value there can be. ``p_range`` is the range of p-values if the
        distances are drawn anew within their error bars, 20 times; exact distances have none, and one p-value.

    Examples
    --------
    >>> import numpy as np
    >>> place = np.array([0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 1.3])
    >>> found = two_sample_test(np.abs(place[:, None] - place), ["old"] * 4 + ["new"] * 4)
    >>> found.method, round(found.p_value, 4), round(found.effect, 3)
    ('exact', 0.0286, 0.833)
    """
    matrix = check_distances(distances)
    names, first = _two_groups(groups, len(matrix))
    check_integer("permutations", permutations, minimum=99)
    check_integer("seed", seed, minimum=0)
    check_real("level", level, above=0.0, below=1.0)
    count, size = len(matrix), int(first.sum())
    possible = math.comb(count, size)
    exact = possible <= permutations
    drawn = list(_all_splits(count, size) if exact else _random_splits(first, permutations, seed))
    seen = sum(map(len, drawn))

    def tested(each: FloatArray) -> tuple[float, float]:
        statistic = float(energy_statistics(each, first[None])[0])
        at_least = sum(int((energy_statistics(each, batch) >= statistic * (1 - _TIE)).sum()) for batch in drawn)
        return statistic, at_least / seen if exact else (1 + at_least) / (1 + seen)

    statistic, p_value = tested(matrix)
    p_range = spread([tested(each)[1] for each in redrawn(distances, matrix, seed)], p_value)
    # Of groups of one size, exchanging the two gives the same T.
    least = (2 if 2 * size == count else 1) / possible
    smallest = max(least, 0.0 if exact else 1 / (1 + seen))
    effect, low, high = _effect_interval(matrix, first, level)
    method, sizes = "exact" if exact else "random", (size, count - size)
    return TwoSampleTest(names, sizes, statistic, p_value, effect, low, high, method, seen, smallest, p_range)


def independence(distances: Any, covariate: Any, *, permutations: int = 9999, seed: int = 0) -> IndependenceTest:
    """Test whether graphs depend on a covariate, by the distance correlation of the two sets of distances.

    With Ã and B̃ the U-centered distances (Székely and Rizzo, 2014), entries ã_ij = a_ij - Σ_l a_il/(n-2)
    - Σ_k a_kj/(n-2) + Σ_kl a_kl/((n-1)(n-2)) off the diagonal, the bias-corrected distance correlation is

        R = (Ã·B̃) / sqrt((Ã·Ã)(B̃·B̃)),    Ã·B̃ = Σ_{i≠j} ã_ij b̃_ij / (n(n-3)).

    Its mean is about 0 under independence, and it is 1 for distances that are proportional. The p-value is the share
    of orders of the covariate with an R at least as large, of all n! orders where these are no more than
    ``permutations``.

    Parameters
    ----------
    distances : (n, n) array
        Distances of n graphs, at least 4, or an object that has them as ``values``.
    covariate : sequence of n, (n, k) array or (n, n) array of distances
        Numbers (several columns are each divided by their standard deviation), or texts, which are equal or not, or
        other distances of the same graphs.
    permutations, seed : int
        How many orders to look at, at most, at least 99; and the seed of random ones.

    Returns
    -------
    IndependenceTest
        ``correlation`` R, ``p_value``, ``method``, ``permutations``, ``smallest_p`` and ``p_range`` as in
        :func:`two_sample_test`.

    Examples
    --------
    >>> import numpy as np
    >>> age = np.array([20, 25, 31, 44, 52, 60.0])
    >>> found = independence(np.abs(age[:, None] - age) / 40, age)
    >>> round(found.correlation, 6), found.method, found.p_value < 0.01
    (1.0, 'exact', True)
    """
    matrix = check_distances(distances, least=4)
    other = _covariate_distances(covariate, len(matrix))
    check_integer("permutations", permutations, minimum=99)
    check_integer("seed", seed, minimum=0)
    two, count = _centered(other), len(matrix)
    exact = math.factorial(count) <= permutations
    seen = math.factorial(count) if exact else permutations
    # All draws at once, for each order of the covariate.
    ones = np.array([_centered(each) for each in (matrix, *redrawn(distances, matrix, seed))])
    sizes = np.square(ones).sum(axis=(1, 2))
    size = float(np.square(two).sum())
    if min(sizes.min(), size) <= 0:
        which = "covariate" if size <= 0 else "distances"
        raise InputError(f"{which} must differ between graphs, but all distances are equal.")
    ones = (ones / np.sqrt(sizes * size)[:, None, None]).reshape(len(ones), -1)
    correlations, at_least = ones @ two.ravel(), np.zeros(len(ones))
    for order in _orders(count, None if exact else permutations, seed):
        at_least += ones @ two[np.ix_(order, order)].ravel() >= correlations - _TIE
    p_values = [float(each) for each in (at_least / seen if exact else (1 + at_least) / (1 + seen))]
    smallest = 1 / seen if exact else 1 / (1 + seen)
    p_range = spread(p_values, p_values[0])
    return IndependenceTest(
        float(correlations[0]), p_values[0], "exact" if exact else "random", seen, smallest, p_range
    )


def check_distances(distances: Any, *, least: int = 2) -> FloatArray:
    """Return a symmetric matrix of distances, or say what is wrong with it."""
    given = getattr(distances, "values", distances)
    try:
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"distances must be a square matrix of numbers, got {type(distances).__name__}.") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"distances must be a square matrix, got shape {matrix.shape}.")
    if len(matrix) < least:
        raise InputError(f"distances must be those of at least {least} graphs, got {len(matrix)}.")
    if not np.isfinite(matrix).all() or matrix.min() < 0:
        raise InputError("distances must be finite and not negative.")
    scale = float(matrix.max())
    if np.abs(matrix - matrix.T).max() > 1e-8 * scale or matrix.diagonal().max() > 1e-6 * max(scale, 1e-6):
        raise InputError("distances must be symmetric, with zeros on the diagonal.")
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 0.0)
    return matrix


def energy_statistics(matrix: FloatArray, members: Any) -> FloatArray:
    """Return T of every row of ``members``, (B, N): true for the graphs of the first group, false for the second."""
    one = np.asarray(members, dtype=np.float64)
    images = one @ matrix
    within_first = (images * one).sum(axis=1)
    across = images.sum(axis=1) - within_first
    within_second = matrix.sum() - within_first - 2 * across
    n = one.sum(axis=1)
    m = matrix.shape[0] - n
    energy: FloatArray = 2 * across / (n * m) - within_first / n**2 - within_second / m**2
    return np.asarray(n * m / (n + m) * energy)


def _two_groups(groups: Sequence[Hashable], count: int) -> tuple[tuple[str, str], Any]:
    given = list(groups)
    if len(given) != count:
        raise InputError(f"groups must have one entry for each of the {count} graphs, got {len(given)}.")
    names = list(dict.fromkeys(given))
    if len(names) != 2:
        raise InputError(f"groups must be two, got {len(names)}: {', '.join(map(repr, names[:5]))}.")
    first = np.array([each == names[0] for each in given])
    if min(first.sum(), (~first).sum()) < 2:
        few = names[0] if first.sum() < 2 else names[1]
        raise InputError(f"groups must have at least 2 graphs each, but {few!r} has one.")
    return (str(names[0]), str(names[1])), first


def _all_splits(count: int, size: int) -> Iterator[Any]:
    combinations = itertools.combinations(range(count), size)
    while chosen := list(itertools.islice(combinations, _BATCH)):
        batch = np.zeros((len(chosen), count), dtype=bool)
        np.put_along_axis(batch, np.array(chosen), True, axis=1)
        yield batch


def _random_splits(first: Any, permutations: int, seed: int) -> Iterator[Any]:
    generator = np.random.default_rng(seed)
    for start in range(0, permutations, _BATCH):
        yield generator.permuted(np.tile(first, (min(_BATCH, permutations - start), 1)), axis=1)


def _orders(count: int, permutations: int | None, seed: int) -> Iterator[IntArray]:
    if permutations is None:
        yield from map(np.array, itertools.permutations(range(count)))
        return
    generator = np.random.default_rng(seed)
    for _ in range(permutations):
        yield generator.permutation(count)


def _effect(sums: FloatArray, n: Any, m: Any) -> Any:
    """Return the effect from the sums of distances within both groups, over ordered pairs, and between them."""
    first, second, across = sums
    between = across / (n * m)
    within = first / np.maximum(n * (n - 1), 1) + second / np.maximum(m * (m - 1), 1)
    return np.where(between > 0, 1 - within / np.where(between > 0, 2 * between, 1.0), 0.0)


def _effect_interval(matrix: FloatArray, first: Any, level: float) -> tuple[float, float, float]:
    """Return the effect and its interval by the jackknife over graphs, within groups."""
    n, m = int(first.sum()), int((~first).sum())
    to_first, to_second = matrix[:, first].sum(axis=1), matrix[:, ~first].sum(axis=1)
    sums = np.array([to_first[first].sum(), to_second[~first].sum(), to_second[first].sum()])
    effect = float(_effect(sums, n, m))
    if min(n, m) < 3:  # without one of two graphs nothing is known about a group
        return effect, float("nan"), float("nan")
    own = np.where(first, to_first, to_second)
    # Without a graph: its own group has lost its row and column, and the distances between groups its row.
    left = np.stack(
        [sums[0] - 2 * own * first, sums[1] - 2 * own * ~first, sums[2] - np.where(first, to_second, to_first)]
    )
    values = np.asarray(_effect(left, n - first, m - ~first), dtype=np.float64)
    variance = sum(
        (size - 1) / size * float(np.square(values[part] - values[part].mean()).sum())
        for part, size in ((first, n), (~first, m))
    )
    quantile = float(scipy.special.stdtrit(min(n, m) - 1, (1 + level) / 2))
    width = quantile * math.sqrt(variance)
    return effect, effect - width, min(1.0, effect + width)


def _covariate_distances(covariate: Any, count: int) -> FloatArray:
    try:
        values = np.asarray(covariate)
    except ValueError:
        values = np.asarray(None)
    if values.ndim == 0 or len(values) != count:
        got = "a single value" if values.ndim == 0 else f"{len(values)}"
        raise InputError(f"covariate must have one entry for each of the {count} graphs, got {got}.")
    if values.dtype.kind in "USO" and values.ndim == 1:
        texts = values.astype(str)
        return np.asarray(texts[:, None] != texts[None, :], dtype=np.float64)
    if values.dtype.kind not in "fiub" or values.ndim > 2:
        raise InputError(f"covariate must hold numbers or one text for each graph, got {values.dtype} {values.shape}.")
    numbers = values.astype(np.float64).reshape(count, -1)
    if not np.isfinite(numbers).all():
        raise InputError("covariate must be finite; leave graphs without a value out.")
    if values.shape == (count, count) and np.array_equal(numbers, numbers.T) and not numbers.diagonal().any():
        return check_distances(numbers)
    if numbers.shape[1] > 1:
        spread = numbers.std(axis=0)
        numbers = numbers / np.where(spread > 0, spread, 1.0)
    difference = numbers[:, None, :] - numbers[None, :, :]
    return np.asarray(np.sqrt(np.square(difference).sum(axis=-1)))


def _centered(matrix: FloatArray) -> FloatArray:
    """Return the U-centered distances."""
    n = len(matrix)
    rows = matrix.sum(axis=1) / (n - 2)
    centered: FloatArray = matrix - rows[:, None] - rows[None, :] + matrix.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(centered, 0.0)
    return centered
