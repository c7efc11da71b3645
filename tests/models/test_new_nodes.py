"""Nodes that join a trained model's graph one by one, against the network written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

import fishergcn
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.propagation import high_order_rows, normalized_rows, renormalized_rows


def example(sparse_features: bool = False) -> tuple[fishergcn.Graph, sparse.csr_array, np.ndarray]:
    """Return a graph of 12 nodes, the links of 4 new ones, the last of which has none, and their features."""
    rng = np.random.default_rng(3)
    weights = np.triu(rng.random((12, 12)) * (rng.random((12, 12)) < 0.3), 1)
    links = rng.random((4, 12)) * (rng.random((4, 12)) < 0.3)
    links[3] = 0.0
    features = (rng.standard_normal((16, 5)) * (rng.random((16, 5)) < 0.7)).astype(np.float32)
    given = sparse.csr_array(features[:12]) if sparse_features else features[:12]
    graph = fishergcn.Graph(weights + weights.T, given, rng.integers(0, 3, 12), name="example")
    return graph, sparse.csr_array(links), features[12:]


@pytest.mark.parametrize("sparse_features", [False, True])
@pytest.mark.parametrize("method", ["gcn", "gcn-t", "mlp"])
def test_new_nodes_take_from_the_old_ones_layer_by_layer(sparse_features: bool, method: str) -> None:
    """Z_new = R H_old W + own H_new W + b; the old nodes do not see the new ones."""
    graph, links, features = example(sparse_features)
    split = fishergcn.splits.Split("mine", train=np.arange(8), val=np.arange(8, 10), test=np.arange(10, 12))
    settings = {"hidden": (6, 4), "max_epochs": 9, "scaling": "none", "bias": True, "dtype": "float64", "order": 3}
    config = fishergcn.TrainConfig(**settings)
    records = fishergcn.train(graph, method, split, 2, config, device="cpu", keep_weights=True)
    models = TrainedModel.from_records(graph, records, split)
    found = models.logits_of_new(links, features)
    assert found.shape == (4, 2, 3)
    if method == "mlp":
        propagation, rows, own = np.eye(12), np.zeros((4, 12)), np.ones(4)
    elif method == "gcn":
        propagation = fishergcn.renormalized(graph.adjacency).toarray()
        rows, own = renormalized_rows(links, graph.adjacency)
    else:
        matrix = fishergcn.high_order(graph.adjacency, 3)
        propagation, (rows, own) = matrix.toarray(), high_order_rows(links, graph.adjacency, matrix, 3, 1e-4)
    for run in range(2):
        old = graph.features.toarray() if sparse_features else np.array(graph.features)
        new = features
        parts = ([models.weights[f"{name}.{layer}"] for layer in range(3)] for name in ("weights", "biases"))
        for layer, (weight, bias) in enumerate(zip(*parts, strict=True)):
            weight, bias = weight[run].numpy(), bias[run].numpy()
            old, new = (np.maximum(each, 0.0) if layer else each for each in (old, new))
            new = rows @ (old @ weight) + own[:, None] * (new @ weight) + bias
            old = propagation @ (old @ weight) + bias
        np.testing.assert_allclose(found[:, run], new, atol=1e-13)
        np.testing.assert_allclose(models.logits()[:, run], old, atol=1e-13)
    alone = models.logits_of_new(links[[1]], features[[1]])
    torch.testing.assert_close(alone[0], found[1], rtol=0, atol=1e-14)


@pytest.mark.parametrize("method", ["lp", "majority"])
def test_methods_that_train_nothing_know_new_nodes_too(method: str) -> None:
    """Label propagation in closed form over [[S, 0], [R, 0]]; the majority class is the same everywhere."""
    graph, links, features = example()
    train = np.arange(7)
    split = fishergcn.splits.Split("mine", train, np.arange(7, 10), np.arange(10, 12))
    records = fishergcn.train(graph, method, split, device="cpu", keep_weights=True)
    model = TrainedModel.from_records(graph, records, split)
    found = model.logits_of_new(links, features)[:, 0].exp().numpy()
    counts = np.bincount(graph.labels[train], minlength=3) + 1
    shares = counts / counts.sum()
    if method == "majority":
        np.testing.assert_allclose(found, np.tile(shares, (4, 1)))
        return
    rows, _ = normalized_rows(links, graph.adjacency)
    adjacency = graph.adjacency.toarray()
    degrees = np.where(adjacency.sum(axis=1) > 0, adjacency.sum(axis=1), 1.0)
    given = np.zeros((12, 3))
    given[train, graph.labels[train]] = 1.0
    spread = 0.1 * np.linalg.solve(np.eye(12) - 0.9 * adjacency / np.sqrt(np.outer(degrees, degrees)), given)
    new = 0.9 * rows.toarray() @ spread
    sums = new.sum(axis=1, keepdims=True)
    new = np.where(sums > 0, new / np.where(sums > 0, sums, 1.0), shares)
    np.testing.assert_allclose(found, 0.999 * new + 0.001 * shares, atol=2e-4)  # 100 steps: 0.9^100 is 3e-5


def test_what_does_not_fit_is_refused() -> None:
    graph, links, features = example()
    model = TrainedModel.from_network(fishergcn.nn.GCN(5, 4, 3), graph, scaling="none")
    assert model.logits_of_new(links, features).shape == (4, 1, 3)
    assert model.logits_of_new(links.toarray(), sparse.csr_array(features)).shape == (4, 1, 3)
    with pytest.raises(InputError, match=r"links must have shape \(3, 12\), got \(4, 12\)"):
        model.logits_of_new(links, features[:3])
    with pytest.raises(InputError, match=r"links must have shape \(4, 12\), got \(4, 11\)"):
        model.logits_of_new(links[:, :11], features)
    with pytest.raises(InputError, match="finite and not negative"):
        model.logits_of_new(-links, features)
    with pytest.raises(InputError, match="a new node must have 5 features, got 4"):
        model.logits_of_new(links, features[:, :4])
    given = TrainedModel.from_network(fishergcn.nn.GCN(5, 4, 3), graph, np.eye(12), scaling="none")
    with pytest.raises(InputError, match="a matrix of its own: it is for its graph alone"):
        given.logits_of_new(links, features)
