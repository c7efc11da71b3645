"""Numbers about predictions and graphs, against scikit-learn, SciPy, NetworkX and brute force."""

from __future__ import annotations

import math

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from fishergcn import Graph
from fishergcn.report._assessment import (
    BINS,
    calibration,
    class_scores,
    confusion_matrix,
    graph_facts,
    least_certain,
    wilson,
)


def predictions(seed, count=200, classes=4):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((count, classes))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return probabilities, rng.integers(0, classes, count)


@pytest.mark.parametrize("seed", range(3))
def test_confusions_and_scores_of_classes(seed):
    probabilities, labels = predictions(seed)
    predicted = probabilities.argmax(axis=1)
    found = confusion_matrix(labels, predicted, 4)
    np.testing.assert_array_equal(found, metrics.confusion_matrix(labels, predicted, labels=range(4)))
    expected = metrics.precision_recall_fscore_support(labels, predicted, labels=range(4))
    for each, precision, recall, f1, nodes in zip(class_scores(found), *expected, strict=True):
        assert (each.precision, each.recall, each.f1) == pytest.approx((precision, recall, f1))
        assert each.nodes == nodes


def test_a_class_without_nodes_or_predictions_has_no_score():
    first, second, third = class_scores(confusion_matrix(np.array([0, 0]), np.array([0, 1]), 3))
    assert (first.recall, second.precision) == (0.5, 0.0)
    assert math.isnan(second.recall)
    assert math.isnan(third.recall)
    assert math.isnan(third.precision)
    assert math.isnan(third.f1)


@settings(max_examples=60)
@given(st.integers(1, 500).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count))))
def test_wilson(pair):
    hits, count = pair
    interval = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    assert wilson(hits, count) == pytest.approx((interval.low, interval.high), abs=1e-12)
    low, high = wilson(hits, count)
    assert 0 <= low <= hits / count <= high <= 1


def test_wilson_of_nothing():
    assert all(map(math.isnan, wilson(0, 0)))


@pytest.mark.parametrize("seed", range(5))
def test_the_calibration_error_is_the_sum_over_bins(seed):
    probabilities, labels = predictions(seed)
    bins, error = calibration(probabilities, labels)
    expected = 0.0
    for low in range(BINS):  # brute force, as Guo et al. define it
        members = [i for i in range(len(labels)) if low / BINS < probabilities[i].max() <= (low + 1) / BINS + 1e-15]
        if members:
            right = sum(probabilities[i].argmax() == labels[i] for i in members) / len(members)
            stated = sum(probabilities[i].max() for i in members) / len(members)
            expected += len(members) / len(labels) * abs(right - stated)
    assert error == pytest.approx(expected, abs=1e-12)
    assert sum(each.count for each in bins) == len(labels)
    fraction, stated = (
        metrics.accuracy_score(labels, probabilities.argmax(axis=1)),
        probabilities.max(axis=1).mean(),
    )
    assert sum(each.count * each.correct for each in bins) / len(labels) == pytest.approx(fraction)
    assert sum(each.count * each.stated for each in bins) / len(labels) == pytest.approx(stated)


def test_certain_and_right_is_calibrated():
    bins, error = calibration(np.eye(3), np.arange(3))
    assert error == 0
    assert [(each.count, each.stated, each.correct) for each in bins] == [(3, 1.0, 1.0)]


def test_the_least_certain_nodes_come_first():
    probabilities = np.array([[0.9, 0.1], [0.5, 0.5], [0.4, 0.6], [0.2, 0.8]])
    assert least_certain(probabilities, np.array([0, 2, 3]), 2).tolist() == [2, 3]
    assert least_certain(probabilities, np.arange(4), 9).tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("seed", range(3))
def test_what_a_graph_looks_like(seed):
    rng = np.random.default_rng(seed)
    drawn = networkx.gnp_random_graph(40, 0.05, seed=seed)
    drawn.add_edge(3, 3)
    labels = rng.integers(-1, 3, 40)
    labels[:3] = [0, 1, 2]
    graph = Graph.from_edges(list(drawn.edges), labels=labels, num_nodes=40)
    found = graph_facts(graph)
    drawn.remove_edge(3, 3)
    assert found.degrees.tolist() == [degree for _, degree in drawn.degree]
    assert list(found.sizes) == sorted(map(len, networkx.connected_components(drawn)), reverse=True)
    told = [(i, j) for i, j in drawn.edges if labels[i] >= 0 and labels[j] >= 0]
    assert found.labeled_links == len(told)
    assert found.homophily == pytest.approx(np.mean([labels[i] == labels[j] for i, j in told]))
    known = drawn.edge_subgraph(told)
    networkx.set_node_attributes(known, {node: int(labels[node]) for node in known}, "label")
    adjusted = networkx.attribute_assortativity_coefficient(known, "label")
    assert (found.homophily - found.chance) / (1 - found.chance) == pytest.approx(adjusted)
    for label in range(3):
        ends = [(i, j) for pair in told for i, j in (pair, pair[::-1]) if labels[i] == label]
        assert found.of_class[label] == pytest.approx(np.mean([labels[j] == label for _, j in ends]))


def test_a_graph_without_labels_or_links():
    found = graph_facts(Graph.from_edges([(0, 0)], num_nodes=3))
    assert found.degrees.tolist() == [0, 0, 0]
    assert math.isnan(found.homophily)
    assert found.labeled_links == 0
