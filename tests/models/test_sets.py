"""Prediction sets contain the true class as often as is promised; decisions and cautions follow what was asked for."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from fishergcn import Graph, TrainConfig, fit, splits, train
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.models import (
    Ensemble,
    TrainedModel,
    adaptive_scores,
    conformal_quantile,
    load_model,
    node_draws,
    nodes_needed,
    split_for,
    weighted_quantile,
)
from fishergcn.report import write_report
from fishergcn.splits import Split


def planted(nodes: int = 400, classes: int = 3, seed: int = 0, shares: tuple[float, ...] = ()) -> Graph:
    """Return a graph whose links and features say something of the classes, but not all."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, nodes, p=shares or None)
    likely = np.where(labels[:, None] == labels, 10 / nodes, 3 / nodes)
    upper = np.triu(rng.random((nodes, nodes)) < likely, 1)
    features = rng.normal(size=(nodes, 6)) + 0.7 * np.eye(classes, 6)[labels]
    names = {"node_ids": [f"n{each}" for each in range(nodes)], "class_names": ["a", "b", "c"][:classes]}
    return Graph(sparse.csr_array(upper | upper.T), features, labels, name="planted", **names)


def trained(graph: Graph, split: Split, method: str = "gcn") -> TrainedModel:
    config = TrainConfig(max_epochs=30, hidden=8)
    return TrainedModel.from_records(graph, train(graph, method, split, config=config, keep_weights=True), split)


GRAPH = planted()
NODES = np.random.default_rng(1).permutation(400)
SPLIT = Split("mine", NODES[:60], NODES[60:130], NODES[190:])
ASIDE = NODES[130:190]


@pytest.fixture(scope="module")
def model() -> TrainedModel:
    return trained(GRAPH, SPLIT).set_aside(ASIDE, 0.9)


@pytest.fixture(scope="module")
def ensemble(model) -> Ensemble:
    both = [trained(GRAPH, SPLIT, "mlp"), trained(GRAPH, SPLIT)]
    return Ensemble.from_models(both, [0.4, 0.6], [1.0, 1.5]).set_aside(ASIDE, 0.8)


@pytest.fixture(scope="module")
def binary() -> TrainedModel:
    graph = planted(300, 2, seed=2, shares=(0.8, 0.2))
    return trained(graph, Split("two", np.arange(60), np.arange(60, 160), np.arange(160, 300)))


class TestQuantiles:
    @pytest.mark.parametrize("coverage", [0.1, 0.5, 0.8, 0.9, 0.95])
    @pytest.mark.parametrize("count", [1, 4, 9, 19, 20, 60])
    def test_one_of_equals_is_below_as_often_as_promised(self, count, coverage):
        """Each of m + 1 scores in the place of the new one, the others set aside: exactly ⌈(m + 1) γ⌉ are below."""
        every = np.random.default_rng(count).permutation(count + 1).astype(float)
        below = [own <= conformal_quantile(np.delete(every, at), coverage) for at, own in enumerate(every)]
        assert sum(below) == min(math.ceil(round((count + 1) * coverage, 9)), count + 1)
        assert math.isinf(conformal_quantile(every[:count], coverage)) == (count < nodes_needed(coverage))

    def test_weights(self):
        rng = np.random.default_rng(0)
        scores, weights = rng.random(40), rng.random(40)
        for coverage, own in itertools.product((0.3, 0.8, 0.9, 0.99), (0.0, 0.5, 3.0)):
            total = weights.sum() + own
            reached = [each for each in scores if weights[scores <= each].sum() >= coverage * total]
            assert weighted_quantile(scores, weights, own, coverage) == min(reached, default=math.inf)
        assert weighted_quantile(scores, np.ones(40), 1.0, 0.9) == conformal_quantile(scores, 0.9)

    def test_adaptive_scores(self):
        rng = np.random.default_rng(0)
        stated, draws = rng.dirichlet(np.ones(5), 20), rng.random(20)
        for row, u, found in zip(stated, draws, adaptive_scores(stated, draws), strict=True):
            expected = [row[row > own].sum() + (1 - u) * own for own in row]
            np.testing.assert_allclose(found, expected, rtol=1e-12)

    @pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, math.nan, "0.9", True])
    def test_a_coverage_is_between_0_and_1(self, coverage, model):
        with pytest.raises(InputError, match="coverage must be"):
            model.predict_sets(coverage=coverage)


