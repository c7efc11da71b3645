"""The neighbor sampler: what it draws, how it is weighted, and that draws belong to nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.training import NeighborSampler, batches, check_fanout

ALL = -1


def random_graph(nodes, share, seed):
    links = np.triu(np.random.default_rng(seed).random((nodes, nodes)) < share, 1).astype(float)
    return renormalized(sparse.csr_array(links + links.T))


def dense_block(block, nodes):
    """The block as a matrix over all nodes."""
    whole = np.zeros((nodes, nodes))
    whole[np.ix_(block.rows, block.columns)] = block.matrix.toarray()
    return whole


class TestBlocks:
    @pytest.mark.parametrize("fanout", [(ALL, ALL), (100, 100), (ALL, 59)])
    def test_all_neighbors_are_the_rows_of_the_matrix(self, fanout):
        matrix = random_graph(60, 0.1, 1)
        first, last = NeighborSampler(matrix, fanout, key=5).blocks(np.array([7, 3, 50]), step=2)
        assert last.rows.tolist() == [3, 7, 50]
        np.testing.assert_array_equal(first.rows, last.columns)
        for block in (first, last):
            expected = np.zeros((60, 60))
            expected[block.rows] = matrix.toarray()[block.rows]
            np.testing.assert_array_equal(dense_block(block, 60), expected)
            np.testing.assert_array_equal(block.columns, np.flatnonzero(expected.any(axis=0)))

    @settings(max_examples=30)
    @given(st.integers(1, 12), st.integers(0, 2**64 - 1), st.integers(0, 2**31))
    def test_a_row_holds_itself_and_fanout_weighted_neighbors(self, fanout, key, step):
        matrix = random_graph(40, 0.3, 2)
        full = matrix.toarray()
        [block] = NeighborSampler(matrix, (fanout,), key).blocks(np.arange(40), step)
        found = dense_block(block, 40)
        for node in range(40):
            neighbors = np.setdiff1d(np.flatnonzero(full[node]), [node])
            drawn = np.setdiff1d(np.flatnonzero(found[node]), [node])
            assert found[node, node] == full[node, node]
            assert set(drawn) <= set(neighbors)
            assert len(drawn) == min(fanout, len(neighbors))
            factor = max(len(neighbors) / fanout, 1.0)
            np.testing.assert_allclose(found[node, drawn], factor * full[node, drawn], rtol=1e-15)

    def test_the_mean_over_many_steps_is_the_matrix(self):
        matrix = random_graph(25, 0.5, 3)
        sampler = NeighborSampler(matrix, (4,), key=9)
        steps = 1500
        mean = sum(dense_block(sampler.blocks(np.arange(25), step)[0], 25) for step in range(steps)) / steps
        degrees = np.count_nonzero(matrix.toarray(), axis=1) - 1
        # An entry is a (d/f) with probability f/d: its standard deviation is a sqrt(d/f - 1).
        deviation = matrix.toarray() * np.sqrt(np.maximum(degrees / 4 - 1, 0))[:, None] / np.sqrt(steps)
        assert np.all(np.abs(mean - matrix.toarray()) <= 4.5 * deviation + 1e-12)

    def test_draws_belong_to_nodes_not_to_batches(self):
        sampler = NeighborSampler(random_graph(80, 0.3, 4), (3, 3), key=1)
        whole = sampler.blocks(np.arange(20), step=6)
        parts = [sampler.blocks(np.arange(start, 20, 2), step=6) for start in (0, 1)]
        for layer in range(2):
            expected = dense_block(whole[layer], 80)
            for part in parts:
                rows = part[layer].rows
                np.testing.assert_array_equal(dense_block(part[layer], 80)[rows], expected[rows])

    def test_steps_and_layers_draw_anew(self):
        sampler = NeighborSampler(random_graph(80, 0.5, 4), (3, 3), key=1)
        nodes = np.arange(80)
        one, other = sampler.blocks(nodes, 0), sampler.blocks(nodes, 1)
        assert (one[1].matrix != other[1].matrix).nnz > 0
        assert (one[0].matrix != one[1].matrix).nnz > 0

    def test_matrix_without_diagonal(self):
        matrix = sparse.csr_array(np.ones((6, 6)) - np.eye(6))
        [block] = NeighborSampler(matrix, (2,), key=1).blocks(np.array([0, 5]), 0)
        found = dense_block(block, 6)
        assert np.count_nonzero(found[[0, 5]], axis=1).tolist() == [2, 2]
        assert found[0, 0] == found[5, 5] == 0
        assert np.all(found[found > 0] == 2.5)

    def test_a_node_without_entries(self):
        matrix = sparse.csr_array(([1.0], ([1], [0])), shape=(3, 3))
        [block] = NeighborSampler(matrix, (2,), key=1).blocks(np.array([0, 1]), 0)
        assert dense_block(block, 3)[[0, 1]].tolist() == [[0, 0, 0], [1, 0, 0]]
        [nothing] = NeighborSampler(matrix, (ALL,), key=1).blocks(np.array([2]), 0)
        assert nothing.matrix.shape == (1, 0)


class TestBatches:
    @settings(max_examples=40)
    @given(st.integers(1, 200), st.integers(1, 60), st.integers(0, 5))
    def test_every_node_once_in_even_batches(self, count, size, epoch):
        nodes = np.arange(count) * 3
        dealt = batches(nodes, size, key=11, epoch=epoch)
        assert sorted(np.concatenate(dealt)) == nodes.tolist()
        lengths = [len(each) for each in dealt]
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1
        assert len(dealt) == -(-count // size)

    def test_epochs_differ_and_repeat(self):
        nodes = np.arange(100)
        one, again, other = (batches(nodes, 10, 3, epoch)[0].tolist() for epoch in (0, 0, 1))
        assert one == again != other


@pytest.mark.parametrize(
    ("fanout", "layers", "message"),
    [
        ((), None, "at least one number, got 0"),
        ((10,), 2, "2 numbers, one for each layer, got 1"),
        ((10, 0), 2, "at least 1, or -1 for all neighbors, got 0"),
        ((10, -2), 2, "at least -1, got -2"),
        ((10, 2.5), 2, "whole number"),
    ],
)
def test_bad_fanout(fanout, layers, message):
    with pytest.raises(InputError, match=message):
        check_fanout(fanout, layers)
