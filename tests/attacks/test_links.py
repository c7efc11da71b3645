"""Random links: exact numbers, symmetry, seeds, and larger changes that contain the smaller ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fishergcn.attacks import add_links, count_links, remove_links, toggle_links
from fishergcn.errors import InputError


def random_graph(nodes, density, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((nodes, nodes)) < density)  # with links from nodes to themselves
    return sparse.csr_array((upper | upper.T).astype(np.float64))


def pairs(matrix):
    return {(i, j) for i, j in zip(*np.nonzero(np.triu(matrix.toarray(), 1)), strict=True)}


@settings(max_examples=40)
@given(st.integers(2, 12), st.floats(0, 1), st.integers(0, 10), st.data())
def test_counts_are_exact_and_the_rest_stays(nodes, density, seed, data):
    graph = random_graph(nodes, density, seed)
    links, all_pairs = count_links(graph), nodes * (nodes - 1) // 2
    for change, room, sign in ((add_links, all_pairs - links, 1), (remove_links, links, -1)):
        count = data.draw(st.integers(0, room))
        changed = change(graph, count, seed)
        dense = changed.toarray()
        assert (dense == dense.T).all()
        assert set(np.unique(dense)) <= {0.0, 1.0}
        assert changed.nnz == np.count_nonzero(dense)
        assert (dense.diagonal() == graph.toarray().diagonal()).all()
        assert count_links(changed) == links + sign * count
        assert len(pairs(changed) ^ pairs(graph)) == count


@pytest.mark.parametrize("change", [add_links, remove_links])
def test_seeds_and_nesting(change):
    graph = random_graph(40, 0.3, 0)
    few, many = change(graph, 20, 5), change(graph, 90, 5)
    assert (change(graph, 20, 5) != few).nnz == 0
    assert (change(graph, 20, 6) != few).nnz > 0
    assert pairs(few) ^ pairs(graph) < pairs(many) ^ pairs(graph)


def test_added_links_are_uniform():
    empty = sparse.csr_array((5, 5))
    counts = np.zeros((5, 5))
    for seed in range(500):
        counts += add_links(empty, 1, seed).toarray()
    share = counts[np.triu_indices(5, 1)] / 500
    assert np.abs(share - 0.1).max() < 4 * np.sqrt(0.09 / 500)


def test_weights_of_other_links_stay():
    graph = sparse.csr_array([[0.0, 2.5, 0.0], [2.5, 0.0, 0.5], [0.0, 0.5, 3.0]])
    assert add_links(graph, 1, 0).toarray().tolist() == [[0, 2.5, 1], [2.5, 0, 0.5], [1, 0.5, 3]]
    assert remove_links(graph, 2, 0).toarray().tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 3]]


def test_too_many_links_and_bad_pairs_are_refused():
    graph = random_graph(6, 0.5, 1)
    with pytest.raises(InputError, match="count must be between 0 and"):
        add_links(graph, 16, 0)
    with pytest.raises(InputError, match="count must be between 0 and"):
        remove_links(graph, count_links(graph) + 1, 0)
    for bad in ([[1], [1]], [[0, 1], [1, 0]]):
        with pytest.raises(InputError, match="distinct pairs"):
            toggle_links(graph, np.array(bad))
