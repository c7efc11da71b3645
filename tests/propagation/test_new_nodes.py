"""Rows of the propagation matrix for new nodes against walks on the dense enlarged graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fishergcn
from fishergcn.propagation import high_order_rows, renormalized_rows

pytest.importorskip("sklearn")
from fishergcn.integrations.sklearn._new_nodes import join, probabilities


def example(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.random((12, 12)) * (rng.random((12, 12)) < 0.3), 1)
    links = rng.random((4, 12)) * (rng.random((4, 12)) < 0.3)
    links[3] = 0.0
    return weights + weights.T, links


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0.0, 1e-3, 0.05]))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_walks_from_new_nodes(seed: int, order: int, threshold: float) -> None:
    adjacency, links = example(seed)
    old = adjacency.sum(axis=1)
    propagation = fishergcn.high_order(adjacency, order, threshold)
    rows, own = high_order_rows(sparse.csr_array(links), sparse.csr_array(adjacency), propagation, order, threshold)
    for i, link in enumerate(links):
        walk = np.zeros((13, 13))
        walk[:12, :12] = adjacency / np.where(old > 0, old, 1)[:, None]
        walk[12, :12] = link / (link.sum() or 1.0)
        total = sum(np.linalg.matrix_power(walk, t) for t in range(1, order + 1)) / order
        there = total[12, :12]
        back = np.divide(there * link.sum(), old, where=old > 0, out=np.zeros(12))
        weights = there * (there > threshold) + back * (back > threshold)
        totals = weights.sum() + 2
        np.testing.assert_allclose(
            rows.toarray()[i], weights / np.sqrt(totals * 2 / propagation.diagonal()), atol=1e-13
        )
        np.testing.assert_allclose(own[i], 2 / totals)


def test_a_light_new_node_gets_the_row_of_the_enlarged_graph() -> None:
    """Where the new link is too light to change degrees, the whole graph's own formulas give the same row."""
    adjacency, links = example(5)
    links = 1e-9 * links[:1]
    enlarged = np.block([[adjacency, links.T], [links, np.zeros((1, 1))]])
    rows, own = renormalized_rows(sparse.csr_array(links), sparse.csr_array(adjacency))
    whole = fishergcn.renormalized(enlarged).toarray()
    np.testing.assert_allclose(rows.toarray()[0], whole[12, :12], rtol=1e-6)
    np.testing.assert_allclose(own, whole[12, 12])
    propagation = fishergcn.high_order(adjacency, 4, 0.01)
    rows, own = high_order_rows(sparse.csr_array(links), sparse.csr_array(adjacency), propagation, 4, 0.01)
    whole = fishergcn.high_order(enlarged, 4, 0.01).toarray()
    np.testing.assert_allclose(own, whole[12, 12], atol=1e-6)
    # Walks do not know how light the link was: degrees do change, and are taken out of the comparison.
    got = rows.toarray()[0] * np.sqrt(2 / propagation.diagonal())
    want = whole[12, :12] * np.sqrt(2 / whole.diagonal()[:12])
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_renormalized_rows_by_hand() -> None:
    adjacency, links = example(9)
    rows, own = renormalized_rows(sparse.csr_array(links), sparse.csr_array(adjacency))
    new, old = links.sum(axis=1) + 1, adjacency.sum(axis=1) + 1
    np.testing.assert_allclose(rows.toarray(), links / np.sqrt(np.outer(new, old)))
    np.testing.assert_allclose(own, 1 / new)
    assert own[3] == 1.0


@pytest.mark.parametrize("sparse_features", [False, True])
def test_new_nodes_take_from_the_old_ones_layer_by_layer(sparse_features: bool) -> None:
    """Z_new = R H_old W + own H_new W, written out in NumPy; the old nodes do not see the new ones."""
    adjacency, links = example(3)
    rng = np.random.default_rng(0)
    features = rng.standard_normal((16, 5)) * (rng.random((16, 5)) < 0.7)
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in ((5, 6), (6, 4), (4, 3))]
    propagation = fishergcn.renormalized(adjacency)
    rows, own = renormalized_rows(sparse.csr_array(links), sparse.csr_array(adjacency))
    old, new = features[:12], features[12:]
    for layer, weight in enumerate(weights):
        old, new = (np.maximum(each, 0.0) if layer else each for each in (old, new))
        new = rows @ (old @ weight) + own[:, None] * (new @ weight)
        old = propagation @ (old @ weight)
    given = sparse.csr_array(features) if sparse_features else features
    matrix = join(propagation, rows, own)
    for nodes, logits in ((np.arange(12, 16), new), (np.array([13]), new[1:2]), (np.arange(12), old)):
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        found = probabilities(weights, given, matrix, nodes)
        np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), atol=1e-13)
