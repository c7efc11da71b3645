"""Random links: the operator against a dense matrix built link by link."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.perturbation import GraphPool, LinkNoise, pool_weights
from fishergcn.streams import LINKS, draw_words, unpack

NODES = 30
KEYS = torch.tensor([7, 8], dtype=torch.int64)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def adjacency():
    """Weighted links, some self-links, a node without links."""
    rng = np.random.default_rng(0)
    links = np.triu(rng.random((NODES, NODES)) < 0.2, 1) * rng.uniform(0.5, 2.0, (NODES, NODES))
    links[4] = links[:, 4] = 0
    return sparse.csr_array(links + links.T + np.diag((rng.random(NODES) < 0.3) * 1.5))


def operators(perturbed, batch):
    """The operator as dense matrices, by multiplying the identity."""
    eye = torch.eye(NODES, dtype=torch.float64)[:, None, :].expand(NODES, batch, NODES).contiguous()
    return perturbed.propagate(eye).movedim(1, 0)


@pytest.mark.parametrize("flip", [False, True])
def test_equals_the_renormalized_dense_matrix(adjacency, flip):
    rate, samples, epoch = 0.3, 3, 5
    noise = LinkNoise(adjacency, rate, flip, CPU, torch.float64)
    found = operators(noise.draw(KEYS, samples, epoch), 6)
    links = [(i, j) for i in range(NODES) for j in range(i + 1, NODES) if adjacency[i, j]]
    kept = unpack(draw_words(KEYS, samples, LINKS, epoch, (len(links) + 31) // 32, rate), len(links))
    added = round(rate * len(links)) if flip else 0
    words = draw_words(KEYS, samples, LINKS + 1, epoch, 2 * added, 0.5).numpy().view(np.uint32)
    assert 0.5 < kept.double().mean() < 0.9
    for b in range(6):
        dense = np.diag(adjacency.diagonal())
        for t, (i, j) in enumerate(links):
            if kept[b, t]:
                dense[i, j] += adjacency[i, j]
                dense[j, i] += adjacency[i, j]
        for t in range(added):
            i, j = (int(words[b, t + side * added]) * NODES // 2**32 for side in (0, 1))
            dense[i, j] += 1.0
            dense[j, i] += 1.0
        np.testing.assert_allclose(found[b].numpy(), renormalized(dense).toarray(), rtol=0, atol=1e-13)


def test_added_ends_are_uniform(adjacency):
    noise = LinkNoise(adjacency, 0.9, True, CPU, torch.float64)
    ends = torch.cat([noise.draw(KEYS, 5, epoch).pairs.ravel() for epoch in range(30)])
    counts = np.bincount(ends.numpy(), minlength=NODES)
    assert counts.size == NODES
    expected = len(ends) / NODES
    assert ((counts - expected) ** 2 / expected).sum() < 70  # chi square, 29 degrees of freedom, p < 1e-4


@pytest.mark.parametrize("flip", [False, True])
def test_the_mean_of_noise_is_the_graph_of_mean_weights(adjacency, flip):
    """Without the links that flipping adds."""
    found = LinkNoise(adjacency, 0.3, flip, CPU, torch.float64).mean_operator().to_dense().numpy()
    mean = 0.7 * adjacency.toarray()
    np.fill_diagonal(mean, adjacency.diagonal())
    np.testing.assert_allclose(found, renormalized(mean).toarray(), rtol=0, atol=1e-13)


def test_a_pool_gives_its_graphs_and_nothing_else(adjacency):
    rng = np.random.default_rng(3)
    graphs = [sparse.csr_array(adjacency * (f := rng.uniform(0.5, 2.0, (NODES, NODES))) * f.T) for _ in range(3)]
    pool = GraphPool(adjacency, pool_weights(adjacency, graphs), CPU, torch.float64)
    # The diagonal stays that of A, whatever the given graphs have.
    dense = [renormalized(each - np.diag(each.diagonal()) + np.diag(adjacency.diagonal())).toarray() for each in
             (graph.toarray() for graph in graphs)]  # fmt: skip
    seen = set()
    for epoch in range(8):
        for found in operators(pool.draw(KEYS, 3, epoch), 6).numpy():
            gaps = [np.abs(found - each).max() for each in dense]
            assert min(gaps) < 1e-13
            seen.add(int(np.argmin(gaps)))
    assert seen == {0, 1, 2}


def test_the_mean_of_a_pool_is_the_graph_of_mean_weights(adjacency):
    weights = pool_weights(adjacency, [adjacency, 3 * adjacency])
    found = GraphPool(adjacency, weights, CPU, torch.float64).mean_operator().to_dense().numpy()
    mean = 2 * adjacency.toarray()
    np.fill_diagonal(mean, adjacency.diagonal())
    np.testing.assert_allclose(found, renormalized(mean).toarray(), rtol=0, atol=1e-13)


def test_a_pool_refuses_other_graphs(adjacency):
    other = adjacency.toarray()
    i, j = np.argwhere(np.triu(other == 0, 1))[0]
    other[i, j] = other[j, i] = 1.0
    with pytest.raises(InputError, match=r"moved\[1\] must have links of the graph only, got 1 others"):
        pool_weights(adjacency, [adjacency, other])
    with pytest.raises(InputError, match=r"moved\[0\] must have 30 nodes, got 2"):
        pool_weights(adjacency, [np.array([[0.0, 1.0], [1.0, 0.0]])])
    with pytest.raises(InputError, match="at least one graph"):
        pool_weights(adjacency, [])


def test_a_rate_that_is_no_probability_is_refused(adjacency):
    for rate in (-0.1, 1.5):
        with pytest.raises(InputError, match="rate must be"):
            LinkNoise(adjacency, rate, False, CPU, torch.float64)
