"""Equivalence with the controls: two one-sided t tests against SciPy's, pooling against the runs by hand."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fishergcn import studies
from fishergcn.errors import InputError
from fishergcn.studies import RunStore, control_equivalence, equivalence, make_plan, open_runs

RESULTS = Path(__file__).resolve().parents[2] / "results"
differences = st.lists(st.floats(-0.1, 0.1), min_size=2, max_size=40).filter(lambda values: np.std(values) > 1e-6)


@given(values=differences, margin=st.floats(0.0, 0.2))
def test_the_p_value_is_the_larger_of_two_one_sided_t_tests(values, margin):
    found = equivalence(values, range(len(values)), "splits")
    above = stats.ttest_1samp(values, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(values, margin, alternative="less").pvalue
    assert found.p_value(margin) == pytest.approx(max(above, below), rel=1e-9, abs=1e-300)


@given(values=differences)
def test_the_margin_is_the_farther_end_of_the_interval_of_90_percent_and_has_p_5_percent(values):
    found = equivalence(values, range(len(values)), "splits")
    ends = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert found.margin == pytest.approx(max(-ends.low, ends.high), rel=1e-9)
    assert found.p_value(found.margin) == pytest.approx(0.05, rel=1e-9)


def test_runs_of_a_group_are_one_observation():
    rng = np.random.default_rng(0)
    luck = rng.normal(0, 0.01, 12)
    values = (luck[:, None] + rng.normal(0, 0.001, (12, 10))).ravel()
    found = equivalence(values.tolist(), np.repeat(np.arange(12), 10).tolist(), "splits")
    means = values.reshape(12, 10).mean(axis=1)
    assert found.error == pytest.approx(stats.sem(means), rel=1e-12)
    assert found.p_value(0.01) == pytest.approx(
        max(
            stats.ttest_1samp(means, -0.01, alternative="greater").pvalue,
            stats.ttest_1samp(means, 0.01, alternative="less").pvalue,
        )
    )
    alone = equivalence(values.tolist(), range(120), "runs")
    assert alone.error < found.error / 2


@pytest.mark.parametrize(("margin", "expected"), [(0.003, 0.0), (0.002, 0.5), (0.001, 1.0)])
def test_without_spread_the_mean_alone_decides(margin, expected):
    found = equivalence([0.002, 0.002], ["a", "b"], "splits")
    assert (found.margin, found.p_value(margin)) == (0.002, expected)


def test_a_single_group_tells_nothing():
    found = equivalence([0.001, 0.002], ["a", "a"], "splits")
    assert math.isnan(found.margin)
    assert math.isnan(found.p_value(1.0))


@pytest.mark.parametrize("margin", [-0.1, math.nan, "0.1"])
def test_a_margin_that_is_none(margin):
    with pytest.raises(InputError, match="margin"):
        equivalence([0.001, 0.002], ["a", "b"], "splits").p_value(margin)


def test_all_perturbed_methods_of_all_data_sets_are_pooled():
    runs = open_runs(RESULTS / "table2")
    found = control_equivalence(runs)
    groups = {}
    for dataset in runs.plan.datasets:
        for method, control in (("fishergcn", "gcn-x5"), ("fishergcn-t", "gcn-t-x5")):
            reference = {(run.split, run.seed): run.test_accuracy for _, run in runs.entries(dataset, control)}
            for _, run in runs.entries(dataset, method):
                gap = run.test_accuracy - reference[run.split, run.seed]
                groups.setdefault((dataset, run.split), []).append(gap)
    means = [np.mean(group) for group in groups.values()]
    assert (found.comparisons, found.difference.runs, found.difference.groups) == (6, 1200, 60)
    assert found.difference.unit == "splits"
    assert found.difference.mean == pytest.approx(np.mean(means), abs=1e-15)
    assert found.error == pytest.approx(stats.sem(means), rel=1e-12)
    # Pooled over Table 2: +0.005 [-0.004, +0.014] points.
    ends = [100 * value for value in (found.difference.mean, found.difference.low, found.difference.high)]
    assert ends == pytest.approx([0.005, -0.004, 0.014], abs=0.0005)


def test_with_one_split_the_groups_are_the_seeds_of_each_data_set():
    found = control_equivalence(open_runs(RESULTS / "table3"))
    assert (found.difference.unit, found.difference.groups, found.difference.runs) == ("seeds", 150, 300)


def test_variants_and_consistency_are_no_controls_of_the_perturbation(tmp_path, make_record):
    ablation = make_plan(studies.load_preset("ablation"), splits=2, seeds=1)
    with RunStore(tmp_path, writable=True) as store:
        store.begin(ablation)
        for cell in ablation.cells:
            store.add(cell, [make_record(cell, *key) for key in ablation.runs()])
    assert control_equivalence(open_runs(tmp_path)).comparisons == 1
    consistent = control_equivalence(open_runs(RESULTS / "consistency"))
    pairs = {(one.cell, one.reference) for one in studies.compare(open_runs(RESULTS / "consistency"))
             if one.role == "control" and one.cell.startswith("fishergcn")}  # fmt: skip
    assert consistent.comparisons == 3 * len(pairs)
    assert control_equivalence(open_runs(RESULTS / "robustness")) is None


def test_plain_methods_have_none(tmp_path, plan, make_record):
    plain = dataclasses.replace(plan, cells=plan.cells[:2])
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plain)
        for cell in plain.cells:
            store.add(cell, [make_record(cell, *key) for key in plain.runs()])
    assert control_equivalence(open_runs(tmp_path)) is None


def test_an_unknown_metric(filled):
    with pytest.raises(InputError, match="score must be one of accuracy, "):
        control_equivalence(open_runs(filled), "epochs")


def test_the_sentence_says_what_was_found():
    known = equivalence([0.001, -0.0005, 0.0005, 0.0], ["a", "b", "c", "d"], "splits", comparisons=2)
    assert known.sentence == (
        "Perturbed methods minus their controls in test accuracy (higher is better), 2 comparisons pooled: +0.025 "
        "points, 95% interval [−0.078, +0.128]. Two one-sided t tests over the 4 splits of all data sets rule out a "
        "difference of 0.101 points or more, in "
        "either direction, at the 5% level."
    )
    alone = equivalence([0.001], ["a"], "splits")
    assert alone.sentence == (
        "Perturbed methods minus their controls in test accuracy (higher is better), 1 comparison: +0.100 points; with "
        "a single run there is no telling how precise that is."
    )
    entropy = equivalence([0.01, 0.02, 0.03], ["a", "b", "c"], "splits", metric="val_log_loss").sentence
    assert "in validation cross entropy (lower is better), 1 comparison: +0.02000, 95% interval" in entropy
    assert "points" not in entropy


def test_where_all_pairs_tie_the_sentence_says_so_and_gives_no_margin():
    tied = equivalence([0.0] * 4, ["a", "a", "b", "b"], "splits", comparisons=2)
    said = "Perturbed methods and their controls, 2 comparisons pooled: all 4 pairs of runs have equal test accuracy."
    assert tied.sentence == said
    alone = equivalence([0.0], ["a"], "splits")
    said = "Perturbed methods and their controls, 1 comparison: the one pair of runs has equal test accuracy."
    assert alone.sentence == said
    # Runs that differ are not equal, even where their mean in each split is zero.
    balanced = equivalence([0.01, -0.01, 0.01, -0.01], ["a", "a", "b", "b"], "splits")
    said = "Perturbed methods minus their controls in test accuracy (higher is better), 1 comparison: 0.000 points in "
    assert balanced.sentence == said + "each of the 2 splits; with no spread there is nothing to test."