class TestCoverage:
    @pytest.mark.parametrize("adaptive", [False, True])
    def test_it_holds_over_draws(self, model, adaptive):
        """Nodes that the model has not seen are dealt anew to those set aside and those to predict."""
        unseen, rng = np.setdiff1d(np.arange(400), [*SPLIT.train, *SPLIT.val]), np.random.default_rng(5)
        held = []
        for _ in range(40):
            order = rng.permutation(unseen)
            aside = dataclasses.replace(model.aside, nodes=order[:60], smoothing=0.5, adaptive=adaptive)
            sets = dataclasses.replace(model, aside=aside, _calibration=model.calibration).predict_sets(coverage=0.9)
            held.append(sets[order[60:], GRAPH.labels[order[60:]]].mean())
        # ⌈61 · 0.9⌉ / 61 is expected.
        assert np.mean(held) == pytest.approx(55 / 61, abs=4 * np.std(held) / math.sqrt(40))

    def test_more_coverage_more_classes(self, model):
        sizes = [model.predict_sets(coverage=each).sum() for each in (0.5, 0.8, 0.9, 0.95)]
        assert sizes == sorted(sizes)
        assert np.array_equal(model.predict_sets(), model.predict_sets(coverage=0.9))

    @pytest.mark.parametrize("adaptive", [False, True])
    def test_smoothing_is_the_formula(self, model, adaptive):
        aside = dataclasses.replace(model.aside, smoothing=0.3, calibrated=False, adaptive=adaptive)
        found = dataclasses.replace(model, aside=aside).predict_sets(coverage=0.8)
        dense, stated = GRAPH.adjacency.toarray(), model.probabilities(raw=True)
        base = adaptive_scores(stated, node_draws(GRAPH.node_ids)) if adaptive else 1 - stated
        sums = dense.sum(axis=1, keepdims=True)
        mean = np.where(sums > 0, dense @ base / np.maximum(sums, 1), base)
        smooth = 0.7 * base + 0.3 * mean
        limit = conformal_quantile(smooth[aside.nodes, GRAPH.labels[aside.nodes]], 0.8)
        np.testing.assert_array_equal(found, smooth <= limit)

    def test_by_class(self, model):
        sets = model.predict_sets(coverage=0.8, by_class=True)
        for each in range(3):
            own = ASIDE[GRAPH.labels[ASIDE] == each]
            assert sets[own, each].mean() >= 0.8
        rare = dataclasses.replace(model, aside=dataclasses.replace(model.aside, nodes=ASIDE[GRAPH.labels[ASIDE] > 0]))
        with pytest.warns(match="in every set, as fewer than 4 of their nodes were set aside: a"):
            assert rare.predict_sets(coverage=0.8, by_class=True)[:, 0].all()

    def test_empty_sets_can_be_filled(self, model):
        sets, filled = model.predict_sets(coverage=0.2), model.predict_sets(coverage=0.2, never_empty=True)
        empty = ~sets.any(axis=1)
        assert empty.any()
        assert np.array_equal(filled[~empty], sets[~empty])
        assert np.array_equal(filled[empty], np.eye(3, dtype=bool)[model.predict()[empty]])

    def test_labels_that_were_drawn_class_by_class_are_weighted(self):
        graph = planted(600, 3, seed=4, shares=(0.8, 0.1, 0.1))
        drawn = splits.per_class(graph, 8, 24, seed=0)
        split, aside = split_for(graph, drawn, 0.9)
        made = trained(graph, split).set_aside(aside)
        assert made.aside.weights[0] > 1 > max(made.aside.weights[1:])
        assert "approximate" in " ".join(made.guarantee)
        plain = dataclasses.replace(made, aside=dataclasses.replace(made.aside, weights=()))
        held = [each.predict_sets()[drawn.test, graph.labels[drawn.test]].mean() for each in (made, plain)]
        assert abs(held[0] - 0.9) < abs(held[1] - 0.9)

    def test_the_nodes_set_aside_play_no_other_part(self):
        split, aside = split_for(GRAPH, SPLIT, 0.9)
        assert len(aside) == 35
        assert np.array_equal(np.sort(np.concatenate([split.val, aside])), np.sort(SPLIT.val))
        assert np.array_equal(split.train, SPLIT.train)
        tight, some = split_for(GRAPH, Split("few", NODES[:50], NODES[50:62], []), 0.9)
        assert (len(tight.val), len(some)) == (3, 9)  # as many as are needed, though that is more than half


