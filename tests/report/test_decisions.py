"""Pages begin with a decision, and every sentence is made from what was run: odd models, odd studies."""

from __future__ import annotations

import dataclasses
import html
import re

import numpy as np
import pytest

import fishergcn
from fishergcn import Graph, TrainConfig, splits, studies
from fishergcn.models import Candidate, Ensemble, Selection, TrainedModel
from fishergcn.report import write_report
from fishergcn.splits import Split

CONFIG = TrainConfig(max_epochs=60, scaling="none", learning_rate=0.05, stopping="none", bias=True)


def words_of(page):
    text = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def verdicts_of(page):
    found = re.findall(r'<p class="verdict">(.*?)</p>', page.read_text(encoding="utf-8"))
    return [html.unescape(re.sub(r"<[^>]+>", "", each)) for each in found]


def planted(nodes, *, informative=True, mixed=False, shares=(0.5, 0.3, 0.2), name="own"):
    """Return a graph of three classes, whose features and links say nothing unless they are informative."""
    rng = np.random.default_rng(4)
    labels = rng.choice(3, nodes, p=shares)
    labels[:3] = range(3)
    likely = np.where(labels[:, None] == labels, 8 / nodes, 8 / nodes if mixed or not informative else 1 / nodes)
    links = np.argwhere(np.triu(rng.random((nodes, nodes)) < likely, 1))
    features = rng.random((nodes, 5)) + (1.5 * np.eye(5)[labels] if informative else 0)
    names = ["customers", "suppliers", "partners"]
    return Graph.from_edges(links, features=features, labels=labels, class_names=names, name=name, num_nodes=nodes)


def trained(graph, *, tested=True, method="gcn", config=CONFIG):
    nodes = np.random.default_rng(0).permutation(graph.num_nodes)
    third = graph.num_nodes // 3
    split = Split("s", nodes[:third], nodes[third : 2 * third], nodes[2 * third :] if tested else [])
    return TrainedModel.from_records(
        graph, fishergcn.train(graph, method, split, config=config, keep_weights=True), split
    )


def page_of(model, folder):
    model.save(folder / "model")
    return write_report(folder / "model")


def test_a_good_model_may_be_used_and_its_worst_class_is_named(tmp_path):
    model = trained(planted(360))
    first, second, third = verdicts_of(page_of(model, tmp_path))[:3]
    assert first == "This model can be used: it is clearly better than always answering the most frequent class."
    assert "always answering the most frequent class is right for" in second
    nodes = model.runs[0].split.test
    labels, predicted = model.graph.labels[nodes], model.predict()[nodes]
    recall = {name: (predicted[labels == at] == at).mean() for at, name in enumerate(model.class_names)}
    worst = min(recall, key=recall.get)
    assert re.search(rf"of {worst}, its worst class", third)


def test_no_class_is_the_worst_where_all_are_found(tmp_path):
    graph = planted(60)
    graph = graph.replace(features=(20 * np.eye(5)[graph.labels]).astype(np.float32))
    page = page_of(trained(graph, method="mlp"), tmp_path)
    found = verdicts_of(page)[2]
    assert "worst class" not in found
    assert re.fullmatch(
        r"Of the test nodes of each class it finds all \d+ of \w+, all \d+ of \w+ and all \d+ of \w+\.", found
    )
    words = words_of(page)
    assert "Of each class the same share of its test nodes is found: 100%." in words
    assert "Hardest" not in words


def test_where_several_classes_are_the_worst_all_are_named(tmp_path):
    model = trained(planted(60))
    nodes = model.runs[0].split.test
    predicted = model.predict()
    shares = {at: (predicted[nodes] == at)[model.graph.labels[nodes] == at].mean() for at in range(3)}
    words = words_of(page_of(model, tmp_path))
    low = [name for at, name in enumerate(model.class_names) if shares[at] == min(shares.values())]
    assert f"Hardest: {', '.join(low)} (" in words
    assert ("worst class" in words) == (len(low) == 1)


def test_answers_above_what_a_model_ever_states_are_not_offered(tmp_path, charts_of):
    graph = planted(240, informative=False, shares=(0.4, 0.3, 0.3))
    timid = page_of(
        trained(graph, config=dataclasses.replace(CONFIG, max_epochs=1, learning_rate=1e-4)), tmp_path / "timid"
    )
    words = words_of(timid)
    assert re.search(r"The highest probability that it states on the test nodes is [34]\d%", words)
    assert "--abstain" not in words
    sure = page_of(trained(planted(24)), tmp_path / "sure")  # 8 test nodes
    assert "decisions-chart" not in charts_of(sure.parent)
    assert "decisions-chart" in charts_of(timid.parent)


def test_a_useless_model_is_not_to_be_used(tmp_path):
    page = page_of(trained(planted(240, informative=False, shares=(0.7, 0.2, 0.1))), tmp_path)
    assert verdicts_of(page)[0].startswith("Do not use this model: on these 80 test nodes it is not clearly better")


