"""Saved models on the same nodes: which nodes, which differences, which verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics

from fishergcn import Graph, TrainConfig, train
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.splits import Split
from fishergcn.studies import compare_models

NODES = 90
NAMES = [f"n{node}" for node in range(NODES)]


def graph_of(order=None, classes=("a", "b"), names=NAMES, labels=None):
    """Return a graph of two groups, its nodes in another order if one is given."""
    rng = np.random.default_rng(0)
    own = np.arange(NODES) % 2 if labels is None else labels
    links = np.array([(node, (node + step) % NODES) for node in range(NODES) for step in (2, 4)])
    features = rng.random((NODES, 3)) + 1.5 * np.eye(3)[own % 2] * (rng.random(NODES) < 0.8)[:, None]
    order = np.arange(NODES) if order is None else order
    place = np.argsort(order)
    number = [("a", "b").index(each) for each in classes] if set(classes) == {"a", "b"} else [0, 1]
    moved = np.array(number)[own] if own.max() < 2 else own
    return Graph.from_edges(place[links], features=features[order], labels=moved[order], class_names=classes,
                            node_ids=[names[node] for node in order], name="ring")  # fmt: skip


def model_of(method, parts, graph=None):
    found = graph_of() if graph is None else graph
    place = {name: at for at, name in enumerate(found.node_ids)}
    split = Split("s", *([place[NAMES[node]] for node in nodes] for nodes in parts))
    records = train(
        found,
        method,
        split,
        config=TrainConfig(max_epochs=60, scaling="none", learning_rate=0.05, stopping="none"),
        keep_weights=True,
    )
    return TrainedModel.from_records(found, records, split)


ONE = (range(20), range(20, 40), range(40, 80))
OTHER = (range(40, 50), range(20, 40), range(50, 90))


@pytest.fixture(scope="module")
def two():
    return {"gcn": model_of("gcn", ONE), "majority": model_of("majority", OTHER)}


def test_on_the_test_nodes_of_all_with_paired_differences(two):
    found = compare_models(two)
    nodes = np.arange(50, 80)
    assert (found.nodes, found.tested) == (30, True)
    labels = two["gcn"].graph.labels[nodes]
    hits = {name: model.predict()[nodes] == labels for name, model in two.items()}
    for name, each in hits.items():
        assert found.values[name].value == pytest.approx(each.mean())
    gap = hits["majority"].astype(float) - hits["gcn"]
    difference = found.differences["majority"]
    assert difference.value == pytest.approx(gap.mean())
    half = 1.96 * math.sqrt((gap.var() * 30 + 0.5) / 31 / 30)
    assert (difference.low, difference.high) == pytest.approx((gap.mean() - half, gap.mean() + half), abs=1e-4)
    assert found.sentence == "By accuracy on these nodes, majority is clearly worse than gcn."


def test_the_order_of_nodes_and_of_classes_plays_no_part(two):
    turned = graph_of(order=np.random.default_rng(1).permutation(NODES), classes=("b", "a"))
    again = compare_models({"gcn": two["gcn"], "turned": model_of("majority", OTHER, turned)})
    assert again.values["turned"].value == pytest.approx(compare_models(two).values["majority"].value)


def test_without_common_test_nodes_no_node_that_any_was_trained_on():
    first = model_of("gcn", (range(20), range(20, 60), ()))
    second = model_of("mlp", (range(20, 30), range(30, 70), range(70, 90)))
    found = compare_models({"first": first, "second": second})
    assert (found.nodes, found.tested) == (30, False)  # 30 to 59
    assert "no model was trained on" in found.where
    with pytest.raises(InputError, match="no labeled node that none of these models was trained on"):
        compare_models({"first": first, "second": model_of("mlp", (range(20, 60), range(60, 70), ()))})


def test_another_score(two):
    found = compare_models(two, "macro-f1")
    nodes = np.arange(50, 80)
    expected = metrics.f1_score(two["gcn"].graph.labels[nodes], two["gcn"].predict()[nodes], average="macro")
    assert found.values["gcn"].value == pytest.approx(expected)
    low = compare_models(two, "log-loss")
    assert low.differences["majority"].low > 0  # more of what should be low
    assert "majority is clearly worse than gcn" in low.sentence
    with pytest.raises(InputError, match="score 'loss' is one of training"):
        compare_models(two, "loss")


def test_a_model_beside_itself_is_not_different(two):
    found = compare_models({"one": two["gcn"], "same": two["gcn"]})
    assert found.differences["same"].value == 0
    assert found.sentence == "By accuracy on these nodes, same is not clearly different from one."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": [*NAMES[:-1], "x"]}, "one and other have different nodes"),
        ({"classes": ("a", "c")}, "one and other have different classes"),
        ({"labels": 1 - np.arange(NODES) % 2}, "know node 'n0' by different classes"),
    ],
)
def test_graphs_that_do_not_match_are_one_sentence(two, change, message):
    parts = (range(20), range(20, 40), range(40, 80))
    with pytest.raises(InputError, match=message) as caught:
        compare_models({"one": two["gcn"], "other": model_of("majority", parts, graph_of(**change))})
    assert "\n" not in str(caught.value)
