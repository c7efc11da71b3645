"""Links as features: the same as [X, A] given as features, for new nodes, other graphs, batches and workers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph, Neighborhood, TrainConfig, attacks, train
from fishergcn.errors import InputError
from fishergcn.geometry import extrinsic
from fishergcn.models import TrainedModel, load_model
from fishergcn.perturbation import CongruenceNeighborhood
from fishergcn.splits import Split
from fishergcn.training import BatchSettings

NODES = 30
SPLIT = Split("mine", np.arange(15), np.arange(15, 22), np.arange(22, 30))


def make_graph(*, weighted: bool = False, stored=np.asarray) -> Graph:
    rng = np.random.default_rng(7)
    labels = np.arange(NODES) % 3
    links = np.triu(rng.random((NODES, NODES)) < np.where(labels[:, None] == labels, 0.4, 0.1), 1) * 1.0
    if weighted:
        links *= rng.uniform(0.5, 2.0, (NODES, NODES))
    features = (rng.random((NODES, 6)) + np.eye(3, 6)[labels]).astype(np.float32)
    names = [f"node {place}" for place in range(NODES)]
    return Graph(links + links.T, stored(features), labels, name="mine", node_ids=names)


GRAPH = make_graph()


def config(**settings) -> TrainConfig:
    known = {"max_epochs": 12, "hidden": 5, "links_as_features": True, "dtype": "float64", "bias": True}
    return TrainConfig(**(known | settings))


def trained(graph: Graph = GRAPH, method: str = "gcn", seeds: int = 1, **settings) -> TrainedModel:
    records = train(graph, method, SPLIT, seeds, config(**settings), "cpu", keep_weights=True)
    return TrainedModel.from_records(graph, records, SPLIT)


def explicit(graph: Graph) -> Graph:
    """Return the graph with [X, A] as its features, and the same name, on which random numbers depend."""
    features = graph.features.toarray() if sparse.issparse(graph.features) else np.asarray(graph.features)
    return graph.replace(features=sparse.csr_array(np.hstack([features, graph.adjacency.toarray()])))


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("method", "settings"),
    [("mlp", {"scaling": "rows"}), ("gcn", {"scaling": "none"}), ("gcn", {"scaling": "columns"}),
     ("sage", {"scaling": "none"}), ("gcn", {"own_weights": True, "norm": "layer", "hidden": (5, 4)})],
)  # fmt: skip
def test_it_is_the_same_as_links_among_the_features(method, settings, stored):
    graph = make_graph(weighted=True, stored=stored)
    one = trained(graph, method, **settings)
    [record] = train(explicit(graph), method, SPLIT, config=config(**settings, links_as_features=False), device="cpu",
                     keep_weights=True)  # fmt: skip
    other = TrainedModel.from_records(explicit(graph), record, SPLIT)
    for name, weight in one.weights.items():
        np.testing.assert_allclose(weight, other.weights[name], atol=1e-9, err_msg=name)
    np.testing.assert_allclose(one.logits(), other.logits(), atol=1e-9)
    assert one.record.curves["val_loss"] == pytest.approx(other.record.curves["val_loss"], rel=1e-9)


def test_a_perceptron_written_out():
    graph = make_graph(weighted=True)
    model = trained(graph, "mlp", scaling="none")
    hidden = np.hstack([graph.features, graph.adjacency.toarray()]).astype(np.float32).astype(np.float64)
    for layer in range(2):
        hidden = np.maximum(hidden, 0) if layer else hidden
        hidden = hidden @ model.weights[f"weights.{layer}"][0].numpy() + model.weights[f"biases.{layer}"][0].numpy()
    np.testing.assert_allclose(model.logits()[:, 0], hidden, atol=1e-12)


@pytest.mark.parametrize("scaling", ["none", "rows", "columns"])
@pytest.mark.parametrize("method", ["mlp", "gcn"])
def test_another_graph_is_read_by_the_names_of_its_nodes(method, scaling):
    graph = make_graph(weighted=True)
    model = trained(graph, method, scaling=scaling)
    order = np.random.default_rng(0).permutation(NODES)
    moved = Graph(graph.adjacency[order][:, order], graph.features[order],
                  node_ids=[graph.node_ids[node] for node in order])  # fmt: skip
    np.testing.assert_allclose(model.probabilities(moved), model.probabilities()[order], atol=1e-12)
    renamed = Graph(graph.adjacency, graph.features, node_ids=[f"other {node}" for node in range(NODES)])
    found = model.features_of(renamed).to_dense().numpy()
    assert not found[:, 6:].any()  # none of their neighbors is known
    assert found[:, :6].any()


@pytest.mark.parametrize("method", ["mlp", "gcn"])
def test_a_new_node_is_that_of_a_larger_graph(method):
    """A perceptron, whose other nodes see nothing of it, says the same of both."""
    graph = make_graph(weighted=True)
    model = trained(graph, method, scaling="none")
    links = np.zeros((2, NODES))
    links[0, [1, 5]], links[1, 7] = (1.0, 0.5), 2.0
    features = np.random.default_rng(1).random((2, 6)).astype(np.float32)
    found = model.logits_of_new(links, features)
    alone = model.logits_of_new(links[[1]], features[[1]])
    torch.testing.assert_close(alone[0], found[1], rtol=0, atol=1e-12)
    silent = model.logits_of_new(np.zeros((2, NODES)), features)
    assert not torch.allclose(silent, found)
    if method == "mlp":
        whole = np.block([[graph.adjacency.toarray(), links.T], [links, np.zeros((2, 2))]])
        larger = Graph(whole, np.vstack([graph.features, features]), node_ids=[*graph.node_ids, "new", "newer"])
        expected = model.probabilities(larger)[NODES:]
        np.testing.assert_allclose(torch.softmax(found[:, 0], dim=1), expected, atol=1e-12)


@pytest.mark.parametrize("scaling", ["none", "columns"])
def test_what_is_saved_is_loaded(tmp_path, scaling):
    model = trained(scaling=scaling)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.config.links_as_features
    assert np.array_equal(loaded.probabilities(), model.probabilities())
    links, features = np.eye(2, NODES), np.ones((2, 6), np.float32)
    assert torch.equal(loaded.logits_of_new(links, features), model.logits_of_new(links, features))


@pytest.mark.parametrize("method", ["mlp", "gcn"])
def test_a_batch_of_all_nodes_is_the_full_batch(method):
    [whole] = train(GRAPH, method, SPLIT, config=config(), device="cpu", keep_weights=True)
    batches = BatchSettings(15, (-1, -1))
    [found] = train(GRAPH, method, SPLIT, config=config(), device="cpu", keep_weights=True, batches=batches)
    assert found.curves["val_loss"] == pytest.approx(whole.curves["val_loss"], rel=1e-10)
    for name, weight in found.weights.items():
        np.testing.assert_allclose(weight, whole.weights[name], atol=1e-10)


def test_two_workers_give_the_bits_of_one():
    one, two = (
        train(GRAPH, ["gcn", "mlp"], SPLIT, 2, config(), "cpu", workers=workers, keep_weights=True)
        for workers in (1, 2)
    )
    for ours, theirs in zip(one, two, strict=True):
        assert (ours.method, ours.seed, ours.curves) == (theirs.method, theirs.seed, theirs.curves)
        assert all(np.array_equal(*pair) for pair in zip(ours.weights.values(), theirs.weights.values(), strict=True))


SENTENCE = r"^the network also reads the links as features \(links_as_features\), which would not change here with the "


@pytest.mark.parametrize("method", ["gcn", "mlp"])
@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.check_network(links=True),
        lambda model: attacks.operator_of(model, GRAPH.adjacency),
        lambda model: attacks.worst_in_ball(model, Neighborhood(GCN.propagation, rank=2), 0.1),
        lambda model: attacks.worst_congruence(model, CongruenceNeighborhood(GCN.propagation, "nodes"), 0.1),
        lambda model: extrinsic.node_links(model, 0),
        lambda model: extrinsic.link_sensitivity(model),
        lambda model: extrinsic.fisher_information(model, Neighborhood(GCN.propagation, rank=2)),
        lambda model: extrinsic.sharpness(model, Neighborhood(GCN.propagation, rank=2)),
    ],
)
def test_what_changes_the_matrix_alone_is_refused(method, change):
    """The links would stay as they are among the features: numbers of a graph that there is not."""
    with pytest.raises(InputError, match=SENTENCE):
        change(trained(method=method))


def test_the_prbcd_attack_is_refused():
    pytest.importorskip("torch_geometric")
    with pytest.raises(InputError, match=SENTENCE):
        attacks.prbcd_flips(trained(), 1)


def test_what_leaves_the_links_is_not_refused():
    model = trained()
    moved = model.prepare_features(GRAPH.features[::-1].copy())
    assert moved.shape == (NODES, 6 + NODES)
    assert not torch.allclose(model.logits(features=moved), model.logits())
    assert extrinsic.weight_fisher(model, 0).shape[0] == (6 + NODES) * 5
    plain = trained(method="mlp", links_as_features=False)
    assert attacks.operator_of(plain, GRAPH.adjacency).shape == (NODES, NODES)


GCN = trained(links_as_features=False)
