"""Trained models: several networks side by side, networks from elsewhere, and graphs that are new to them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import GCN, Graph, TrainConfig, TrainedModel, attacks, high_order, renormalized, splits, train
from fishergcn.errors import InputError
from fishergcn.geometry import extrinsic
from fishergcn.models import Selection, load_model
from fishergcn.operators import SparseMatrix
from fishergcn.perturbation import Neighborhood
from fishergcn.training import Run, parse_method, prepare

CONFIG = TrainConfig(max_epochs=20, hidden=(6, 5), order=3, threshold=1e-3, dtype="float64")


def make_graph(n=30, seed=0, **extras):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    upper = np.triu(rng.random((n, n)) < np.where(labels[:, None] == labels, 0.4, 0.05), 1)
    features = sparse.csr_array((rng.random((n, 8)) < 0.5) + np.eye(3, 8)[labels])
    return Graph((upper | upper.T).astype(float), features, labels, **extras)


GRAPH = make_graph(name="mine", node_ids=[f"node {i}" for i in range(30)], class_names=["red", "green", "blue"])
SPLITS = [splits.per_class(GRAPH, 3, 2, seed=seed) for seed in (1, 2)]


@pytest.fixture(scope="module", params=["gcn", "gcn-t"])
def trained(request):
    """A method's name, its records over two splits and two seeds, and their model."""
    records = train(GRAPH, request.param, SPLITS, 2, CONFIG, keep_weights=True)
    return request.param, records, TrainedModel.from_records(GRAPH, records, SPLITS)


def dense_logits(graph, weights, method):
    matrix = (
        high_order(graph.adjacency, order=3, threshold=1e-3) if method == "gcn-t" else renormalized(graph.adjacency)
    )
    hidden = graph.features.toarray().astype(np.float64)
    hidden /= hidden.sum(axis=1, keepdims=True)
    for layer, weight in enumerate(weights):
        hidden = matrix.toarray() @ (hidden if layer == 0 else np.maximum(hidden, 0)) @ weight
    return hidden


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class TestNetworksSideBySide:
    def test_logits_are_those_of_each_network(self, trained):
        method, records, model = trained
        assert (len(model), model.num_classes, model.dtype) == (4, 3, torch.float64)
        found = model.logits().numpy()
        assert found.shape == (30, 4, 3)
        for index, record in enumerate(records):
            np.testing.assert_allclose(
                found[:, index], dense_logits(GRAPH, record.weights.values(), method), atol=1e-12
            )
            np.testing.assert_allclose(model.only(index).logits()[:, 0], found[:, index], atol=1e-13)

    def test_they_score_as_in_training(self, trained):
        _, records, model = trained
        loss, accuracy = model.test()
        assert accuracy.tolist() == [record.test_accuracy for record in records]
        np.testing.assert_allclose(loss, [record.test_cross_entropy for record in records], rtol=1e-12)
        one = model.only(2)
        assert (one.record, one.runs[0].split) == (records[2], SPLITS[1])
        assert one.test()[1].tolist() == accuracy[2:3].tolist()
        assert one.split_sizes == {"train": 9, "val": 6, "test": len(SPLITS[1].test)}

    def test_a_prepared_problem_lends_its_matrix(self, trained):
        method, records, model = trained
        problem = prepare(GRAPH, parse_method(method), CONFIG)
        runs = [Run(split, seed) for split in SPLITS for seed in (2019, 2020)]
        same = TrainedModel.of(problem, runs, records)
        assert same.propagation is problem.propagation
        assert torch.equal(same.logits(), model.logits())

    def test_other_operators_and_features(self, trained):
        method, records, model = trained
        other = make_graph(seed=5)
        found = model.logits(model.operator_of(other), model.prepare_features(other.features))
        for index, record in enumerate(records):
            np.testing.assert_allclose(
                found[:, index], dense_logits(other, record.weights.values(), method), atol=1e-12
            )

    def test_in_another_precision(self, trained):
        _, _, model = trained
        single = model.to("cpu", torch.float32)
        assert single.features.values.dtype == single.operator.dtype == single.dtype == torch.float32
        np.testing.assert_allclose(single.logits(), model.logits(), atol=1e-5)
        assert model.to("cpu", torch.float64) is model

    def test_shown_in_one_line(self, trained):
        method, _, model = trained
        assert repr(model) == f"TrainedModel(4 networks, '{method}', 30 nodes, 3 classes)"

    def test_shown_in_a_notebook(self, trained):
        method, records, model = trained
        assert f"<caption>4 networks, {method}</caption>" in model._repr_html_()
        shown = model.only(0)._repr_html_()
        assert f"<caption>{method}</caption><tr><th>graph</th><td>mine: 30 nodes, " in shown
        assert "<td>3 (red, green, blue)</td>" in shown
        assert "<td>per-class:3+2:1: 9 train, 6 val, 15 test</td>" in shown
        assert f"<th>test scores</th><td>accuracy {100 * records[0].test_accuracy:.2f}%, " in shown

    def test_without_test_nodes_there_is_no_test_score(self):
        graph = GRAPH.replace(name="<b>", class_names=["<red>", "green", "blue"])
        split = splits.Split("mine", SPLITS[0].train, SPLITS[0].val, [])
        [record] = train(graph, "gcn", split, 1, CONFIG, keep_weights=True)
        model = TrainedModel.from_records(graph, record, split)
        model = dataclasses.replace(model, selection=Selection((), "gcn", sentences=("Use <gcn>.", "Two.", "Three.")))
        assert "nan" not in repr(model)
        assert repr(model).endswith("30 nodes, 3 classes, chosen from 1)")
        shown = model._repr_html_()
        assert shown.startswith("<p>Use &lt;gcn&gt;.</p><p>Two.</p><table>")
        assert "<td>&lt;b&gt;: 30 nodes, " in shown
        assert "<td>3 (&lt;red&gt;, green, blue)</td>" in shown
        assert "<th>validation scores</th>" in shown
        assert "test scores" not in shown
        assert "nan" not in shown

    def test_what_needs_one_network_says_so(self, trained):
        _, _, model = trained
        for ask in (model.probabilities, model.network, model.card, lambda: model.record, lambda: model.split_sizes):
            with pytest.raises(InputError, match=r"holds 4 networks, and one is needed: model.only\(i\) takes one"):
                ask()
        with pytest.raises(InputError, match="run must be between 0 and 3, got 4"):
            model.only(4)

    def test_records_that_do_not_belong_together(self, trained):
        _, records, _ = trained
        mixed = [records[0], dataclasses.replace(records[1], method="gcn-x5")]
        with pytest.raises(InputError, match="of one method with the same settings"):
            TrainedModel.from_records(GRAPH, mixed, SPLITS)
        with pytest.raises(InputError, match="do not match"):
            TrainedModel.from_records(GRAPH, records, SPLITS[0])