@pytest.mark.parametrize("tested", [True, False])
def test_a_selection_decides_where_there_is_one(tmp_path, tested):
    model = trained(planted(240), tested=tested)
    one = Candidate("gcn", "gcn", {}, "graph convolutions", 0.7, 0.6, 0.8, 0.9, 3, 1.0, 1.0)
    known = {"value": 0.7, "low": 0.6, "high": 0.8, "majority": 0.68}
    for low, said, place in ((0.01, "This model can be used", 1), (-0.01, "Do not use this model: made up.", 1)):
        sentences = ("Do not use this model: made up.",) * (low < 0) + ("Expected accuracy: 70.0%.", "gcn was chosen.")
        chosen = Selection((one,), "gcn", **known, majority_low=low, sentences=sentences)
        found = verdicts_of(page_of(dataclasses.replace(model, selection=chosen), tmp_path / str(low)))
        assert found[0].startswith(said)
        assert found[place] == "Expected accuracy: 70.0%."
        assert any("test nodes correctly" in each for each in found) == tested


def test_the_first_chart_has_words_intervals_and_the_most_frequent_class(tmp_path, charts_of):
    tried = (
        Candidate("gcn", "gcn", {}, "graph convolutions", 0.803, 0.801, 0.805, 0.9, 3, 1.0, 0.0),
        Candidate("mlp", "mlp", {}, "features alone", 0.806, 0.804, 0.808, 0.9, 3, 1.0, 1.0),
    )
    known = {"value": 0.805, "low": 0.803, "high": 0.807, "majority": 0.8, "majority_low": 0.001}
    chosen = Selection(tried, "mlp", **known, sentences=("Expected.", "mlp was chosen."))
    page = page_of(dataclasses.replace(trained(planted(60)), selection=chosen), tmp_path)
    [panel] = charts_of(page.parent)["headline"]["panels"]
    assert panel["rows"] == ["this model: features alone", "features alone", "graph convolutions"]
    low, high = panel["xDomain"]
    assert high - low >= 0.1 - 1e-9
    assert low < 0.8 < high
    assert [each["at"] for each in panel["layers"] if each["kind"] == "rule"] == [0.8]
    assert [each["low"] for each in panel["layers"] if each["kind"] == "rangeX"] == [[0.803], [0.804], [0.801]]
    assert "cross entropy, calibrated" in words_of(page)


def test_the_first_chart_of_a_given_method_has_all_nodes_and_the_most_frequent_class(tmp_path, charts_of):
    model = trained(planted(360))
    page = page_of(model, tmp_path)
    [panel] = charts_of(page.parent)["headline"]["panels"]
    test = model.runs[0].split.test
    labels, found = model.graph.labels[test], model.predict()[test]
    common = np.bincount(model.graph.labels[model.runs[0].split.train]).argmax()
    assert panel["rows"] == [f"all {len(test)} test nodes", *model.class_names]
    assert [each["at"] for each in panel["layers"] if each["kind"] == "rule"] == [(labels == common).mean()]
    marks = [each["x"][0] for each in panel["layers"] if each["kind"] == "dot"]
    assert marks[0] == pytest.approx((labels == found).mean())


def test_the_first_chart_of_a_comparison_has_the_most_frequent_class(tmp_path, charts_of):
    graphs = [planted(nodes, name=f"own{nodes}") for nodes in (90, 120)]
    own = [[splits.per_class(graph, 5, 5, seed=seed) for seed in (0, 1)] for graph in graphs]
    for count in (1, 2):
        some = dict(zip([each.name for each in graphs], own, strict=True)) if count == 2 else own[0]
        plan = studies.make_comparison(graphs[:count], ["gcn", "mlp"], splits=some, config=CONFIG)
        place = tmp_path / str(count)
        studies.run(plan, place, workers=1).close()
        page = write_report(place)
        panels = charts_of(place)["headline"]["panels"]
        for panel, graph, parts in zip(panels, graphs, own, strict=False):
            right = [
                (graph.labels[each.test] == np.bincount(graph.labels[each.train]).argmax()).mean() for each in parts
            ]
            [line] = [each["at"] for each in panel["layers"] if each["kind"] == "rule"]
            assert line == pytest.approx(np.mean(right))
            low, high = panel["xDomain"]
            assert low < line < high
            assert high - low >= 0.1
        assert "The dashed line is what always answering the most frequent class gives." in words_of(page)


def test_an_ensemble_has_a_page_with_its_members(tmp_path):
    graph = planted(240)
    models = [trained(graph, method=name) for name in ("gcn", "mlp")]
    page = page_of(Ensemble.from_models(models, [0.75, 0.25], [1.5, 1.0]), tmp_path)
    words = words_of(page)
    assert 'id="members"' in page.read_text(encoding="utf-8")
    assert re.search(r"gcn 75% 1\.50 60 .*?learning rate 0\.05.* mlp 25% 1\.00 60", words)
    assert "links it depends on most" in words
    assert "Learning curves and geometry are of single networks: they are not on this page." in words
    assert "fishergcn geometry links" in words
    assert "fishergcn geometry fisher" not in words


