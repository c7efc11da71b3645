"""Intervals and tests against brute force, and on data whose correlation is known."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fishergcn.errors import InputError
from fishergcn.studies import (
    cluster_bootstrap,
    crossed_error,
    equivalence,
    estimate,
    estimate_groups,
    interval_source,
    paired_difference,
    student,
)


def all_resamples(values, groups):
    """The mean of every one of the G^G resamples, by enumeration."""
    names = list(dict.fromkeys(groups))
    members = {name: [value for value, group in zip(values, groups, strict=True) if group == name] for name in names}
    return np.array(
        [
            np.mean([value for name in drawn for value in members[name]])
            for drawn in itertools.product(names, repeat=len(names))
        ]
    )


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2, 2), (1, 3, 2, 5, 1), (4, 4)])
def test_the_bootstrap_against_enumeration(sizes):
    rng = np.random.default_rng(len(sizes))
    groups = [name for name, size in enumerate(sizes) for _ in range(size)]
    values = rng.normal(size=len(groups)) + 2.0 * np.array(groups)
    count, mean = len(sizes), values.mean()
    widened = mean + math.sqrt(count / (count - 1)) * (all_resamples(values, groups) - mean)
    error, low, high = cluster_bootstrap(values, groups, resamples=400_000, level=0.8)
    assert error == pytest.approx(np.sqrt(np.mean((widened - mean) ** 2)), rel=5e-3)
    # A discrete distribution: the quantile is one of its atoms, or between the two next to it.
    for found, share in ((low, 0.1), (high, 0.9)):
        inside = np.quantile(widened, [share - 0.005, share + 0.005], method="inverted_cdf")
        assert inside[0] - 1e-9 <= found <= inside[1] + 1e-9


def test_the_standard_error_is_that_of_group_means():
    # With groups of one size the mean is one of independent group means, whose error is in every textbook.
    rng = np.random.default_rng(1)
    means = np.repeat(rng.normal(size=12), 7)
    error, _, _ = cluster_bootstrap(means, np.repeat(np.arange(12), 7).tolist(), resamples=200_000)
    assert error == pytest.approx(np.std(means[::7], ddof=1) / math.sqrt(12), rel=5e-3)


def naive_half_width(values):
    return 1.96 * np.std(values, ddof=1) / math.sqrt(len(values))


def test_naive_intervals_are_too_narrow_and_ours_are_not():
    """20 splits with 10 runs; variance between splits 1, within 1/4: an intraclass correlation of 0.8."""
    rng = np.random.default_rng(0)
    splits = np.repeat(np.arange(20), 10)
    trials = 300
    covered = naive = 0
    widths = []
    for trial in range(trials):
        values = rng.normal(size=20)[splits] + 0.5 * rng.normal(size=200)
        _, low, high = cluster_bootstrap(values, splits.tolist(), resamples=1000, seed=trial)
        covered += low <= 0.0 <= high
        naive += abs(values.mean()) <= naive_half_width(values)
        widths.append((high - low) / (2 * naive_half_width(values)))
    assert 0.90 <= covered / trials <= 0.97
    assert naive / trials < 0.60
    # Kish: the variance of the mean is larger by 1 + (m - 1) ρ = 8.2.
    assert np.mean(widths) == pytest.approx(math.sqrt(1 + 9 * 0.8), rel=0.08)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 25), st.integers(1, 4))
def test_any_number_of_splits_has_the_interval_of_the_t_test(seed, splits, seeds):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(splits, 1)) + 0.3 * rng.normal(size=(splits, seeds))
    values = {(f"s{split}", number): table[split, number] for split in range(splits) for number in range(seeds)}
    expected = stats.ttest_1samp(table.mean(axis=1), 0.0).confidence_interval(0.95)
    found = estimate(values)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert found.standard_error == pytest.approx(stats.sem(table.mean(axis=1)), rel=1e-9)
    reference = {key: rng.normal() for key in values}
    means = [np.mean([values[f"s{s}", n] - reference[f"s{s}", n] for n in range(seeds)]) for s in range(splits)]
    expected = stats.ttest_1samp(means, 0.0).confidence_interval(0.95)
    difference, _, _ = paired_difference(values, reference)
    assert (difference.low, difference.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.parametrize("groups", [5, 6, 10, 20])
def test_intervals_cover_what_they_say(groups):
    """95% of 1,000 intervals, give or take three standard errors of such a share; the bootstrap has 88% with 6."""
    rng = np.random.default_rng(groups)
    covered = 0
    for table in rng.normal(size=(1000, groups, 1)) + 0.5 * rng.normal(size=(1000, groups, 2)):
        found = estimate_groups(table.ravel().tolist(), np.repeat(np.arange(groups), 2).tolist(), "splits")
        covered += found.low <= 0.0 <= found.high
    assert 0.93 <= covered / 1000 <= 0.97


def anova(table):
    """Mean squares of a two-way layout with one value a cell, by the sums of squares of every textbook."""
    rows, columns = table.shape
    mean, by_row, by_column = table.mean(), table.mean(axis=1), table.mean(axis=0)
    rest = table - by_row[:, None] - by_column + mean
    return (
        columns * ((by_row - mean) ** 2).sum() / (rows - 1),
        rows * ((by_column - mean) ** 2).sum() / (columns - 1),
        (rest**2).sum() / ((rows - 1) * (columns - 1)),
    )


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(2, 8), st.floats(0.0, 2.0))
def test_crossed_seeds_against_the_analysis_of_variance(seed, splits, seeds, luck):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(splits, seeds)) + luck * rng.normal(size=seeds)
    groups, columns = np.repeat(np.arange(splits), seeds).tolist(), np.tile(np.arange(seeds), splits).tolist()
    error, degrees = crossed_error(table.ravel(), groups, columns)
    of_splits, of_seeds, rest = anova(table)
    total = of_splits + max(of_seeds - rest, 0.0)
    assert error == pytest.approx(math.sqrt(total / table.size), rel=1e-9)
    if of_seeds <= rest:
        assert degrees == splits - 1
    else:
        parts = of_splits**2 / (splits - 1) + of_seeds**2 / (seeds - 1) + rest**2 / ((splits - 1) * (seeds - 1))
        bounds = min(splits, seeds) - 1, splits + seeds - 2
        assert degrees == pytest.approx(np.clip(total**2 / parts, *bounds), rel=1e-9)
    # Every cell measured by three methods with one mean: nothing is known three times better.
    tripled = [list(each) * 3 for each in (table.ravel(), groups, columns)]
    assert crossed_error(*tripled) == pytest.approx((error, degrees), rel=1e-9)


def test_crossed_seeds_are_covered_where_splits_alone_are_not():
    """20 splits, 10 seeds which carry 5% of the variance: over splits alone 87% of the intervals hold the mean."""
    rng = np.random.default_rng(0)
    keys = [(str(split), seed) for split in range(20) for seed in range(10)]
    covered = {True: 0, False: 0}
    for _ in range(400):
        table = 0.3 * rng.normal(size=(20, 1)) + math.sqrt(0.05) * rng.normal(size=(1, 10)) + rng.normal(size=(20, 10))
        values = dict(zip(keys, table.ravel(), strict=True))
        for crossed in covered:
            found = estimate(values, crossed=crossed)
            covered[crossed] += found.low <= 0.0 <= found.high
    assert covered[False] / 400 < 0.91
    assert 0.93 <= covered[True] / 400 <= 0.975


def test_blocks_of_crossed_seeds_do_not_mix():
    """Two data sets have no seed in common: that their means differ is no luck of seeds."""
    rng = np.random.default_rng(1)
    tables = [mean + rng.normal(size=(6, 3)) + rng.normal(size=3) for mean in (0.0, 100.0)]
    values = np.concatenate([table.ravel() for table in tables])
    groups = [(data, split) for data in "ab" for split in range(6) for _ in range(3)]
    seeds = [(data, seed) for data in "ab" for _ in range(6) for seed in range(3)]
    moved = values - np.repeat([0.0, 100.0], 18)
    plain, shifted = (student(each, groups)[0] ** 2 for each in (moved, values))
    added = [crossed_error(each, groups, seeds)[0] ** 2 for each in (moved, values)]
    assert added[0] > plain
    assert added[1] - shifted == pytest.approx(added[0] - plain, rel=1e-9)


def test_where_seeds_cannot_be_told_from_noise_splits_alone_count():
    one_seed = crossed_error([1.0, 2.0, 4.0], "abc", [1, 1, 1])
    assert one_seed == pytest.approx((student([1.0, 2.0, 4.0], "abc")[0], 2.0))
    nested = crossed_error([1.0, 2.0, 4.0, 3.0], "aabb", [1, 2, 3, 4])
    assert nested == pytest.approx((student([1.0, 2.0, 4.0, 3.0], "aabb")[0], 1.0))
    assert all(map(math.isnan, crossed_error([1.0, 2.0], "aa", [1, 2])))


def test_the_test_for_equivalence_takes_crossed_seeds():
    rng = np.random.default_rng(2)
    values = (rng.normal(size=(8, 1)) + 2 * rng.normal(size=(1, 3)) + 0.1 * rng.normal(size=(8, 3))).ravel()
    groups, seeds = np.repeat(np.arange(8), 3).tolist(), list(range(3)) * 8
    found = equivalence(values.tolist(), groups, "splits", seeds=seeds)
    error, degrees = crossed_error(values, groups, seeds)
    assert found.margin == pytest.approx(abs(values.mean()) + stats.t.ppf(0.95, degrees) * error)
    assert found.p_value(found.margin) == pytest.approx(0.05)
    assert interval_source([found.difference]) == "Student's t over splits and seeds"


def test_seeds_of_runs_trained_here_lie_within_splits():
    """The same seed on two splits starts from other weights: nothing is crossed, and the plan says so."""
    from fishergcn.streams import initial_weights, keys_of
    from fishergcn.studies import make_plan

    first, second = initial_weights(keys_of("cora", [("shuffled:1", 1), ("shuffled:2", 1)]), 0, 3, 4, torch.float64)
    assert not torch.isclose(first, second).any()
    plan = make_plan("quick", splits=2, seeds=2)
    assert not plan.crossed
    assert dataclasses.replace(plan, measure="networks").crossed


def test_two_splits_that_agree_prove_nothing():
    difference, p_value, _ = paired_difference({("a", 1): 0.81, ("b", 1): 0.83}, {("a", 1): 0.8, ("b", 1): 0.8})
    assert p_value == 0.5
    assert difference.low < 0 < difference.high


def test_student_with_groups_of_unlike_sizes_is_the_error_of_a_ratio():
    # The mean of all values is Σ sums / Σ sizes; its variance from residuals of the sums (Cochran 1977).
    values, groups = [1.0, 2.0, 4.0, 8.0, 9.0, 3.0], list("aabbbc")
    sums, sizes, mean = np.array([3.0, 21.0, 3.0]), np.array([2, 3, 1]), 27 / 6
    residuals = sums - mean * sizes
    error = math.sqrt(3 * np.var(residuals, ddof=1)) / 6
    found = student(values, groups, level=0.9)
    assert found == pytest.approx((error, *(mean + stats.t.ppf([0.05, 0.95], 2) * error)), rel=1e-12)


def test_how_intervals_were_made_is_said():
    few = estimate({("a", 1): 0.5, ("b", 1): 0.7})
    many = estimate({(f"s{split}", 1): 0.1 * split for split in range(30)})
    assert interval_source([few, many, few]) == interval_source([]) == "Student's t over splits"
    assert interval_source([estimate({("public", seed): 0.1 * seed for seed in range(9)})]) == "Student's t over seeds"


def signed_rank_p(differences):
    """Two-sided p-value of Wilcoxon's test from all 2^n sign patterns."""
    magnitudes = np.abs(differences)
    ranks = np.argsort(np.argsort(magnitudes)) + 1.0
    observed = abs(np.sum(ranks * np.sign(differences)))
    statistics = [abs(np.dot(signs, ranks)) for signs in itertools.product((-1, 1), repeat=len(ranks))]
    return np.mean(np.array(statistics) >= observed - 1e-9)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(3, 10), st.floats(-0.5, 0.5))
