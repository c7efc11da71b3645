"""The choice of a model: by nodes set aside, with the links where they help, left out where they hurt, resumable."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import fishergcn
from fishergcn import Graph, fit
from fishergcn.errors import DataFileError, InputError
from fishergcn.execution import Listener
from fishergcn.models import Ensemble, Selection, load_model
from fishergcn.splits import Split
from fishergcn.studies import CANDIDATES, PREPARATIONS, _auto, _choice, _honest, _last, counting_from, load_selection
from fishergcn.studies._candidates import Recipe, preparations_of, recipes_of, words_for, words_of
from fishergcn.studies._decisions import Clock
from fishergcn.training import Score, Sizes, TrainConfig, parse_method, register_score, unregister_score, work_of

PLAIN = {"max_epochs": 30, "hidden": 8, "scaling": "columns", "bias": True, "weight_decay": 5e-4}  # one preparation
QUICK = {"settings": PLAIN, "device": "cpu", "workers": 1}


def planted(links_tell: bool, features_tell: bool = False, seed: int = 0) -> Graph:
    """Return a graph of two groups; its links, its features or both say which node is in which.

    Where the links tell, features hint at it: the mean of those of neighbors says more than those of a node.
    """
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], 40)
    same = 0.2 if links_tell else 0.05
    links = np.argwhere(
        np.triu(rng.random((80, 80)) < np.where(labels[:, None] == labels, same, 0.05 - 0.03 * links_tell), 1)
    )
    features = rng.random((80, 4))
    features[:, 0] += labels if features_tell or not links_tell else 0.3 * labels
    return Graph.from_edges(links, num_nodes=80, features=features, labels=labels, name="planted")


@pytest.fixture(scope="module")
def split() -> Split:
    nodes = np.random.default_rng(1).permutation(80)
    return Split("mine", nodes[:30], nodes[30:55], nodes[55:])


@pytest.fixture(scope="module")
def found(split):
    """What is chosen where the links tell."""
    return fit(planted(True), split, methods=["majority", "mlp", "gcn"], **QUICK)


def timeless(selection: Selection) -> dict[str, Any]:
    """Return a selection without the seconds, which differ from machine to machine; NaN as None."""
    same = [dataclasses.replace(each, seconds=0.0) for each in selection.candidates]
    return dataclasses.replace(selection, candidates=tuple(same), seconds=0.0).to_dict()


def test_links_that_tell_are_used(found):
    selection = found.selection
    assert "gcn" in selection.chosen
    assert found.method.uses_graph
    assert selection.gain_low > 0
    assert any("The links help" in sentence for sentence in selection.sentences)
    assert not any("Do not use" in sentence for sentence in selection.sentences)
    assert selection.homophily > 0.7
    assert selection.value > selection.without_links > 0.3
    assert selection.majority_low > 0
    assert found.record.test_accuracy > 0.8


def test_links_that_tell_nothing_are_left_out(split):
    model = fit(planted(False), split, methods=["majority", "mlp", "gcn"], ensemble=False, **QUICK)
    assert model.selection.chosen == model.method.name == "mlp"
    assert model.selection.gain < 0
    assert model.record.test_accuracy > 0.8


def test_the_inner_splits_and_their_judges_are_counted(found, split):
    assert found.selection.splits == 5
    assert found.selection.judges <= len(split.train) + len(split.val)
    for each in found.selection.candidates:
        assert (each.runs, each.tried, each.left_out) == (5, True, "")
        assert each.low <= each.value <= each.high
    assert sum(each.share for each in found.selection.candidates) == pytest.approx(1)
    assert found.selection.ranked()[0].value == max(each.value for each in found.selection.candidates)


@pytest.mark.parametrize("score", ["accuracy", "roc-auc"])
def test_test_nodes_play_no_part(split, score, monkeypatch):
    monkeypatch.setattr(_honest, "_DRAWS", 20)
    graph = planted(True, True)
    flipped = graph.labels.copy()
    flipped[split.test] = 1 - flipped[split.test]
    graphs = (graph, graph.replace(labels=flipped))
    one, other = (fit(each, split, methods=["lp", "mlp", "gcn"], score=score, **QUICK) for each in graphs)
    assert timeless(one.selection) == timeless(other.selection)
    assert np.array_equal(one.probabilities(), other.probabilities())
    assert one.record.test_accuracy == pytest.approx(1 - other.record.test_accuracy)


class Ear(Listener):
    """Counts runs."""

    def __init__(self):
        self.runs = 0

    def started(self, name, runs):
        self.runs += runs


@pytest.mark.parametrize("limit", [None, 1e6])
def test_what_was_done_is_not_done_again(split, tmp_path, limit):
    first, second = Ear(), Ear()
    options = {"methods": ["mlp", "gcn"], "folder": tmp_path / "search", "time_limit": limit, **QUICK}
    one = fit(planted(True), split, progress=first, **options)
    other = fit(planted(True), split, progress=second, **options)
    assert (first.runs > 0, second.runs) == (True, 0)
    assert np.array_equal(one.probabilities(), other.probabilities())
    assert timeless(one.selection) == timeless(other.selection)
    assert timeless(load_selection(tmp_path / "search")) == timeless(one.selection)
    with pytest.raises(DataFileError, match=r"choice\.json does not exist"):
        load_selection(tmp_path)


def test_reasons_are_the_same_when_a_choice_goes_on(split, tmp_path, monkeypatch):
    monkeypatch.setattr(Clock, "seconds", lambda self, method, config: 1e9 if method == "gcn-x3" else 0.01)
    options = {"methods": ["gcn", "gcn-x3"], "folder": tmp_path, "time_limit": 1e6, **QUICK}
    one, other = (fit(planted(True), split, **options).selection for _ in range(2))
    assert [each.left_out for each in one.candidates] == [
        "", "too little time was left; a run takes about 280000 h",
    ]  # fmt: skip
    assert timeless(one) == timeless(other)
    assert one.sentences[-1] == other.sentences[-1]
    assert one.sentences[-1].startswith("gcn-x3 was left out: too little time was left")
    assert any(each == "gcn (graph convolutions) was the only candidate that was tried." for each in one.sentences)


@pytest.mark.parametrize("ensemble", [True, False])
def test_the_members_are_the_runs_that_train_gives(split, ensemble):
    graph = planted(True, True)
    model = fit(graph, split, methods=["mlp", "gcn", "sage"], ensemble=ensemble, seed=7, **QUICK)
    members = model.members if isinstance(model, Ensemble) else [model]
    assert ensemble or members == [model]
    for each in members:
        config = TrainConfig.from_dict(each.record.config)
        assert each.record.seed in (7, 8, 9)
        [again] = fishergcn.train(graph, each.method.name, split, [each.record.seed], config, "cpu", keep_weights=True)
        assert again.scores == each.record.scores
        for name, weight in each.weights.items():
            np.testing.assert_array_equal(again.weights[name], weight[0].numpy())


@pytest.mark.parametrize("ensemble", [True, False])
def test_a_refit_learns_from_validation_nodes_too(split, ensemble, tmp_path):
    options = {"methods": ["lp", "mlp", "gcn"], "ensemble": ensemble, **QUICK}
    plain, again = (fit(planted(True, True), split, refit=refit, **options) for refit in (False, True))
    assert again.split_sizes["train"] == len(split.train) + len(split.val) - 1
    assert again.record.scores == plain.record.scores
    assert timeless(again.selection) == timeless(plain.selection)
    assert not np.array_equal(again.probabilities(), plain.probabilities())
    again.save(tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").probabilities(), again.probabilities())


def test_a_saved_model_keeps_its_selection(found, tmp_path):
    found.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.selection.to_dict() == found.selection.to_dict()
    assert np.array_equal(loaded.probabilities(), found.probabilities())


def test_the_settings_of_the_paper_are_not_changed(split):
    nodes = np.arange(80)
    small = Split("small", split.train[:8], split.val[:6], np.setdiff1d(nodes, [*split.train, *split.val]))
    model = fit(planted(True), small, settings="paper", methods=["gcn"], device="cpu", workers=1)
    assert model.config == TrainConfig()
    every = TrainConfig().to_dict()
    assert {each.name for each in recipes_of(None, every)} == {
        each.name for each in CANDIDATES if not each.settings or each.name == "linear"
    }


def test_settings_that_are_given_are_kept(split):
    model = fit(planted(True), split, methods=["gcn"], device="cpu", workers=1,
                settings={"max_epochs": np.int64(9), "hidden": 8, "scaling": "columns"})  # fmt: skip
    assert (model.config.max_epochs, model.config.hidden, model.config.scaling) == (9, (8,), "columns")
    assert model.selection.candidates[0].settings["scaling"] == "columns"


def test_a_network_of_another_shape_is_not_tried_twice():
    wide = [each.name for each in recipes_of(None, {"hidden": [256]})]
    assert "mlp, links" in wide
    assert "gcn, 3 layers" not in wide
    assert "mlp, links" not in [each.name for each in recipes_of(None, {"hidden": [8]})]


def test_negative_features_are_not_divided_by_the_sums_of_rows(split, recwarn):
    negative = planted(True).replace(features=planted(True).features - 0.5)
    model = fit(negative, split, settings={"max_epochs": 2}, device="cpu", workers=1)
    found = {each.name: each for each in model.selection.candidates}
    assert "linear, by row" not in found
    assert found["mlp, links"].settings["scaling"] == "none"
    assert found["mlp, links"].words == "features and who the neighbors are"
    assert not [each for each in recwarn if "not divided" in str(each.message)]


def test_candidates_that_read_features_and_links_are_not_said_to_read_features_alone():
    said = {each.name: words_of(each) for each in CANDIDATES}
    assert said["mlp, links"] == "features and who the neighbors are"
    assert said["mlp"] == "features alone"
    assert len(set(said.values())) == len(said)


def test_what_draws_nothing_is_trained_once(split):
    """Three seeds of label propagation are one model, not the mean of three."""
    model = fit(planted(True), split, methods=["lp"], settings={"max_epochs": 9}, device="cpu", workers=1)
    assert model.record.method == "lp"
    assert not isinstance(model, Ensemble)


def test_another_choice_in_the_same_folder_is_refused(split, tmp_path):
    options = {"methods": ["majority"], "folder": tmp_path, "device": "cpu", "workers": 1}
    fit(planted(True), split, **options)
    for graph, others in (
        (planted(False), {}),
        (planted(True), {"score": "macro-f1"}),
        (planted(True), {"ensemble": False}),
        (planted(True), {"seed": 1}),
        (planted(True), {"time_limit": 9.0}),
        (planted(True), {"settings": {"max_epochs": 9}}),
    ):
        with pytest.raises(DataFileError, match="belongs to another model"):
            fit(graph, split, **(options | others))
    weighted = Split(split.name, split.train, split.val, split.test, np.ones(80))
    with pytest.raises(DataFileError, match="belongs to another model"):
        fit(planted(True), weighted, **options)


def test_a_graph_without_features_or_links_to_tell():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], labels=[0, 0, 0, 1, 1, 1])
    with pytest.warns(UserWarning, match="no features were given"):
        model = fit(graph, Split("s", [0, 5], [1, 4], [2, 3]), methods=["majority", "lp", "gcn"], **QUICK)
    assert model.probabilities().shape == (6, 2)
    assert math.isnan(model.selection.homophily)
    assert model.selection.low <= model.selection.value <= model.selection.high


@pytest.mark.parametrize(
    ("val", "sentence"),
    [([], "split 's' has no val nodes; at least one is needed."),
     ([1], "split 's' has too few validation nodes to choose a model by: 1; two or more are needed, of which one "
           "stops a training and one judges it.")],
)  # fmt: skip
def test_too_few_validation_nodes_are_refused(val, sentence, tmp_path):
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        fit(planted(True), Split("s", [0, 40], val, []), folder=tmp_path / "search", **QUICK)
    assert not (tmp_path / "search").exists()


def test_a_node_without_a_label_is_named(split):
    graph = planted(True)
    labels = graph.labels.copy()
    labels[split.val[0]] = -1
    with pytest.raises(InputError, match=f"node {split.val[0]} has no label"):
        fit(graph.replace(labels=labels), split, methods=["gcn"], **QUICK)


def test_two_validation_nodes_are_enough_but_tell_little():
    model = fit(planted(True), Split("s", [0, 1, 40, 41], [2, 42], []), methods=["lp"], **QUICK)
    assert model.selection.judges == model.selection.splits
    assert not model.selection.useful
    assert re.match(
        r"Do not (rely on|use) this model: .*(Label more nodes|are needed)\.$", model.selection.sentences[0]
    )


def test_a_class_that_no_node_is_to_learn_is_said_once(split):
    three = planted(True).labels.copy()
    three[split.val[:3]] = 2
    with pytest.warns(UserWarning, match="split 'mine' has no training node of class 2") as found:
        fit(planted(True).replace(labels=three), split, methods=["lp", "gcn"], **QUICK)
    assert not [each for each in found if "inner" in str(each.message)]


def test_weights_of_nodes_leave_out_what_has_no_use_for_them(split):
    weighted = Split(split.name, split.train, split.val, split.test, np.linspace(0.5, 1.5, 80))
    model = fit(planted(True), weighted, methods=["lp", "gcn"], **QUICK)
    assert [each.left_out for each in model.selection.candidates] == [
        "it trains no network, which the weights of nodes are for", "",
    ]  # fmt: skip


# What is too large


def test_what_does_not_fit_in_memory_is_left_out(split, monkeypatch):
    monkeypatch.setattr(_choice, "free_memory", lambda: 10**5)
    with pytest.raises(InputError, match=r"^no candidate could be trained \(gcn: it would not fit in memory\)\.$"):
        fit(planted(True), split, methods=["gcn"], **QUICK)
    monkeypatch.setattr(_choice, "held_bytes", lambda sizes, method, config, runs: 10**6 * (method.name == "gcn-x3"))
    model = fit(planted(True), split, methods=["gcn", "gcn-x3"], **QUICK)
    assert [each.left_out for each in model.selection.candidates] == ["", "it would not fit in memory"]
    assert model.selection.sentences[-1] == "gcn-x3 was left out: it would not fit in memory."


def test_a_matrix_with_too_many_entries_is_left_out(split, monkeypatch):
    monkeypatch.setattr(_choice, "_MOST_ENTRIES", 10)
    model = fit(planted(True), split, methods=["gcn", "gcn-t"], **QUICK)
    assert model.selection.candidates[1].left_out.startswith("the high-order matrix would have about ")


def test_a_network_is_trained_on_a_graph_of_any_size(split, monkeypatch):
    """Work beyond all measure leaves out every candidate but the cheapest network, and judges by one inner split."""
    monkeypatch.setattr(_choice, "work_of", lambda sizes, method, config, epochs=None: 1e6 * method.trained)
    model = fit(planted(True), split, methods=["lp", "mlp", "gcn"], ensemble=False, **QUICK)
    assert [each.left_out for each in model.selection.candidates] == [
        "", "", "it would be too much work on a graph of this size",
    ]  # fmt: skip
    assert model.selection.splits == 1


def test_networks_with_links_are_tried_on_two_hundred_thousand_nodes():
    nodes, tried = 200_000, 0.0
    for each in recipes_of(["lp", "linear", "mlp", "gcn", "sage"], {}):
        sizes = Sizes(nodes, 20 * nodes, 21.0 * nodes, 100, 10 * nodes, 10, nodes // 100, nodes // 200, nodes // 200,
                      crowding=21.0)  # fmt: skip
        tried += work_of(sizes, parse_method(each.method), TrainConfig.named("general"))
    assert tried <= _choice._TRYING


def test_long_trainings_begin_first_and_what_is_long_to_prepare_does_not_hold_them_up(split, monkeypatch):
    orders, real = {}, _choice.run

    def noted(plan, *given, **options):
        orders[plan.preset] = [cell.method for cell in plan.cells]
        return real(plan, *given, **options)

    monkeypatch.setattr(_choice, "run", noted)
    fit(planted(True), split, methods=["lp", "gcn", "gcn-t-x3-c", "gcn-x3-c"], **QUICK | {"workers": 1})
    assert orders["candidates"] == ["gcn-x3-c", "gcn-t-x3-c", "gcn", "lp"]


def test_larger_networks_are_tried_only_after_the_best(split, monkeypatch):
    monkeypatch.setattr(_choice, "work_of", lambda sizes, method, config, epochs=None: 70.0 * method.trained)
    settings = {key: value for key, value in PLAIN.items() if key != "hidden"} | {"max_epochs": 2}
    model = fit(planted(True), split, device="cpu", workers=1, settings=settings)
    reasons = {each.name: each.left_out for each in model.selection.candidates}
    assert reasons["mlp"] == reasons["gcn"] == ""  # which are always tried
    assert reasons["sage"] == reasons["gcn, 3 layers"] == "it would be too much work on a graph of this size"
    assert reasons["gcn, 5 layers"] == "gcn, 3 layers was not tried"


def test_finalists_that_stopped_early_are_tried_on_more_inner_splits(split, monkeypatch):
    """What another run of them is worth in work follows from the epochs that they took on the first inner split."""

    def work(sizes, method, config, epochs=None):
        return 1e6 if epochs is None else 1.0

    monkeypatch.setattr(_choice, "work_of", work)
    assert fit(planted(True), split, methods=["mlp", "gcn"], **QUICK).selection.splits > 1


def test_finalists_of_which_none_ends_leave_the_first_inner_split(split, monkeypatch):
    good = _choice.Choice._good
    monkeypatch.setattr(
        _choice.Choice, "_good", lambda self, key, name: name.endswith("inner 1") and good(self, key, name)
    )
    assert fit(planted(True), split, methods=["gcn"], **QUICK).selection.splits == 1


# Scores


def test_an_unknown_score_is_refused(split):
    with pytest.raises(InputError, match=r"^score must be one of accuracy, .*, got 'precision'\.$"):
        fit(planted(True), split, score="precision", **QUICK)
    with pytest.raises(InputError, match="score 'loss' is one of training, with the weight decay in it"):
        fit(planted(True), split, score="loss", **QUICK)


def test_a_score_of_two_classes_needs_them(split):
    def recall(tally):
        return tally.confusion[:, 1, 1] / tally.confusion[:, 1].sum(-1)

    register_score(Score("recall_of_second", "recall of the second class", recall, percent=True, classes=2))
    try:
        model = fit(planted(True), split, methods=["majority", "gcn"], score="recall-of-second", **QUICK)
        assert model.selection.score == "recall_of_second"
        assert 0 <= model.selection.low <= model.selection.value <= model.selection.high <= 1
        assert "recall of the second class" in model.selection.sentences[0]
        graph = planted(True).replace(labels=np.arange(80) % 3)
        with pytest.raises(InputError, match="score 'recall_of_second' needs 2 classes, but the graph has 3"):
            fit(graph, split, methods=["gcn"], score="recall-of-second", **QUICK)
    finally:
        unregister_score("recall_of_second")


@pytest.mark.parametrize("methods", [["majority", "lp"], ["lp", "gcn"]])
def test_classes_are_weighed_where_the_score_asks_for_it(split, methods):
    labels = np.zeros(80, dtype=np.int64)
    labels[np.concatenate([split.train[:6], split.val[:5], split.test[:5]])] = 1
    model = fit(planted(True).replace(labels=labels), split, methods=methods, score="macro-f1", **QUICK)
    balanced = [each for each in model.selection.candidates if each.name.endswith(", balanced classes")]
    assert [each.settings["class_weight"] for each in balanced] == ["balanced"] * ("gcn" in methods)


# Time


@pytest.mark.parametrize("methods", [["mlp", "gcn", "gcn-t-x5-c"], None])
def test_a_limit_that_is_too_short_is_refused(split, methods, tmp_path):
    with pytest.raises(InputError, match=r"^a time limit of 1e-05 s is too short for any network on this graph: "
                       r"with .*, the cheapest, the choice needs about [1-9][0-9.]* m?s\.$"):  # fmt: skip
        fit(planted(True), split, methods=methods, time_limit=1e-5, folder=tmp_path / "search", **QUICK)
    assert not (tmp_path / "search").exists()


def test_a_limit_counts_from_the_start_of_a_command(split):
    options = {"methods": ["mlp"], "time_limit": 100.0, **QUICK}
    with counting_from(time.monotonic() - 110), pytest.raises(InputError, match=r"100 s is too short .* about 2 min"):
        fit(planted(True), split, **options)
    with counting_from(time.monotonic() - 5):
        assert fit(planted(True), split, **options).selection.chosen == "mlp"


@pytest.mark.slow
@pytest.mark.parametrize("limit", [12, 25])
def test_a_command_ends_within_its_limit(tmp_path, limit):
    """From its start to the saved model, with five seconds to spare."""
    words = ["train", "--dataset", "citeseer", "--time-limit", str(limit), "--out", str(tmp_path / "model")]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "fishergcn", *words, "--device", "cpu"], capture_output=True, text=True
    )
    took = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    assert load_model(tmp_path / "model").record.method != "majority"
    assert took < limit + 5, done.stderr


@pytest.mark.parametrize("room", [2.3, 4.0, 20.0])
def test_a_short_limit_gives_a_network(split, room, monkeypatch):
    """Each run is said to take a second; the limit has room for a few."""
    monkeypatch.setattr(Clock, "seconds", lambda self, method, config: float(method != "lp"))
    monkeypatch.setattr(Clock, "left", lambda self: room)
    options = {"methods": ["lp", "mlp", "gcn", "sage"], "ensemble": False, "time_limit": room}
    model = fit(planted(True, True), split, **options, **QUICK)
    assert len(np.unique(model.predict())) == 2
    tried = [each for each in model.selection.candidates if each.tried]
    assert any(each.method != "lp" for each in tried)
    for each in model.selection.candidates:
        assert each.tried or each.left_out == "too little time was left; a run takes about 1 s"
    assert (len(tried) == 4) == (room > 15)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, "soon"])
def test_a_limit_must_be_a_positive_number(split, limit):
    with pytest.raises(InputError, match="time_limit must be"):
        fit(planted(True), split, time_limit=limit, **QUICK)


def test_a_busy_machine_gives_the_same_model(split):
    graph = planted(True, True)
    options = {"methods": ["lp", "mlp", "gcn"], **QUICK}
    quiet = fit(graph, split, **options)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        loud = fit(graph, split, **options)
    finally:
        for each in others:
            each.kill()
            each.wait()
    assert timeless(quiet.selection) == timeless(loud.selection)
    assert quiet.probabilities().tobytes() == loud.probabilities().tobytes()


# Preparations


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


def test_numbers_are_also_predicted_without_dropout():
    """It draws numbers to their mean: of 3 features the networks of the usual one find half of a straight line."""
    graph = Graph.from_edges([(0, 1)], features=[[1.0], [2.0]], labels=[0.5, 1.5], task="regression")
    found = preparations_of(graph, {})
    assert len(found) == 2 * len(PREPARATIONS)
    assert [each.get("dropout") for each in found[:2]] == [0.0, None]
    assert words_for(found[0]) == f"{words_for(found[1])}, no dropout"
    assert len({words_for(each) for each in found}) == len(found)
    assert all("dropout" not in each for each in preparations_of(graph, {"dropout": 0.3}))


def test_the_preparation_that_suits_is_found(split):
    """Features whose sums alone tell: dividing rows by them takes all away."""
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1], 40)
    features = np.outer(1.0 + 3 * labels + 0.2 * rng.random(80), [1.0, 1.0])
    graph = Graph.from_edges([(0, 1)], num_nodes=80, features=features, labels=labels, name="sums")
    model = fit(graph, split, methods=["mlp"], device="cpu", workers=1, settings={"max_epochs": 60, "hidden": 8})
    assert model.config.scaling != "rows"
    assert model.record.test_accuracy > 0.9


def test_a_damaged_folder_is_refused(split, tmp_path):
    (tmp_path / "choice.json").write_text(json.dumps({"choice": 1, "decisions": []}))
    with pytest.raises(DataFileError, match=r"is damaged; delete .* to start over"):
        fit(planted(True), split, methods=["majority"], folder=tmp_path, **QUICK)
    with pytest.raises(DataFileError, match="is damaged; it does not say what was decided"):
        load_selection(tmp_path)


def test_what_comes_to_nothing_on_the_split_itself_is_left_out(split, monkeypatch):
    graph, good = planted(links_tell=True), _last._good
    options = {"methods": ["mlp", "gcn"], "ensemble": False} | QUICK
    usual = fit(graph, split, **options).selection.chosen
    monkeypatch.setattr(_last, "_good", lambda choice, key, found: [] if key[0] == usual else good(choice, key, found))
    model = fit(graph, split, **options)
    assert {usual, model.selection.chosen} == {"mlp", "gcn"}
    monkeypatch.setattr(_last, "_good", lambda choice, key, found: [])
    with pytest.raises(InputError, match="on the split itself failed, and nothing else was tried"):
        fit(graph, split, **options)


@pytest.mark.parametrize("loss", [0.4, 0.6])
def test_a_training_comes_to_nothing_where_it_lost_half_of_what_others_gained(split, loss):
    """Two classes by halves cost 0.69: after 0.2 on inner splits 0.4 is a training like others."""
    graph = planted(links_tell=True)
    choice = SimpleNamespace(graph=graph, split=split, cost="val_cross_entropy", records={("gcn", ""): {}})
    inner, last = (SimpleNamespace(status="ok", val_cross_entropy=each) for each in (0.2, loss))
    choice.records["gcn", ""] = {"mine inner 1": inner}
    assert len(_last._good(choice, ("gcn", ""), [(last, {})])) == (loss < 0.5)


def test_trainings_stop_by_cross_entropy_unless_the_score_or_the_settings_say_otherwise(split):
    def stopped_by(**options):
        config = fit(planted(True), split, **{"methods": ["gcn"], "device": "cpu", "workers": 1} | options).config
        return config.score, config.patience

    assert stopped_by(settings=PLAIN) == ("cross_entropy", 30)
    assert stopped_by(settings=PLAIN | {"patience": 7}) == ("cross_entropy", 7)
    assert stopped_by(settings=PLAIN, score="macro-f1") == ("macro_f1", 30)
    assert stopped_by(settings="paper") == ("loss", 100)


@pytest.mark.parametrize(("score", "epoch"), [("cross_entropy", 2), ("macro_f1", 3), ("loss", 1)])
def test_a_refit_takes_as_many_epochs_as_led_to_the_best(score, epoch):
    curves = {"val_loss": [0.1, 0.8, 0.9], "val_cross_entropy": [0.7, 0.3, 0.5], "val_macro_f1": [0.2, 0.4, 0.6]}
    config = TrainConfig.named("general", score=score).to_dict()
    assert _last._best_epoch(SimpleNamespace(config=config, curves=curves, epochs=3)) == epoch


def test_a_candidate_takes_the_preparation_that_suits_a_cheaper_one(split, monkeypatch):
    names = ("mlp", "gcn", "gcn-x2-c", "gcn-t-x2-c")
    recipes = tuple(Recipe(name, name, like="gcn-x2-c" if name == "gcn-t-x2-c" else "") for name in names)
    monkeypatch.setattr(_auto, "recipes_of", lambda *_, **__: recipes)
    real = _choice.Choice._loss

    def second_is_best(self, key):
        others = [each for each in self.records if each[0] == key[0]]
        better = key[0] == "gcn-x2-c" and others.index(key) == 1
        return real(self, key) - better * 10

    found = {}

    def noted(self, prepared):
        real_try(self, prepared)
        for name, words in self.records:
            found.setdefault(name, []).append(words)

    real_try = _choice.Choice._try_candidates
    monkeypatch.setattr(_choice.Choice, "_loss", second_is_best)
    monkeypatch.setattr(_choice.Choice, "_try_candidates", noted)
    monkeypatch.setattr(_choice, "_AGAIN", 0.0)
    fit(planted(True), split, settings={"max_epochs": 5, "hidden": 8}, device="cpu", workers=1)
    assert len(found["gcn-x2-c"]) == 2
    assert found["gcn-t-x2-c"] == found["gcn-x2-c"]
