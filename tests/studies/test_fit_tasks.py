"""``fit`` for several labels and for numbers: the choice, the estimate, the sentences."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn import Graph, fit
from fishergcn.errors import InputError
from fishergcn.models import Selection, load_model
from fishergcn.report import write_report
from fishergcn.splits import Split
from fishergcn.studies import tune

NODES = 300
METHODS = ["lp", "linear", "mlp"]


def make(task: str) -> Graph:
    rng = np.random.default_rng(5)
    member = rng.random((NODES, 3)) < 0.4
    links = np.argwhere(np.triu(rng.random((NODES, NODES)) < 0.01 + 0.05 * (member @ member.T.astype(float)), 1))
    features = rng.normal(size=(NODES, 5)) + 1.5 * member @ rng.normal(size=(3, 5))
    labels = member if task == "multilabel" else 70 + 8 * features[:, 0] + rng.normal(size=NODES)
    return Graph.from_edges(links, num_nodes=NODES, features=features, labels=labels, name=task, task=task)


SPLIT = Split("mine", train=range(60), val=range(60, 110), test=range(110, NODES))


@pytest.fixture(scope="module", params=["multilabel", "regression"])
def found(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "runs"
    graph = make(request.param)
    settings = {"max_epochs": 40, "scaling": "none"}
    model = fit(graph, SPLIT, "cpu", methods=METHODS, settings=settings, workers=1, folder=folder)
    return model, folder


def test_it_beats_what_answers_always_the_same(found):
    model, _ = found
    selection, task = model.selection, model.task
    assert selection.useful
    assert selection.score == task.score
    first, *_others = selection.sentences
    assert first.startswith(f"Expected {'micro F1' if task.name == 'multilabel' else 'R²'} on nodes without a label: ")
    assert task.constant in first
    assert "class" not in " ".join(selection.sentences)
    assert getattr(model.record, f"test_{task.score}") > (0.6 if task.name == "multilabel" else 0.8)
    heads, rows = selection.table()
    assert ("RMSE" in heads) == (task.name == "regression")
    assert len(rows) == len(METHODS)
    assert Selection.from_dict(selection.to_dict()) == selection


def test_the_estimate_holds_on_test_nodes(found):
    model, _ = found
    assert model.selection.low <= getattr(model.record, f"test_{model.task.score}") <= model.selection.high


def test_a_number_has_nodes_set_aside(found):
    model, _ = found
    if model.graph.task == "multilabel":
        assert model.split_sizes["train"] == 60
        return
    aside = set(model.nodes_aside.tolist())
    assert len(aside) == 22  # a fifth of 110
    assert aside <= set(range(110))
    inside = model.predict_interval(0.9)
    held = (inside[110:, 0] <= model.graph.targets[110:]) & (model.graph.targets[110:] <= inside[110:, 1])
    assert held.mean() > 0.75


def test_it_is_saved_and_reported(found, tmp_path):
    model, folder = found
    model.save(tmp_path / "model")
    back = load_model(tmp_path / "model")
    np.testing.assert_allclose(back.predict(), model.predict())
    assert back.selection == model.selection
    for page in (write_report(tmp_path / "model"), write_report(folder)):
        assert f"clearly better than {model.task.constant}" in page.read_text()
        assert "most frequent class" not in page.read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"score": "accuracy"}, "score 'accuracy' does not fit the task 'regression', which has loss, r2, mae, rmse"),
        ({"score": "loss"}, "score 'loss' is one of training, with the weight decay"),
        ({"task": "multilabel"}, "task 'multilabel' does not fit the labels of the graph, which are for 'regression'"),
    ],
)
def test_refused(options, words):
    with pytest.raises(InputError, match=words):
        fit(make("regression"), SPLIT, "cpu", **options)


def test_tune_is_for_classes(tmp_path):
    with pytest.raises(InputError, match="tune is for classes, and the task of graph 'regression' is 'regression'"):
        tune(make("regression"), "gcn", SPLIT, tmp_path / "t")