def test_wilcoxon_against_all_sign_patterns(seed, splits, shift):
    rng = np.random.default_rng(seed)
    luck = rng.normal(size=splits)  # shared by all runs of a split and by both methods
    ours, theirs = {}, {}
    for split in range(splits):
        for number in range(3):
            ours[f"s{split}", number] = luck[split] + shift + 0.3 * rng.normal()
            theirs[f"s{split}", number] = luck[split] + 0.3 * rng.normal()
    means = [np.mean([ours[f"s{split}", n] - theirs[f"s{split}", n] for n in range(3)]) for split in range(splits)]
    difference, p_value, (won, tied, lost) = paired_difference(ours, theirs)
    assert p_value == pytest.approx(signed_rank_p(means), rel=1e-9)
    assert difference.mean == pytest.approx(np.mean(means), abs=1e-12)
    assert (won, tied, lost) == (sum(m > 0 for m in means), 0, sum(m < 0 for m in means))
    assert (difference.unit, difference.groups, difference.runs) == ("splits", splits, 3 * splits)


def test_pairing_removes_the_luck_of_the_split():
    rng = np.random.default_rng(3)
    luck = 10.0 * rng.normal(size=20)
    noise = {(f"s{split}", seed): luck[split] + 0.1 * rng.normal() for split in range(20) for seed in range(5)}
    better = {key: value + 0.1 + 0.01 * rng.normal() for key, value in noise.items()}
    difference, p_value, counts = paired_difference(better, noise)
    assert difference.low > 0.09
    assert difference.high < 0.11
    assert estimate(better).standard_error > 100 * difference.standard_error
    assert p_value == pytest.approx(2.0**-19)
    assert counts == (20, 0, 0)


