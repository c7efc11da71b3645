"""The adversary perturbs the matrix that the layers multiply with, or says which layer has another one."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import pytest
import torch

pytest.importorskip("torch_geometric")
import torch_geometric.transforms as T
from pyg_cases import NODES, Net, dense_net, random_data
from scipy import sparse
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import fishergcn
from fishergcn.errors import InputError
from fishergcn.integrations.pyg import AddBuresSpectrum, BuresAdversary
from fishergcn.perturbation import PerturbationWarning


@pytest.fixture
def data():
    data = random_data(3)
    ends = data.edge_index
    data.weights = 0.2 + (ends[0] * ends[1] % 7 + ends.sum(dim=0) % 3).double()
    return data


def exact(adversary, model, data, *links):
    """Largest deviation of a perturbed pass from the dense computation, which must not warn."""
    phi = adversary.draw()[0]
    with adversary.attach(model), warnings.catch_warnings():
        warnings.simplefilter("error")
        with adversary.perturbed(phi):
            result = model(data.x, *links)
    around = adversary.neighborhood
    expected = dense_net(model, data.x, around.operator(phi).to_dense())
    return (result - expected).abs().max()


def test_weights_in_edge_attr_are_read(data) -> None:
    data.edge_attr = data.weights
    assert exact(BuresAdversary(data, 4, 1.0), Net(), data, data.edge_index, data.edge_attr) < 1e-12
    data.edge_attr = data.weights.unsqueeze(1)
    assert exact(BuresAdversary(data, 4, 1.0), Net(), data, data.edge_index, data.weights) < 1e-12


def test_features_of_links_are_no_weights(data) -> None:
    data.edge_attr = torch.randn(data.num_edges, 2)
    assert exact(BuresAdversary(data, 4, 1.0), Net(), data, data.edge_index) < 1e-12
    data.edge_attr = -data.weights
    with pytest.raises(
        InputError, match=r"edge_attr must be finite and not negative, got -.*weights=None leaves it out"
    ):
        BuresAdversary(data, 4)
    assert exact(BuresAdversary(data, 4, 1.0, weights=None), Net(), data, data.edge_index) < 1e-12


def test_weights_under_another_name(data) -> None:
    assert exact(BuresAdversary(data, 4, 1.0, weights="weights"), Net(), data, data.edge_index, data.weights) < 1e-12
    stored = AddBuresSpectrum(4, weights="weights")(data)
    assert (
        exact(BuresAdversary(stored, radius=1.0, weights="weights"), Net(), data, data.edge_index, data.weights) < 1e-12
    )
    with pytest.raises(InputError, match="must have the link weights 'strength' that weights names"):
        BuresAdversary(data, 4, weights="strength")


def test_a_normalized_graph_is_taken_as_it_is(data) -> None:
    data.edge_weight = data.weights
    normalized = T.GCNNorm()(data)
    model = Net(normalize=False)
    adversary = BuresAdversary(normalized, 4, 1.0, normalize=False)
    assert exact(adversary, model, data, normalized.edge_index, normalized.edge_weight) < 1e-12
    plain = BuresAdversary(data, 4, 1.0)
    torch.testing.assert_close(plain.neighborhood.propagation.to_dense(), adversary.neighborhood.propagation.to_dense())
    with pytest.raises(InputError, match="normalize=False needs link weights"):
        BuresAdversary(random_data(), 4, normalize=False)


def test_a_sparse_adjacency_is_read(data) -> None:
    data.edge_weight = data.weights
    sparse = T.ToSparseTensor(attr="edge_weight")(data)
    assert sparse.edge_index is None
    assert exact(BuresAdversary(sparse, 4, 1.0), Net(), data, sparse.adj_t) < 1e-12


def first_pass(adversary, model, *inputs) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adversary.attach(model)
        for _ in range(2):
            with adversary.perturbed(adversary.draw()[0]):
                model(*inputs)
    assert all(issubclass(each.category, PerturbationWarning) for each in caught)
    assert {Path(each.filename).name for each in caught} <= {Path(__file__).name, "pyg_cases.py"}  # not PyG's lines
    return [str(each.message) for each in caught]


def test_weights_that_only_the_model_knows_are_announced_once_for_each_layer(data) -> None:
    said = first_pass(BuresAdversary(data, 4), Net(), data.x, data.edge_index, data.weights)
    assert len(said) == 2
    assert said[0].startswith("first (GCNConv) multiplies with another matrix than the adversary")
    assert said[1].startswith("second (GCNConv)")
    assert "Put the weights that the model is given on data.edge_weight" in said[0]


def test_weights_that_the_model_is_not_given_are_announced(data) -> None:
    data.edge_weight = data.weights
    said = first_pass(BuresAdversary(data, 4), Net(), data.x, data.edge_index)
    assert len(said) == 2
    assert "Give data.edge_weight to the model, or build the adversary with weights=None" in said[0]


def test_a_graph_normalized_twice_is_announced(data) -> None:
    data.edge_weight = data.weights
    data = T.GCNNorm()(data)
    said = first_pass(BuresAdversary(data, 4), Net(normalize=False), data.x, data.edge_index, data.edge_weight)
    assert len(said) == 2
    assert "build the adversary with normalize=False" in said[0]


@pytest.mark.parametrize("kind", [SAGEConv, GATConv])
def test_layers_with_weights_of_their_own_must_have_the_same_links(data, kind) -> None:
    model = Net(kind)
    assert not first_pass(BuresAdversary(data, 4), copy.deepcopy(model), data.x, data.edge_index)
    fewer = data.edge_index[:, 1:]
    said = first_pass(BuresAdversary(data, 4), model, data.x, fewer)
    assert said[0] == (
        f"first ({kind.__name__}) sends messages along other links than the adversary's graph has (1 differ). Build "
        "the adversary from the graph that the model is given, and give parts of it to average(…, batch)."
    )


def test_parts_of_a_graph_and_learned_graphs_are_not_compared(data) -> None:
    layer = GCNConv(5, 2).double()
    adversary = BuresAdversary(data, 4).attach(layer)
    nodes = torch.arange(0, NODES, 2)
    part = data.subgraph(nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adversary.average(lambda: layer(part.x, part.edge_index).square().mean(), nodes)
        adversary.refresh(data.edge_index, data.weights)
        loss = adversary.average(lambda: layer(data.x, data.edge_index).square().mean())
    assert loss.isfinite()


def test_rounding_of_single_precision_is_no_other_matrix(data) -> None:
    data.edge_weight = data.weights.float()
    model = Net().float()
    assert not first_pass(BuresAdversary(data, 4), model, data.x.float(), data.edge_index, data.edge_weight)
    inputs = data.x.bfloat16(), data.edge_index, data.edge_weight.bfloat16()
    assert not first_pass(BuresAdversary(data, 4), Net().bfloat16(), *inputs)


@pytest.mark.parametrize(("name", "self_links"), [("cora", 0), ("citeseer", 124), ("pubmed", 3)])
def test_the_matrix_of_gcnconv_keeps_self_links(name, self_links) -> None:
    """The paper's adds I to them; on graphs without self-links the two are the same."""
    graph = fishergcn.datasets.load(name)
    assert graph.num_self_links == self_links
    data, n = graph.to_pyg(), graph.num_nodes
    arcs, values = gcn_norm(data.edge_index, None, n, dtype=torch.float64)
    of_pyg = sparse.csr_array((values.numpy(), arcs.numpy()), shape=(n, n))
    kept = fishergcn.renormalized(graph.adjacency, keep_self_links=True)
    assert abs(kept - of_pyg).max() < 1e-15
    added = sparse.csr_array(graph.adjacency + sparse.eye_array(n))
    degree = added.sum(axis=1)
    by_hand = sparse.diags_array(degree**-0.5) @ added @ sparse.diags_array(degree**-0.5)
    assert abs(fishergcn.renormalized(graph.adjacency) - by_hand).max() < 1e-15
    assert (abs(kept - by_hand).max() > 0.05) == (self_links > 0)
    weight = torch.randn(graph.num_features, 4, dtype=torch.float64)
    layer = GCNConv(graph.num_features, 4, bias=False).double()
    layer.lin.weight.data = weight.T.contiguous()
    native = torch.from_numpy(kept @ (graph.features @ weight.numpy()))
    torch.testing.assert_close(layer(data.x.double(), data.edge_index).detach(), native, rtol=0, atol=1e-12)
