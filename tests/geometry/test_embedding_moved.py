"""Graphs drawn by moving an embedding: weights by the definition, length by the divergence, free motions free."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.geometry.embedding import length, model_similarities, moved_graphs, similarities


def example(seed=0, nodes=25):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((nodes, nodes)) < 0.2, 1) * rng.uniform(0.5, 2.0, (nodes, nodes))
    links[np.arange(nodes - 1), np.arange(1, nodes)] = 1.0
    adjacency = links + links.T
    adjacency[3, 3] = 0.7
    return adjacency, rng.standard_normal((nodes, 2))


def test_weights_follow_the_definition():
    adjacency, Y = example()
    found = moved_graphs(adjacency, Y, 0.5, samples=3, seed=4)
    rng = np.random.default_rng(4)
    plain = model_similarities(Y)
    for each in found:
        motion = rng.standard_normal(Y.shape)
        motion *= 0.5 / np.sqrt(length(similarities(adjacency), Y, motion))
        moved = model_similarities(Y + motion)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = moved / plain
        np.fill_diagonal(ratio, 1.0)
        np.testing.assert_allclose(each.toarray(), adjacency * np.sqrt(ratio * ratio.T), rtol=1e-9, atol=1e-15)
        assert (each != each.T).nnz == 0


def test_the_length_is_that_of_the_divergence():
    adjacency, Y = example(1)
    rng = np.random.default_rng(0)
    motion = rng.standard_normal(Y.shape)
    motion *= 1e-3 / np.sqrt(length(similarities(adjacency), Y, motion))
    plain, moved = model_similarities(Y), model_similarities(Y + motion)
    off = ~np.eye(len(Y), dtype=bool)
    divergence = (plain[off] * np.log(plain[off] / moved[off])).sum()
    assert divergence == pytest.approx(1e-6 / 2, rel=1e-2)


def test_no_distance_is_no_change_and_seeds_repeat():
    adjacency, Y = example(2)
    [same] = moved_graphs(adjacency, Y, 0.0)
    np.testing.assert_allclose(same.toarray(), adjacency, rtol=1e-12)
    one, two = (moved_graphs(sparse.csr_array(adjacency), Y, 0.3, seed=1)[0] for _ in range(2))
    assert (one != two).nnz == 0
    shifted = moved_graphs(adjacency, Y + 100.0, 0.3, seed=1)[0]
    np.testing.assert_allclose(shifted.toarray(), one.toarray(), rtol=1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distance": -1.0}, "distance must be at least 0"),
        ({"samples": 0}, "samples must be"),
        ({"Y": np.zeros((3, 2))}, "must have 25 rows"),
        ({"Y": np.zeros((25, 2))}, "cannot move apart"),
    ],
)
def test_bad_input(change, message):
    adjacency, Y = example()
    arguments = {"adjacency": adjacency, "Y": Y, "distance": 0.1} | change
    with pytest.raises(InputError, match=message):
        moved_graphs(**arguments)