def test_only_common_runs_are_paired():
    ours = {("a", 1): 1.0, ("a", 2): 9.0, ("b", 1): 3.0}
    theirs = {("a", 1): 0.0, ("b", 1): 1.0, ("c", 1): 100.0}
    difference, _, counts = paired_difference(ours, theirs)
    assert (difference.mean, difference.runs, counts) == (1.5, 2, (2, 0, 0))
    with pytest.raises(InputError, match="at least one run"):
        paired_difference({("a", 1): 1.0}, {("b", 1): 1.0})


def test_equal_up_to_rounding_is_a_tie():
    ours = {("a", 1): 0.1 + 0.2, ("b", 1): 0.5}
    difference, p_value, counts = paired_difference(ours, {("a", 1): 0.3, ("b", 1): 0.5})
    assert (p_value, counts) == (1.0, (0, 2, 0))
    assert abs(difference.mean) < 1e-15


def test_one_split_takes_seeds_and_says_so():
    rng = np.random.default_rng(4)
    values = {("public", seed): float(rng.normal()) for seed in range(50)}
    found = estimate(values)
    numbers = np.array(list(values.values()))
    assert (found.unit, found.groups, found.runs) == ("seeds", 50, 50)
    assert found.standard_error == pytest.approx(np.std(numbers, ddof=1) / math.sqrt(50), rel=1e-9)
    _, p_value, counts = paired_difference(values, {key: value - 1 for key, value in values.items()})
    assert counts == (50, 0, 0)
    assert p_value < 1e-9


