"""The choice of a model: by validation alone, with the links where they help, left out where they hurt, resumable."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

import fishergcn
from fishergcn import Graph, fit
from fishergcn.errors import DataFileError, InputError
from fishergcn.execution import Listener
from fishergcn.models import Selection, load_model
from fishergcn.splits import Split
from fishergcn.studies import PREPARATIONS, load_selection
from fishergcn.studies._candidates import (
    Score,
    best_candidate,
    inner_splits,
    leaders,
    preparations_of,
    words_for,
    worth_of_links,
)
from fishergcn.training import TrainConfig

QUICK = {"settings": {"max_epochs": 30, "hidden": 8}, "device": "cpu", "workers": 1}


def planted(links_tell: bool, seed: int = 0) -> Graph:
    """Return a graph of two groups in which either the links or the features say which node is in which."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], 40)
    same = 0.2 if links_tell else 0.05
    links = np.argwhere(
        np.triu(rng.random((80, 80)) < np.where(labels[:, None] == labels, same, 0.05 - 0.03 * links_tell), 1)
    )
    features = rng.random((80, 4))
    if not links_tell:
        features[:, 0] += labels
    return Graph.from_edges(links, num_nodes=80, features=features, labels=labels, name="planted")


@pytest.fixture(scope="module")
def split() -> Split:
    nodes = np.random.default_rng(1).permutation(80)
    return Split("mine", nodes[:30], nodes[30:55], nodes[55:])


def test_links_that_tell_are_used(split):
    model = fit(planted(True), split, methods=["majority", "mlp", "gcn"], **QUICK)
    assert model.selection.chosen == model.method.name == "gcn"
    assert model.selection.low > 0
    assert any("The links help" in sentence for sentence in model.selection.sentences)
    assert model.selection.homophily > 0.7


def test_links_that_tell_nothing_are_left_out(split):
    model = fit(planted(False), split, methods=["majority", "mlp", "gcn"], **QUICK)
    assert model.selection.chosen == "mlp"
    assert model.selection.gain < 0
    assert model.record.test_accuracy > 0.8


def test_test_nodes_play_no_part(split):
    graph = planted(True)
    flipped = graph.labels.copy()
    flipped[split.test] = 1 - flipped[split.test]
    one, other = (fit(each, split, methods=["mlp", "gcn"], **QUICK) for each in (graph, graph.replace(labels=flipped)))
    assert [each.val_accuracy for each in one.selection.candidates] == [
        each.val_accuracy for each in other.selection.candidates
    ]
    assert one.selection.homophily == other.selection.homophily
    assert one.record.test_accuracy == pytest.approx(1 - other.record.test_accuracy)


def test_what_was_done_is_not_done_again(split, tmp_path):
    class Ear(Listener):
        def __init__(self):
            self.runs = 0

        def started(self, name, runs):
            self.runs += runs

    first, second = Ear(), Ear()
    options = {"methods": ["mlp", "gcn"], "folder": tmp_path / "search", "time_limit": 1e6, **QUICK}
    one = fit(planted(True), split, progress=first, **options)
    other = fit(planted(True), split, progress=second, **options)
    assert (first.runs > 0, second.runs) == (True, 0)
    assert np.array_equal(one.probabilities(), other.probabilities())
    assert one.selection.chosen == other.selection.chosen
    assert load_selection(tmp_path / "search").chosen == one.selection.chosen
    with pytest.raises(DataFileError, match=r"choice\.json does not exist"):
        load_selection(tmp_path)


def test_the_model_is_the_run_that_was_measured(split):
    model = fit(planted(True), split, methods=["gcn"], **QUICK)
    [again] = fishergcn.train(
        planted(True), "gcn", split, config=TrainConfig.from_dict(model.record.config), device="cpu", keep_weights=True
    )
    assert again.test_accuracy == model.record.test_accuracy
    np.testing.assert_array_equal(again.weights["weights.0"], model.weights["weights.0"][0].numpy())


def test_a_saved_model_keeps_its_selection(split, tmp_path):
    model = fit(planted(True), split, methods=["majority", "gcn"], **QUICK)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.selection == Selection.from_dict(model.selection.to_dict())
    assert loaded.selection.chosen == model.selection.chosen
    assert np.array_equal(loaded.probabilities(), model.probabilities())


def test_a_time_limit_leaves_out_what_would_not_fit(split):
    model = fit(planted(True), split, methods=["mlp", "gcn", "gcn-t-x5-c"], time_limit=1e-3, **QUICK)
    tried = [each.name for each in model.selection.candidates if each.tried]
    assert len(tried) == 1
    assert all("would take about" in each.left_out for each in model.selection.candidates if not each.tried)


