"""The choice between candidates and means of them, against definitions written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn.studies._ensembles import Judged, _error_of_nodes, best_of, choose, kinds_of, members, nested
from fishergcn.training import find_score

ACCURACY = find_score("accuracy")


def drawn(
    seed: int,
    candidates: int = 3,
    splits: int = 3,
    nodes: int = 40,
    classes: int = 3,
    score=ACCURACY,
    stopping: int = 0,
) -> Judged:
    """Return candidates that know different classes more or less well."""
    rng = np.random.default_rng(seed)
    labels = [np.concatenate([np.arange(classes), rng.integers(0, classes, nodes)]) for _ in range(splits)]
    skill = rng.uniform(0.0, 2.5, (candidates, classes))
    found = {}
    for place in range(candidates):
        logits = [rng.normal(size=(len(own), classes)) + skill[place, own][:, None] * np.eye(classes)[own]
                  for own in labels]  # fmt: skip
        raised = [np.exp(each) for each in logits]
        found["abcdefgh"[place]] = [each / each.sum(axis=1, keepdims=True) for each in raised]
    return Judged(found, labels, [stopping] * splits, score)


def loss_of(judged: Judged, shares: dict[str, float]) -> float:
    """Return the cross entropy of a mean: over nodes, then over inner splits."""
    found = []
    for at, labels in enumerate(judged.labels):
        mixed = sum(share * judged.probabilities[name][at] for name, share in shares.items())
        found.append(np.mean([-math.log(row[label]) for row, label in zip(mixed, labels, strict=True)]))
    return float(np.mean(found))


@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_greedy_selection_is_what_it_says(seed):
    """In each of 25 rounds the candidate that lowers the loss of the mean most; shares below 5% are dropped."""
    judged = drawn(seed, nodes=15, splits=2)
    bag: list[str] = []
    for _ in range(25):
        losses = {}
        for name in judged.probabilities:
            trial = [*bag, name]
            losses[name] = loss_of(judged, {each: trial.count(each) / len(trial) for each in set(trial)})
        bag.append(min(losses, key=lambda name: losses[name]))
    kept = {name: bag.count(name) for name in judged.probabilities if bag.count(name) >= 2}
    found = members(judged, "weighted mean")
    assert found == pytest.approx({name: count / sum(kept.values()) for name, count in kept.items()})


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_greedy_selection_is_nearly_the_best_of_all_means(seed):
    judged = drawn(seed)
    grid = [(first, second, 20 - first - second) for first in range(21) for second in range(21 - first)]
    best = min(loss_of(judged, dict(zip("abc", np.array(each) / 20, strict=True))) for each in grid)
    found = members(judged, "weighted mean")
    assert sum(found.values()) == pytest.approx(1)
    assert min(found.values()) >= 0.05
    assert loss_of(judged, found) <= best + 0.01
    assert loss_of(judged, found) <= min(loss_of(judged, {name: 1.0}) for name in "abc") + 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_the_mean_of_the_best_has_the_least_loss_of_its_members(seed):
    judged = drawn(seed, candidates=5)
    losses = {name: loss_of(judged, {name: 1.0}) for name in judged.probabilities}
    found = members(judged, "mean of the 3 best")
    assert found == dict.fromkeys(found, 1 / 3)
    trios = itertools.combinations(losses, 3)
    assert set(found) == set(min(trios, key=lambda trio: sum(losses[name] for name in trio)))
    assert members(judged, "mean of the 5 best") == dict.fromkeys(losses, 0.2) | dict.fromkeys(found, 0.2)


@pytest.mark.parametrize(
    ("count", "kinds"),
    [(1, []), (2, ["weighted mean"]), (3, ["mean of the 3 best", "weighted mean"]),
     (5, ["mean of the 3 best", "mean of the 5 best", "weighted mean"])],
)  # fmt: skip
def test_which_ensembles_there_can_be(count, kinds):
    assert kinds_of(drawn(0, candidates=count, nodes=100)) == kinds


def test_few_nodes_are_too_few_for_shares():
    """With fewer than 100 nodes to judge by, only plain means compete, unless two candidates leave no other."""
    assert kinds_of(drawn(0, candidates=5, nodes=96)) == ["mean of the 3 best", "mean of the 5 best"]
    assert kinds_of(drawn(0, candidates=5, nodes=97))[-1] == "weighted mean"
    assert kinds_of(drawn(0, candidates=2, nodes=20)) == ["weighted mean"]


def test_a_score_that_ranks_orders_candidates_itself():
    """One that orders all nodes rightly, but is never sure, wins by ROC AUC in spite of its cross entropy."""
    labels, spread = np.arange(40) % 2, np.linspace(-0.01, 0.01, 20)
    unsure = np.where(labels == 1, 0.52, 0.5) + np.repeat(spread, 2) / 2
    sure = np.where(np.arange(40) < 4, 0.3, 0.95)
    sure = np.where(labels == 1, sure, 1 - sure)
    found = {name: [np.stack([1 - each, each], axis=1)] * 3 for name, each in {"sure": sure, "unsure": unsure}.items()}
    judged = {name: Judged(found, [labels] * 3, [0] * 3, find_score(name)) for name in ("accuracy", "roc_auc")}
    assert loss_of(judged["accuracy"], {"unsure": 1.0}) > loss_of(judged["accuracy"], {"sure": 1.0})
    assert choose(judged["accuracy"], ensembles=False)[0] == "sure"
    assert choose(judged["roc_auc"], ensembles=False)[0] == "unsure"


def test_inner_splits_without_a_class_are_left_out():
    values = {"a": [(0.9, -0.9), (math.nan, 0.1)], "b": [(0.7, -0.7), (math.nan, 0.05)]}
    assert best_of(values) == "a"
    assert best_of({name: each[1:] for name, each in values.items()}) == "b"


def planted(right: dict[str, np.ndarray], splits: int = 4, sure: float = 0.8) -> Judged:
    """Return candidates that are right on some of 120 nodes of two classes, and wrong, though less sure, on others."""
    labels = np.arange(120) % 2
    found = {}
    for name, hits in right.items():
        own = np.where(hits, sure, 0.4)
        both = np.where(labels[:, None] == [0, 1], own[:, None], 1 - own[:, None])
        found[name] = [both] * splits
    return Judged(found, [labels] * splits, [0] * splits, ACCURACY)


def test_one_that_is_far_better_is_taken_alone():
    nodes = np.arange(120)
    judged = planted({"poor": nodes % 3 == 0, "good": nodes >= 0, "also poor": nodes % 4 == 0})
    assert choose(judged) == ("good", {"good": 1.0})


def test_unlike_ones_that_complete_each_other_are_joined():
    nodes = np.arange(120)
    judged = planted({"even": nodes % 4 < 2, "odd": nodes % 4 >= 2, "poor": nodes < 3})
    chosen, shares = choose(judged)
    assert chosen == "weighted mean"
    assert set(shares) == {"even", "odd"}
    assert shares["even"] == pytest.approx(0.5, abs=0.03)
    assert choose(judged, ensembles=False)[1] in ({"even": 1.0}, {"odd": 1.0})
    assert all((found.argmax(axis=1) == nodes % 2).all() for found in nested(judged))
    one = planted({"even": nodes % 4 < 2, "odd": nodes % 4 >= 2}, splits=1)
    assert choose(one)[1] in ({"even": 1.0}, {"odd": 1.0})  # a single inner split cannot choose and judge members


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(0, 2), st.sampled_from(["accuracy", "macro_f1", "cross_entropy"]))
def test_what_is_said_of_an_inner_split_does_not_depend_on_its_labels(seed, place, score):
    judged = drawn(seed, candidates=4, score=find_score(score), nodes=20, stopping=9)
    before = nested(judged)
    assert [len(each) for each in before] == [14] * 3  # nodes that stopped trainings are not among those set aside
    labels = list(judged.labels)
    labels[place] = (labels[place] + 1) % 3
    after = nested(Judged(judged.probabilities, labels, judged.stopping, judged.score))
    assert np.array_equal(before[place], after[place])


def test_an_ensemble_is_compared_by_members_of_other_inner_splits(monkeypatch):
    """What it is said to be worth on an inner split must not come from members chosen there."""
    judged, seen = drawn(3, candidates=4), []
    values = Judged.values

    def watched(self, shares, split):
        if len(shares) > 1:
            seen.append((split, shares))
        return values(self, shares, split)

    monkeypatch.setattr(Judged, "values", watched)
    choose(judged)
    for kind in kinds_of(judged):
        for at in range(3):
            assert (at, members(judged.without(at), kind)) in seen or len(members(judged.without(at), kind)) == 1


def test_nested_of_a_single_inner_split_is_the_choice_itself():
    judged = drawn(1, splits=1)
    [found] = nested(judged)
    name, shares = choose(judged)
    assert shares == {name: 1.0}
    assert np.array_equal(found, judged.probabilities[name][0])


def test_leaving_out_an_inner_split():
    judged = drawn(2)
    less = judged.without(1)
    assert [id(each) for each in less.labels] == [id(judged.labels[0]), id(judged.labels[2])]
    assert less.probabilities["b"][1] is judged.probabilities["b"][2]


# Values are pairs of a score, higher is better, and of the cross entropy.


def test_cross_entropy_decides_where_the_score_cannot():
    simple, sharper, worse = [(0.8, 0.6)] * 4, [(0.8, 0.5)] * 4, [(0.7, 0.1)] * 4
    assert best_of({"simple": simple, "sharper": sharper, "worse": worse}) == "sharper"
    assert best_of({"simple": simple, "same": list(simple)}) == "simple"


def test_scores_within_their_error_do_not_decide():
    simple = [(0.80, 0.60), (0.82, 0.58)]
    assert best_of({"simple": simple, "costly": [(0.81, 0.61), (0.815, 0.59)]}) == "simple"
    assert best_of({"simple": simple, "costly": [(0.90, 0.70), (0.91, 0.78)]}) == "costly"
    assert best_of({"one": [(0.8, 0.1)], "other": [(0.81, 0.9)]}) == "other"  # one inner split has no error


@pytest.mark.parametrize("splits", [1, 2, 5])
@pytest.mark.parametrize(("missed", "expected"), [(3, "sharper"), (30, "simple")])
def test_splits_that_agree_by_chance_do_not_hide_that_few_nodes_differ(splits, missed, expected):
    """Of 100 nodes the sharper candidate misses some more in each split: their share has no error between splits."""
    one, other = np.ones(100), np.ones(100)
    one[:5] = 0
    other[10 : 15 + missed] = 0
    values = {"simple": [(one.mean(), 0.6)] * splits, "sharper": [(other.mean(), 0.5)] * splits}
    assert best_of(values) == "simple"
    assert best_of(values, {"simple": [one] * splits, "sharper": [other] * splits}) == expected


def test_the_error_of_nodes_is_that_of_a_paired_difference():
    rng = np.random.default_rng(0)
    both = rng.random((4000, 2, 50)) < np.array([0.8, 0.7])[None, :, None]
    differences = both[:, 0].mean(1) - both[:, 1].mean(1)
    found = np.mean([_error_of_nodes([one * 1.0], [other * 1.0]) for one, other in both])
    assert found == pytest.approx(np.sqrt(differences.var() + differences.mean() ** 2 / 50), rel=0.05)
    one, other = both[0] * 1.0
    assert _error_of_nodes([one, one], [other, other]) == pytest.approx(_error_of_nodes([one], [other]) / np.sqrt(2))


@settings(max_examples=50)
@given(st.lists(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 3)), min_size=3, max_size=3), min_size=1, max_size=5))
def test_the_best_is_never_clearly_worse_than_another(values):
    named = dict(enumerate(values))
    found = best_of({str(key): each for key, each in named.items()})
    own = np.array(values[int(found)])[:, 0]
    for each in values:
        gaps = np.array(each)[:, 0] - own
        top = np.array(max(values, key=lambda one: np.mean([score for score, _ in one])))[:, 0] - own
        assert gaps.mean() <= top.mean() + 1e-12
        assert top.mean() <= top.std(ddof=1) / math.sqrt(3) + 1e-12