class TestNewNodes:
    def test_predictions_on_another_graph_are_those_of_the_dense_network(self, trained):
        method, records, models = trained
        model = models.only(0)
        larger = make_graph(43, seed=7).replace(labels=None)
        expected = softmax(dense_logits(larger, records[0].weights.values(), method))
        np.testing.assert_allclose(model.probabilities(larger), expected, atol=1e-12)
        np.testing.assert_array_equal(model.predict(larger), expected.argmax(axis=1))
        lines = model.predictions_csv(larger).splitlines()
        assert lines[0] == "node,class,p:red,p:green,p:blue,caution"
        assert [line.split(",")[1] for line in lines[1:]] == [model.class_names[c] for c in expected.argmax(axis=1)]

    def test_the_same_graph_gives_the_same(self, trained):
        model = trained[2].only(0)
        np.testing.assert_array_equal(model.probabilities(GRAPH), model.probabilities())
        assert model.predictions_csv(GRAPH) == model.predictions_csv()
        assert model.new_nodes(GRAPH) == ()

    def test_nodes_are_told_apart_by_their_names(self, trained):
        model = trained[2].only(0)
        other = make_graph(3).replace(node_ids=["node 29", "node 30", "node 2"])
        assert model.new_nodes(other) == ("node 30",)
        assert model.new_nodes(make_graph(2).replace(labels=None)) == ("0", "1")

    def test_labels_of_the_other_graph_are_not_looked_at(self, trained):
        model = trained[2].only(0)
        other = make_graph(9, seed=3)
        many = other.replace(labels=np.arange(9))
        np.testing.assert_array_equal(model.probabilities(many), model.probabilities(other))

    def test_graphs_that_do_not_fit(self, trained):
        model = trained[2].only(0)
        with pytest.raises(InputError, match="must have 8 features, got 5"):
            model.probabilities(GRAPH.replace(features=np.ones((30, 5))))
        with pytest.raises(InputError, match="the graph has no features"):
            model.predict(GRAPH.replace(features=None))
        with pytest.raises(InputError, match="graph must be a Graph, got str"):
            model.probabilities("cora")


