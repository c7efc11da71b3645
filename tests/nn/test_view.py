"""A local view computes fewer rows and changes no result."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.nn import Dropout, blockwise_view, full_view, local_view, logits, make_features
from fishergcn.operators import SparseMatrix

NODES, FEATURES = 40, 12
KEYS = torch.tensor([4, 5], dtype=torch.int64)


@pytest.fixture(scope="module")
def ring():
    """Each node linked to the next two: reach grows by four nodes a layer. One node has no links."""
    links = sparse.lil_array((NODES, NODES))
    for i in range(NODES - 1):
        for step in (1, 2):
            j = (i + step) % (NODES - 1)
            links[i, j] = links[j, i] = 1.0
    return renormalized(links.tocsr())


def within(matrix, nodes, depth):
    """The nodes that enter each layer, and last those wanted."""
    found = [np.unique(nodes)]
    for _ in range(depth):
        found.insert(0, np.flatnonzero(matrix.toarray()[found[0]].any(axis=0)))
    return found


def weights(depth):
    sizes = [FEATURES, *[7, 16][: depth - 1], 3]
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(2, fan_in, fan_out, dtype=torch.float64, generator=generator).requires_grad_()
        for fan_in, fan_out in pairwise(sizes)
    ]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("dropout", [None, Dropout(KEYS, 3, 8, 0.5)])
@pytest.mark.parametrize("stored", [True, False])
def test_same_logits_and_gradients(ring, depth, dropout, stored):
    x = (np.random.default_rng(0).random((NODES, FEATURES)) < 0.4) * 1.0
    features = make_features(sparse.csr_array(x) if stored else x, dtype=torch.float64)
    nodes = np.array([20, 3, NODES - 1])
    parameters = weights(depth)
    full = full_view(features, SparseMatrix.from_scipy(ring), depth)
    local = local_view(features, ring, nodes, depth, device="cpu", dtype=torch.float64)
    whole, part = logits(parameters, full, dropout), logits(parameters, local, dropout)
    assert whole.shape == (NODES, 2 if dropout is None else 6, 3)
    assert part.shape == (3, *whole.shape[1:])
    chosen, found = whole[full.position(nodes)], part[local.position(nodes)]
    torch.testing.assert_close(found, chosen, rtol=0, atol=1e-13)
    ours, theirs = (torch.autograd.grad(each.square().sum(), parameters) for each in (found, chosen))
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-12)


def test_only_the_rows_within_reach(ring):
    features = make_features(sparse.csr_array(np.ones((NODES, 2))), dtype=torch.float64)
    view = local_view(features, ring, np.array([10]), 2, device="cpu", dtype=torch.float64)
    assert [rows.tolist() for rows in view.rows] == [[8, 9, 10, 11, 12], [10]]
    assert view.features.rows.tolist() == list(range(6, 15))
    assert [operator.shape for operator in view.operators] == [(5, 9), (1, 5)]
    assert view.features.shape == (NODES, 2)


def test_positions():
    ring = renormalized(np.ones((6, 6)) - np.eye(6))
    features = make_features(np.ones((6, 2)))
    view = local_view(features, ring, np.array([5, 1, 3, 1]), 2, device="cpu", dtype=torch.float32)
    assert view.rows[-1].tolist() == [1, 3, 5]
    assert view.position(np.array([5, 1])).tolist() == [2, 0]
    assert full_view(features, SparseMatrix.from_scipy(ring), 2).position(np.array([5, 1])).tolist() == [5, 1]


@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("stored", [True, False])
def test_blocks_of_rows_do_not_matter(ring, rows_at_once, depth, stored):
    x = np.random.default_rng(0).random((NODES, FEATURES))
    given = sparse.csr_array(x) if stored else x
    place = {"device": "cpu", "dtype": torch.float64}
    nodes = np.array([20, 3, NODES - 1])
    view = blockwise_view(
        lambda rows: make_features(given[rows], **place), ring, nodes, depth, **place, rows_at_once=rows_at_once
    )
    parameters = weights(depth)
    with torch.no_grad():
        whole = logits(parameters, full_view(make_features(given, **place), SparseMatrix.from_scipy(ring), depth))
        found = logits(parameters, view)
    torch.testing.assert_close(found[view.position(nodes)], whole[nodes], rtol=0, atol=1e-13)
    assert [each.shape for each in view.operators] == [
        (len(rows), len(columns)) for columns, rows in pairwise(within(ring, nodes, depth))
    ]


def test_blocks_of_rows_hold_no_whole_layer(ring):
    """What leaves a layer is narrowed block by block: the widest layer never exists as a whole."""
    place = {"device": "cpu", "dtype": torch.float64}
    view = blockwise_view(
        lambda rows: make_features(np.eye(NODES)[rows], **place), ring, np.arange(NODES), 2, **place, rows_at_once=4
    )
    seen = []

    def narrow(values, rows):
        seen.append(len(values))
        return values[..., :1]

    out = view.propagate(0, torch.ones(NODES, 1, 512, dtype=torch.float64), narrow)
    assert out.shape == (NODES, 1, 1)
    assert set(seen) == {4}


def test_blocks_of_rows_are_for_prediction(ring):
    place = {"device": "cpu", "dtype": torch.float64}
    view = blockwise_view(lambda rows: make_features(np.eye(NODES)[rows], **place), ring, np.arange(3), 1, **place)
    with pytest.raises(InputError, match="blocks of rows are for prediction"):
        logits([torch.ones(2, NODES, 1, dtype=torch.float64)], view, Dropout(KEYS, 3, 8, 0.5))
    moved = view.operators[0].to(dtype=torch.float32)
    assert moved.propagate(torch.ones(moved.shape[1], 1, 2)).dtype == torch.float32


def test_views_that_need_nearly_all_nodes_share_the_whole_matrix():
    rng = np.random.default_rng(0)
    links = sparse.triu(sparse.random_array((NODES, NODES), density=0.2, rng=rng), 1)
    dense = renormalized((links + links.T).astype(bool).astype(float))
    features = make_features(rng.random((NODES, FEATURES)), dtype=torch.float64)
    weights = [torch.from_numpy(rng.random(shape)) for shape in ((2, FEATURES, 8), (2, 8, 3))]
    whole, place = SparseMatrix.from_scipy(dense), {"device": "cpu", "dtype": torch.float64}
    for nodes in (np.arange(0, NODES, 3), np.array([7]), np.arange(NODES)):
        view = local_view(features, dense, nodes, 2, **place, whole=lambda: whole)
        plain = local_view(features, dense, nodes, 2, **place)
        torch.testing.assert_close(logits(weights, view), logits(weights, plain), rtol=1e-12, atol=1e-12)
        nearly = [len(each) >= 0.95 * NODES for each in within(dense, nodes, 2)]
        assert (view.operators[0] is whole) == (nearly[0] and nearly[1])
        assert view.operators[1].shape[0] == len(nodes)
    assert nearly[1]