class TestRefused:
    def test_too_few_nodes_say_how_many_are_needed(self, model):
        with pytest.raises(
            InputError, match=r"0.99 needs at least 99 labeled nodes set aside, and there are 60: .*0.983"
        ):
            model.predict_sets(coverage=0.99)
        few = Split("few", NODES[:50], NODES[50:55], [])
        with pytest.raises(
            InputError, match=r"at least 11 labeled validation nodes, 9 of them set aside, but .* has 5"
        ):
            fit(GRAPH, few, "cpu", coverage=0.9)
        with pytest.raises(InputError, match="coverage must be a number between 0 and 1"):
            fit(GRAPH, SPLIT, "cpu", coverage=1.2)
        with pytest.raises(InputError, match=r"9 labeled nodes set aside, and there are 0: label more nodes\.$"):
            model.set_aside([])

    def test_nodes_that_were_seen(self, model):
        with pytest.raises(InputError, match="must not be training or validation nodes, but 'n"):
            model.set_aside(NODES[:20])
        with pytest.raises(InputError, match="nodes must be below 400"):
            model.set_aside([400])
        bare = dataclasses.replace(model, aside=None)
        with pytest.raises(InputError, match="no nodes were set aside for prediction sets: train with"):
            bare.predict_sets()


class TestSaved:
    def test_a_folder_has_all_of_it(self, model, ensemble, tmp_path):
        for place, each in (("one", model), ("many", ensemble)):
            each.save(tmp_path / place)
            again = load_model(tmp_path / place)
            assert np.array_equal(again.predict_sets(), each.predict_sets())
            assert again.probabilities().tobytes() == each.probabilities().tobytes()
            assert again.calibration.to_dict() == each.calibration.to_dict()
            assert again.guarantee == each.guarantee
            assert again.calibration.words in (tmp_path / place / "README.md").read_text(encoding="utf-8")

    def test_a_folder_of_before_is_read(self, model, tmp_path):
        dataclasses.replace(model, aside=None).save(tmp_path / "m")
        facts = json.loads((tmp_path / "m" / "model.json").read_text(encoding="utf-8"))
        del facts["calibration"]
        (tmp_path / "m" / "model.json").write_text(json.dumps(facts), encoding="utf-8")
        again = load_model(tmp_path / "m")
        assert again.aside is None
        assert again.calibration.to_dict() == model.calibration.to_dict()  # by the validation nodes, anew

    @pytest.mark.parametrize(
        "change",
        [
            {"calibration": {"name": "magic"}},
            {"sets": {"nodes": 60, "coverage": 2, "smoothing": 0, "calibrated": True, "weights": []}},
            {"sets": {"nodes": 60, "coverage": 0.9, "smoothing": 0, "calibrated": 1, "weights": []}},
            {"sets": {"nodes": 60, "coverage": 0.9, "smoothing": 0, "calibrated": True, "weights": [1.0]}},
            {"sets": {"nodes": 59, "coverage": 0.9, "smoothing": 0, "calibrated": True, "weights": []}},
            {"sets": []},
        ],
    )
    def test_damage_is_refused(self, change, model, tmp_path):
        model.save(tmp_path / "m")
        facts = json.loads((tmp_path / "m" / "model.json").read_text(encoding="utf-8"))
        (tmp_path / "m" / "model.json").write_text(json.dumps(facts | change), encoding="utf-8")
        with pytest.raises(DataFileError):
            load_model(tmp_path / "m")

    def test_trained_again_it_promises_the_same(self, model):
        again = model.refit(GRAPH, SPLIT)
        assert (again.aside.coverage, len(again.aside.nodes)) == (0.9, 35)
        assert again.split_sizes["val"] == 35


