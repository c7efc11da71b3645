"""``predict_proba``, ``classes_`` and ``score`` follow scikit-learn, on its graph and on others."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from fishergcn import Graph, TrainedModel
from fishergcn.errors import InputError


@pytest.mark.parametrize("name", ["gcn", "lp", "ensemble"])
def test_scores_are_those_of_scikit_learn(kinds, graph, name):
    model, test = kinds[name], np.arange(40, 60)
    found, labels = model.predict_proba(), graph.labels[test]
    assert np.array_equal(found, model.probabilities())
    assert np.array_equal(model.classes_[found.argmax(axis=1)], model.predict())
    assert model.score() == pytest.approx(metrics.accuracy_score(labels, model.predict()[test]))
    assert model.score(score="log-loss") == pytest.approx(metrics.log_loss(labels, found[test], labels=model.classes_))
    assert model.score(score="macro_f1") == pytest.approx(
        metrics.f1_score(labels, model.predict()[test], average="macro")
    )
    assert model.score(score="roc_auc", nodes=range(60)) == pytest.approx(
        metrics.roc_auc_score(graph.labels, found, multi_class="ovr")
    )
    assert model.score(score="accuracy") == pytest.approx(model.record.test_accuracy)


def test_another_graph_has_its_own_classes(kinds, graph):
    """Its classes in another order, nodes that were trained on left out."""
    model = kinds["gcn"]
    order = np.arange(59, -1, -1)
    turned = np.array([2, 0, 1])[graph.labels[order]]
    turned[:3] = -1
    other = Graph(
        graph.adjacency[order][:, order], graph.features[order], turned, feature_names=graph.feature_names,
        node_ids=[graph.node_ids[node] for node in order], class_names=["green", "blue", "red"],
    )  # fmt: skip
    test = np.arange(40, 57)
    right = (model.predict()[test] == graph.labels[test]).mean()
    assert model.score(other) == pytest.approx(right)
    assert model.score(other, nodes=np.arange(3, 60)) == pytest.approx((model.predict() == graph.labels)[:57].mean())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"score": "acuracy"}, "acuracy"),
        ({"score": "loss"}, "'log-loss'"),
        ({"nodes": [60]}, "nodes must be a list of numbers from 0 to 59"),
        ({"nodes": [[1]]}, "nodes must be a list of numbers"),
        ({"nodes": []}, "there is no labeled node, so there is nothing to score by"),
        ({"graph": 3}, "graph"),
    ],
)
def test_what_is_refused(kinds, arguments, message):
    with pytest.raises(InputError, match=message):
        kinds["gcn"].score(**arguments)


def test_graphs_that_cannot_be_scored(kinds, graph):
    model = kinds["gcn"]
    with pytest.raises(InputError, match="the graph has no labels to score by"):
        model.score(graph.replace(labels=None))
    with pytest.raises(InputError, match="nodes of class 'pink', which the model does not know"):
        model.score(graph.replace(class_names=["red", "pink", "blue"]))
    known = np.where(np.arange(60) < 40, graph.labels, -1)
    with pytest.raises(InputError, match="no labeled node that the model was neither trained nor validated on"):
        model.score(graph.replace(labels=known))
    with pytest.raises(InputError, match="does not know its training nodes"):
        TrainedModel.from_network(model.network(), graph).score()
