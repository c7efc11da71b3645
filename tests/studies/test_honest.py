"""What is said of unlabeled nodes, against what is planted: shares of classes, scores and how often intervals hold."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn.models import class_shares, class_weights
from fishergcn.splits import Split
from fishergcn.studies import _honest
from fishergcn.studies._honest import estimated
from fishergcn.studies._outcome import Outcome
from fishergcn.training import find_score, score_of

ACCURACY = find_score("accuracy")
SKILL = np.array([2.0, 1.5, 1.0])  # how well classes are told apart
EVEN = np.full(3, 1 / 3)


def said(rng: np.random.Generator, labels: np.ndarray, skill: np.ndarray) -> np.ndarray:
    """Return probabilities of a model that knows the classes as well as its skill."""
    logits = rng.normal(size=(len(labels), len(skill)))
    logits[np.arange(len(labels)), labels] += skill[labels]
    raised = np.exp(logits)
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("shares", [EVEN, [0.5, 0.3, 0.2], [0.9, 0.07, 0.03]])
@pytest.mark.parametrize(("skill", "off"), [(40.0, 0.02), (3.0, 0.04)])
def test_planted_shares_are_found(shares, skill, off):
    """Labeled nodes are even; an oracle, then a model that errs, says what the others are."""
    rng = np.random.default_rng(1)
    labels, others = (
        np.repeat(np.arange(3), 300),
        np.repeat(np.arange(3), np.round(np.array(shares) * 3000).astype(int)),
    )
    found = class_shares(*(said(rng, labels, np.full(3, skill)), labels), said(rng, others, np.full(3, skill)))
    np.testing.assert_allclose(found, shares, atol=off)
    assert found.sum() == pytest.approx(1)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 40))
def test_shares_are_shares(seed, classes, nodes):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, nodes)
    found = class_shares(rng.dirichlet(np.ones(classes), nodes), labels, rng.dirichlet(np.ones(classes), 30))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    assert (found[np.bincount(labels, minlength=classes) == 0] == 0).all()  # of what nobody has seen nothing is known


def test_without_other_nodes_the_shares_are_those_of_labeled_ones():
    labels = np.array([0, 0, 0, 1])
    assert class_shares(np.full((4, 2), 0.5), labels, np.zeros((0, 2))).tolist() == [0.75, 0.25]


def test_classes_count_as_their_shares():
    weights = class_weights([np.array([0, 0]), np.array([0, 1])], np.array([0.5, 0.5]))
    assert weights.tolist() == pytest.approx([2 / 3, 2.0])
    perfect, wrong = np.array([[1.0, 0.0]] * 3), np.array([[1.0, 0.0]])  # all nodes of class 0 right, that of 1 wrong
    found = estimated(ACCURACY, [np.vstack([perfect, wrong])], [np.array([0, 0, 0, 1])], np.array([0.5, 0.5]), 0)
    assert found.value == pytest.approx(0.5)


def simulated(score: str, repetitions: int, *, splits: int = 5, luck: float = 0.0, learned: bool = False) -> tuple:
    """Return how often an interval of 95% holds the truth, and the mean error, over repetitions of a whole choice.

    Each time 100 nodes of even classes judge in each inner split, and what is asked for is the score of the final model
    on 500 nodes of other shares. ``luck``: by how much the skill differs from training to training. ``learned``: the
    shares are found from what the model says.
    """
    entry, shares, held, errors = find_score(score), np.array([0.5, 0.3, 0.2]), 0, []
    for number in range(repetitions):
        rng = np.random.default_rng([number, 11])
        labels = [np.arange(99) % 3 for _ in range(splits)]
        found = [said(rng, own, SKILL + luck * rng.normal()) for own in labels]
        truth = rng.choice(3, 500, p=shares)
        final = said(rng, truth, SKILL + luck * rng.normal())
        known = class_shares(np.concatenate(found), np.concatenate(labels), final) if learned else shares
        value = estimated(entry, found, labels, known, 500)
        true = score_of(entry, np.log(final), truth)
        held += value.low <= true <= value.high
        errors.append(value.value - true)
    return held / repetitions, float(np.mean(errors))


@pytest.mark.parametrize("options", [{}, {"splits": 3}, {"learned": True}])
def test_intervals_of_accuracy_hold_as_often_as_they_say(options):
    """The accuracy of trainings differs by two points; where it differs by less, intervals hold more often."""
    held, error = simulated("accuracy", 800, luck=0.1, **options)
    assert 0.92 <= held <= 0.98
    assert abs(error) < 0.005


@pytest.mark.parametrize("score", ["macro_f1", "roc_auc"])
def test_intervals_of_other_scores_hold(score, monkeypatch):
    monkeypatch.setattr(_honest, "_DRAWS", 40)
    held, error = simulated(score, 60)
    assert held >= 0.92
    assert abs(error) < 0.005


@pytest.mark.parametrize("score", ["accuracy", "macro_f1", "cross_entropy"])
def test_a_better_model_is_better_by_a_difference_with_an_interval(score):
    rng = np.random.default_rng(4)
    labels = [np.arange(99) % 3 for _ in range(3)]
    good, poor = ([said(rng, own, skill) for own in labels] for skill in (SKILL + 2, SKILL - 1))
    entry = find_score(score)
    found = estimated(entry, good, labels, EVEN, 500, poor)
    apart = estimated(entry, good, labels, EVEN, 500).value - estimated(entry, poor, labels, EVEN, 500).value
    assert found.value == pytest.approx(apart, abs=0.01)
    assert (found.low > 0) if entry.better == "high" else (found.high < 0)
    same = estimated(entry, good, labels, EVEN, 500, good)
    assert same.value == 0
    assert same.low <= 0 <= same.high


def test_few_nodes_that_are_all_right_are_not_certain():
    perfect = [np.eye(2)[[0, 1]]] * 3
    found = estimated(ACCURACY, perfect, [np.array([0, 1])] * 3, np.array([0.5, 0.5]), 100)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low < 0.7
    more = estimated(ACCURACY, [np.repeat(each, 200, axis=0) for each in perfect], [np.repeat([0, 1], 200)] * 3,
                     np.array([0.5, 0.5]), 10**6)  # fmt: skip
    assert found.low < more.low < 1.0


def test_finitely_many_unlabeled_nodes_widen_the_interval():
    rng = np.random.default_rng(2)
    labels = [np.arange(90) % 3] * 3
    found = [said(rng, own, SKILL) for own in labels]
    few, many = (estimated(ACCURACY, found, labels, EVEN, count) for count in (50, 10**6))
    assert few.value == many.value
    assert few.high - few.low > many.high - many.low


def test_a_score_that_is_not_defined_has_no_estimate():
    one_class = [np.array([[0.6, 0.4], [0.7, 0.3]])]
    found = estimated(find_score("roc_auc"), one_class, [np.array([0, 0])], np.array([1.0, 0.0]), 10)
    assert all(map(math.isnan, (found.value, found.low, found.high)))


def test_inner_splits_that_share_training_nodes_are_less_sure():
    """Scores that happen to agree hide what trainings differ by: s² n_judges / n_others is allowed for."""
    rng = np.random.default_rng(5)
    labels = [np.arange(99) % 3 for _ in range(4)]
    found = [said(rng, own, SKILL) for own in labels]
    plain, shared = (estimated(ACCURACY, found, labels, EVEN, 500, labeled=count) for count in (0, 600))
    hits = np.array([(each.argmax(axis=1) == own).mean() for each, own in zip(found, labels, strict=True)])
    quantile = 2.306004135204166  # Student's with 8 degrees of freedom
    one, other = (((each.high - each.low) / 2 / quantile) ** 2 for each in (plain, shared))
    measured = [
        _honest._measured(ACCURACY, each, own, np.ones(99), None, None) for each, own in zip(found, labels, strict=True)
    ]
    between, of_nodes = hits.var(ddof=1), np.mean([each[1] ** 2 for each in measured])
    hidden = between * 99 / (600 - 99)
    assert other - one == pytest.approx(
        1.25 * (max(between - of_nodes, hidden) - max(between - of_nodes, 0.0)), rel=1e-6
    )
    assert other > one


@pytest.mark.parametrize("labeled", ["at random", "class by class"])
def test_a_weak_model_is_judged_by_the_classes_that_labeled_nodes_have(labeled, monkeypatch):
    """Trainings on inner splits say other things of the classes than the final one: no news about unlabeled nodes."""
    rng = np.random.default_rng(7)
    truth = rng.choice(3, 2000, p=[0.6, 0.3, 0.1])
    drawn = rng.permutation(2000)
    of_each = np.concatenate([np.flatnonzero(truth == each)[:120] for each in range(3)])
    nodes = drawn[:600] if labeled == "at random" else of_each
    split = Split("some", nodes[::2], nodes[1::2], [])
    final = said(rng, truth, SKILL / 2)
    parts = [split.val, split.train]
    inner = [said(rng, truth[part], SKILL / 2) ** 2 * [0.3, 0.3, 1.2] for part in parts]
    choice = SimpleNamespace(graph=SimpleNamespace(labels=truth, num_nodes=2000), split=split)
    judged = SimpleNamespace(labels_aside=[truth[part] for part in parts])
    outcome = Outcome(choice, "a mean", {}, judged, None, {}, {})
    outcome.__dict__["predicted"] = [each / each.sum(axis=1, keepdims=True) for each in inner]
    monkeypatch.setattr(Outcome, "_calibrated", lambda self: final)
    shares = outcome.classes
    known = np.bincount(truth[nodes], minlength=3) / len(nodes)
    assert (np.abs(shares - known).max() < 1e-9) == (labeled == "at random")
