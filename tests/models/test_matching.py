"""A model on another graph: nodes by name, features by the names of their columns, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn import GCN, Graph, TrainConfig, TrainedModel, load_model, splits, train
from fishergcn.errors import InputError
from fishergcn.training import learnable

COLUMNS = ["height", "weight", "age"]


def make_graph(features=None, columns=COLUMNS, **arguments):
    rng = np.random.default_rng(0)
    features = rng.random((12, 3)) if features is None else features
    ring = [(node, (node + step) % 12) for node in range(12) for step in (1, 2)]
    arguments = {"labels": np.arange(12) % 2, "name": "ring", "feature_names": columns} | arguments
    return Graph.from_edges(ring, features=features, node_ids=[f"n{node}" for node in range(12)], **arguments)


def trained(graph, method="gcn", **settings):
    config = TrainConfig(**{"max_epochs": 5, "hidden": 4, "rank": 2, **settings})
    split = splits.held_out(graph, 50)
    [record] = train(graph, method, split, config=config, keep_weights=True, device="cpu")
    return TrainedModel.from_records(graph, record, split)


@pytest.mark.parametrize("method", ["gcn", "gcn-t", "fishergcn", "mlp", "lp", "majority"])
@pytest.mark.parametrize("sparsely", [False, True])
def test_saved_loaded_and_applied_to_its_own_graph_bit_for_bit(tmp_path, method, sparsely):
    graph = make_graph()
    graph = graph.replace(features=sparse.csr_array(graph.features)) if sparsely else graph
    model = trained(graph, method, bias=True, scaling="columns")
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    graph.save(tmp_path / "graph.npz")
    expected = model.probabilities()
    for found in (again.probabilities(), again.probabilities(again.graph), again.probabilities(Graph.load(
        tmp_path / "graph.npz"
    ))):  # fmt: skip
        assert found.tobytes() == expected.tobytes()


class TestFeatures:
    def test_columns_in_another_order(self):
        graph, model = make_graph(), trained(make_graph())
        turned = graph.replace(features=graph.features[:, [2, 0, 1]], feature_names=["age", "height", "weight"])
        np.testing.assert_array_equal(model.probabilities(turned), model.probabilities())

    def test_more_columns_are_left_out_and_told(self):
        graph, model = make_graph(), trained(make_graph())
        more = graph.replace(features=np.hstack([np.ones((12, 1)), graph.features]), feature_names=["new", *COLUMNS])
        with pytest.warns(UserWarning, match="the feature 'new' was not present in training and ignored"):
            np.testing.assert_array_equal(model.probabilities(more), model.probabilities())

    def test_missing_columns_are_refused_by_name(self):
        model = trained(make_graph())
        for kept, message in ((2, "the graph lacks the feature 'age', which"), (0, r"lacks 3 features \('height', ")):
            less = make_graph(np.ones((12, kept + 1)), columns=[*COLUMNS[:kept], "other"])
            with pytest.raises(InputError, match=message):
                model.probabilities(less)

    @pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
    def test_a_text_that_no_node_has_now_is_zero(self, convert):
        pair = Graph.from_edges([(0, 1)], features=np.ones((2, 3)), feature_names=["age", "city=Oslo", "city=Rome"])
        model = TrainedModel.from_network(GCN(3, 4, 2), pair, scaling="none")
        now = Graph.from_edges(
            [(0, 1)], features=convert(np.array([[1.0, 5], [1, 6]])), feature_names=["city=Rome", "age"]
        )
        with pytest.warns(UserWarning, match="the feature 'city=Oslo' is 0 for all nodes, since none has such a text"):
            found = model.features_of(now)
        dense = found.to_dense() if convert is sparse.csr_array else found.values
        np.testing.assert_array_equal(dense.numpy(), [[5, 0, 1], [6, 0, 1]])
        without = now.replace(features=np.ones((2, 1)), feature_names=["age"])
        with pytest.raises(InputError, match=r"lacks 2 features \('city=Oslo', 'city=Rome'\)"):
            model.features_of(without)

    def test_by_number_where_names_are_missing(self):
        graph, model = make_graph(), trained(make_graph())
        unnamed = graph.replace(features=graph.features)
        assert unnamed.feature_names is None
        np.testing.assert_array_equal(model.probabilities(unnamed), model.probabilities())
        with pytest.raises(
            InputError, match="must have 3 features, got 2; they are told apart by number, since the gr"
        ):
            model.probabilities(make_graph(np.ones((12, 2)), columns=None))
        with pytest.raises(InputError, match="since that of training has no names of columns"):
            trained(unnamed).probabilities(make_graph(np.ones((12, 2)), columns=["a", "b"]))

    def test_without_features_nodes_are_known_by_name(self):
        bare = make_graph().replace(features=None)
        with pytest.warns(UserWarning, match="no features were given: each of the 12 nodes gets its own"):
            model = trained(learnable(bare))
        larger = Graph.from_edges([(0, 1), (1, 2)], node_ids=["n3", "new", "n5"])
        found = model.features_of(larger)
        assert found.shape == (3, 12)
        np.testing.assert_array_equal(model.probabilities(bare), model.probabilities())
        assert np.isfinite(model.probabilities(larger)).all()
        with pytest.raises(InputError, match="the graph has no features, and the network needs 3 of each node"):
            trained(make_graph()).probabilities(bare)


def test_nodes_in_words():
    model = trained(make_graph())
    other = Graph.from_edges([(0, 1), (1, 2)], node_ids=["n3", "new", "n5"])
    assert model.nodes_in_words(other) == "3 nodes: 2 known from training, 1 new; 10 training nodes are missing."
    assert model.nodes_in_words(make_graph()) == "12 nodes: 12 known from training, 0 new."
    assert model.new_nodes(other) == ("new",)