def test_what_does_not_fit_in_memory_is_left_out(split, monkeypatch):
    monkeypatch.setattr("fishergcn.execution._cost.free_memory", lambda: 10**8)
    with pytest.raises(InputError, match="no candidate could be trained"):
        fit(planted(True), split, methods=["gcn"], **QUICK)
    model = fit(planted(True), split, methods=["majority", "gcn"], **QUICK)
    assert [each.left_out for each in model.selection.candidates] == ["", "it would not fit in memory"]


def test_a_graph_without_features_or_links_to_tell():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], labels=[0, 0, 0, 1, 1, 1])
    with pytest.warns(UserWarning, match="no features were given"):
        model = fit(graph, Split("s", [0, 5], [1, 4], [2, 3]), methods=["majority", "lp", "gcn"], **QUICK)
    assert model.probabilities().shape == (6, 2)
    assert math.isnan(model.selection.homophily)


def test_a_split_without_validation_nodes_is_refused():
    with pytest.raises(InputError, match="has no val nodes"):
        fit(planted(True), Split("s", [0, 40], [], []), **QUICK)


def test_inner_splits_deal_the_same_nodes(split):
    graph = planted(True)
    found = inner_splits(graph, split, 4)
    assert found[0] is split
    for each in found[1:]:
        assert sorted([*each.train, *each.val]) == sorted([*split.train, *split.val])
        assert np.array_equal(np.bincount(graph.labels[each.train]), np.bincount(graph.labels[split.train]))
        assert len(each.test) == 0
    assert len({each.train.tobytes() for each in found}) == 4


def test_cross_entropy_decides_where_accuracy_cannot():
    simple = {key: Score(0.8, 0.6) for key in range(4)}
    sharper = {key: Score(0.8, 0.5) for key in range(4)}
    worse = {key: Score(0.7, 0.1) for key in range(4)}
    assert best_candidate({"simple": simple, "sharper": sharper, "worse": worse}) == "sharper"
    assert best_candidate({"simple": simple, "same": dict(simple)}) == "simple"
    assert leaders({"simple": simple, "sharper": sharper, "blunt": {0: Score(0.8, 0.7)}}, 2) == ["sharper", "simple"]


def test_accuracies_within_their_error_do_not_decide():
    simple = {1: Score(0.80, 0.60), 2: Score(0.82, 0.58)}
    assert best_candidate({"simple": simple, "costly": {1: Score(0.81, 0.60), 2: Score(0.81, 0.58)}}) == "simple"
    assert best_candidate({"simple": simple, "costly": {1: Score(0.90, 0.40), 2: Score(0.91, 0.38)}}) == "costly"


def test_what_the_links_are_worth_has_an_interval_even_on_one_split():
    linked, free = {("s", 1): Score(0.95, 0.2)}, {("s", 1): Score(0.80, 0.5)}
    found = worth_of_links(linked, free, 200)
    half = 1.96 * math.sqrt((0.95 * 0.05 + 0.8 * 0.2) / 200)
    assert (found.mean, found.low, found.high) == pytest.approx((0.15, 0.15 - half, 0.15 + half))
    assert worth_of_links(linked, {("other", 1): Score(0.8, 0.5)}, 200) is None


def test_preparations_that_are_fixed_are_not_tried_twice():
    graph = Graph.from_edges([(0, 1)], features=[[1.0], [2.0]])
    assert len(preparations_of(graph, {})) == len(PREPARATIONS)
    assert preparations_of(graph, {"scaling": "none", "bias": False, "weight_decay": 0.1}) == [
        {"scaling": "none", "bias": False, "weight_decay": 0.1}
    ]
    identity = Graph.from_edges([(0, 1)], features=sparse.eye_array(2, format="csr"))
    assert {each["scaling"] for each in preparations_of(identity, {})} == {"none"}
    negative = Graph.from_edges([(0, 1)], features=[[1.0], [-1.0]])
    assert {each["scaling"] for each in preparations_of(negative, {})} == {"none", "columns"}
    assert [each["weight_decay"] for each in preparations_of(negative, {"scaling": "none"})] == [0.0005, 0.005]
    words = words_for({"scaling": "rows", "bias": False, "weight_decay": 5e-4})
    assert words == "features by row, weight decay 0.0005, no bias"


def test_the_settings_of_the_paper_are_not_changed(split):
    model = fit(planted(True), split, settings="paper", methods=["gcn"], device="cpu", workers=1)
    assert model.config == TrainConfig()


def test_another_choice_in_the_same_folder_is_refused(split, tmp_path):
    options = {"methods": ["majority"], "folder": tmp_path, "device": "cpu", "workers": 1}
    fit(planted(True), split, **options)
    with pytest.raises(DataFileError, match="belongs to another model"):
        fit(planted(False), split, **options)