class TestSettings:
    @pytest.mark.parametrize("method", ["gcn", "gcn-t", "mlp"])
    @pytest.mark.parametrize("dense", [False, True])
    def test_biases_and_columns(self, tmp_path, method, dense):
        """Another graph has its own matrix, and its columns keep the centers and scales of training."""
        config = dataclasses.replace(CONFIG, bias=True, scaling="columns")
        graph = GRAPH.replace(features=GRAPH.features.toarray()) if dense else GRAPH
        records = train(graph, method, SPLITS[0], 2, config, keep_weights=True)
        models = TrainedModel.from_records(graph, records, SPLITS[0])
        assert [models.weights[f"biases.{layer}"].shape for layer in range(3)] == [(2, 6), (2, 5), (2, 3)]
        np.testing.assert_allclose(models.test()[0], [record.test_cross_entropy for record in records], rtol=1e-12)
        x = GRAPH.features.toarray().astype(np.float64)
        center, scale = x.mean(axis=0) if dense else 0.0, x.std(axis=0)
        other = make_graph(17, seed=7).replace(labels=None)
        other = other.replace(features=other.features.toarray()) if dense else other
        given = other.features if dense else other.features.toarray()
        matrix = {"gcn": renormalized, "gcn-t": lambda a: high_order(a, order=3, threshold=1e-3)}.get(
            method, lambda a: sparse.eye_array(a.shape[0])
        )(other.adjacency)
        hidden, layers = (given - center) / scale, list(records[1].weights.values())
        for layer, (weight, bias) in enumerate(zip(layers[:3], layers[3:], strict=True)):
            hidden = matrix.toarray() @ (hidden if layer == 0 else np.maximum(hidden, 0)) @ weight + bias
        model = models.only(1)
        np.testing.assert_allclose(model.probabilities(other), softmax(hidden), atol=1e-10)
        model.save(tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        for ask in (None, other):
            np.testing.assert_array_equal(loaded.probabilities(ask), model.probabilities(ask))
        network = loaded.network()
        assert all(torch.equal(one, model.weights[f"biases.{at}"][0]) for at, one in enumerate(network.biases))
        assert len(network.biases) == 3


class TestWithoutANetwork:
    @pytest.fixture(params=["lp", "majority"])
    def models(self, request):
        records = train(GRAPH, request.param, SPLITS, 2, CONFIG, keep_weights=True)
        return records, TrainedModel.from_records(GRAPH, records, SPLITS)

    def test_it_scores_as_in_training(self, models):
        records, model = models
        assert (len(model), model.weights, model.num_classes) == (4, {}, 3)
        loss, accuracy = model.test()
        assert accuracy.tolist() == [record.test_accuracy for record in records]
        np.testing.assert_allclose(loss, [record.test_cross_entropy for record in records], rtol=1e-12)
        np.testing.assert_allclose(model.only(2).probabilities().sum(axis=1), 1.0)

    def test_saved_and_loaded_it_says_the_same(self, models, tmp_path):
        model = models[1].only(3)
        model.save(tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        np.testing.assert_array_equal(loaded.probabilities(), model.probabilities())
        assert (loaded.method.name, loaded.record.epochs) == (model.method.name, 0)
        assert "predicts the class of each node" in loaded.card()
        load_model(tmp_path / "m").save(tmp_path / "again")
        name = "weights.safetensors"
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()

    def test_without_features(self, tmp_path):
        bare = GRAPH.replace(features=None)
        records = train(bare, "lp", SPLITS[0], keep_weights=True)
        TrainedModel.from_records(bare, records, SPLITS[0]).save(tmp_path / "m")
        assert load_model(tmp_path / "m").probabilities().shape == (30, 3)

    def test_what_needs_a_network_says_so(self, models):
        model = models[1].only(0)
        around = Neighborhood(renormalized(GRAPH.adjacency), rank=3)
        asked = [
            model.network,
            lambda: model.prepare_features(GRAPH.features),
            lambda: attacks.worst_in_ball(model, around, 0.1),
            lambda: attacks.operator_of(model, GRAPH.adjacency),
            lambda: extrinsic.fisher_information(model, around),
            lambda: extrinsic.link_sensitivity(model),
            lambda: extrinsic.weight_fisher(model, 0),
        ]
        for ask in asked:
            with pytest.raises(InputError, match=f"method '{model.method.name}' trains no network, which is needed"):
                ask()

    def test_another_graph(self):
        """The majority class is the same everywhere; labels spread from training nodes that are there by name."""
        known = [TrainedModel.from_records(GRAPH, train(GRAPH, name, SPLITS[0], keep_weights=True), SPLITS[0])
                 for name in ("lp", "majority")]  # fmt: skip
        propagated, majority = known
        order = np.random.default_rng(0).permutation(30)
        shuffled = Graph(
            GRAPH.adjacency[order][:, order], labels=None, node_ids=[GRAPH.node_ids[node] for node in order]
        )
        np.testing.assert_allclose(propagated.probabilities(shuffled), propagated.probabilities()[order], rtol=1e-6)
        stranger = make_graph(5).replace(labels=None)
        np.testing.assert_array_equal(majority.probabilities(stranger), majority.probabilities()[:5])
        with pytest.raises(InputError, match="needs a training node in the graph, and none is there by name"):
            propagated.probabilities(stranger)


def test_an_mlp_does_not_read_the_links():
    [record] = train(GRAPH, "mlp", SPLITS[0], config=CONFIG, keep_weights=True)
    model = TrainedModel.from_records(GRAPH, record, SPLITS[0])
    around = Neighborhood(renormalized(GRAPH.adjacency), rank=3)
    for ask in (
        lambda: attacks.worst_in_ball(model, around, 0.1),
        lambda: extrinsic.fisher_information(model, around),
        lambda: extrinsic.link_sensitivity(model),
    ):
        with pytest.raises(InputError, match="method 'mlp' does not read the links, which is needed here"):
            ask()
    assert extrinsic.weight_fisher(model, 2).shape == (15, 15)
    cut = GRAPH.replace(adjacency=sparse.csr_array((30, 30)))
    np.testing.assert_array_equal(model.probabilities(cut), model.probabilities())


class TestNetworksFromElsewhere:
    def test_a_network_predicts_as_it_does_itself(self):
        network = GCN(8, (4,), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).eval()
        model = TrainedModel.from_network(network, GRAPH, scaling="none")
        assert list(model.weights) == ["weights.0", "weights.1"]
        expected = network(GRAPH.features, renormalized(GRAPH.adjacency)).detach()
        np.testing.assert_allclose(model.logits()[:, 0], expected, atol=1e-13)
        other = make_graph(12, seed=4)
        expected = network(other.features, renormalized(other.adjacency)).detach().numpy()
        np.testing.assert_allclose(model.probabilities(other), softmax(expected), atol=1e-13)
        again = model.network()
        assert all(torch.equal(*pair) for pair in zip(again.weights, network.weights, strict=True))

    def test_its_weights_are_copied(self):
        network = GCN(8, (4,), 3, generator=torch.Generator().manual_seed(0))
        model = TrainedModel.from_network(network, GRAPH)
        before = model.probabilities()
        with torch.no_grad():
            network.weights[0].zero_()
        np.testing.assert_array_equal(model.probabilities(), before)

    @pytest.mark.parametrize("wrap", [lambda matrix: matrix, SparseMatrix.from_scipy, lambda matrix: matrix.toarray()])
    def test_a_matrix_of_its_own(self, wrap):
        network = GCN(8, (4,), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        matrix = high_order(GRAPH.adjacency)
        model = TrainedModel.from_network(network, GRAPH, wrap(matrix))
        assert abs(model.propagation - matrix).max() == 0
        with pytest.raises(InputError, match="a matrix of its own: it is for its graph alone"):
            model.only(0).to("cpu", torch.float32).probabilities(GRAPH)

    def test_any_function_of_the_operator(self):
        X = torch.rand(30, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        model = TrainedModel.from_network(lambda operator: operator @ X, GRAPH)
        np.testing.assert_allclose(model.logits()[:, 0], renormalized(GRAPH.adjacency) @ X.numpy(), atol=1e-14)
        assert repr(model) == "TrainedModel(a network trained elsewhere, 30 nodes, 3 classes)"
        assert "<caption>A network trained elsewhere</caption>" in model._repr_html_()
        with pytest.raises(InputError, match="a function or a matrix of its own"):
            model.probabilities(GRAPH)

    def test_it_has_no_record_and_no_test_nodes(self, tmp_path):
        model = TrainedModel.from_network(GCN(8, (4,), 3), GRAPH)
        with pytest.raises(InputError, match="trained elsewhere: there is no record of it"):
            model.save(tmp_path / "m")
        with pytest.raises(InputError, match="does not know its test nodes"):
            model.test()
        with pytest.raises(InputError, match="no labels to test with"):
            TrainedModel.from_network(GCN(8, (4,), 3), GRAPH.replace(labels=None)).test()

    def test_a_matrix_of_other_nodes(self):
        with pytest.raises(InputError, match="a row for each of 30 nodes, got 4"):
            TrainedModel.from_network(GCN(8, (4,), 3), GRAPH, np.eye(4))
