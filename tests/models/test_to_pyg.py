"""The module of PyG layers says what the model says, on its graph and on one with new nodes."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph, TrainConfig, TrainedModel, datasets, splits, train
from fishergcn.errors import InputError
from fishergcn.models import Ensemble

pytest.importorskip("torch_geometric")
from torch_geometric import nn as layers
from torch_geometric.utils import from_scipy_sparse_matrix

ALL = ("gcn", "deep", "gcn-t", "sage", "mlp", "linear", "lp", "mlp, links", "gcn, links", "ensemble")


def with_newcomers(graph: Graph) -> Graph:
    """The graph and three nodes more, one of them without links, with weights and a self-link."""
    size, rng = graph.num_nodes + 3, np.random.default_rng(4)
    adjacency = np.zeros((size, size))
    adjacency[:-3, :-3] = graph.adjacency.toarray()
    for new, old, weight in ((-3, 7, 1.0), (-3, 20, 2.5), (-2, 31, 0.5), (-2, -3, 1.0), (-2, -2, 1.5)):
        adjacency[new, old] = adjacency[old, new] = weight
    features = np.vstack([graph.features.toarray(), rng.random((3, graph.num_features))])
    names = [*graph.node_ids, "new 1", "new 2", "new 3"]
    return Graph(adjacency, sparse.csr_array(features), node_ids=names, feature_names=graph.feature_names)


def run(module: torch.nn.Module, model: TrainedModel, graph: Graph, dtype=torch.float64) -> np.ndarray:
    """Return the module's probabilities of what a user has: features and links."""
    data = graph.to_pyg()
    links = data.edge_index, torch.tensor(sparse.coo_array(graph.adjacency).data, dtype=dtype)
    walks, options = None, {}
    for each in getattr(model, "members", (model,)):
        if each.method.high_order:
            walks = from_scipy_sparse_matrix(each.method.matrix.of(graph, each.config))
    if isinstance(model, Ensemble):
        options = {"walks": walks}
    elif walks is not None:
        links = walks
    with torch.no_grad():
        out = module(data.x.to(dtype), *links, **options)
    return torch.softmax(out.double(), dim=1).numpy()


@pytest.mark.parametrize("name", ALL)
def test_it_says_what_the_model_says(kinds, graph, name):
    model, module = kinds[name], kinds[name].to_pyg()
    assert not module.training
    assert {id(each) for each in module.modules()} >= {id(module)}
    for place in (graph, with_newcomers(graph)):
        np.testing.assert_allclose(run(module, model, place), model.probabilities(place, raw=True), atol=1e-12)


def test_layers_are_those_of_pyg(kinds):
    def found(name):
        return [type(each) for each in kinds[name].to_pyg().layers]

    assert found("gcn") == found("gcn-t") == [layers.GCNConv] * 2
    assert found("deep") == [layers.GraphConv] * 3
    assert found("sage") == [layers.GraphConv] * 2
    assert found("mlp") == [torch.nn.Linear] * 2
    assert found("linear") == [layers.GraphConv, layers.SimpleConv, torch.nn.Linear]
    assert [type(each) for each in kinds["deep"].to_pyg().norms] == [torch.nn.LayerNorm] * 2
    assert [type(each) for each in kinds["batch norm"].to_pyg().norms] == [torch.nn.BatchNorm1d] * 2
    assert "rows divided by their sum" in repr(kinds["gcn"].to_pyg())
    assert "with the links to 60 nodes" in repr(kinds["mlp, links"].to_pyg())


def test_logits_and_weights_of_one(kinds, graph):
    model, data = kinds["gcn"], graph.to_pyg()
    module = model.to_pyg()
    out = module(data.x.double(), data.edge_index, data.edge_weight)
    torch.testing.assert_close(out, model.logits()[:, 0], atol=1e-11, rtol=0)
    ones = graph.replace(adjacency=(graph.adjacency.toarray() > 0) * 1.0)
    np.testing.assert_allclose(  # links without weights are links of weight 1
        torch.softmax(module(data.x.double(), data.edge_index), 1).detach(), model.probabilities(ones), atol=1e-12
    )
    copy = kinds["gcn"].to_pyg()
    torch.nn.init.zeros_(copy.layers[0].lin.weight)  # nothing is shared with the model
    torch.testing.assert_close(model.to_pyg()(data.x.double(), data.edge_index, data.edge_weight), out)


def test_it_can_be_saved_exported_and_trained(kinds, graph, tmp_path):
    data = graph.to_pyg()
    given = data.x.double(), data.edge_index, data.edge_weight.double()
    module = kinds["sage"].to_pyg()
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    other = kinds["sage"].to_pyg()
    torch.nn.init.zeros_(other.layers[0].lin_rel.weight)
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    torch.testing.assert_close(other(*given), module(*given))
    exported = torch.export.export(module, given).module()
    torch.testing.assert_close(exported(*given), module(*given))
    loss = torch.nn.functional.cross_entropy(module.train()(*given), data.y)
    loss.backward()
    assert all(each.grad is not None for each in module.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gcn", "gcn-t", "sage", "lp"])
def test_cora_in_float32(method):
    graph = datasets.load("cora")
    split, config = splits.parse(graph, "public"), TrainConfig.named("general", max_epochs=20)
    records = train(graph, method, split, config=config, device="cpu", keep_weights=True)
    model = TrainedModel.from_records(graph, records, split)
    expected = model.probabilities(raw=True)
    np.testing.assert_allclose(run(model.to_pyg(), model, graph, torch.float32), expected, atol=1e-5)


def test_what_is_refused(kinds, graph):
    ideal = torch.eye(3, dtype=torch.float64)[torch.tensor(graph.labels)]
    with pytest.raises(InputError, match="a function or a matrix of its own, which no layer stands for"):
        TrainedModel.from_network(lambda operator: operator @ ideal, graph).to_pyg()
    with pytest.raises(InputError, match="the network 'skipping' computes its logits in its own way"):
        kinds["own"].to_pyg()
    data = graph.to_pyg()
    with pytest.raises(InputError, match="edge_weight must hold the entries of the high-order propagation matrix"):
        kinds["gcn-t"].to_pyg()(data.x.double(), data.edge_index)
    with pytest.raises(InputError, match="walks must hold edge_index and edge_weight of the high-order matrix"):
        kinds["ensemble"].to_pyg()(data.x.double(), data.edge_index)
    walking = kinds["gcn-t"]
    both = dataclasses.replace(walking, config=dataclasses.replace(walking.config, links_as_features=True))
    with pytest.raises(InputError, match=re.escape("links, and a module has one; one without links_as_features")):
        both.to_pyg()
    other = dataclasses.replace(walking, config=dataclasses.replace(walking.config, order=2))
    two = dataclasses.replace(kinds["ensemble"], members=(walking, other), shares=(0.5, 0.5), temperatures=(1.0, 1.0))
    with pytest.raises(InputError, match="different propagation matrices that must be given"):
        two.to_pyg()
