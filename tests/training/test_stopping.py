"""Stopping rules on lists of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn.training import should_stop


def paper_rule(losses, accuracies):
    return should_stop("paper", losses, accuracies, patience=1)


def patience_rule(losses, patience):
    return should_stop("patience", losses, losses, patience)


def by_hand(losses, accuracies):
    """The rule as the protocol states it, in plain Python."""
    if len(losses) < 102:
        return False
    return (
        sum(losses[-10:]) / 10 > sum(losses[-100:]) / 100 and sum(accuracies[-10:]) / 10 < sum(accuracies[-100:]) / 100
    )


def test_not_before_epoch_102():
    """However bad it gets, 101 epochs are not enough, and 102 are."""
    losses, accuracies = list(range(200)), [1 - t / 200 for t in range(200)]
    stops = [bool(paper_rule(losses[:t], accuracies[:t])) for t in range(1, 150)]
    assert stops == [False] * 101 + [True] * 48


def test_both_must_be_worse():
    rising, falling, flat = [float(t) for t in range(120)], [-float(t) for t in range(120)], [0.8] * 120
    assert paper_rule(rising, falling)
    assert not paper_rule(rising, rising)
    assert not paper_rule(falling, falling)
    assert not paper_rule(rising, flat)
    assert not paper_rule(flat, falling)


@pytest.mark.parametrize("value", [0.8, 0.1, 0.7, 1 / 3, 0.814])
def test_equal_accuracies_are_not_below_each_other(value):
    """The mean of ten equal numbers may differ from that of a hundred by rounding; that stops no run."""
    assert not paper_rule(np.arange(150.0), np.full(150, value))


def test_windows_are_the_last_10_and_the_last_100():
    """A single value decides, at the edge of each window."""
    base = np.zeros(150)
    accuracies = np.linspace(1, 0, 150)
    for position, expected in ((140, True), (139, False), (149, True), (50, False)):
        losses = base.copy()
        losses[position] = 1.0
        assert bool(paper_rule(losses, accuracies)) is expected
    # Inside the long window a high loss raises the bar; one epoch before it, it does not.
    short = base.copy()
    short[140:] = 0.05
    for position, expected in ((50, False), (49, True)):
        losses = short.copy()
        losses[position] = 10.0
        assert bool(paper_rule(losses, accuracies)) is expected


def test_equals_the_rule_by_hand():
    rng = np.random.default_rng(0)
    losses, accuracies = rng.random((40, 130)).cumsum(1), -rng.random((40, 130)).cumsum(1)
    losses[::2] = rng.random((20, 130))
    accuracies[::3] = rng.random((14, 130))
    together = paper_rule(losses, accuracies)
    assert together.shape == (40,)
    expected = [by_hand(list(a), list(b)) for a, b in zip(losses, accuracies, strict=True)]
    assert together.tolist() == expected
    assert 0 < sum(expected) < 40
    assert [bool(paper_rule(a, b)) for a, b in zip(losses, accuracies, strict=True)] == expected


def test_patience():
    assert not patience_rule([1.0], 1)
    assert patience_rule([1.0, 1.0], 1)  # no improvement
    assert not patience_rule([1.0, 0.9], 1)
    losses = [5.0, 4.0, 3.0, 3.5, 3.1, 3.0, 2.9]
    assert [bool(patience_rule(losses[:t], 3)) for t in range(1, 8)] == [False] * 5 + [True, False]
    together = patience_rule([[3.0, 1.0, 2.0], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]], 2)
    assert together.tolist() == [False, False, True]


def test_a_configuration_names_its_rule():
    rising, falling = np.arange(120.0), -np.arange(120.0)
    assert should_stop("paper", rising, falling, 1000)
    assert not should_stop("patience", rising, falling, 1000)
    assert should_stop("patience", rising, falling, 100)
    assert not should_stop("none", rising, falling, 1)
    assert should_stop("none", np.zeros((3, 5)), np.zeros((3, 5)), 1).tolist() == [False] * 3