def test_thirty_nodes_do_not_say_whether_a_model_is_as_sure_as_it_should_be(tmp_path):
    few, many = (words_of(page_of(trained(planted(nodes)), tmp_path / str(nodes))) for nodes in (45, 1500))
    assert "about as sure as it should be" not in few
    assert "too few nodes to say whether it is too sure" in few or "surer of itself than it should be" in few
    assert "too few nodes to say" not in many


@pytest.mark.parametrize(("mixed", "side"), [(True, "not clearly different from"), (False, "more than")])
def test_links_are_compared_with_chance_by_an_interval(tmp_path, mixed, side):
    words = words_of(page_of(trained(planted(240, mixed=mixed)), tmp_path))
    assert re.search(rf"join nodes of the same class, {side} the \d+% expected by chance", words)


def test_without_test_nodes_nothing_is_said_of_them(tmp_path):
    graph = planted(90)
    split = Split("no test", range(30), range(30, 90), [])
    records = fishergcn.train(graph, "gcn", split, 3, dataclasses.replace(CONFIG, max_epochs=3), keep_weights=True)
    TrainedModel.from_records(graph, records[0], split).save(tmp_path / "model", runs=records)
    words = words_of(write_report(tmp_path / "model"))
    assert "Chosen from 3 runs by validation accuracy." in words
    assert "test scores are not used" not in words
    short = dataclasses.replace(CONFIG, max_epochs=2)
    fishergcn.studies.tune(graph, "gcn", split, tmp_path / "tuned", config=short, trials=2)
    assert "test nodes" not in words_of(write_report(tmp_path / "tuned"))


def study(tmp_path, make_plan, fill, **options):
    name = options.pop("name", "cora")
    return words_of(write_report(fill(tmp_path, make_plan([name], **options))))


CHANGED = "Changing the graph during training"


def test_a_study_that_changes_no_graph_says_nothing_of_it(tmp_path, make_plan, fill):
    methods = ["gcn", "gcn-x5", "gcn-x5-c", "gcn-t-x5", "gcn-t-x5-c"]
    words = study(tmp_path, make_plan, fill, methods=methods)
    assert CHANGED not in words
    assert "changing the graph" not in words
    assert "the perturbation alone" not in words
    assert "Methods that leave the graph as it is, compared with their controls" in words


def test_single_runs_are_too_few_and_no_sign_of_equality(tmp_path, make_plan, fill):
    methods = ["gcn-x5", "fishergcn", "gcn-t-x5", "fishergcn-t"]
    words = study(tmp_path / "one", make_plan, fill, methods=methods, splits=1, seeds=1)
    assert f"{CHANGED}, compared with a control trained without it: too few runs to tell in 2 of 2" in words
    assert "no measurable difference" not in words
    more = study(tmp_path / "more", make_plan, fill, methods=methods, splits=7)
    assert re.search(rf"{CHANGED}.*?: .*? of 2 comparisons\.", more)
    assert "too few runs" not in more


def test_a_single_method_is_compared_with_nothing(tmp_path, make_plan, fill):
    words = study(tmp_path, make_plan, fill, methods=["gcn"])
    assert "One method for predicting" in words
    for odd in ("All methods", CHANGED, "a control, to", "the same ones"):
        assert odd not in words


@pytest.mark.parametrize(("name", "own"), [("cora", False), ("my graph", True)])
def test_own_data_are_not_told_to_try_own_data(tmp_path, make_plan, fill, name, own):
    words = study(tmp_path, make_plan, fill, name=name)
    assert ("on your own data" in words) != own
    assert (f"Choose and train a model on {name}" in words) == own


def test_methods_that_are_equally_good_are_named_together(tmp_path):
    """On nodes that tell themselves, several methods are right everywhere: none of them is the best alone."""
    labels = np.arange(60) % 3
    links = [(at, (at + 3) % 60) for at in range(60)]
    graph = Graph.from_edges(links, features=20 * np.eye(3)[labels], labels=labels, name="own", num_nodes=60)
    config = TrainConfig(max_epochs=30, scaling="none", learning_rate=0.05, stopping="none")
    split = [splits.per_class(graph, 6, 6, seed=seed) for seed in (0, 1)]
    plan = studies.make_comparison([graph], ["gcn", "mlp"], splits=split, config=config)
    studies.run(plan, tmp_path / "study", workers=1).close()
    words = words_of(write_report(tmp_path / "study"))
    assert "gcn and mlp have the highest mean test accuracy of 2 methods on own: 100.0%." in words
    assert "on own, as all methods have." in words
