"""The words about a difference follow from its interval."""

from __future__ import annotations

import math

import pytest

from fishergcn.report._forest import controls_first, finding, paired_table, sentence, verdict
from fishergcn.studies import Comparison, Estimate


def comparison(low, high, *, mean=None, reference="gcn-x5", role="control", cell="fishergcn"):
    difference = Estimate((low + high) / 2 if mean is None else mean, low, high, 0.001, 0.01, 20, 10, "splits")
    return Comparison("cora", cell, reference, role, "test_accuracy", difference, 0.04, 6, 1, 3)


@pytest.mark.parametrize(
    ("low", "high", "side", "words"),
    [
        (0.0014, 0.0036, "above", "above zero: fishergcn does better than gcn-x5"),
        (-0.003, -0.0001, "below", "below zero: fishergcn does worse than gcn-x5"),
        (-0.0004, 0.0009, "zero", "includes zero: these runs cannot tell fishergcn and gcn-x5 apart"),
        (0.0, 0.001, "zero", "includes zero"),
        (-0.001, 0.0, "zero", "includes zero"),
        (math.nan, math.nan, "unknown", "too few runs"),
    ],
)
def test_finding(low, high, side, words):
    one = comparison(low, high)
    assert verdict(one.difference) == side
    assert words in finding(one)


def test_finding_shows_points_and_interval():
    assert "fishergcn − gcn-x5 on cora: " in finding(comparison(-0.0004, 0.0009))
    assert ">+0.03 points [−0.04, +0.09]</b>" in finding(comparison(-0.0004, 0.0009, mean=0.0003))


@pytest.mark.parametrize(("value", "text"), [(0.0024, "+0.24"), (-0.0024, "−0.24"), (0.0, "0.00"), (-1e-9, "0.00")])
def test_points(value, text):
    assert f">{text}</td>" in paired_table([comparison(-1, 1, mean=value)])


def test_controls_come_first():
    ordered = controls_first([comparison(0, 1, reference="gcn", role="baseline"), comparison(0, 1)])
    assert [one.reference for one in ordered] == ["gcn-x5", "gcn"]


def test_the_table_carries_full_values_and_none_for_no_interval():
    one = comparison(-0.1 / 3, 0.1)
    assert f'data-low="{-0.1 / 3!r}"' in paired_table([one])
    assert f'data-value="{one.difference.mean!r}"' in paired_table([one])
    assert "nan" not in paired_table([comparison(math.nan, math.nan, mean=0.01)])


def same(difference, runs=4):
    """Return a comparison whose runs all differ by the same."""
    found = Estimate(difference, difference, difference, 0.0, 0.0, runs, 2, "splits")
    return Comparison("cora", "fishergcn", "gcn-x5", "control", "test_accuracy", found, 1.0, 0, runs, 0)


def test_runs_that_all_tie_are_called_equal():
    assert verdict(same(0.0).difference) == "equal"
    assert finding(same(0.0)).endswith("no difference</b>; fishergcn and gcn-x5 have equal results in all runs.</li>")
    assert sentence(same(0.0)) == "fishergcn and its control gcn-x5 on cora have equal results in all runs."
    assert "all equal" in paired_table([same(0.0)])


def test_an_interval_without_width_decides_nothing():
    assert verdict(same(-0.0003).difference) == "unknown"
    assert "too few runs" in sentence(same(-0.0003))
