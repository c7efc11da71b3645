"""Features below zero and the division by sums of rows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph, TrainConfig, splits, train
from fishergcn.errors import InputError

SPLIT = splits.Split("mine", train=[0, 3], val=[1], test=[2])
ROWS = {
    "positive": np.array([[1.0, 0], [1, 1], [0, 1], [2, 1]]),
    "negative": np.array([[1.0, 0], [1, -1], [0, 1], [2, 1]]),
    "none": np.zeros((4, 2)),
}


def graph(features):
    return Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=features, labels=[0, 0, 1, 1])


def test_missing_features_are_the_identity():
    config = TrainConfig(max_epochs=2)
    with pytest.warns(UserWarning, match="each of the 4 nodes gets its own") as caught:
        [found] = train(graph(None), "gcn", SPLIT, config=config)
    assert [each.filename for each in caught] == [__file__]
    [given] = train(graph(sparse.eye_array(4, format="csr")), "gcn", SPLIT, config=config)
    assert (found.curves, found.graph_digest) == (given.curves, given.graph_digest)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "graph 'given' has no labels to learn from"),
        ([-1, -1, -1, -1], "graph 'given' has no labels to learn from"),
        ([0, 0, -1, 0], "labels must name at least two classes, got only '0'"),
    ],
)
def test_nothing_to_learn(labels, message):
    with pytest.raises(InputError, match=message):
        train(graph(None).replace(labels=labels), "gcn")


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("name", "scaling", "warned"),
    [("negative", "rows", 1), ("negative", "columns", 0), ("positive", "rows", 0), ("none", "rows", 0)],
)
def test_negative_features_are_not_divided_and_a_warning_says_so_at_the_line_of_the_caller(
    name, scaling, warned, convert
):
    config = TrainConfig(max_epochs=2, scaling=scaling)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = train(graph(convert(ROWS[name])), "gcn", SPLIT, 2, config)
    assert [record.config["scaling"] for record in records] == ["none" if warned else scaling] * 2
    found = [each for each in caught if "scaling='none'" in str(each.message)]
    assert len(found) == warned
    assert all(each.filename == __file__ and each.category is UserWarning for each in found)
