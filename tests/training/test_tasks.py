"""Several labels and numbers: losses, scores, rules and training, against independent oracles."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn import metrics

from fishergcn import Graph, TrainConfig, TrainedModel, backend, renormalized, train
from fishergcn.errors import InputError
from fishergcn.splits import Split
from fishergcn.training import BatchSettings, find_score, find_task, main_score, parse_method, prepare, score_of
from fishergcn.training._engine import Trainer
from fishergcn.training._problem import Run

METHODS = ("gcn", "gcn-t", "mlp", "sage", "gcn-x3", "gcn-x3-c", "fishergcn", "linear", "lp", "majority")
TASKS = ("multilabel", "regression")
SHORT = TrainConfig(max_epochs=8, rank=4, bias=True)


def make(task: str, nodes: int = 40) -> Graph:
    rng = np.random.default_rng(0)
    member = rng.random((nodes, 3)) < 0.4
    links = np.argwhere(np.triu(rng.random((nodes, nodes)) < 0.02 + 0.08 * (member @ member.T.astype(float)), 1))
    features = rng.normal(size=(nodes, 5)) + member @ rng.normal(size=(3, 5))
    labels = member if task == "multilabel" else 500 + 40 * features[:, 0] + rng.normal(size=nodes)
    options = {"name": task, "task": task}
    return Graph.from_edges(links, num_nodes=nodes, features=features, labels=labels, **options)


SPLIT = Split("mine", train=range(15), val=range(15, 25), test=range(25, 34))


@pytest.fixture(scope="module", params=TASKS)
def graph(request):
    return make(request.param)


@pytest.fixture(scope="module")
def records(graph):
    with pytest.warns(UserWarning, match="negative"):
        return train(graph, METHODS, SPLIT, config=SHORT, keep_weights=True)


def test_every_method_trains_and_names_its_scores(graph, records):
    expected = {
        "multilabel": {"micro_f1", "macro_f1", "average_precision", "roc_auc", "cross_entropy", "loss"},
        "regression": {"r2", "mae", "rmse", "loss"},
    }[graph.task]
    for record in records:
        assert record.status == "ok"
        assert {name.partition("_")[2] for name in record.scores} <= expected
        assert {f"test_{name}" for name in expected} <= record.scores.keys()
        assert np.isnan(record.test_accuracy)
        assert main_score(record).name == find_task(graph.task).score
    assert f"val_{find_task(graph.task).score}" in records[0].curves


def test_scores_are_those_of_scikit_learn(graph, records):
    known = np.asarray(graph.targets)[SPLIT.test]
    for record in records:
        model = TrainedModel.from_records(graph, record, SPLIT)
        if graph.task == "regression":
            found = model.predict()[SPLIT.test]
            wanted = {
                "r2": metrics.r2_score(known, found),
                "mae": metrics.mean_absolute_error(known, found),
                "rmse": metrics.root_mean_squared_error(known, found),
            }
        else:
            found, said = model.probabilities()[SPLIT.test], model.predict()[SPLIT.test]
            wanted = {
                "micro_f1": metrics.f1_score(known, said, average="micro"),
                "macro_f1": metrics.f1_score(known, said, average="macro"),
                "average_precision": metrics.average_precision_score(known, found, average="macro"),
                "roc_auc": metrics.roc_auc_score(known, found, average="macro"),
                "cross_entropy": 3 * metrics.log_loss(known.ravel(), np.clip(found.ravel(), 1e-12, 1 - 1e-12)),
            }
        for name, value in wanted.items():
            assert getattr(record, f"test_{name}") == pytest.approx(value, rel=2e-4, abs=1e-5), (record.method, name)


def test_the_loss_of_a_step_is_the_mean_over_nodes_and_samples(graph):
    config = dataclasses.replace(SHORT, dtype="float64", weight_decay=0.0, scaling="none", dropout=0.0)
    problem = prepare(graph, parse_method("gcn-x3"), config)
    trainer = Trainer(problem, [Run(SPLIT, 1)], torch.device("cpu"))
    assert trainer.plan.kind == "autograd"
    loss, _ = trainer.objective(0)
    out = problem.logits(trainer.stack.weights, trainer.train_view)[:, 0].detach().numpy()
    rows = trainer.train_view.position(SPLIT.train)
    known = np.asarray(graph.targets)[SPLIT.train].astype(float)
    if graph.task == "regression":
        wanted = ((out[rows, 0] - (known - known.mean()) / known.std()) ** 2).mean()
    else:
        p = 1 / (1 + np.exp(-out[rows]))
        wanted = -(known * np.log(p) + (1 - known) * np.log(1 - p)).sum(axis=1).mean()
    assert float(loss) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("task", TASKS)
def test_consistency_is_the_spread_of_the_samples(task):
    rng = np.random.default_rng(1)
    out = rng.normal(size=(4, 2, 3, 1 if task == "regression" else 2))
    found = find_task(task).consistency(torch.tensor(out), 0.5).numpy()
    if task == "regression":
        wanted = ((out - out.mean(2, keepdims=True)) ** 2).sum(-1).mean((0, 2))
    else:
        yes = 1 / (1 + np.exp(-out))
        mean = yes.mean(2, keepdims=True)
        sharp = mean**2 / (mean**2 + (1 - mean) ** 2)
        wanted = 2 * ((yes - sharp) ** 2).sum(-1).mean((0, 2))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_linear_is_the_ridge_solution(task):
    graph = make(task)
    config = TrainConfig(weight_decay=0.01, scaling="none", bias=True, dtype="float64")
    [record] = train(graph, "linear", SPLIT, config=config, keep_weights=True)
    links, features = renormalized(graph.adjacency).toarray(), np.asarray(graph.features, dtype=np.float64)
    every = np.hstack([features, links @ features, links @ links @ features])
    known = np.asarray(graph.targets, dtype=np.float64)[SPLIT.train].reshape(len(SPLIT.train), -1)
    if task == "multilabel":
        center, scale, factor = 0.5, 0.5, 2.0
    else:
        center, scale, factor = known.mean(), known.std(), 1.0
    wanted = (known - center) / scale
    own, mean = every[SPLIT.train], every[SPLIT.train].mean(axis=0)
    inner = (own - mean).T @ (own - mean) + len(own) * 0.01 * np.eye(own.shape[1])
    weights = np.linalg.solve(inner, (own - mean).T @ (wanted - wanted.mean(axis=0)))
    expected = factor * ((every - mean) @ weights + wanted.mean(axis=0))
    model = TrainedModel.from_records(graph, record, SPLIT)
    np.testing.assert_allclose(model.logits()[:, 0].numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_rules_answer_means(task):
    graph = make(task)
    known = np.asarray(graph.targets, dtype=np.float64).reshape(graph.num_nodes, -1)
    records = train(graph, ["majority", "lp"], SPLIT, keep_weights=True)
    constant, spread = (TrainedModel.from_records(graph, each, SPLIT) for each in records)
    answers = [each.predict()[:, None] if task == "regression" else each.probabilities() for each in (constant, spread)]
    doubt = 1e-3 if task == "multilabel" else 0.0
    mean = known[SPLIT.train].mean(axis=0)
    np.testing.assert_allclose(answers[0], np.tile((1 - doubt) * mean + doubt / 2, (graph.num_nodes, 1)), rtol=1e-9)
    degrees = np.maximum(graph.adjacency.sum(axis=1), 1)
    scaled = sparse.diags_array(degrees**-0.5) @ graph.adjacency @ sparse.diags_array(degrees**-0.5)
    given = np.zeros((graph.num_nodes, known.shape[1] + 1))
    given[SPLIT.train] = np.hstack([known[SPLIT.train], np.ones((len(SPLIT.train), 1))])
    found = given
    for _ in range(100):
        found = 0.1 * given + 0.9 * (scaled @ found)
    with np.errstate(invalid="ignore"):
        wanted = np.where(found[:, -1:] > 0, found[:, :-1] / found[:, -1:], mean)
    np.testing.assert_allclose(answers[1], (1 - doubt) * wanted + doubt / 2, rtol=1e-6)


def test_numbers_have_any_unit():
    graph = make("regression")
    [one] = train(graph, "gcn", SPLIT, config=SHORT, keep_weights=True)
    large = graph.replace(labels=1e6 * np.asarray(graph.targets) - 3e8, task="regression")
    [other] = train(large, "gcn", SPLIT, config=SHORT, keep_weights=True)
    small, big = (TrainedModel.from_records(g, r, SPLIT).predict() for g, r in ((graph, one), (large, other)))
    np.testing.assert_allclose(big, 1e6 * small - 3e8, rtol=1e-4)
    assert other.test_mae == pytest.approx(1e6 * one.test_mae, rel=1e-3)
    assert other.test_r2 == pytest.approx(one.test_r2, abs=1e-4)


def test_several_workers_train_the_same():
    graph = make("regression")  # the targets of which travel with the graph
    options = {"config": SHORT, "seeds": 2}
    alone = train(graph, "gcn", SPLIT, workers=1, **options)
    both = train(graph, "gcn", SPLIT, workers=2, **options)
    for one, other in zip(alone, both, strict=True):
        assert one.scores == pytest.approx(other.scores, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"config": TrainConfig(score="accuracy")}, "score 'accuracy' does not fit the task"),
        ({"config": TrainConfig(class_weight="balanced")}, "class_weight must be 'none' where the task is"),
        ({"batches": BatchSettings(batch_size=8, fanout=(4, 4))}, "mini-batches are for classes"),
        ({"splits": "per-class:2+2:0"}, "A split per class needs classes"),
    ],
)
def test_refused(graph, options, words):
    with pytest.raises(InputError, match=words):
        train(graph, "gcn", **{"splits": SPLIT, **options})


def test_a_backend_for_classes_is_refused(graph):
    with backend("compiled"), pytest.raises(InputError, match="kernels are for classes"):
        train(graph.replace(features=sparse.csr_array(np.abs(graph.features))), "gcn", SPLIT, config=TrainConfig())


def test_scores_that_need_another_task():
    with pytest.raises(InputError, match="score 'r2' does not fit the task 'classification'"):
        find_score("r2").check_classes(3)
    assert np.isnan(score_of(find_score("r2"), np.zeros((2, 1)), np.zeros((2, 1)), find_task("multilabel")))


class TestThreshold:
    def test_it_is_that_of_the_best_micro_f1(self):
        """Against all thresholds, by hand."""
        rng, task = np.random.default_rng(1), find_task("multilabel")
        stated = rng.random((40, 3)).round(2)  # with ties
        wanted = (rng.random((40, 3)) < stated * 0.4).astype(np.int8)

        def f1(threshold):
            said = stated > threshold
            return 2 * (said & (wanted > 0)).sum() / (said.sum() + wanted.sum())

        found = task.threshold(stated, wanted)
        assert f1(found) == max(f1(each) for each in [0.0, *np.unique(stated)])
        assert f1(found) > f1(0.5)
        assert task.threshold(stated[:9], wanted[:9]) == 0.5  # too few nodes
        assert task.threshold(stated, np.zeros_like(wanted)) == 0.5

    def test_moved_answers_say_yes_above_one_half(self):
        task, stated = find_task("multilabel"), np.array([[0.1, 0.29, 0.31, 0.9]])
        np.testing.assert_array_equal(task.moved("micro_f1", stated, 0.3) > 0.5, stated > 0.3)
        np.testing.assert_array_equal(task.moved("average_precision", stated, 0.3), stated)

    def test_records_use_that_of_their_validation_nodes(self):
        graph = make("multilabel")
        [record] = train(graph, "mlp", SPLIT, config=SHORT, keep_weights=True)
        model = TrainedModel.from_records(graph, record, SPLIT)
        stated, known = model.probabilities(), graph.targets
        assert model.threshold == pytest.approx(model.task.threshold(stated[SPLIT.val], known[SPLIT.val]), abs=1e-6)
        said, true = stated[SPLIT.test] > model.threshold, known[SPLIT.test] > 0
        by_hand = 2 * (said & true).sum() / (said.sum() + true.sum())
        assert record.test_micro_f1 == pytest.approx(by_hand, abs=1e-6)  # a ratio in float32
        assert model.score(nodes=SPLIT.test) == pytest.approx(by_hand, abs=1e-6)
        assert float(model.test()[1]) == pytest.approx(by_hand, abs=1e-6)
