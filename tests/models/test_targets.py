"""Models of several labels and of numbers: predictions, intervals, folders, new nodes, ensembles, pages."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fishergcn import Graph, TrainConfig, TrainedModel, load_model, train
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic import node_links
from fishergcn.models import Ensemble, conformal_quantile, refit, save_models
from fishergcn.report import write_report
from fishergcn.splits import Split, set_aside
from fishergcn.studies import compare_models, make_comparison

NODES = 60
CONFIG = TrainConfig(max_epochs=30, scaling="none", bias=True)
SPLIT = Split("mine", train=range(20), val=range(20, 30), test=range(30, 40))


def make(task: str) -> Graph:
    rng = np.random.default_rng(3)
    member = rng.random((NODES, 2)) < 0.5
    links = np.argwhere(np.triu(rng.random((NODES, NODES)) < 0.02 + 0.06 * (member @ member.T.astype(float)), 1))
    features = rng.normal(size=(NODES, 4)) + 2 * member @ rng.normal(size=(2, 4))
    labels = member if task == "multilabel" else 20 + 5 * features[:, 0] + rng.normal(size=NODES)
    names = ["db", "ml"] if task == "multilabel" else ["price"]
    ids = [f"n{at}" for at in range(NODES)]
    options = {"name": task, "task": task, "class_names": names, "node_ids": ids}
    return Graph.from_edges(links, num_nodes=NODES, features=features, labels=labels, **options)


@pytest.fixture(scope="module", params=["multilabel", "regression"])
def graph(request):
    return make(request.param)


@pytest.fixture(scope="module")
def models(graph):
    found = train(graph, ["gcn", "mlp", "lp"], SPLIT, config=CONFIG, keep_weights=True)
    return [TrainedModel.from_records(graph, each, SPLIT) for each in found]


def test_they_come_back_from_disk(graph, models, tmp_path):
    both = Ensemble.from_models(models[:2], [0.25, 0.75], [1.0, 1.0])
    for model in (*models, both):
        folder = tmp_path / f"{model.method.name}"
        model.save(folder)
        back = load_model(folder)
        np.testing.assert_array_equal(back.predict(), model.predict())
        assert back.predictions_csv() == model.predictions_csv()
        assert (back.task.name, back.chosen_by) == (graph.task, model.task.score)
        card = (folder / "README.md").read_text()
        assert f"predicts {model.task.what} of each node" in card
        assert "class" not in card.partition("## Settings")[0].partition("## Members")[0]


def test_predictions_have_the_form_of_the_task(graph, models):
    model = models[0]
    if graph.task == "multilabel":
        p = model.probabilities()
        assert p.shape == (NODES, 2)
        np.testing.assert_array_equal(model.predict(), p > model.threshold)
        head, first, *_ = model.predictions_csv().splitlines()
        assert head == "node,labels,p:db,p:ml"
        wanted = "|".join(name for name, has in zip(("db", "ml"), p[0] > model.threshold, strict=True) if has)
        assert first.split(",")[:2] == ["n0", wanted]
        assert model.prediction_rows()[0]["probabilities"] == {"db": p[0, 0], "ml": p[0, 1]}
        with pytest.raises(
            InputError, match="coverage is for one class a node, and the task of this model is 'multilabel'"
        ):
            model.predictions_csv(coverage=0.9)
    else:
        assert model.predict().shape == (NODES,)
        with pytest.raises(InputError, match="has no probabilities"):
            model.probabilities()
        assert model.predictions_csv().splitlines()[0] == "node,value,low,high"
        row = model.prediction_rows(coverage=0.5)[0]
        assert [row["low"], row["high"]] == model.predict_interval(0.5)[0].tolist()
    tested = model.test()[1].item()
    assert tested == pytest.approx(getattr(model.record, f"test_{model.task.score}"), abs=1e-5)


def test_new_nodes(graph, models):
    links = np.argwhere(np.triu(graph.adjacency.toarray(), 1))
    more = np.vstack([np.asarray(graph.features), np.asarray(graph.features)[:1]])
    ids = [*graph.node_ids, "new"]
    larger = Graph.from_edges([*links, (0, NODES)], features=more, node_ids=ids)
    both = Ensemble.from_models(models[:2], [0.25, 0.75], [1.0, 1.0])
    for model in (*models, both):
        found = model.predict(larger)
        assert len(found) == NODES + 1
        assert model.predictions_csv(larger).splitlines()[-1].startswith("new,")
    far = [at for at in range(NODES) if not set(np.flatnonzero(graph.adjacency.toarray()[at])) & {0} and at != 0]
    np.testing.assert_allclose(models[1].predict(larger)[far], models[1].predict()[far], rtol=1e-5)
    joined = models[0].logits_of_new(np.eye(1, NODES), more[:1])
    assert joined.shape == (1, 1, graph.num_classes)


def test_an_ensemble_is_the_mean_of_answers(graph, models):
    both = Ensemble.from_models(models[:2], [0.25, 0.75], [2.0, 0.5])
    if graph.task == "regression":
        np.testing.assert_allclose(both.predict(), 0.25 * models[0].predict() + 0.75 * models[1].predict())
    else:
        parts = [1 / (1 + np.exp(-each.logits()[:, 0].double().numpy() / heat))
                 for each, heat in zip(models, (2.0, 0.5), strict=False)]  # fmt: skip
        np.testing.assert_allclose(both.probabilities(), 0.25 * parts[0] + 0.75 * parts[1], rtol=1e-9)


def test_intervals_are_split_conformal():
    graph = make("regression")
    [record] = train(graph, "gcn", SPLIT, config=CONFIG, keep_weights=True)
    model = TrainedModel.from_records(graph, record, SPLIT)
    assert model.nodes_aside.tolist() == list(range(40, 60))
    errors = np.abs(model.predict() - graph.targets)[40:]
    for coverage, place in ((0.5, 11), (0.9, 19), (0.95, 20)):
        half = np.sort(errors)[place - 1]
        np.testing.assert_allclose(model.predict_interval(coverage), model.predict()[:, None] + [-half, half])
        assert conformal_quantile(errors, coverage) == half
    with pytest.raises(InputError, match=r"coverage 0\.99 needs at least 99 nodes .* there are 20"):
        model.predict_interval(0.99)
    with pytest.raises(InputError, match="coverage must be a number between 0 and 1"):
        model.predict_interval(1.0)


def test_intervals_cover_as_promised():
    """Of 400 draws of calibration and new nodes, with errors that any model may have."""
    rng = np.random.default_rng(0)
    held = []
    for _ in range(400):
        errors = rng.exponential(size=80)
        held.append((errors[40:] <= conformal_quantile(errors[:40], 0.9)).mean())
    exact = np.ceil(41 * 0.9) / 41
    assert np.mean(held) == pytest.approx(exact, abs=4 * np.std(held) / 20)


def test_nodes_are_set_aside_from_training_and_validation():
    graph = make("regression")
    split = Split("all", train=range(40), val=range(40, 50), test=range(50, 60))
    found = set_aside(graph, split)
    assert len(found.train) + len(found.val) == 50 - 16  # a third at most, since 20 would be more
    assert set(found.train) < set(split.train)
    assert set(found.val) < set(split.val)
    np.testing.assert_array_equal(found.test, split.test)
    assert set_aside(graph, SPLIT) is SPLIT  # 20 nodes are in no part already


def test_refit_keeps_the_task(graph, models):
    again = refit(models[0], graph, SPLIT, "cpu")
    assert again.predict().shape == models[0].predict().shape
    other = make("regression" if graph.task == "multilabel" else "multilabel")
    with pytest.raises(InputError, match="the task must be that of the model"):
        refit(models[0], other, SPLIT, "cpu")


def test_what_is_for_classes_is_refused(graph, models):
    with pytest.raises(
        InputError, match=r"for models that classify nodes, and the task of this one is|has no probabilities"
    ):
        node_links(models[0], 0)
    with pytest.raises(InputError, match="compare is for classes"):
        make_comparison([graph], ["gcn"])
    with pytest.raises(InputError, match="leaderboard is for classes"):
        compare_models({"one": models[0], "other": models[1]})
    with pytest.raises(InputError, match="trained elsewhere must classify nodes"):
        TrainedModel.from_network(lambda operator: operator, graph)


def test_pages_speak_of_the_task(graph, tmp_path):
    records = train(graph, ["gcn", "mlp"], SPLIT, [1, 2], CONFIG, keep_weights=True)
    save_models(tmp_path / "both", graph, records, SPLIT)
    page = write_report(tmp_path / "both")
    for path in (page, page.parent / "gcn" / "report.html"):
        text = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", path.read_text(), flags=re.DOTALL)
        assert re.findall(r"\b(class|classes|classifies|accuracy)\b", text) == []
        assert ("micro F1" if graph.task == "multilabel" else "R²") in text
    text = path.read_text()
    assert ("Label by label" in text) == (graph.task == "multilabel")
    assert ("Intervals are from the errors on 20 nodes" in text) == (graph.task == "regression")