class TestDecisions:
    def test_costs(self, model, binary):
        table = np.array([[0, 1, 5], [2, 0, 1], [9, 3, 0.5]])
        stated = model.probabilities()
        expected = [np.argmin([sum(p * table[i, j] for i, p in enumerate(row)) for j in range(3)]) for row in stated]
        assert model.decide(costs=table).tolist() == expected
        assert np.array_equal(model.decide(), model.predict())
        two = binary.probabilities()[:, 1]
        assert np.array_equal(binary.decide(costs=[1, 4]), two >= 0.2)
        assert np.array_equal(binary.decide(threshold=0.35), two >= 0.35)

    def test_a_threshold_for_a_score(self, binary):
        nodes = binary.runs[0].split.val
        truth, stated = binary.graph.labels[nodes], binary.probabilities()[nodes, 1]

        def balanced(answers):
            return np.mean([(answers[truth == each] == each).mean() for each in (0, 1)])

        best = max(balanced((stated >= limit).astype(int)) for limit in np.linspace(0, 1, 400))
        found = binary.decide(threshold="balanced-accuracy")[nodes]
        assert balanced(found) == pytest.approx(best, abs=0.011)
        assert balanced(found) >= balanced(binary.predict()[nodes])

    def test_abstaining(self, model):
        stated = model.probabilities().max(axis=1)
        found = model.decide(abstain=0.6)
        assert np.array_equal(found == -1, stated < 0.6)
        by_sets = model.decide(abstain="sets", coverage=0.8)
        assert np.array_equal(by_sets == -1, model.predict_sets(coverage=0.8).sum(axis=1) > 1)

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            ({"costs": [1, 2]}, "costs must be a table of 3 by 3 numbers"),
            ({"costs": [[0, 1, 2], [1, 0]]}, "costs must be a table of 3 by 3 numbers"),
            ({"costs": -np.eye(3)}, "costs must be a table of 3 by 3 numbers from 0 on"),
            ({"costs": np.zeros((3, 3))}, "costs must not all be 0"),
            ({"threshold": 0.5}, "a threshold is for two classes, and the model has 3"),
            ({"abstain": 1.2}, "abstain must be"),
            ({"abstain": "maybe"}, "abstain must be a probability between 0 and 1, or 'sets'"),
        ],
    )
    def test_bad_input(self, model, asked, words):
        with pytest.raises(InputError, match=words):
            model.decide(**asked)

    def test_bad_input_for_two_classes(self, binary):
        with pytest.raises(InputError, match="costs must be two numbers, the cost of a false alarm and that of a miss"):
            binary.decide(costs=[1, 2, 3])
        with pytest.raises(InputError, match="a threshold can be chosen by accuracy, balanced-accuracy, macro-f1"):
            binary.decide(threshold="roc-auc")
        with pytest.raises(InputError, match="cannot be used together"):
            binary.decide(threshold=0.5, costs=[1, 2])


def with_strangers() -> Graph:
    """Return the graph with four new nodes: a usual one, one without links, one without features, and a far one."""
    links = sparse.lil_array((404, 404))
    links[:400, :400] = GRAPH.adjacency
    near, others = np.flatnonzero(GRAPH.labels == 0)[:6], np.flatnonzero(GRAPH.labels == 2)[:6]
    others = np.setdiff1d(others, GRAPH.adjacency[near].nonzero()[1])  # two layers do not see the far node from there
    for node, ends in ((400, near), (402, near), (403, others)):
        links[node, ends] = links[ends, node] = 1
    more = np.vstack([GRAPH.features[near[:1]], GRAPH.features[:1], np.zeros((1, 6)), np.full((1, 6), 500.0)])
    far = np.vstack([GRAPH.features, more]).astype(np.float32)
    names = [*GRAPH.node_ids, "usual", "alone", "unknown", "far"]
    return Graph(links.tocsr(), far, node_ids=names)


@pytest.mark.parametrize("kind", ["model", "ensemble"])
def test_cautions(kind, request):
    graph = with_strangers()
    one = trained(GRAPH, SPLIT, "gcn") if kind == "model" else request.getfixturevalue("ensemble")
    if kind == "model":  # rows of features are not divided by their sums: a far node stays far
        config = TrainConfig(max_epochs=30, hidden=8, scaling="none")
        [record] = train(GRAPH, "gcn", SPLIT, config=config, keep_weights=True)
        one = TrainedModel.from_records(GRAPH, record, SPLIT)
    said = one.cautions(graph)
    assert set(said[:400]) == {""}
    assert said[400] == ""
    assert said[401].startswith("no links")
    assert "no known features" in said[402]
    if kind == "model":
        assert said[403] == "unlike the training nodes"
    head, *rows = csv.reader(one.predictions_csv(graph).splitlines())
    assert head[-1] == "caution"
    assert [row[-1] for row in rows] == list(said)
    assert set(one.cautions(GRAPH)) == {""}


