"""What an explanation says is what the model says on a graph that was rebuilt without the link or the feature."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph, TrainConfig, TrainedModel, train
from fishergcn.errors import InputError
from fishergcn.models import Explanation
from fishergcn.splits import Split

ALL = ("gcn", "deep", "gcn-t", "sage", "mlp", "linear", "lp", "mlp, links", "gcn, links", "own", "ensemble")
LINKED = tuple(name for name in ALL if name != "mlp")


def rebuilt(graph: Graph, adjacency: np.ndarray | None = None, features: np.ndarray | None = None) -> Graph:
    """The whole graph from dense arrays, without labels."""
    return Graph(
        graph.adjacency.toarray() if adjacency is None else adjacency,
        sparse.csr_array(graph.features.toarray() if features is None else features),
        node_ids=graph.node_ids, feature_names=graph.feature_names,
    )  # fmt: skip


def changed(graph: Graph, node: int, each) -> Graph:
    """The graph without a link, or with another value of a feature."""
    if each.kind == "link":
        other, adjacency = graph.node_ids.index(each.name), graph.adjacency.toarray()
        assert adjacency[node, other] == each.value != 0
        adjacency[node, other] = adjacency[other, node] = 0.0
        return rebuilt(graph, adjacency)
    column, features = graph.feature_names.index(each.name), graph.features.toarray()
    assert features[node, column] == np.float32(each.value) != np.float32(each.instead)
    assert each.instead == np.float32(np.median(features[:, column]))
    features[node, column] = each.instead
    return rebuilt(graph, features=features)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("node", [50, 3])
def test_every_change_is_that_of_a_rebuilt_graph(kinds, graph, name, node):
    model = kinds[name]
    found = model.explain(f"n{node}", limit=100)
    before = model.probabilities()[node]
    label = int(before.argmax())
    assert found.label == model.class_names[label]
    assert list(found.probabilities.values()) == pytest.approx(before, abs=1e-12)
    for each in found.evidence:
        after = model.probabilities(changed(graph, node, each))[node]
        assert each.probability == pytest.approx(after[label], abs=1e-12)
        assert each.change == pytest.approx(before[label] - after[label], abs=1e-12)
        assert each.predicted == model.class_names[after.argmax()]
    kept = graph.adjacency.toarray()
    neighbors = set(np.flatnonzero(kept[node])) - {node}
    assert found.links == len(neighbors) * (name != "mlp")
    assert sum(each.kind == "link" for each in found.evidence) == found.links
    assert found.features == sum(each.kind == "feature" for each in found.evidence)
    assert (found.features > 0) == (name != "lp")
    kept[node] = kept[:, node] = 0.0
    if name == "mlp":
        assert found.without_links == {}
        return
    alone = model.probabilities(rebuilt(graph, kept))[node]
    assert list(found.without_links.values()) == pytest.approx(alone, abs=1e-12)
    assert any(abs(each.change) > 1e-4 for each in found.evidence if each.kind == "link")


@pytest.mark.parametrize("name", ["gcn", "sage", "ensemble"])
def test_new_nodes_of_another_graph(kinds, graph, name):
    model, size = kinds[name], graph.num_nodes + 1
    adjacency = np.zeros((size, size))
    adjacency[:-1, :-1] = graph.adjacency.toarray()
    adjacency[-1, [7, 8, 30]] = adjacency[[7, 8, 30], -1] = [1.0, 2.0, 1.0]
    features = np.vstack([graph.features.toarray(), np.eye(1, 8)])[:, ::-1]  # columns in another order
    names, columns = [*graph.node_ids, "newcomer"], graph.feature_names[::-1]
    other = Graph(adjacency, features, node_ids=names, feature_names=columns)
    found = model.explain("newcomer", other, label="blue")
    assert {each.name for each in found.evidence if each.kind == "link"} == {"n7", "n8", "n30"}
    adjacency[-1, 8] = adjacency[8, -1] = 0.0
    after = model.probabilities(Graph(adjacency, features, node_ids=names, feature_names=columns))[-1, 2]
    [link] = [each for each in found.evidence if each.name == "n8"]
    assert link.probability == pytest.approx(after, abs=1e-12)


def test_float32_is_explained_in_float64(graph):
    split = Split("mine", np.arange(24), np.arange(24, 40), np.arange(40, 60))
    records = train(graph, "gcn", split, config=TrainConfig(max_epochs=5), device="cpu", keep_weights=True)
    model = TrainedModel.from_records(graph, records, split)
    found = model.explain(50)
    exact = model.to("cpu", torch.float64).probabilities()[50]
    assert found.probability == pytest.approx(exact.max(), abs=1e-14)
    assert found.probability == pytest.approx(model.probabilities()[50].max(), abs=1e-6)


def hub(features: int = 25, others: int = 40) -> Graph:
    """A node with many neighbors and features, few of which matter."""
    rng = np.random.default_rng(1)
    labels = np.append(0, np.arange(others) % 2)
    table = rng.normal(size=(others + 1, features)) * 0.1
    table[:, 0] = np.append(0.0, rng.exponential(1.0, others)) * (2 * labels - 1)
    table[0] = rng.normal(size=features)
    links = [(0, node) for node in range(1, others + 1)]
    links += [(node, (node + 1) % others + 1) for node in range(1, others + 1)]
    return Graph.from_edges(links, features=table, labels=labels)


@pytest.fixture(scope="module", params=["gcn", "sage", "lp", "gcn, links"])
def model_of_hub(request) -> TrainedModel:
    graph, split = hub(), Split("mine", np.arange(1, 21), np.arange(21, 31), np.arange(31, 41))
    method, _, links = request.param.partition(", ")
    settings = {"links_as_features": bool(links), "scaling": "none", "hidden": 8, "max_epochs": 60}
    records = train(graph, method, split, config=TrainConfig(**settings), device="cpu", keep_weights=True)
    return TrainedModel.from_records(graph, records, split)


def test_of_many_the_derivative_finds_those_that_matter(model_of_hub):
    """The largest change on either side is among the few that are computed, of links and of features."""
    every, some = model_of_hub.explain(0, limit=1000), model_of_hub.explain(0, limit=10)
    assert every.links == some.links == 40
    assert sum(each.kind == "link" for each in every.evidence) == 40
    assert "10 of 40 links" in some.sentences[-1]
    assert "of 40" not in every.sentences[-1]
    for kind in ("link", "feature"):
        known = {each.name: each.change for each in every.evidence if each.kind == kind}
        tried = {each.name: each.change for each in some.evidence if each.kind == kind}
        assert all(known[name] == pytest.approx(change, abs=1e-12) for name, change in tried.items())
        if known:
            assert len(tried) == 10
            assert {max(known, key=known.get), min(known, key=known.get)} <= set(tried)


def test_words_follow_the_numbers(kinds):
    found = kinds["gcn"].explain(50)
    text = str(found)
    assert text.startswith(f"Node n50 is classified as {found.label}, with probability {found.probability:.1%}; ")
    strongest = found.evidence[0]
    less = "less" if strongest.change > 0 else "more"
    assert f"{strongest.name}, itself predicted as {strongest.about} (without this link " \
           f"{strongest.probability:.1%}, {100 * abs(strongest.change):.1f} points {less})" in text  # fmt: skip
    assert "trained with" not in text
    assert "Without any of its" in text
    assert "do not add up" in found.sentences[-1]
    assert "whose class was given as red" in str(kinds["gcn"].explain("n0"))
    assert "does not read the links" in str(kinds["mlp"].explain(50))
    assert "does not read features" in str(kinds["lp"].explain(50))
    html = found._repr_html_()
    assert f"<p>{found.sentences[0]}</p>" in html
    assert "link n" in html
    frame = found.to_frame()
    assert list(frame["change"]) == [each.change for each in found.evidence]
    assert json.loads(json.dumps(found.to_dict()))["evidence"][0]["name"] == strongest.name
    assert len(repr(found)) < 750


def test_a_class_that_is_not_the_predicted_one(kinds):
    model = kinds["gcn"]
    found = model.explain(50, label="green")
    assert found.probability == found.probabilities["green"]
    assert found.probability < max(found.probabilities.values())
    assert sum(model.explain(50, label=label).evidence[0].probability < 1 for label in range(3)) == 3
    one = {label: {each.name: each.change for each in model.explain(50, label=label).evidence} for label in range(3)}
    for name in one[0]:  # probabilities add up to 1 before and after
        assert sum(one[label][name] for label in range(3)) == pytest.approx(0.0, abs=1e-12)


def test_a_lonely_node_and_one_feature_for_each_node():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=6, labels=[0, 0, 1, 1, 0, 1])
    split = Split("mine", [0, 3], [1], [2])
    with pytest.warns(UserWarning, match="no features were given"):
        records = train(graph, "gcn", split, config=TrainConfig(max_epochs=5), device="cpu", keep_weights=True)
    known = graph.replace(features=sparse.eye_array(6, format="csr"))
    model = TrainedModel.from_records(known, records, split)
    found = model.explain(5)
    assert isinstance(found, Explanation)
    assert found.links == 0
    assert found.without_links == {}
    assert "has no links" in found.sentences[1]
    assert [each.name for each in found.evidence] == ["being node 5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"node": "n61"}, r"node 'n61' is unknown.*; there are 60, from 'n0' to 'n59'"),
        ({"node": 60}, "node must be between 0 and 59, got 60"),
        ({"node": 1, "label": "pink"}, "class 'pink' is unknown"),
        ({"node": 1, "limit": 0}, "limit must be at least 1, got 0"),
        ({"node": 1, "graph": "cora"}, "graph"),
    ],
)
def test_what_is_refused(kinds, arguments, message):
    with pytest.raises(InputError, match=message):
        kinds["gcn"].explain(**arguments)


def test_a_function_is_for_its_graph_alone(graph):
    ideal = torch.eye(3, dtype=torch.float64)[torch.tensor(graph.labels)]
    model = TrainedModel.from_network(lambda operator: operator @ ideal, graph)
    with pytest.raises(InputError, match="a function or a matrix of its own"):
        model.explain(0)
