"""Intervals and tests against brute force, and on data whose correlation is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fishergcn.errors import InputError
from fishergcn.studies import (
    cluster_bootstrap,
    estimate,
    interval_source,
    paired_difference,
    student,
)

FEW = 6  # splits from which on the interval is that of the bootstrap


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


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, FEW - 1), st.integers(1, 4))
def test_a_handful_of_splits_has_the_interval_of_the_t_test(seed, splits, seeds):
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


def test_from_six_splits_on_it_is_the_bootstrap():
    values = {(f"s{split}", 1): float(value) for split, value in enumerate(np.random.default_rng(0).normal(size=FEW))}
    found = estimate(values)
    made = cluster_bootstrap(list(values.values()), [split for split, _ in values])
    assert (found.standard_error, found.low, found.high) == made


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
    many = estimate({(f"s{split}", 1): 0.1 * split for split in range(FEW)})
    assert interval_source([few, many, few]) == "Student's t over splits or resampling splits"
    assert interval_source([]) == "resampling splits"
    assert interval_source([estimate({("public", seed): 0.1 * seed for seed in range(9)})]) == "resampling seeds"


def signed_rank_p(differences):
    """Two-sided p-value of Wilcoxon's test from all 2^n sign patterns."""
    magnitudes = np.abs(differences)
    ranks = np.argsort(np.argsort(magnitudes)) + 1.0
    observed = abs(np.sum(ranks * np.sign(differences)))
    statistics = [abs(np.dot(signs, ranks)) for signs in itertools.product((-1, 1), repeat=len(ranks))]
    return np.mean(np.array(statistics) >= observed - 1e-9)


@settings(deadline=None, derandomize=True, max_examples=25)
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


def test_one_split_resamples_seeds_and_says_so():
    rng = np.random.default_rng(4)
    values = {("public", seed): float(rng.normal()) for seed in range(50)}
    found = estimate(values)
    numbers = np.array(list(values.values()))
    assert (found.unit, found.groups, found.runs) == ("seeds", 50, 50)
    assert found.standard_error == pytest.approx(np.std(numbers, ddof=1) / math.sqrt(50), rel=0.03)
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
    import dataclasses

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