@pytest.mark.parametrize(("known", "said"), [(50, "unlike the training nodes"), (65, "")])
def test_of_few_nodes_all_are_nearer_than_a_far_one(known, said):
    """Of 30 other nodes all, and of 15 too few to say it."""
    graph = planted(80, seed=6)
    features = np.vstack([graph.features, graph.features[:1], np.full((1, 6), 500.0)])
    wider = np.pad(graph.adjacency.toarray(), (0, 2))
    wider[80, :3] = wider[:3, 80] = wider[81, 4:7] = wider[4:7, 81] = 1
    one = trained(graph, Split("mine", np.arange(known), np.arange(known, 80), []), "mlp")
    assert one.cautions(Graph(wider, features, node_ids=[*graph.node_ids, "usual", "far"]))[80:] == ("", said)


def test_columns(model):
    text = model.predictions_csv(coverage=0.8, abstain=0.5)
    head, *rows = csv.reader(text.splitlines())
    assert head == ["node", "class", "decision", "set", "p:a", "p:b", "p:c"]
    sets, answers = model.predict_sets(coverage=0.8), model.decide(abstain=0.5)
    for row, inside, answer in zip(rows, sets, answers, strict=True):
        assert row[3] == ";".join(np.array(["a", "b", "c"])[inside])
        assert row[2] == ("" if answer < 0 else "abc"[answer])
    found = model.prediction_rows(coverage=0.8)[0]
    assert list(found) == ["node", "class", "set", "probabilities"]


class TestCommands:
    @pytest.fixture(scope="class")
    @staticmethod
    def folder(tmp_path_factory):
        place = tmp_path_factory.mktemp("sets")
        GRAPH.save(place / "graph.npz")
        words = ["train", "--graph", place / "graph.npz", "--method", "gcn", "--epochs", 20, "--hidden", 8, "--quiet",
                 "--coverage", 0.8, "--splits", "per-class:20+40:0", "--out", place / "model"]  # fmt: skip
        result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return place / "model"

    def test_train_then_predict(self, folder):
        model = load_model(folder)
        assert len(model.aside.nodes) == 60
        asked = ["predict", str(folder), "--coverage", "0.9", "--abstain", "sets", "--costs", "0,1,1;1,0,1;5,5,0"]
        result = CliRunner().invoke(app, asked, catch_exceptions=False)
        assert result.stdout == model.predictions_csv(
            coverage=0.9, abstain="sets", costs=[[0, 1, 1], [1, 0, 1], [5, 5, 0]]
        )

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--coverage", "1.5"], "--coverage must be a number between 0 and 1"),
            (["--coverage", "0.999"], "needs at least 999 labeled nodes set aside, and there are 60"),
            (["--costs", "1,x"], "must be numbers with commas"),
            (["--costs", "1,2"], "--costs must be a table of 3 by 3 numbers"),
            (["--abstain", "often"], "--abstain must be a probability"),
        ],
    )
    def test_bad_input(self, folder, words, said):
        with pytest.raises(InputError, match=said):
            CliRunner().invoke(app, ["predict", str(folder), *words], catch_exceptions=False)

    def test_the_page(self, folder, model, binary, tmp_path):
        write_report(folder)
        page = (folder / "report.html").read_text(encoding="utf-8")
        assert '<section id="sets"' in page
        assert "Of 100 such sets, about 80 contain the true class." in page
        binary.save(tmp_path / "two")
        write_report(tmp_path / "two")
        page = (tmp_path / "two" / "report.html").read_text(encoding="utf-8")
        assert '<section id="sets"' not in page
        assert "false alarms" in page


@pytest.mark.slow
def test_fit_sets_nodes_aside():
    for options in ({"ensemble": False}, {"refit": True}):
        model = fit(GRAPH, SPLIT, "cpu", methods=["mlp", "gcn"], coverage=0.9, workers=1, **options)
        assert len(model.aside.nodes) == 35
        seen = np.concatenate([model.runs[0].split.train, model.runs[0].split.val])
        assert not np.intersect1d(seen, model.aside.nodes).size
        held = model.predict_sets()[SPLIT.test, GRAPH.labels[SPLIT.test]].mean()
        assert 0.75 < held < 1
