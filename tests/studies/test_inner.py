"""Inner splits: labeled nodes dealt anew, with nodes that judge and nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn import Graph
from fishergcn.errors import InputError
from fishergcn.splits import Split
from fishergcn.studies._inner import inner_splits, known_homophily


def dealt(counts: list[tuple[int, int]], weighted: bool = False) -> tuple[Graph, Split]:
    """Return a graph and a split with some training and validation nodes of each class, and two test nodes of each."""
    labels, parts = [], {"train": [], "val": [], "test": []}
    for label, (train, val) in enumerate(counts):
        for part, count in (("train", train), ("val", val), ("test", 2)):
            parts[part] += range(len(labels), len(labels) + count)
            labels += [label] * count
    split = Split("s", **parts, node_weight=np.ones(len(labels)) if weighted else None)
    return Graph.from_edges([(0, 1)], num_nodes=len(labels), labels=labels), split


classes = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), min_size=2, max_size=5)


@settings(max_examples=60)
@given(classes, st.integers(1, 5))
def test_no_node_is_in_two_parts_and_training_keeps_its_classes(counts, number):
    graph, split = dealt(counts)
    labels, known = graph.labels, np.concatenate([split.train, split.val])
    if len(split.val) < 2:
        with pytest.raises(InputError, match=r"^split 's' has (too few validation|no val) nodes"):
            inner_splits(graph, split, number)
        return
    found = inner_splits(graph, split, number)
    assert [each.name for each in found] == [f"s inner {place}" for place in range(1, number + 1)]
    for each in found:
        every = np.concatenate([each.train, each.val, each.test])
        assert np.array_equal(np.sort(every), np.sort(known))  # each of them once, and no test node of the split
        assert np.array_equal(np.bincount(labels[each.train]), np.bincount(labels[split.train]))
        assert len(each.val) >= 1
        assert len(each.test) >= 1
    for label, (train, val) in enumerate(counts):
        judges = [each.test[labels[each.test] == label] for each in found]
        if train + val >= number and val >= 2:
            assert len(np.unique(np.concatenate(judges))) == sum(map(len, judges))  # none judges twice
            assert {len(each) for each in judges} == {min(val // 2, (train + val) // number)}
        elif val >= 2:
            assert {len(each) for each in judges} == {1}


def test_the_same_split_is_dealt_the_same_way():
    graph, split = dealt([(5, 6), (4, 7)])
    one, other = inner_splits(graph, split, 3), inner_splits(graph, split, 3)
    assert [each.train.tobytes() for each in one] == [each.train.tobytes() for each in other]
    assert len({each.train.tobytes() for each in one}) == 3


def test_a_class_with_a_single_node_left_judges_by_turns():
    graph, split = dealt([(3, 1), (3, 1), (3, 1), (3, 1)])
    found = inner_splits(graph, split, 4)
    for label in range(4):
        counts = [int((graph.labels[each.test] == label).sum()) for each in found]
        assert sorted(counts) == [0, 0, 1, 1]


@pytest.mark.parametrize("counts", [[(3, 1), (3, 0), (3, 1)], [(3, 0), (3, 1), (3, 1)], [(1, 2), (3, 0)]])
def test_two_validation_nodes_of_any_classes_are_enough(counts):
    for each in inner_splits(*dealt(counts), 5):
        assert (len(each.val), len(each.test)) == (1, 1)


def test_weights_of_nodes_stay():
    graph, split = dealt([(3, 4), (3, 4)], weighted=True)
    for each in inner_splits(graph, split, 2):
        assert np.array_equal(each.node_weight, split.node_weight)


def test_nodes_without_a_label_and_graphs_without_labels_are_refused():
    graph, split = dealt([(3, 4), (3, 4)])
    labels = graph.labels.copy()
    labels[split.val[2]] = -1
    with pytest.raises(InputError, match=rf"^split 's': node {split.val[2]} has no label\.$"):
        inner_splits(graph.replace(labels=labels), split, 3)
    with pytest.raises(InputError, match="the graph has no labels to learn from"):
        inner_splits(graph.replace(labels=None), split, 3)


def test_homophily_is_that_of_nodes_that_may_be_known():
    labels = np.repeat([0, 1], 40)
    inside = [(node, node + 1) for node in range(38)]
    across = [(node, 40 + node) for node in range(12)]
    graph = Graph.from_edges([*inside, *across], num_nodes=80, labels=labels)
    everywhere = Split("all", np.arange(0, 80, 2), np.arange(1, 80, 2), [])
    assert known_homophily(graph, everywhere) == pytest.approx(38 / 50)
    partly = Split("some", np.arange(20), np.arange(20, 39), np.arange(39, 80))
    assert known_homophily(graph, partly) == 1.0  # links to test nodes are not looked at
    assert math.isnan(known_homophily(graph, Split("few", np.arange(15), np.arange(15, 20), [])))