def test_a_single_run_has_no_interval():
    found = estimate({("public", 1): 0.5})
    assert found.mean == 0.5
    assert all(math.isnan(value) for value in (found.low, found.high, found.standard_error, found.std))


def test_the_same_data_give_the_same_interval():
    values = np.random.default_rng(5).normal(size=40)
    groups = np.repeat(np.arange(8), 5).tolist()
    assert cluster_bootstrap(values, groups) == cluster_bootstrap(values, groups)


@pytest.mark.parametrize("values", [[1.0, math.nan], [[1.0, 2.0]], [1.0]])
def test_bad_values(values):
    with pytest.raises(InputError, match="finite numbers"):
        cluster_bootstrap(values, ["a", "b"])


def test_an_estimate_is_shown_rounded():
    found = estimate({(f"split {index}", 1): 0.8 + 0.001 * index for index in range(20)})
    assert repr(found) == f"Estimate(mean=0.8095 [{found.low:.4g}, {found.high:.4g}], 20 runs, 20 splits)"
    assert repr(estimate({("a", 1): 1 / 3})) == "Estimate(mean=0.3333, 1 runs, 1 seeds)"


@pytest.mark.parametrize("splits", [2, 3, 8])
def test_intervals_of_accuracies_stay_within_their_bounds(splits):
    """Student's t of two splits reaches far beyond 100%; no accuracy is there."""
    values = {(str(split), 1): 1.0 - 0.3 * (split == 0) for split in range(splits)}
    found = estimate(values, bounds=(0.0, 1.0))
    assert 0.0 <= found.low <= found.mean <= found.high <= 1.0
    assert found.standard_error == estimate(values).standard_error
    difference, *_ = paired_difference(values, dict.fromkeys(values, 0.0), bounds=(0.0, 1.0))
    assert -1.0 <= difference.low <= difference.high <= 1.0


def test_the_results_of_runs_are_within_0_and_100_percent(tmp_path):
    from fishergcn import studies
    from fishergcn.studies import RunStore

    plan = studies.make_plan("quick", methods=["gcn-x5"], splits=2, seeds=1, epochs=1)
    studies.run(plan, tmp_path, device="cpu", workers=1).close()
    with RunStore(tmp_path, writable=True) as store:
        for cell in plan.cells:
            records = list(store.of_cell(cell))
            changed = [
                dataclasses.replace(each, scores=each.scores | {"test_accuracy": 0.9 + 0.1 * at})
                for at, each in enumerate(records)
            ]
            store.add(cell, changed)
    with studies.open_runs(tmp_path) as runs:
        for summary in studies.summarize(runs):
            for each in (summary.accuracy, summary.balanced_accuracy, summary.macro_f1):
                assert 0.0 <= each.low <= each.high <= 1.0
            assert summary.loss.low >= 0.0
        for found in studies.compare(runs):
            assert -1.0 <= found.difference.low <= found.difference.high <= 1.0
